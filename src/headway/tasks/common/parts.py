"""The rows of a run in two parts, without held-out rows that its base was trained on, and the count of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from headway.data.records.repeats import Hashed, unknown
from headway.errors import InputError
from headway.tasks.task import TaskInputs, rows_read

FEW = 10
"""Held-out rows that must remain where those that the base was trained on are kept out."""


Rows = TypeVar("Rows", bound=Hashed)
Split = Callable[[Rows, int, np.ndarray], tuple[Rows, Rows]]
"""(rows, seed, hashes of texts that are not held out) -> the rows to train on, and the others"""


@dataclass(frozen=True)
class Parts(Generic[Rows]):
    """Rows to train on and held-out ones."""

    train: Rows
    held_out: Rows
    known: np.ndarray
    """hashes of texts that the base was trained on"""
    counts: dict[str, int]
    """what headway.json says as ``data.rows``"""
    warnings: list[str]


def in_parts(given: TaskInputs, rows: Rows, other: Rows | None, split: Split[Rows]) -> Parts[Rows]:
    """Split the rows, or hold out ``other``; what the base was trained on is not held out.

    Raises InputError where too few rows are left.
    """
    known = given.before.get(given.found.task, np.zeros(0, dtype=np.int64))
    for seed in given.repeated:
        theirs = rows.hashes if seed < 0 else split(rows, seed, known[:0])[0].hashes
        known = np.union1d(known, theirs)
    warnings = [f"{base} does not say what it was trained on: held-out rows may be among that" for base in given.silent]
    base = given.options.fine_tuning.from_model or given.options.data.known_to
    whole = rows if other is None else other
    count = int(np.isin(whole.hashes, known).sum())
    train, held_out = (
        split(rows, given.options.seed_of_split, known) if other is None else (rows, unknown(other, known))
    )
    if count and len(held_out) < FEW:
        raise InputError(
            f"{count:,} of {len(whole):,} rows were trained on by {base}, and the "
            f"{len(held_out):,} others are too few to measure on; name other data with --validation."
        )
    if count:
        kept = "and stay in training" if other is None else "and are not measured"
        warnings.append(f"{count:,} of {len(whole):,} rows were trained on before {kept}")
    if other is not None and given.held_out is not None and (lost := rows_read(given.held_out, other))["skipped"]:
        warnings.append(f"{given.held_out.name}: {lost['skipped']:,} of {lost['read']:,} rows left out")
    counts = {**rows_read(given.source, rows), "known": count, "trained": len(train)}
    counts |= {"held_out": len(whole) if other is not None else len(held_out), "measured": len(held_out)}
    return Parts(train, held_out, known, counts, warnings)
