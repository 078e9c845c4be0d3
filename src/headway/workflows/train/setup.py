"""A run that is set up but not yet trained: its data are prepared, everything is decided, said and recorded."""

import contextlib
import re
import time
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.table import Table
from headway.errors import InputError
from headway.formats.subject import in_words, refusals
from headway.hub.dataset import dataset_id
from headway.hub.sentence_transformers import limit_sequences
from headway.io.atomic_write import staged_directory
from headway.io.quantities import count, metric, rows_in_words
from headway.models.adapt.lora import count_parameters
from headway.models.device import device_of
from headway.models.heads import gives
from headway.models.own import OwnConfig
from headway.tasks.registry import NAMES, recogniser, spec, task_named
from headway.tasks.task import TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.training.base import Base, load_base, take_stack
from headway.training.distributed.ranks import Ranks
from headway.training.hardware.measure import Setup, batch_seconds, measured
from headway.training.hardware.memory import check_room
from headway.training.loop.schedule import ENDING
from headway.training.monitor.progress import NoProgress, Progress
from headway.training.options import TrainOptions, split_seed, time_limit
from headway.training.plan import Plan
from headway.training.sizing.presets import with_lora
from headway.training.store.checkpoint import SaveFailed, saving
from headway.training.store.facts import ADVICE, FILE, OF_THE_READER, check_files, check_labels, followed, read_facts
from headway.training.store.run_directory import RunDirectory, best_member, clock, machine, versions
from headway.training.store.sizes import ADAPTED
from headway.training.store.trained_texts import BEFORE, TEXTS, known_texts, read_texts, write_texts
from headway.workflows.train.check import advice, to_change
from headway.workflows.train.resume import (
    BOUNDS,
    changed_plan,
    check_same_base,
    check_same_labels,
    recorded,
)

MOST_LABELS = 100
"""Number of labels that are listed, with their rows, before training."""
FIELDS = {
    **{"n_heads": "heads", "n_layers": "layers", "d_model": "d-model", "max_length": "length"},
    **{"n_decoder_layers": "layers", "vocab_size": "vocab"},
}
"""Fields of a configuration -> the options that set them."""


@dataclass
class TrainingSession:
    """One command that trains: its options and data, and the run that it begins or resumes."""

    options: TrainOptions
    source: Corpus | Table
    found: Detected
    held_out: Corpus | Table | None
    progress: Progress = field(default_factory=NoProgress)
    started: float = field(default_factory=time.monotonic)
    """when the command began, by time.monotonic; its limit of time counts from there"""
    run: RunDirectory = field(default_factory=lambda: RunDirectory(Path()))
    """where the results go; of a run that is only decided, nowhere"""
    ranks: Ranks = field(default_factory=Ranks)
    inputs: Sequence[Any] = ()
    validation: Sequence[Any] = ()
    command: Sequence[str] = ()
    """its words"""
    earlier: dict[str, Any] | None = None
    """headway.json of the run that is resumed"""
    changed: Collection[str] = ()
    """names of the options that differ from those of the run that is resumed"""
    once_more: bool = False
    """whether it continues the run with another cycle of the learning rate"""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.found.task

    @property
    def seconds(self) -> float:
        """How long the command has taken so far."""
        return time.monotonic() - self.started


