"""A few steps of a model's training, as a command with its plan, tokenizer, optimizer and options."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.fingerprint import fingerprint
from headway.hub.preprocessor import ImagePreprocessor, save_preprocessor
from headway.tasks.checks import Material, MaterialInputs
from headway.tasks.registry import spec, task_named
from headway.text.tokenizer import Tokenizer
from headway.training.option_fields import flag
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.store.facts import FILE, followed, read_facts, write_facts
from headway.training.store.run_directory import best_member
from headway.workflows.evaluate import reading_options
from headway.workflows.input import known_columns, read_input
from headway.workflows.train.resume import recorded
from headway.workflows.verify.check import DoesNotApply
from headway.workflows.verify.samples import Subject

STEPS, EVALUATIONS = 8, 2
FEW_STEPS, LARGE = 5, 3_000_000
"""Steps of a model with so many weights; it is evaluated once, like translators, which generate at evaluations."""
WORK = 1e10
"""FLOPs of a batch: a large model gets smaller batches than in its run."""
LEAST_TOKENS, MOST_TOKENS = 64, 1024
"""Tokens of a batch; the maximum if no run defines the number."""
MOST_BATCHES = 2
"""Maximum batches of a step, and the factor by which they may grow."""
ORTHOGONAL = 30.0
"""FLOPs of Muon per weight and unit of width: five iterations of three products."""
NEVER = "1000h"
MOST_BYTES = 1 << 25
"""Larger files are not checked for changes, since that means reading all of them."""


@dataclass(frozen=True)
class Size:
    """The amount of training."""

    weights: int
    tokens: int
    """of a batch, at most"""
    options: dict[str, Any]
    """of every replay"""

    @classmethod
    def of(cls, weights: int, task: str) -> "Size":
        """By the number of weights and the task; a large model takes few steps."""
        large, tokens = weights >= LARGE, max(LEAST_TOKENS, int(WORK / (6 * weights)))
        evaluations = 1 if large or spec(task).writes == "targets" else EVALUATIONS
        how = {"steps": FEW_STEPS if large else STEPS, "evaluations": evaluations}
        return cls(weights, tokens, {**how, "log_every": 1, "on_save_error": "stop"})


@dataclass(frozen=True)
class Replay:
    """The model to train again, its data, and the amount of training."""

    material: Material
    processor: Tokenizer | ImagePreprocessor
    options: dict[str, Any]
    """options of ``train`` that differ from the defaults"""
    facts: dict[str, Any] | None
    """headway.json to start from, as after a kill before the first checkpoint; None for a new run"""
    flops: float
    """of all steps"""

    def begin(self, run: Path) -> None:
        """Create the directory of a run without any training; nothing for a new run."""
        if self.facts is not None:
            run.mkdir()
            if isinstance(self.processor, ImagePreprocessor):
                save_preprocessor(self.processor, run)
            else:
                self.processor.save(run)
            write_facts(run, self.facts)

    def words(self, run: Path, save_every: str) -> list[str]:
        """The command that trains it in ``run``, or resumes it there."""
        words = ["train", str(self.material.file), "--out", str(run), "--save-every", save_every, "--quiet"]
        for name, value in self.options.items():
            words += [f"--{flag(name)}"] if value is True else [f"--{flag(name)}", str(value)]
        return words


def replay(subject: Subject, directory: Path, folder: Path) -> Replay:
    """A few steps of the training of a model, in files of ``folder``.

    A run from scratch starts again from the initial weights of its plan; a run with a base model, and a directory that
    is not a run, start from the model itself.  Raises DoesNotApply for a model that is not trained in steps, and
    InputError for a run with unreadable records.
    """
    if len(getattr(subject.pipe, "labels", (None, None))) < 2:
        raise DoesNotApply("it has only one class, so there is nothing to learn")
    member = best_member(directory)
    directory = (directory if member is None else directory / member).absolute()
    facts = _facts(directory)
    size = Size.of(sum(p.numel() for p in subject.one.parameters()), subject.pipe.task)
    return _of_run(subject, directory, facts, size, folder) if facts else _of_model(subject, directory, size, folder)


def _of_model(subject: Subject, directory: Path, size: Size, folder: Path) -> Replay:
    """The replay of a directory that is not a run: with the decisions of ``train``."""
    tokens = min(size.tokens, MOST_TOKENS)
    length = max(1, min(subject.longest, tokens))
    material = made_up(subject, {}, length, folder)
    options = {**material.options, **size.options, "from_model": str(directory), "batch_tokens": tokens}
    said = spec(subject.pipe.task)
    if "length" in said.options and said.writes != "targets":
        options["length"] = length
    return Replay(material, subject.processor, options, None, 6.0 * size.weights * tokens * size.options["steps"])


def _of_run(subject: Subject, directory: Path, facts: dict[str, Any], size: Size, folder: Path) -> Replay:
    """The replay of a run: with its plan, changed only in size."""
    plan = followed(facts["plan"])
    if plan.fine_tuning.frozen:
        raise DoesNotApply("it was fitted in closed form, without steps to resume")
    plan = plan.but(
        length=plan.length if plan.objective.patches else min(plan.length, size.tokens),
        batch_tokens=min(plan.batch_tokens, size.tokens),
        accumulate=min(plan.accumulate, MOST_BATCHES),
        grow_batch=min(plan.grow_batch, MOST_BATCHES),
        evaluations=size.options["evaluations"],
        **{"epochs": None, "patience": 0, "patience_passes": 0.0, "validation_every": 1, "log_every": 1},
    )
    material = own_data(facts, plan.length, folder) or made_up(subject, facts, plan.length, folder)
    options = _asked(facts, plan, {**material.options, **size.options}, directory)
    chosen = TrainOptions(**options)
    joined_before = {name: value for name, value in facts["data"].items() if name != "merged_labels"}
    facts = facts | {
        "options": recorded(chosen),
        "plan": plan.flat(),
        "data": {
            **joined_before,
            "inputs": [str(material.file)],
            "fingerprint": read_input([material.file], chosen)[0].fingerprint,
        },
        **{"validation": [], "validation_fingerprint": None, "finished": False, "checkpoints": False},
    }
    if chosen.fine_tuning.from_model is not None:
        facts["base"] = {"path": chosen.fine_tuning.from_model, "fingerprint": fingerprint(directory)}
    each = 6.0 * plan.batch_tokens * plan.accumulate * plan.grow_batch
    each += ORTHOGONAL * plan.config.d_model if plan.optimizer == "muon" else 0.0
    return Replay(material, subject.processor, options, facts, size.weights * each * size.options["steps"])


OTHERWISE = (
    *("text_column", "label_column", "second_column", "encoding", "delimiter"),  # of the material's own
    *("on_bad_row", "merge_labels", "weight_column"),
    *("time", "epochs", "patience", "save_every", "allow_changes", "tensorboard", "track"),
    *("shard", "seeds", "adapt", "stream"),
)
"""Options of a run that its replay does not use."""


def _asked(facts: dict[str, Any], plan: Plan, common: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The options of the run, for a few steps on other data."""
    before = TrainOptions.of_record(facts["options"])
    kept = {name: value for name, value in before.named.items() if name not in OTHERWISE}
    length = plan.length // 2 if before.architecture.model == "decoder" else plan.length
    asked = {**kept, **common, "batch_tokens": plan.batch_tokens}
    if plan.objective.patches is None:
        asked["length"] = max(1, length)
    elif before.fine_tuning.from_model is None:
        asked["patch_size"] = plan.cut.patch_size[0]
    asked |= {"accumulate": plan.accumulate, "grow_batch": plan.grow_batch}
    if before.fine_tuning.from_model is not None:
        asked["from_model"] = str(directory)
    return asked


