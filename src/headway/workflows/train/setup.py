"""A run that is set up but not yet trained."""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from torch import nn

from headway.data.batches.batch_source import BatchSource
from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.table import Table
from headway.errors import InputError
from headway.io.quantities import metric
from headway.models.device import device_of
from headway.models.own import OwnConfig
from headway.tasks.registry import NAMES, room, spec
from headway.tasks.task import TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.training.base import load_base, take_stack
from headway.training.hardware.measure import measured
from headway.training.hardware.memory import check_room
from headway.training.monitor.progress import Progress
from headway.training.objective import Objective
from headway.training.options import TrainOptions, time_limit
from headway.training.plan import Plan
from headway.training.sizing.presets import with_lora
from headway.training.store.facts import ADVICE, FILE, OF_THE_READER, check_files, followed
from headway.training.store.run_directory import RunDirectory, best_member
from headway.training.store.sizes import ADAPTED
from headway.workflows.train.resume import changed_plan, check_same_base, check_same_labels
from headway.workflows.train.suggestions import advice, to_change

ENDING = 1.5
"""Seconds reserved for saving, the report and exit, in addition to the last evaluation."""
MOST_LABELS = 100
"""Number of labels that are listed, with their rows, before training."""
FIELDS = {
    **{"n_heads": "heads", "n_layers": "layers", "d_model": "d-model", "max_length": "length"},
    **{"n_decoder_layers": "layers", "vocab_size": "vocab"},
}
"""Fields of a configuration -> the options that set them."""


@dataclass
class Prepared:
    """A run that is set up but not yet trained."""

    data: TaskData
    plan: Plan
    model: nn.Module
    batch_source: BatchSource
    objective: Objective
    limit: float | None
    """seconds for the whole command; None when the run is bounded by steps"""
    base: str | None = None
    """the fingerprint of the base model"""


def prepare(
    run: RunDirectory,
    earlier: dict[str, Any] | None,
    changed: Collection[str],
    source: Corpus | Table,
    held_out: Corpus | Table | None,
    found: Detected,
    options: TrainOptions,
    started: float,
    progress: Progress,
) -> Prepared:
    """Tokenize and decide, or use the decisions of an earlier command.  Raises InputError."""
    images = spec(found.task).reads == "picture"
    check_files(run.path, earlier, OF_THE_READER)
    tokenizer = Tokenizer.load(run.path) if earlier is not None and not images else None
    named = options.fine_tuning.from_model
    base = None if named is None else load_base(named, images=images)
    if base is not None and (member := best_member(base.path)):
        progress.say(f"{base.path}: an ensemble of classifiers; starting from the best member, {member}")
    if base is not None and options.fine_tuning.adapt:
        take_stack(base, run.path / ADAPTED)
    if base is not None and earlier is not None:
        check_same_base(earlier, base, run)
    for reason in found.reasons:
        progress.say(reason)
    data = _opened(TaskInputs(source, held_out, found, options, base, tokenizer, progress, earlier))
    if earlier is not None:
        check_same_labels(earlier, data.facts, run)
    data.facts["warnings"] = [*found.warnings, *data.facts["warnings"]]
    say_data(data, progress, options, found.task)
    limit = time_limit(options)
    left = None if limit is None else max(1.0, limit - (time.monotonic() - started) - ENDING)
    try:
        if earlier is not None:
            plan = changed_plan(followed(earlier["plan"]), options, changed)
            _check_own(plan, found.task, run)
        else:
            plan = with_lora(data.plan(left), options)
        check_room(plan)
        model = data.build(plan).to(device_of(options.runtime.device))
    except InputError:
        raise
    except ValueError as error:
        said = re.sub(rf"\b({'|'.join(FIELDS)})\b", lambda field: f"--{FIELDS[field[0]]}", str(error))
        raise InputError(f"no model can be made with these options: {said}.") from None
    batch_source, objective = data.batch_source(plan), data.objective(plan)
    if earlier is None:
        drawn = plan.model
        windows = options.for_tasks.validation_windows
        plan = measured(plan, model, batch_source, objective, data.sampler(model), limit, data.settling(left), windows)
        if plan.model != drawn:
            model = data.build(plan).to(device_of(options.runtime.device))
        plan = plan.but(
            decisions=[{**one, "option": to_change(options, found.task, one["option"])} for one in plan.decisions]
        )
    return Prepared(data, plan, model, batch_source, objective, limit, base.fingerprint if base is not None else None)


def _opened(given: TaskInputs) -> TaskData:
    """The data, prepared for their task.  Raises InputError."""
    source, held_out = given.source, given.held_out
    talk = isinstance(source, Dialogues)
    if held_out is not None and isinstance(held_out, Dialogues) != talk:
        one, other = (source, held_out) if talk else (held_out, source)
        raise InputError(f"{one.name} holds conversations, {other.name} does not; both must be of the same kind.")
    return room(given.found.task).open_data(given)


def _check_own(plan: Plan, task: str, run: RunDirectory) -> None:
    """Raise InputError where a recorded plan is of a model that only another task builds."""
    config = plan.config
    if isinstance(config, OwnConfig) and (config.task != task or task in NAMES):
        raise InputError(f"{run.path / FILE}: plan.model is {config.described}, but this is {task}; {ADVICE}.")


def say_data(data: TaskData, progress: Progress, options: TrainOptions, task: str) -> None:
    facts = data.facts
    progress.say(f"training on {facts['train']}, held out {facts['validation']}")
    if "merged" in facts:
        progress.say(facts["merged"])
    if "classes" in facts:
        named = [f"{label} {count:,}" for label, count in facts["classes"].items()]
        more = [f"and {len(named) - MOST_LABELS:,} more"] if len(named) > MOST_LABELS else []
        progress.say("labels: " + ", ".join(named[:MOST_LABELS] + more))
    if isinstance(tokenizer := data.processor, Tokenizer):
        change = advice(options, task, "--tokenizer, --vocab") or f" (from {options.fine_tuning.from_model})"
        progress.say(f"tokenizer: {tokenizer.kind}, {tokenizer.vocab_size:,} tokens{change}")
        if tokenizer.sampled:
            progress.say(f"the tokenizer was trained on a sample of {tokenizer.trained_on_characters:,} characters")
    for warning in facts["warnings"]:
        progress.warn(warning)
    for baseline in data.baselines:
        numbers = ", ".join(f"{key} {metric(value)}" for key, value in baseline.items() if isinstance(value, float))
        progress.say(f"baseline {baseline['name']}: {numbers}")