@dataclass
class Prepared(Setup):
    """A run that is set up but not yet trained."""

    session: TrainingSession
    data: TaskData
    base: str | None
    """the fingerprint of the base model"""
    before: dict[str, np.ndarray]
    """by task, hashes of the texts that the runs before it were trained on"""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.session.task

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the limit of the command; below 0 behind it, None without one."""
        return None if self.limit is None else self.limit - self.session.seconds


def prepare(session: TrainingSession) -> Prepared:
    """Tokenize and decide, or use the decisions of an earlier command.  Raises InputError."""
    options, earlier, progress = session.options, session.earlier, session.progress
    base, tokenizer = _base(session)
    for reason in session.found.reasons:
        progress.say(reason)
    given = TaskInputs(session.source, session.held_out, session.found, options, base, tokenizer, progress, earlier)
    given = _knowing(given, session.run)
    data = _opened(given)
    check_labels(data.labels)
    if earlier is not None:
        check_same_labels(earlier, data.facts, session.run)
    if data.parts is not None:
        data.facts["rows"] = data.parts.counts
    else:
        data.facts["warnings"] += [f"{place} may have been trained on the held-out text" for place in given.silent]
    data.facts["warnings"] = [*session.found.warnings, *data.facts["warnings"]]
    say_data(data, progress, options, session.task)
    limit = time_limit(options)
    left = None if limit is None else max(1.0, limit - session.seconds - ENDING)
    plan, model = _planned(session, data, left)
    known = base.fingerprint if base is not None else None
    settled = options, plan, model, data.batch_source(plan), data.objective(plan), limit, 0.0
    prepared = Prepared(*settled, session, data, known, given.before)
    if limit is not None:
        prepared.batch_seconds = batch_seconds(prepared, limit)
    if earlier is None:
        plan = measured(prepared, data.sampler(model), data.finalize_plan(left))
        if plan.model != prepared.plan.model:
            prepared.model = model = data.build(plan).to(device_of(options.runtime.device))
        decisions = [{**one, "option": to_change(options, session.task, one["option"])} for one in plan.decisions]
        for one in decisions:
            if one["what"] == "model" and base is None:
                one["value"] = f"{count(count_parameters(model)[0])} parameters: {one['value']}"
        prepared.plan = plan.but(decisions=decisions)
    if not gives(model).each_token:  # it answers each text once
        limit_sequences(model, plan.length)
    return prepared


def _base(session: TrainingSession) -> tuple[Base | None, Tokenizer | None]:
    """The model of ``--from``, and the tokenizer of a run that is resumed.  Raises InputError."""
    run, options, earlier = session.run, session.options.fine_tuning, session.earlier
    images = spec(session.task).reads == "picture"
    check_files(run.path, earlier, OF_THE_READER)
    tokenizer = Tokenizer.load(run.path) if earlier is not None and not images else None
    if options.from_model is None:
        return None, tokenizer
    base = load_base(options.from_model, images=images)
    if member := best_member(base.path):
        session.progress.say(f"{base.path}: an ensemble of classifiers; starting from the best member, {member}")
    if options.adapt:
        take_stack(base, run.path / ADAPTED)
    if earlier is not None:
        check_same_base(earlier, base, run)
    return base, tokenizer


def _planned(session: TrainingSession, data: TaskData, seconds: float | None) -> tuple[Plan, nn.Module]:
    """The plan, new or of the run that is resumed, and the model at its start.  Raises InputError."""
    options, earlier = session.options, session.earlier
    try:
        if earlier is not None:
            plan = changed_plan(followed(earlier["plan"]), options, session.changed, data.texts_in_row)
            _check_own(plan, session.task, session.run)
        else:
            plan = with_lora(data.plan(seconds), options)
        check_room(plan)
        return plan, data.build(plan).to(device_of(options.runtime.device))
    except InputError:
        raise
    except ValueError as error:
        said = re.sub(rf"\b({'|'.join(FIELDS)})\b", lambda field: f"--{FIELDS[field[0]]}", str(error))
        raise InputError(f"no model can be made with these options: {said}.") from None


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
        if numbers:
            progress.say(f"baseline {baseline['name']}: {numbers}")


def say_plan(prepared: Prepared) -> None:
    """Say what was decided, each with the option that changes it, and how much of the model is trained."""
    options, progress = prepared.session.options, prepared.session.progress
    for decision in prepared.plan.decisions:
        if decision["what"] == "passes" and options.given(BOUNDS):
            continue  # a continued run trains for the time or steps given now
        change = f" ({decision['option']} to change)" if decision["option"] else ""
        progress.say(f"{decision['what']}: {decision['value']} - {decision['why']}{change}")
    exports = refusals(prepared.model, prepared.data.processor, prepared.data)
    if options.fine_tuning.adapt and "peft" in exports:
        exports["peft"] = "--adapt changed the whole base"
    progress.say(in_words(exports))
    whole, learning = count_parameters(prepared.model)
    if learning < whole:
        progress.say(f"training {learning:,} of {whole:,} parameters ({learning / whole:.2%})")


def try_saving(prepared: Prepared) -> None:
    """Raise InputError, before a new model is trained, where it would be another one when it is loaded again.

    What it computes must show, so that it is tried with other weights than those at the start, of which many are zero.
    """
    run, model, draw = prepared.session.run, deepcopy(prepared.model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=draw).to(p) if p.is_floating_point() else 0)
    with contextlib.suppress(SaveFailed), staged_directory(run.path / "tried") as place:
        try:
            RunDirectory(place).save_model(model, prepared.data.processor, prepared.data.labels)
        except InputError as error:
            raise InputError(str(error).replace(str(place), str(run.path))) from None


def record_start(prepared: Prepared) -> None:
    """Save the tokenizer or preprocessor, and what headway.json says of a run that begins."""
    session, plan, data = prepared.session, prepared.plan, prepared.data
    run, options, task = session.run, session.options, session.task
    whole, learning = count_parameters(prepared.model)
    own = {} if data.parts is None else {task: data.parts.train.hashes}
    before = prepared.before if data.parts is None else {**prepared.before, task: data.parts.known}
    if own or before:
        with saving(run.path / TEXTS):
            write_texts(run.path, own, before)
    run.save_processor(data.processor, prepared.model)
    run.update(
        headway=versions()["headway"],
        task=task,
        command=list(session.command),
        options=recorded(options),
        validation=[one.name if isinstance(one, Table) else str(one) for one in session.validation],
        validation_fingerprint=None if session.held_out is None else session.held_out.fingerprint,
        plan=plan.flat(),
        decisions=plan.decisions,
        data=_as_given(data.facts, session.inputs),
        labels=data.labels,
        base={"path": options.fine_tuning.from_model, "fingerprint": prepared.base} if prepared.base else None,
        parameters=whole,
        trained_parameters=learning,
        baselines=data.baselines,
        machine=machine(device_of(options.runtime.device)),
        versions=versions(),
        started=clock(),
        finished=False,
    )


def _as_given(facts: dict[str, Any], inputs: Sequence[Any]) -> dict[str, Any]:
    """The facts of the data; data from the hub are named by their ids, so that they can be found again.

    For data in memory, their description is recorded.
    """
    if any(isinstance(one, Table) for one in inputs):
        return {**facts, "in_memory": True}
    return {**facts, "inputs": list(map(str, inputs))} if any(map(dataset_id, inputs)) else facts
