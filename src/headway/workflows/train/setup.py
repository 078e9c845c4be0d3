"""A run that is set up but not yet trained: its data are prepared, everything is decided, said and recorded."""

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.open.columns import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.table import Table
from headway.errors import InputError
from headway.formats.subject import in_words, refusals
from headway.hub.download import dataset_id
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
from headway.training.hardware.measure import batch_seconds, measured
from headway.training.hardware.memory import check_room
from headway.training.job import Job
from headway.training.loop.schedule import ENDING
from headway.training.options import split_seed
from headway.training.plan import Plan, decision_in_words
from headway.training.sizing.presets import with_lora
from headway.training.store.checkpoint import SaveFailed, saving
from headway.training.store.contents import ADAPTED, BEFORE, TEXTS, known_texts, read_texts, write_texts
from headway.training.store.facts import ADVICE, FILE, OF_THE_READER, check_files, check_labels, followed, read_facts
from headway.training.store.run_directory import RunDirectory, best_member, clock, machine, versions
from headway.workflows.train.check import BOUNDS, changed_plan, check_same_base, check_same_labels, recorded, to_change

MOST_LABELS = 100
"""Number of labels that are listed, with their rows, before training."""
FIELDS = {
    **{"n_heads": "heads", "n_layers": "layers", "d_model": "d-model", "max_length": "length"},
    **{"n_decoder_layers": "layers", "vocab_size": "vocab"},
}
"""Fields of a configuration -> the options that set them."""


@dataclass(kw_only=True)
class TrainingSession(Job):
    """One command that trains: its options and data, and the run that it begins or resumes."""

    inputs: Sequence[Any] = ()
    validation: Sequence[Any] = ()
    command: Sequence[str] = ()
    """its words"""
    source: Corpus | Table = field(init=False)
    found: Detected = field(init=False)
    held_out: Corpus | Table | None = field(init=False)
    earlier: dict[str, Any] | None = None
    """headway.json of the run that is resumed"""
    changed: Collection[str] = ()
    """names of the options that differ from those of the run that is resumed"""
    once_more: bool = False
    """whether it continues the run with another cycle of the learning rate"""
    data: TaskData = field(init=False)
    base: str | None = None
    """the fingerprint of the base model"""
    before: Mapping[str, np.ndarray] = field(default_factory=dict)
    """by task, hashes of the texts that the runs before it were trained on"""

    @property
    def task(self) -> str:
        """The name of the task."""
        return self.found.task


def prepare(session: TrainingSession) -> TrainingSession:
    """Tokenize and decide, or use the decisions of an earlier command.  Raises InputError."""
    options, earlier, progress, limit = session.options, session.earlier, session.progress, session.limit
    base, tokenizer = _base(session)
    for reason in session.found.reasons:
        progress.say(reason)
    source, held_out, found = session.source, session.held_out, session.found
    given = _knowing(TaskInputs(source, held_out, found, options, base, tokenizer, progress, earlier), session.run)
    if held_out is not None and isinstance(held_out, Dialogues) != isinstance(source, Dialogues):
        talks, other = (source, held_out) if isinstance(source, Dialogues) else (held_out, source)
        raise InputError(f"{talks.name} holds conversations, {other.name} does not; both must be of the same kind.")
    data = session.data = task_named(found.task).open_data(given)
    check_labels(data.labels)
    if earlier is not None:
        check_same_labels(earlier, data.facts, session.run)
    if data.parts is not None:
        data.facts["rows"] = data.parts.counts
    else:
        data.facts["warnings"] += [f"{place} may have been trained on the held-out text" for place in given.silent]
    data.facts["warnings"] = [*found.warnings, *data.facts["warnings"]]
    say_data(session)
    left = None if limit is None else max(1.0, limit - session.seconds - ENDING)
    session.base, session.before = None if base is None else base.fingerprint, given.before
    plan, session.model = _planned(session, left)
    session.plan, session.batch_source, session.objective = plan, data.batch_source(plan), data.objective(plan)
    if limit is not None:
        session.batch_seconds = batch_seconds(session, limit)
    if earlier is None:
        session.plan = measured(session, data.sampler(session.model), data.finalize_plan(left))
        if session.plan.model != plan.model:
            session.model = data.build(session.plan).to(device_of(options.runtime.device))
        decisions = [{**one, "option": to_change(options, found.task, one["option"])} for one in session.plan.decisions]
        for one in decisions:
            if one["what"] == "model" and base is None:
                one["value"] = f"{count(count_parameters(session.model)[0])} parameters: {one['value']}"
        session.plan = session.plan.but(decisions=decisions)
    if not gives(session.model).each_token:  # it answers each text once
        limit_sequences(session.model, session.plan.length)
    return session


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


