"""The rows of a run in two parts, without held-out rows that its base was trained on, and the count of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.data.open.detected import COLUMNS
from headway.data.records.repeats import shared, unknown
from headway.data.records.table import Table
from headway.errors import InputError
from headway.tasks.task import TaskInputs, rows_read

FEW = 10
"""Held-out rows that must remain where those that the base was trained on are kept out; of few rows a tenth."""


@dataclass(frozen=True)
class Parts:
    """Rows to train on and held-out ones, the hashes of what the base was trained on, and ``data.rows``."""

    train: Any
    held_out: Any
    known: np.ndarray
    counts: dict[str, int]
    warnings: list[str]

    def facts(self, given: TaskInputs, unit: str, drawn: str) -> dict[str, Any]:
        """What headway.json says of a table of these rows; held-out ones are ``drawn`` so unless a file has them."""
        source, columns = given.source, {name: getattr(given.found, name) for name in COLUMNS}
        origin = drawn if given.held_out is None else given.held_out.name
        return {
            "inputs": source.inputs if isinstance(source, Table) else [str(path) for path in source.paths],
            "fingerprint": source.fingerprint,
            **{name: column for name, column in columns.items() if column is not None},
            "train": f"{self.counts['trained']:,} {unit}",
            "validation": f"{self.counts['measured']:,} {unit} ({origin})",
        }


def in_parts(given: TaskInputs, rows: Any, other: Any, most: int | None = None) -> Parts:
    """Split the rows (``records.split.Splittable``), or hold out ``other`` if there are any.

    What the base was trained on is not held out, and of the rows ``most`` at most.

    Raises InputError where too few rows are left.
    """
    known = given.before.get(given.found.task, np.zeros(0, dtype=np.int64))
    for seed in given.repeated:
        known = np.union1d(known, rows.hashes if seed < 0 else rows.split(seed, known[:0], most)[0].hashes)
    warnings = [f"{base} does not say what it was trained on: held-out rows may be among that" for base in given.silent]
    whole = rows if other is None else other
    count = int(np.isin(whole.hashes, known).sum())
    train, held_out = (rows, unknown(other, known)) if other else rows.split(given.options.seed_of_split, known, most)
    if count and len(held_out) < min(FEW, len(whole) // 10):
        raise InputError(
            f"{count:,} of {len(whole):,} rows were trained on by "
            f"{given.options.fine_tuning.from_model or given.options.data.known_to}, and the {len(held_out):,} others "
            "are too few to measure on; name other data with --validation."
        )
    if count:
        kept = "and are not measured" if other else "and stay in training"
        warnings.append(f"{count:,} of {len(whole):,} rows were trained on before {kept}")
    if other and given.held_out is not None and (lost := rows_read(given.held_out, other))["skipped"]:
        warnings.append(f"{given.held_out.name}: {lost['skipped']:,} of {lost['read']:,} rows left out")
    if both := len(shared(train.hashes, held_out.hashes)) if other else 0:
        share = f"{both:,} of {len(held_out):,} validation rows ({both / len(held_out):.0%})"
        warnings.append(f"{share} also occur in training: their scores will be too high")
    counts = {**rows_read(given.source, rows), "known": count, "trained": len(train)}
    counts |= {"held_out": len(held_out), "measured": len(held_out)}
    return Parts(train, held_out, known, counts, warnings)
