"""The options of a run, checked against its task, its data and the run that it resumes or continues."""

import contextlib
import re
from collections.abc import Collection, Sequence
from typing import Any

from headway.data.open.columns import Detected
from headway.data.open.files import kind
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.data.stream.streamed import Streamed
from headway.errors import InputError
from headway.io.quantities import parse_seconds
from headway.tasks.registry import NAMES, recogniser, spec
from headway.tasks.spec import OF_TEXTS
from headway.training.base import Base
from headway.training.option_fields import DEFAULT_TIME, entries, flag, kind_of
from headway.training.options import CHANGEABLE, FORMER, FREE, OPTIONS, TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.presets import FITTED_IN, tokens_of_rows
from headway.training.store.run_directory import RunDirectory
from headway.workflows.input import read_input, validation_input

BY_FLAG = {flag(field.name): field for field in OPTIONS.values()}
BOUNDS = ("more_time", "more_steps")
OF_THE_WHOLE = ("time", "steps", "epochs")
"""Bounds of a whole run, which a continuation does not have."""


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
    return ", ".join(f"--{name}" for name in re.findall(r"--([a-z-]+)", flags) if _accepts(options, task, name))


def _accepts(options: TrainOptions, task: str, name: str) -> bool:
    """Whether the same options with another value of the option ``--name`` are valid."""
    field = BY_FLAG.get(name)
    if field is None or field.name in options.named:
        return field is not None  # it was given, and can be changed or left out
    # if it accepts any value, it accepts one of these
    some: dict[str, list[Any]] = {"bool": [True], "int": [2, 1], "float": [0.5, 0.1], "str": ["2s", "2"]}
    choices = [choice for choice in field.metadata["choices"] if choice != field.default]
    for value in choices or some[kind_of(field)[0]]:
        with contextlib.suppress(InputError):
            check_for_task(options.but(**{field.name: value}), task)
            return True
    return False


def fingerprints(source: Corpus | Table, held_out: Corpus | Table | None) -> dict[str, str | None]:
    """The fields by which a run recognises its data."""
    return {"data": source.fingerprint, "validation": None if held_out is None else held_out.fingerprint}


def recorded(options: TrainOptions) -> dict[str, Any]:
    """The options as they are recorded, with the default time if none is given."""
    time = None if options.run.steps is not None else options.run.time or DEFAULT_TIME
    return {**options.flat(), "time": time, "more_time": None, "more_steps": None}


def changes(earlier: dict[str, Any], options: TrainOptions, run: RunDirectory) -> list[str]:
    """The names of the options that differ from those of the earlier run.

    Raises InputError, which lists them with their earlier values, unless they are allowed to change.
    """
    before, asked = dict(earlier.get("options", {})), recorded(options)
    changed = [
        name for name in asked if name in before and name not in FREE and not same(name, before[name], asked[name])
    ]
    refused = [name for name in changed if name not in CHANGEABLE or not options.run.allow_changes]
    if not refused:
        return changed
    said = [
        {name: "not given" if values[name] is None else values[name] for name in refused} for values in (before, asked)
    ]
    listed = ", ".join(f"--{flag(name)} {said[0][name]} (now {said[1][name]})" for name in refused)
    why, or_change = ", which cannot change during a run", ""
    if set(refused) <= set(CHANGEABLE):
        why, or_change = "", " --allow-changes to resume with those given now,"
    raise InputError(
        f"{run.path}: holds a run with other options{why}: {listed}. Give the same options to resume it,{or_change} "
        "or another directory with --out."
    )


def same(name: str, before: Any, asked: Any) -> bool:
    """Whether a recorded value of an option and one asked for are equal: 90s is 1m30s."""
    if name == "time" and isinstance(before, str) and isinstance(asked, str):
        return parse_seconds(before) == parse_seconds(asked)
    return bool(before == asked) or (asked is None and before == FORMER.get(name))


def changed_plan(plan: Plan, options: TrainOptions, changed: Collection[str], texts: int) -> Plan:
    """The plan of an earlier run with the changed options; a row of its data has so many ``texts``."""
    values = {name: options.value(name) for name in {*changed, "log_every"} if name in entries(Plan)}
    values = {name: value for name, value in values.items() if value is not None}
    if "batch_size" in changed and options.optimisation.batch_tokens is None:
        values["batch_tokens"] = tokens_of_rows(options, texts * plan.length, plan.batch_tokens)
    bounds = options.run
    if "steps" in changed and bounds.epochs is None:
        values["epochs"] = None  # those that the time had
    if {"steps", "epochs", "patience"} & set(changed) and (bounds.steps or bounds.epochs or bounds.patience):
        values["patience_passes"] = 0.0
    flags = {f"--{flag(name)}" for name in changed} | ({"--epochs"} if "steps" in changed else set())
    decisions = [one for one in plan.decisions if not flags.intersection(one["option"].split(", "))]
    return plan.but(**values, decisions=decisions)


