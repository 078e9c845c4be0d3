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
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.store.facts import FILE, followed, read_facts, write_facts
from headway.training.store.run_directory import best_member
from headway.workflows.command import words_of
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
        return [*words_of([self.material.file], self.options), "--out", str(run), "--save-every", save_every, "--quiet"]


def replay(subject: Subject, directory: Path, folder: Path) -> Replay:
    """A few steps of the training of a model, in files of ``folder``; fewer of a large one, in smaller batches.

    A run from scratch starts again from the initial weights of its plan; a run with a base model, and a directory that
    is not a run, start from the model itself.  Raises DoesNotApply for a model that is not trained in steps, and
    InputError for a run with unreadable records.
    """
    pipe, task = subject.pipe, spec(subject.pipe.task)
    if len(getattr(pipe, "labels", (None, None))) < 2:
        raise DoesNotApply("it has only one class, so there is nothing to learn")
    member = best_member(directory)
    directory = (directory if member is None else directory / member).absolute()
    weights = sum(p.numel() for p in subject.one.parameters())
    few = weights >= LARGE
    options = {
        "steps": FEW_STEPS if few else STEPS,
        "evaluations": 1 if few or task.writes == "targets" else EVALUATIONS,
        **{"log_every": 1, "on_save_error": "stop"},
    }
    tokens = max(LEAST_TOKENS, int(WORK / (6 * weights)))
    facts = read_facts(directory)
    if facts is None:  # not a run: with the decisions of ``train``
        tokens = min(tokens, MOST_TOKENS)
        length = max(1, min(subject.longest, tokens))
        material = made_up(subject, {}, length, folder)
        options = {**material.options, **options, "from_model": str(directory), "batch_tokens": tokens}
        if "length" in task.options and task.writes != "targets":
            options["length"] = length
        each = 6.0 * tokens
    else:
        if not {"options", "plan", "data"} <= set(facts):
            raise InputError(f"{directory / FILE}: this is not a file written by headway.")
        plan = _smaller(followed(facts["plan"]), tokens, options["evaluations"])
        material = own_data(facts, plan.length, folder) or made_up(subject, facts, plan.length, folder)
        options = _options(facts, plan, {**material.options, **options}, directory)
        facts = _facts(facts, plan, options, material, directory)
        each = 6.0 * plan.batch_tokens * plan.accumulate * plan.grow_batch
        each += ORTHOGONAL * plan.config.d_model if plan.optimizer == "muon" else 0.0
    processor = task_named(pipe.task).processor(pipe)
    return Replay(material, processor, options, facts, weights * each * options["steps"])


def _smaller(plan: Plan, tokens: int, evaluations: int) -> Plan:
    """The plan of a run, changed only in size."""
    if plan.fine_tuning.frozen:
        raise DoesNotApply("it was fitted in closed form, without steps to resume")
    return plan.but(
        length=plan.length if plan.objective.patches else min(plan.length, tokens),
        batch_tokens=min(plan.batch_tokens, tokens),
        accumulate=min(plan.accumulate, MOST_BATCHES),
        grow_batch=min(plan.grow_batch, MOST_BATCHES),
        evaluations=evaluations,
        **{"epochs": None, "patience": 0, "patience_passes": 0.0, "validation_every": 1, "log_every": 1},
    )


def _facts(
    facts: dict[str, Any], plan: Plan, options: dict[str, Any], material: Material, directory: Path
) -> dict[str, Any]:
    """The headway.json of the replay of a run."""
    chosen = TrainOptions(**options)
    data = {name: value for name, value in facts["data"].items() if name != "merged_labels"}
    read, _ = read_input([material.file], chosen)
    facts = facts | {
        "options": recorded(chosen),
        "plan": plan.flat(),
        "data": {**data, "inputs": [str(material.file)], "fingerprint": read.fingerprint},
        **{"validation": [], "validation_fingerprint": None, "finished": False, "checkpoints": False},
    }
    if chosen.fine_tuning.from_model is not None:
        facts["base"] = {"path": chosen.fine_tuning.from_model, "fingerprint": fingerprint(directory)}
    return facts


OTHERWISE = (
    *("text_column", "label_column", "second_column", "encoding", "delimiter"),  # of the material's own
    *("on_bad_row", "merge_labels", "weight_column"),
    *("time", "epochs", "patience", "save_every", "allow_changes", "tensorboard", "track"),
    *("shard", "seeds", "adapt", "stream"),
)
"""Options of a run that its replay does not use."""


def _options(facts: dict[str, Any], plan: Plan, common: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The options of the run, for a few steps on other data."""
    before = TrainOptions.of_record(facts["options"])
    options = {name: value for name, value in before.named.items() if name not in OTHERWISE} | common
    options |= {name: getattr(plan, name) for name in ("batch_tokens", "accumulate", "grow_batch")}
    if plan.objective.patches is None:
        options["length"] = max(1, plan.length // 2 if before.architecture.model == "decoder" else plan.length)
    elif before.fine_tuning.from_model is None:
        options["patch_size"] = plan.cut.patch_size[0]
    if before.fine_tuning.from_model is not None:
        options["from_model"] = str(directory)
    return options


def own_data(facts: dict[str, Any], length: int, folder: Path) -> Material | None:
    """The beginning of a run's training data; None if they are gone, have changed or are too large to check.

    ``facts`` is its headway.json, ``length`` the tokens of its windows.
    """
    data, task = facts.get("data", {}), facts.get("task", "")
    files = [Path(file) for file in data.get("inputs", [])]
    if not files or not all(map(Path.is_file, files)) or sum(file.stat().st_size for file in files) > MOST_BYTES:
        return None
    try:
        options = reading_options(facts, list(map(str, files)), task)
        source, found = read_input(list(map(str, files)), options, known_columns(facts), chat="conversations" in data)
        if source.fingerprint != data.get("fingerprint"):
            return None
        made = task_named(task).first_rows(source, found, options, MaterialInputs(facts, length, folder))
    except InputError:
        return None
    origin = "the beginning of its own data"
    return made and replace(made, options={"task": task, **made.options}, origin=origin)


def made_up(subject: Subject, facts: dict[str, Any], length: int, folder: Path) -> Material:
    """Inputs of random tokens of the model's vocabulary, or of random pixels.  Raises DoesNotApply if neither works."""
    pipe = subject.pipe
    made = task_named(pipe.task).synthetic_data(pipe, MaterialInputs(facts, length, folder))
    if made is None:
        raise DoesNotApply("its run has no data, and none can be generated")
    return replace(made, options={"task": pipe.task, **made.options})
