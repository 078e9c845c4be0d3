"""Training that is killed and resumed equals uninterrupted training, bit for bit."""

import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from headway.errors import InputError
from headway.hub.fingerprint import fingerprint
from headway.hub.preprocessor import ImagePreprocessor, save_preprocessor
from headway.io.quantities import duration, size
from headway.tasks.checks import Material, MaterialInputs
from headway.tasks.registry import spec, task_named
from headway.text.tokenizer import Tokenizer
from headway.training.hardware.measure import SAVED_IN_A_SECOND
from headway.training.hardware.precision import product_rate
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.progress import Progress
from headway.training.store.checkpoint import newest_checkpoint
from headway.training.store.contents import read_log
from headway.training.store.facts import FILE, followed, read_facts, write_facts
from headway.training.store.run_directory import best_member
from headway.workflows.command import Command, words_of
from headway.workflows.evaluate import reading_options
from headway.workflows.input import known_columns, read_input
from headway.workflows.train.check import recorded
from headway.workflows.verify.check import Check, DoesNotApply, Subject, difference, worst

NAME = "resume"
AT_ONCE = "0.001s"
KILLED_AFTER = 2
"""Minimum steps logged, and saved, before the kill."""
ATTEMPTS = 3
"""How often a run may end before it is killed."""
LIMIT = 1800.0
"""Maximum seconds of one command."""
POLL = 0.002
BEGINNING = 8.0
"""Rough estimate of the seconds in which a command starts."""
LONG = 30.0
"""Estimated seconds from which the duration is announced."""
REACHED = 0.25
"""The approximate fraction of the peak matrix-product rate that training reaches."""
NUMBERS, CHECKPOINTS = 5, 5
"""Copies of each weight in a checkpoint (best, average, two moments), and the number of checkpoints written."""
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
    options: dict[str, Any] = {
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
        source, detected = read_input(
            list(map(str, files)), options, known_columns(facts), chat="conversations" in data
        )
        if source.fingerprint != data.get("fingerprint"):
            return None
        made = task_named(task).first_rows(source, detected, options, MaterialInputs(facts, length, folder))
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


class Failed(Exception):
    """A command failed; the message is its error."""


def check_resume(subject: Subject, directory: Path, folder: Path, progress: Progress) -> Check:
    """Train a few steps in two directories, killing one run by SIGKILL; compare all weights and losses."""
    what = "every weight and the loss of each step of its training, uninterrupted against killed by SIGKILL and resumed"
    try:
        again = replay(subject, directory, folder)
        what = f"{what}, on {again.material.origin}"
        _check_room(subject, again, folder, progress)
        alone, killed = folder / "alone", folder / "killed"
        again.begin(alone)
        _run(again.words(alone, NEVER), folder)
        step = _killed(again, killed, folder)
        _run(again.words(killed, NEVER), folder)
    except DoesNotApply as reason:
        return Check(NAME, what, skipped=str(reason))
    except InputError as error:
        return Check(NAME, what, None, 0.0, f"its training cannot be started: {error}")
    except Failed as error:
        return Check(NAME, what, None, 0.0, f"its training failed: {error}")
    resumed = [line["step"] for line in read_log(killed, "resume")]
    if not resumed:
        return Check(NAME, what, None, 0.0, f"killed after step {step}, it started over instead of resuming")
    value, differs = compare(alone, killed)
    more = {"steps": again.options["steps"], "killed_after": step, "resumed_from": resumed[-1]}
    problem = f"first differs: {differs}" if differs else None
    return Check(NAME, what, value, 0.0, problem, more=more)


def compare(alone: Path, killed: Path) -> tuple[float, str | None]:
    """The largest difference between two finished runs, in losses and last checkpoints, and what differs first.

    A checkpoint holds the weights, the best weights, and the states of the optimizers and random number generators.
    """
    apart: dict[str, float] = {}
    losses, others = _losses(alone), _losses(killed)
    for step in sorted(losses.keys() | others.keys()):
        known = step in losses and step in others
        apart[f"the loss of step {step}"] = abs(losses[step] - others[step]) if known else float("inf")
    (first, _), (second, _) = (newest_checkpoint(run / "checkpoints") for run in (alone, killed))
    if first is None or second is None or first[1]["step"] != second[1]["step"]:
        return float("inf"), "the last checkpoint"
    for name in sorted(first[0].keys() | second[0].keys()):
        known = name in first[0] and name in second[0]
        apart[name] = difference(first[0][name], second[0][name]) if known else float("inf")
    return worst(*apart.values()), next((name for name, value in apart.items() if value != 0), None)


@contextmanager
def _started(words: Sequence[str], folder: Path) -> Iterator[Command]:
    """A command with its own cache, which is killed at the end if it still runs.  Raises Failed for one that lasts."""
    command = Command(words, folder / "errors.txt", alone=True, HEADWAY_CACHE=str(folder / "cache"))
    try:
        yield command
    except subprocess.TimeoutExpired:
        raise Failed(f"it did not end within {duration(LIMIT)}") from None
    finally:
        command.kill()


def _run(words: Sequence[str], folder: Path) -> None:
    """Run a command to its end.  Raises Failed."""
    with _started(words, folder) as command:
        command.wait(LIMIT)
        if command.status != 0:
            raise Failed(command.said)


def _killed(again: Replay, run: Path, folder: Path) -> int:
    """Train until some steps are done and one is saved, then kill; returns the last step.

    Raises DoesNotApply if the run always ended before, and Failed if it failed.
    """
    for _ in range(ATTEMPTS):
        shutil.rmtree(run, ignore_errors=True)
        again.begin(run)
        with _started(again.words(run, AT_ONCE), folder) as command:
            end = time.monotonic() + LIMIT
            while (ended := command.status) is None and not _ready(run):
                if time.monotonic() > end:
                    command.wait(0)
                time.sleep(POLL)
        if ended is None and command.status != 0:
            return max(_losses(run))
        if command.status != 0:
            raise Failed(command.said)
    raise DoesNotApply("it always ended before it could be killed")


def _ready(run: Path) -> bool:
    """Whether enough steps are done for a kill in the middle."""
    saved = (run / "checkpoints").glob("step-*")
    return any(path.name != "step-0" for path in saved) and max(_losses(run), default=0) >= KILLED_AFTER


def _losses(run: Path) -> dict[int, float]:
    """The loss of each step; the later of two lines for one step."""
    return {line["step"]: float(line["loss"]) for line in read_log(run, "step")}


def _check_room(subject: Subject, again: Replay, folder: Path, progress: Progress) -> None:
    """Raise DoesNotApply if there is no space for the checkpoints; announce the duration if it is long."""
    needed = 4 * NUMBERS * CHECKPOINTS * sum(p.numel() for p in subject.one.parameters())
    if shutil.disk_usage(folder).free < needed:
        raise DoesNotApply(f"it needs {size(needed)} in {folder.parent} (set TMPDIR to use another folder)")
    rate = REACHED * product_rate(torch.float32)
    seconds = 3 * BEGINNING + 2 * again.flops / rate + needed / SAVED_IN_A_SECOND
    if seconds > LONG:
        progress.say(f"{NAME}: training it three times may take about {duration(seconds)}")
