"""A run that is set up but not yet trained."""

import re
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from headway.data.batches.batch_source import BatchSource
from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.sentence_transformers import limit_sequences
from headway.io.quantities import count, metric, rows_in_words
from headway.models.adapt.lora import count_parameters
from headway.models.device import device_of
from headway.models.heads import gives
from headway.models.own import OwnConfig
from headway.tasks.registry import NAMES, recogniser, spec, task_named
from headway.tasks.task import TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.training.base import load_base, take_stack
from headway.training.hardware.measure import batch_seconds, measured
from headway.training.hardware.memory import check_room
from headway.training.loop.budget import ENDING
from headway.training.monitor.progress import Progress
from headway.training.objective import Objective
from headway.training.options import TrainOptions, split_seed, time_limit
from headway.training.plan import Plan
from headway.training.sizing.presets import with_lora
from headway.training.store.facts import ADVICE, FILE, OF_THE_READER, check_files, check_labels, followed, read_facts
from headway.training.store.run_directory import RunDirectory, best_member
from headway.training.store.sizes import ADAPTED
from headway.training.store.trained_texts import BEFORE, known_texts, read_texts
from headway.workflows.train.check import advice, to_change
from headway.workflows.train.resume import changed_plan, check_same_base, check_same_labels

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

    task: str
    data: TaskData
    plan: Plan
    model: nn.Module
    batch_source: BatchSource
    objective: Objective
    limit: float | None
    """seconds for the whole command; None when the run is bounded by steps"""
    batch_seconds: float
    """what an evaluation takes on a batch"""
    base: str | None = None
    """the fingerprint of the base model"""
    before: dict[str, np.ndarray] = field(default_factory=dict)
    """by task, hashes of the texts that the runs before it were trained on"""


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
    given = TaskInputs(source, held_out, found, options, base, tokenizer, progress, earlier)
    given = _knowing(given, run)
    data = _opened(given)
    check_labels(data.labels)
    if earlier is not None:
        check_same_labels(earlier, data.facts, run)
    if data.parts is not None:
        data.facts["rows"] = data.parts.counts
    else:
        data.facts["warnings"] += [f"{place} may have been trained on the held-out text" for place in given.silent]
    data.facts["warnings"] = [*found.warnings, *data.facts["warnings"]]
    say_data(data, progress, options, found.task)
    limit = time_limit(options)
    left = None if limit is None else max(1.0, limit - (time.monotonic() - started) - ENDING)
    try:
        if earlier is not None:
            plan = changed_plan(followed(earlier["plan"]), options, changed, data.texts_in_row)
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
    each = 0.0 if limit is None else batch_seconds(model, batch_source, objective, plan, limit)
    if earlier is None:
        drawn = plan.model
        windows, steps = options.for_tasks.validation_windows, options.run.steps
        shown, settling = data.sampler(model), data.settling(left)
        plan = measured(plan, model, batch_source, objective, shown, limit, each, settling, windows, steps)
        if plan.model != drawn:
            model = data.build(plan).to(device_of(options.runtime.device))
        decisions = [{**one, "option": to_change(options, found.task, one["option"])} for one in plan.decisions]
        for one in decisions:
            if one["what"] == "model" and base is None:
                one["value"] = f"{count(count_parameters(model)[0])} parameters: {one['value']}"
        plan = plan.but(decisions=decisions)
    if not gives(model).each_token:  # it answers each text once
        limit_sequences(model, plan.length)
    known = base.fingerprint if base is not None else None
    return Prepared(found.task, data, plan, model, batch_source, objective, limit, each, known, given.before)


def _knowing(given: TaskInputs, run: RunDirectory) -> TaskInputs:
    """The same with what is not to be held out: what the base, and the runs of --known-to, were trained on."""
    if (mine := read_texts(run.path)) or given.earlier is not None:
        return replace(given, before={name[len(BEFORE) :]: mine[name] for name in mine if name.startswith(BEFORE)})
    named = [Path(place) for place in (given.options.data.known_to or "").split(",") if place]
    running = recogniser(given.found.task).running_text and isinstance(given.source, Corpus)
    for place in named if given.base is None else [given.base.path, *named]:
        facts, texts = read_facts(place) or {}, known_texts(place)
        for task, hashes in texts.items():
            given.before[task] = np.union1d(given.before.get(task, hashes[:0]), hashes)
        data, other = facts.get("data", {}), given.held_out
        if texts or facts.get("task") != given.found.task or running != ("documents" in data):
            continue
        if running:  # the end of the same text is held out again
            again = data.get("fingerprint") == given.source.fingerprint and not facts.get("validation")
            if not again if other is None else facts.get("validation_fingerprint") != other.fingerprint:
                given.silent.append(str(place))
        elif data.get("fingerprint") != given.source.fingerprint or data.get("rows", {}).get("known"):
            given.silent.append(str(place))
        else:
            given.repeated.append(-1 if facts.get("validation") else split_seed(facts.get("options", {})))
    return given


def _opened(given: TaskInputs) -> TaskData:
    """The data, prepared for their task.  Raises InputError."""
    source, held_out = given.source, given.held_out
    talk = isinstance(source, Dialogues)
    if held_out is not None and isinstance(held_out, Dialogues) != talk:
        one, other = (source, held_out) if talk else (held_out, source)
        raise InputError(f"{one.name} holds conversations, {other.name} does not; both must be of the same kind.")
    return task_named(given.found.task).open_data(given)


def _check_own(plan: Plan, task: str, run: RunDirectory) -> None:
    """Raise InputError where a recorded plan is of a model that only another task builds."""
    config = plan.config
    if isinstance(config, OwnConfig) and (config.task != task or task in NAMES):
        raise InputError(f"{run.path / FILE}: plan.model is {config.described}, but this is {task}; {ADVICE}.")


def say_data(data: TaskData, progress: Progress, options: TrainOptions, task: str) -> None:
    facts = data.facts
    progress.say(f"training on {facts['train']}, held out {facts['validation']}")
    if "rows" in facts:
        progress.say(rows_in_words(facts["rows"]))
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