def check_same_base(earlier: dict[str, Any], base: Base, run: RunDirectory) -> None:
    """Check that the base model of an earlier run is unchanged.  Raises InputError otherwise."""
    before = (earlier.get("base") or {}).get("fingerprint")
    if before is not None and before != base.fingerprint:
        raise InputError(
            f"{base.path}: has changed since the run in {run.path} began from it; restore the model, or use another "
            "--out to start over."
        )


def check_same_labels(earlier: dict[str, Any], facts: dict[str, Any], run: RunDirectory) -> None:
    """Check that an earlier run's merged labels are unchanged.  Raises InputError otherwise."""
    if earlier["data"].get("merged_labels") != facts.get("merged_labels"):
        raise InputError(
            f"{run.path}: the pairs of --merge-labels have changed since the run began. Restore them, or use another "
            "--out to start over."
        )


def check_same_data(
    earlier: dict[str, Any], source: Corpus | Table, held_out: Corpus | Table | None, run: RunDirectory
) -> None:
    """Check that the data of an earlier run are unchanged.  Raises InputError otherwise; it names the shards."""
    prints, recorded = fingerprints(source, held_out), earlier["data"]
    if recorded.get("fingerprint") != prints["data"]:
        others, now = [], [str(path) for path in source.paths]
        if isinstance(source, Streamed):
            others, now = source.changed(recorded.get("shards", [])), [shard.name for shard in source.shards]
        elif isinstance(source, Table):
            now = source.inputs
        name = f"{', '.join(others[:3])}{', ...' * (len(others) > 3)}" if others else source.name
        known = recorded.get("inputs", [])
        if not others and set(now) <= set(known):
            gone = [path for path in known if path not in now]
            what = f"{gone[0]} is missing" if gone else f"{name} has changed since the run began"
            raise InputError(
                f"{run.path}: {what}. Restore the file, or use another --out to start over, if you like "
                f"from this run's model with --from {run.path}."
            )
        raise InputError(
            f"{run.path}: holds a run on other data than {name}; name another directory with --out. "
            f"To train this model on the new data, add --from {run.path} there."
        )
    if earlier.get("validation_fingerprint") != prints["validation"]:
        raise InputError(f"{run.path}: holds a run with other validation data; name another directory with --out.")


def as_continued(run: RunDirectory, earlier: dict[str, Any] | None, options: TrainOptions) -> tuple[TrainOptions, bool]:
    """The options of a run that goes on, and whether this starts another continuation.

    ``--more-time`` and ``--more-steps`` are a warm restart (Loshchilov and Hutter 2017) from the kept weights:
    optimizers, average and schedule start over; the position in the data, the log and the kept weights stay.
    headway.json records each continuation before its first step, and each checkpoint its own (``State.cycle``).

    In a continuation and with ``--allow-changes``, options that are not given keep their values.  A continued run that
    was stopped resumes with its own bound; another continuation starts if the bound differs or if the run had ended.
    Raises InputError if there is nothing to continue.
    """
    asked = {name: options.value(name) for name in BOUNDS}
    latest = (earlier or {}).get("continued", [])[-1:]
    stopped = latest[0] if latest and not (earlier or {}).get("finished") else None
    bound = None if stopped is None else {name: stopped.get(name) for name in BOUNDS}
    if not any(asked.values()):
        if options.run.allow_changes and earlier is not None and "members" not in earlier:
            kept = {name: value for name, value in earlier.get("options", {}).items() if name not in FREE}
            options = _merged({"options": kept}, options)  # the others say how this command runs
        return (options if bound is None else options.but(**bound)), False
    more = "--more-time" if asked["more_time"] else "--more-steps"
    if earlier is None:
        raise InputError(f"{more} continues a run, but {run.path} holds none; name its directory with --out.")
    if "members" in earlier:
        first = run.path / earlier["members"][0]
        raise InputError(
            f"{more} continues one run, but {run.path} holds several; continue each of them: --out {first}."
        )
    if earlier["plan"].get("frozen"):
        raise InputError(
            f"{more} continues training, but the classifier in {run.path} was fitted without steps. Train the whole "
            "model in another directory, for example with --epochs 3."
        )
    before = earlier.get("options", {})
    for name in options.given(OF_THE_WHOLE):
        if not same(name, before.get(name), options.value(name)):
            raise InputError(f"{more} bounds the continuation, --{flag(name)} a whole run; leave out --{flag(name)}.")
    return _merged(earlier, options).but(**asked), asked != bound


def _merged(earlier: dict[str, Any], options: TrainOptions) -> TrainOptions:
    """The options of an earlier run, updated by those given now."""
    before, given = TrainOptions.of_record(earlier.get("options", {})), options.named
    if {"time", "steps"} & given.keys():
        before = before.but(time=None, steps=None)
    return before.but(**{**given, **{name: options.value(name) for name in ("allow_changes", *BOUNDS)}})
