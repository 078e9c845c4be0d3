"""Read the data, and check the options against their task: each task's spec lists the options that it reads.

To change its decisions a run suggests only options that it would accept.
"""

import re
from collections.abc import Sequence
from typing import Any

from headway.data.open.detected import Detected
from headway.data.open.files import kind
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.registry import NAMES, recogniser, spec
from headway.tasks.spec import OF_TEXTS
from headway.training.option_fields import flag, kind_of
from headway.training.options import OPTIONS, TrainOptions
from headway.training.sizing.presets import FITTED_IN
from headway.workflows.input import read_input, validation_input

BY_FLAG = {flag(field.name): field for field in OPTIONS.values()}


def read_checked(
    inputs: Sequence[Any],
    options: TrainOptions,
    validation: Sequence[Any] = (),
    *,
    processes: int | None = None,
    begins: bool = True,
) -> tuple[Corpus | Table, Detected, Corpus | Table | None]:
    """The data, what they are for, and the validation data, if any; checked against the options.  Raises InputError.

    The number of ``processes`` is checked where it is given.  A run that ``begins`` takes no option that would have no
    effect; an earlier version may have taken it.
    """
    source, found = read_input(inputs, options)
    check_for_task(options, found.task, found.reasons)
    if processes is not None:
        check_for_ranks(options, found.task, processes)
    if begins:
        check_effects(options, source, found)
    return source, found, validation_input(validation, options, found)


def check_for_task(options: TrainOptions, task: str, reasons: Sequence[str] = ()) -> None:
    """Raise InputError for an option that the task does not read; ``reasons`` say how the task was found.

    With ``--adapt`` the options of the pretraining task are read too.
    """
    its = spec(task)
    if options.architecture.model is not None and its.models and options.architecture.model not in its.models:
        raise InputError(f"--model {options.architecture.model} is not for {task}, which has {', '.join(its.models)}.")
    known = its.options
    if options.fine_tuning.adapt and its.pretrain_with is not None:
        known |= spec(its.pretrain_with).options
    for name in options.given(OPTIONS):
        if name in known:
            continue
        if wanted := sorted(one for one in NAMES if name in spec(one).options):
            why = f" Found: {'; '.join(reasons)}." if reasons else ""
            what = "texts" if name in OF_TEXTS else " and ".join(wanted)
            raise InputError(f"--{flag(name)} is for {what}, but this is {task}; leave it out.{why}")


def check_effects(options: TrainOptions, source: Corpus | Table, found: Detected) -> None:
    """Raise InputError for an option that would have no effect on data of this form."""
    running = isinstance(source, Corpus) and recogniser(found.task).running_text
    kinds = {kind(path) for path in source.paths}
    fitted = bool(options.given(("frozen", "contrastive"))) and options.runtime.precision != FITTED_IN
    refused = {
        "batch_size": (running, "is for texts of different lengths; for running text use --batch-tokens"),
        "split_seed": (running, "is for rows: of running text the end is held out; leave it out"),
        "validation_windows": (not running, "is for running text; leave it out"),
        "delimiter": (not kinds & {"csv", "tsv"}, "is for .csv and .tsv files; leave it out"),
        "encoding": (kinds == {"parquet"}, "is for files of text; .parquet files say their encoding: leave it out"),
        "precision": (fitted, f"is for training in steps: a linear classifier is fitted in {FITTED_IN}; leave it out"),
    }
    for name in options.given(refused):
        without_effect, why = refused[name]
        if without_effect:
            raise InputError(f"--{flag(name)} {why}.")


def check_for_ranks(options: TrainOptions, task: str, count: int) -> None:
    """Raise InputError for options that do not work with this number of processes."""
    if options.runtime.shard and count == 1:
        raise InputError("--shard spreads the weights over several processes; start them with torchrun.")
    replicas = options.runtime.replicas
    if replicas > 1 and not (options.runtime.shard and replicas < count and count % replicas == 0):
        raise InputError(
            f"--replicas {replicas} of {count} processes: with --shard, each copy is sharded over as many processes, "
            "two or more."
        )
    if options.runtime.shard and (parts := options.given(("lora", "extend_vocab", "freeze"))):
        raise InputError(f"--shard trains whole models, --{flag(parts[0])} only a part; leave one of them out.")
    alone = options.given(("adapt", "frozen", "contrastive", "seeds"))
    if count > 1 and ("ranks" not in spec(task).supports or alone):
        what = f"--{flag(alone[0])}" if alone else f"--task {task}, which compares the texts of a whole batch,"
        raise InputError(f"{what} is for one process; start it without torchrun.")


def to_change(options: TrainOptions, task: str, flags: str) -> str:
    """The flags, out of "--preset, --d-model" and the like, that a run with these options and task also accepts."""
    return ", ".join(f"--{name}" for name in re.findall(r"--([a-z-]+)", flags) if accepts(options, task, name))


def advice(options: TrainOptions, task: str, flags: str) -> str:
    """ " (--preset to change)" with the flags that the run accepts; nothing where it accepts none."""
    accepted = to_change(options, task, flags)
    return f" ({accepted} to change)" if accepted else ""


def accepts(options: TrainOptions, task: str, name: str) -> bool:
    """Whether the same options with another value of the option ``--name`` are valid."""
    field = BY_FLAG.get(name)
    if field is None or field.name in options.named:
        return field is not None  # it was given, and can be changed or left out
    for value in _values(field):
        try:
            check_for_task(options.but(**{field.name: value}), task)
        except InputError:
            continue
        return True
    return False


def _values(field: Any) -> list[Any]:
    """Sample values of an option; if it accepts any value, it accepts one of these."""
    some: dict[str, list[Any]] = {"bool": [True], "int": [2, 1], "float": [0.5, 0.1], "str": ["2s", "2"]}
    choices = [choice for choice in field.metadata["choices"] if choice != field.default]
    return choices or some[kind_of(field)[0]]
