"""Which engine answers, and in which precision, by what was asked for and what a run stores.

headway.json has "engines": "best", by precision the fastest for one input and for 32 at once among those that gave the
same answers, and "measured", the rows that ``headway bench RUN --store`` measured (``workflows.engines``).
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headway.errors import InputError
from headway.models.device import PROCESSOR, device_of
from headway.runtime.engines.registry import AUTO, FLOAT32, SPECS, TORCH
from headway.runtime.precision import PRECISIONS, available, check_precision, resolved

FEW, MANY = "few", "many"
"""The keys of the engine for one input and of that for 32 at once."""


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
    if engine in SPECS:
        found = _of_engine(engine, precision, facts)
        return Choice(engine, engine, found, found if found in available(device) else FLOAT32)
    own = resolved(precision, facts, device)
    if engine == TORCH or device.type != "cpu":
        return Choice(TORCH, TORCH, own, own)
    best = ((facts or {}).get("engines") or {}).get("best", {})
    if own not in best:
        warnings.warn(
            f"{run}: no engine was measured in {own}, so torch answers; `headway bench {run} --store` measures those "
            "whose exports lie in the run",
            stacklevel=4,
        )
    few, many = (name if (name := best.get(own, {}).get(key)) in SPECS else TORCH for key in (FEW, MANY))
    return Choice(few, many, own, own)


def _of_engine(engine: str, precision: str | None, facts: Mapping[str, Any] | None) -> str:
    """The precision of the export that a named engine reads: the one asked for, else the run's own if it has that."""
    known = SPECS[engine].precisions
    if precision in (None, AUTO):
        stored = (facts or {}).get("precision") or {}
        own = stored.get("chosen" if precision is None else "best", FLOAT32)
        return own if own in known else FLOAT32
    if precision not in PRECISIONS:
        check_precision(precision, PROCESSOR)
    if precision not in known:
        raise InputError(f"--precision {precision}: {engine} computes in {', '.join(known[:-1])} or {known[-1]}.")
    return str(precision)
