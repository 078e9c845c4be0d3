"""An earlier run is taken up only with its own options, base and data."""

from dataclasses import asdict
from typing import Any

from headway.data.corpus import Corpus
from headway.data.table import Table
from headway.errors import InputError
from headway.training.base import Base
from headway.training.config import DEFAULT_TIME, TrainOptions, flag
from headway.training.run_directory import RunDirectory


def fingerprints(source: Corpus | Table, held_out: Corpus | Table | None) -> dict[str, str | None]:
    """By which a run knows its data again."""
    return {"data": source.fingerprint, "validation": None if held_out is None else held_out.fingerprint}


def recorded(options: TrainOptions) -> dict[str, Any]:
    """The options as they are recorded, with the time that is meant when none is given."""
    return {**asdict(options), "time": None if options.steps is not None else options.time or DEFAULT_TIME}


def check_same(earlier: dict[str, Any], options: TrainOptions, run: RunDirectory) -> None:
    """An earlier run is taken up only with its own options.  Raises InputError naming those that differ."""
    before, asked = dict(earlier.get("options", {})), recorded(options)
    changed = [name for name in asked if name in before and before[name] != asked[name]]
    if changed:
        listed = ", ".join(f"--{flag(name)} {before[name]} (now {asked[name]})" for name in changed)
        raise InputError(
            f"{run.path}: holds a run with other options: {listed}. "
            "Give the same options to go on with it, or another directory with --out."
        )


def check_same_base(earlier: dict[str, Any], base: Base, run: RunDirectory) -> None:
    """An earlier run is taken up only from its own base.  Raises InputError otherwise."""
    before = (earlier.get("base") or {}).get("fingerprint")
    if before is not None and before != base.fingerprint:
        raise InputError(
            f"{base.path}: has changed since the run in {run.path} began from it; put the model back, or begin anew in "
            "another directory with --out."
        )


def check_same_data(earlier: dict[str, Any], prints: dict[str, str | None], name: str, run: RunDirectory) -> None:
    """An earlier run is taken up only with its own data.  Raises InputError otherwise."""
    before = {"data": earlier["data"]["fingerprint"], "validation": earlier.get("validation_fingerprint")}
    if before["data"] != prints["data"]:
        raise InputError(f"{run.path}: holds a run on other data than {name}; name another directory with --out.")
    if before["validation"] != prints["validation"]:
        raise InputError(f"{run.path}: holds a run with other validation data; name another directory with --out.")
