"""The exports that lie in a run, and which engine answers from them.

    RUN/exports/onnx            headway export RUN --to onnx
    RUN/exports/onnx-int8       headway export RUN --to onnx --precision int8

Each holds its record, ``headway_export.json``, with the SHA-256 of its files and the fingerprint of the model that was
exported.  An export of other weights, or one whose files have changed, is refused: it would give other answers.

headway.json has "engines": "best", by precision the fastest for one input and for 32 at once among those that gave the
same answers, and "measured", the rows that ``headway bench RUN --store`` measured (``workflows.engines``).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from headway.errors import InputError
from headway.formats.registry import AUTO, FLOAT32, FORMATS, SPECS, TORCH, EngineSpec
from headway.hub.download import one_line
from headway.hub.fingerprint import RECORD, full_fingerprint
from headway.io.regular_file import changed_file
from headway.io.strict_json import read_object
from headway.models.device import PROCESSOR, device_of
from headway.models.transformer import Decoder
from headway.models.wirings import Ensemble
from headway.runtime.engine import Engine
from headway.runtime.precision import PRECISIONS, available, check_precision, resolved

FOLDER = "exports"
FEW, MANY = "few", "many"
"""The keys of the engine for one input and of that for 32 at once."""


def place_of(run: Path, format: str, precision: str = FLOAT32) -> Path:
    """The directory of an export in a run."""
    return run / FOLDER / (format if precision == FLOAT32 else f"{format}-{precision}")


def checked_export(run: Path, spec: EngineSpec, precision: str) -> Path:
    """The directory that an engine reads.

    Raises InputError where there is none, where it is of another model than the run's, and where a file is damaged.
    """
    place = place_of(run, spec.format, precision)
    how = "" if precision == FLOAT32 else f" --precision {precision}"
    again = f"`headway export {run} --to {spec.format}{how}`"
    if not (place / RECORD).is_file():
        raise InputError(f"--engine {spec.name}: there is no export in {place}; {again} makes it.")
    record = read_object(place / RECORD)
    files: Any = record.get("files")
    if not isinstance(files, dict) or any(Path(name).is_absolute() or ".." in Path(name).parts for name in files):
        raise InputError(f"{place / RECORD}: is damaged; {again} replaces it.")
    if record.get("model") != full_fingerprint(run):
        raise InputError(f"{place}: is an export of another model than {run} holds now; {again} replaces it.")
    here = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()} - {RECORD}
    if unnamed := sorted(here - set(files)):
        what = f"{place / unnamed[0]}: {RECORD} does not name this file, so its damage could not be noticed"
        raise InputError(f"{what}; {again} replaces the export.")
    if (changed := changed_file(place, files)) is not None:
        raise InputError(
            f"{changed}: is damaged: it has changed since it was exported (its SHA-256 differs), or cannot be read; "
            f"{again} replaces it."
        )
    return place


def open_engine(name: str, run: Path, model: Any, precision: str) -> Engine:
    """The engine ``name`` for the model of a directory, from the export that lies in it.

    Raises InputError where the library is not installed or cannot use the export, and where that is missing, damaged
    or of another model.
    """
    spec = SPECS[name]
    if isinstance(model, Ensemble):
        raise InputError(f"--engine {name}: {run} answers by several models together; name one of them, or torch.")
    if spec.decoders and not isinstance(model, Decoder):
        raise InputError(f"--engine {name} continues texts by decoders; name another engine for this model.")
    spec.check()
    place = checked_export(run, spec, precision)
    module = FORMATS[spec.format].module("engine")
    try:
        return cast(Engine, module.open_engine(name, place, model, precision))
    except InputError:
        raise
    except Exception as error:  # whatever a library raises for files that it cannot use
        raise InputError(f"--engine {name} cannot use {place}: {one_line(error)}") from None


@dataclass(frozen=True)
class Choice:
    """What answers."""

    few: str
    many: str
    """the engine for few inputs at once, and the one for many"""
    precision: str
    """of the engines' exports; where torch answers, its own"""
    of_torch: str
    """the precision of torch's weights, which do what the engine lacks"""


def engine_device(engine: str, asked: str) -> torch.device:
    """The device of a model whose engine is named so.  Raises InputError for an engine elsewhere than on a CPU."""
    if engine in (AUTO, TORCH):
        return device_of(asked)
    if asked != "auto" and (device := device_of(asked)).type != "cpu":
        raise InputError(f"--engine {engine} computes on the CPU; leave out --device {device}, or --engine.")
    return PROCESSOR


def choose(
    engine: str, precision: str | None, facts: Mapping[str, Any] | None, device: torch.device, run: Path
) -> Choice:
    """The engine for a run whose headway.json is ``facts``; ``precision`` is None, "auto" or one that was named.

    "auto" is torch where nothing was measured, and a warning says how to measure.  Raises InputError for a precision
    that the engine does not have.
    """
    facts = facts or {}
    if engine in SPECS:
        named = _of_engine(SPECS[engine], precision, facts)
        return Choice(engine, engine, named, named if named in available(device) else FLOAT32)
    own = resolved(precision, facts, device)
    if engine == TORCH or device.type != "cpu":
        return Choice(TORCH, TORCH, own, own)
    best = (facts.get("engines") or {}).get("best", {})
    if own not in best:
        warnings.warn(
            f"{run}: no engine was measured in {own}, so torch answers; `headway bench {run} --store` measures those "
            "whose exports lie in the run",
            stacklevel=4,
        )
    few, many = (name if (name := best.get(own, {}).get(key)) in SPECS else TORCH for key in (FEW, MANY))
    return Choice(few, many, own, own)


def _of_engine(spec: EngineSpec, precision: str | None, facts: Mapping[str, Any]) -> str:
    """The precision of the export that a named engine reads: the one asked for, else the run's own if it has that."""
    known = spec.precisions
    if precision in (None, AUTO):
        stored = facts.get("precision") or {}
        own = stored.get("chosen" if precision is None else "best", FLOAT32)
        return own if own in known else FLOAT32
    if precision not in PRECISIONS:
        check_precision(precision, PROCESSOR)
    if precision not in known:
        raise InputError(f"--precision {precision}: {spec.name} computes in {', '.join(known[:-1])} or {known[-1]}.")
    return str(precision)