def _facts(directory: Path) -> dict[str, Any]:
    """headway.json, or an empty dict if there is none.  Raises InputError for a damaged one."""
    facts = read_facts(directory)
    if facts is not None and not {"options", "plan", "data"} <= set(facts):
        raise InputError(f"{directory / FILE}: this is not a file written by headway.")
    return facts or {}


def own_data(facts: dict[str, Any], length: int, folder: Path) -> Material | None:
    """The beginning of a run's training data; None if they are gone, have changed or are too large to check.

    ``facts`` is its headway.json, ``length`` the tokens of its windows.
    """
    data, task = facts.get("data", {}), facts.get("task", "")
    files = [str(file) for file in data.get("inputs", [])]
    if not files or not all(Path(file).is_file() for file in files):
        return None
    if sum(Path(file).stat().st_size for file in files) > MOST_BYTES:
        return None
    try:
        options = reading_options(facts, files, task)
        source, found = read_input(files, options, known_columns(facts), chat="conversations" in data)
        if source.fingerprint != data.get("fingerprint"):
            return None
        made = task_named(task).first_rows(source, found, options, MaterialInputs(facts, length, folder))
    except InputError:
        return None
    if made is None:
        return None
    return replace(made, options={"task": task, **made.options}, origin="the beginning of its own data")


def made_up(subject: Subject, facts: dict[str, Any], length: int, folder: Path) -> Material:
    """Inputs of random tokens of the model's vocabulary, or of random pixels.  Raises DoesNotApply if neither works."""
    pipe = subject.pipe
    made = task_named(pipe.task).synthetic_data(pipe, MaterialInputs(facts, length, folder))
    if made is None:
        raise DoesNotApply("its run has no data, and none can be generated")
    return replace(made, options={"task": pipe.task, **made.options})
