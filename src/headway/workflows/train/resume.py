"""An earlier run resumes only with its own options, base model and data; or it is continued with a new cycle.

``--more-time`` and ``--more-steps`` are a warm restart (Loshchilov and Hutter 2017): training starts from the weights
that the run kept; the optimizers, the weight average and the schedule, with its warm-up, start over; the position in
the data, the log and the kept weights stay.  Before its first step each continuation is recorded in headway.json as an
entry of ``continued``, and each checkpoint names its continuation (``State.cycle``), so that a continued run that was
killed resumes exactly.
"""

from collections.abc import Collection
from typing import Any

from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.data.stream.streamed import Streamed
from headway.errors import InputError
from headway.io.quantities import parse_seconds
from headway.training.base import Base
from headway.training.grouped import entries
from headway.training.option_fields import DEFAULT_TIME, flag
from headway.training.options import CHANGEABLE, FORMER, FREE, TrainOptions
from headway.training.plan import OF_OPTIONS, Plan
from headway.training.sizing.presets import tokens_of_rows
from headway.training.store.run_directory import RunDirectory

BOUNDS = ("more_time", "more_steps")
OF_THE_WHOLE = ("time", "steps", "epochs")
"""Bounds of a whole run, which a continuation does not have."""


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
    listed = ", ".join(f"--{flag(name)} {_said(before[name])} (now {_said(asked[name])})" for name in refused)
    if set(refused) <= set(CHANGEABLE):
        raise InputError(
            f"{run.path}: holds a run with other options: {listed}. Give the same options to resume it, "
            "--allow-changes to resume with those given now, or another directory with --out."
        )
    raise InputError(
        f"{run.path}: holds a run with other options, which cannot change during a run: {listed}. "
        "Give the same options to resume it, or another directory with --out."
    )


def same(name: str, before: Any, asked: Any) -> bool:
    """Whether a recorded value of an option and one asked for are equal: 90s is 1m30s."""
    if name == "time" and isinstance(before, str) and isinstance(asked, str):
        return parse_seconds(before) == parse_seconds(asked)
    return bool(before == asked) or (asked is None and before == FORMER.get(name))


def _said(value: Any) -> Any:
    return "not given" if value is None else value


def changed_plan(plan: Plan, options: TrainOptions, changed: Collection[str], texts: int) -> Plan:
    """The plan of an earlier run with the changed options; a row of its data has so many ``texts``."""
    values = {OF_OPTIONS.get(name, name): options.value(name) for name in {*changed, "log_every"}}
    values = {name: value for name, value in values.items() if value is not None and name in entries(Plan)}
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


def _inputs(source: Corpus | Table) -> list[str]:
    """The files of a source as a run records them."""
    if isinstance(source, Streamed):
        return [shard.name for shard in source.shards]
    return source.inputs if isinstance(source, Table) else [str(path) for path in source.paths]


def check_same_data(
    earlier: dict[str, Any], source: Corpus | Table, held_out: Corpus | Table | None, run: RunDirectory
) -> None:
    """Check that the data of an earlier run are unchanged.  Raises InputError otherwise; it names the shards."""
    prints = fingerprints(source, held_out)
    before = {"data": earlier["data"].get("fingerprint"), "validation": earlier.get("validation_fingerprint")}
    if before["data"] != prints["data"]:
        others = source.changed(earlier["data"].get("shards", [])) if isinstance(source, Streamed) else []
        name = f"{', '.join(others[:3])}{', ...' * (len(others) > 3)}" if others else source.name
        known, now = earlier["data"].get("inputs", []), _inputs(source)
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
    if before["validation"] != prints["validation"]:
        raise InputError(f"{run.path}: holds a run with other validation data; name another directory with --out.")


def as_continued(run: RunDirectory, earlier: dict[str, Any] | None, options: TrainOptions) -> tuple[TrainOptions, bool]:
    """The options of a run that goes on, and whether this starts another continuation.

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
