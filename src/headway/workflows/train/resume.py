"""An earlier run resumes only with its own options, base model and data."""

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
    earlier: dict[str, Any], prints: dict[str, str | None], source: Corpus | Table, run: RunDirectory
) -> None:
    """Check that the data of an earlier run are unchanged.  Raises InputError otherwise; it names the shards."""
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
