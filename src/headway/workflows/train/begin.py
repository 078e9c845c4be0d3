"""The beginning of a run: its plan is said, its model can be saved, and what decides it is recorded."""

import contextlib
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import torch

from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.dataset import dataset_id
from headway.io.staged_directory import staged_directory
from headway.models.adapt.lora import count_parameters
from headway.models.device import device_of
from headway.training.monitor.progress import Progress
from headway.training.options import TrainOptions
from headway.training.store.checkpoint import SaveFailed, saving
from headway.training.store.run_directory import RunDirectory, clock, machine, versions
from headway.training.store.trained_texts import TEXTS, write_texts
from headway.workflows.export.exportable import in_words, refusals
from headway.workflows.train.continuing import BOUNDS
from headway.workflows.train.resume import recorded
from headway.workflows.train.setup import Prepared


def say_plan(prepared: Prepared, options: TrainOptions, progress: Progress) -> None:
    """Say what was decided, each with the option that changes it, and how much of the model is trained."""
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


def try_saving(run: RunDirectory, prepared: Prepared) -> None:
    """Raise InputError, before a new model is trained, where it would be another one when it is loaded again.

    What it computes must show, so that it is tried with other weights than those at the start, of which many are zero.
    """
    model, draw = deepcopy(prepared.model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=draw).to(p) if p.is_floating_point() else 0)
    with contextlib.suppress(SaveFailed), staged_directory(run.path / "tried") as place:
        try:
            RunDirectory(place).save_model(model, prepared.data.processor, prepared.data.labels)
        except InputError as error:
            raise InputError(str(error).replace(str(place), str(run.path))) from None


def record_start(
    run: RunDirectory,
    prepared: Prepared,
    options: TrainOptions,
    task: str,
    inputs: Sequence[Any],
    validation: Sequence[Any],
    prints: dict[str, Any],
    command: Sequence[str],
) -> None:
    """Save the tokenizer or preprocessor, and what headway.json says of a run that begins."""
    plan, data = prepared.plan, prepared.data
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
        command=list(command),
        options=recorded(options),
        validation=[one.name if isinstance(one, Table) else str(one) for one in validation],
        validation_fingerprint=prints["validation"],
        plan=plan.flat(),
        decisions=plan.decisions,
        data=_as_given(data.facts, inputs),
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