def _planned(session: TrainingSession, seconds: float | None) -> tuple[Plan, nn.Module]:
    """The plan, new or of the run that is resumed, and the model at its start.  Raises InputError."""
    options, earlier, data = session.options, session.earlier, session.data
    try:
        if earlier is not None:
            plan = changed_plan(followed(earlier["plan"]), options, session.changed, data.texts_in_row)
            config, task = plan.config, session.task
            if isinstance(config, OwnConfig) and (config.task != task or task in NAMES):
                place = session.run.path / FILE
                raise InputError(f"{place}: plan.model is {config.described}, but this is {task}; {ADVICE}.")
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


def say_data(session: TrainingSession) -> None:
    data, progress, facts = session.data, session.progress, session.data.facts
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
        change = to_change(session.options, session.task, "--tokenizer, --vocab")
        change = f"{change} to change" if change else f"from {session.options.fine_tuning.from_model}"
        progress.say(f"tokenizer: {tokenizer.kind}, {tokenizer.vocab_size:,} tokens ({change})")
        if tokenizer.sampled:
            progress.say(f"the tokenizer was trained on a sample of {tokenizer.trained_on_characters:,} characters")
    for warning in facts["warnings"]:
        progress.warn(warning)
    for baseline in data.baselines:
        numbers = ", ".join(f"{key} {metric(value)}" for key, value in baseline.items() if isinstance(value, float))
        if numbers:
            progress.say(f"baseline {baseline['name']}: {numbers}")


def say_plan(session: TrainingSession) -> None:
    """Say what was decided, each with the option that changes it, and how much of the model is trained."""
    options, progress = session.options, session.progress
    for decision in session.plan.decisions:
        if decision["what"] == "passes" and options.given(BOUNDS):
            continue  # a continued run trains for the time or steps given now
        progress.say(decision_in_words(decision))
    exports = refusals(session.model, session.data.processor, session.data)
    if options.fine_tuning.adapt and "peft" in exports:
        exports["peft"] = "--adapt changed the whole base"
    progress.say(in_words(exports))
    whole, learning = count_parameters(session.model)
    if learning < whole:
        progress.say(f"training {learning:,} of {whole:,} parameters ({learning / whole:.2%})")


def try_saving(session: TrainingSession) -> None:
    """Raise InputError, before a new model is trained, where it would be another one when it is loaded again.

    What it computes must show, so that it is tried with other weights than those at the start, of which many are zero.
    """
    run, model, draw = session.run, deepcopy(session.model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=draw).to(p) if p.is_floating_point() else 0)
    with contextlib.suppress(SaveFailed), staged_directory(run.path / "tried") as place:
        try:
            RunDirectory(place).save_model(model, session.data.processor, session.data.labels)
        except InputError as error:
            raise InputError(str(error).replace(str(place), str(run.path))) from None


def record_start(session: TrainingSession) -> None:
    """Save the tokenizer or preprocessor, and what headway.json says of a run that begins."""
    run, options, task, data, facts = session.run, session.options, session.task, session.data, session.data.facts
    whole, learning = count_parameters(session.model)
    own = {} if data.parts is None else {task: data.parts.train.hashes}
    before = session.before if data.parts is None else {**session.before, task: data.parts.known}
    if own or before:
        with saving(run.path / TEXTS):
            write_texts(run.path, own, before)
    run.save_processor(data.processor, session.model)
    if any(isinstance(one, Table) for one in session.inputs):
        facts = {**facts, "in_memory": True}
    elif any(map(dataset_id, session.inputs)):  # named by their ids, so that they can be found again
        facts = {**facts, "inputs": list(map(str, session.inputs))}
    run.update(
        headway=versions()["headway"],
        task=task,
        command=list(session.command),
        options=recorded(options),
        validation=[one.name if isinstance(one, Table) else str(one) for one in session.validation],
        validation_fingerprint=None if session.held_out is None else session.held_out.fingerprint,
        plan=session.plan.flat(),
        decisions=session.plan.decisions,
        data=facts,
        labels=data.labels,
        base={"path": options.fine_tuning.from_model, "fingerprint": session.base} if session.base else None,
        parameters=whole,
        trained_parameters=learning,
        baselines=data.baselines,
        machine=machine(device_of(options.runtime.device)),
        versions=versions(),
        started=clock(),
        finished=False,
    )
