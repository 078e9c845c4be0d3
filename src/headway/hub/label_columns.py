"""What ``config.json`` says of a model of several label columns: ``columns``, by name, in the order of the outputs.

{"queue": {"task": "classification", "labels": ["billing", "tech"]},
 "price": {"task": "regression", "labels": [], "mean": 40.5, "spread": 12.0}}
"""

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import torch

from headway.errors import InputError
from headway.hub.kept_entries import CONFIG, kept
from headway.models.heads import n_outputs

COLUMNS = "columns"


def slices(widths: Iterable[int]) -> list[slice]:
    """What lies side by side, in so many places each."""
    return [slice(start, end) for start, end in pairwise(accumulate(widths, initial=0))]


def width(column: Mapping[str, Any]) -> int:
    """The outputs of a column: one for each label, or one number."""
    return len(column["labels"]) or 1


def set_units(model: Any, directory: Path) -> None:
    """Give the outputs of numbers their own unit: the weights know neither the mean nor the spread.

    Raises InputError for columns that the model cannot have.
    """
    columns = kept(model, COLUMNS)
    if columns is None:
        return
    if (
        not isinstance(columns, dict)
        or not all(map(_possible, columns.values()))
        or n_outputs(model) != sum(map(width, columns.values()))
    ):
        raise InputError(f"{directory / CONFIG}: columns does not say what the {n_outputs(model)} outputs are.")
    widths = torch.tensor([*map(width, columns.values())])
    pairs = torch.tensor([[column.get("spread", 1.0), column.get("mean", 0.0)] for column in columns.values()])
    model.head.set_scale(*pairs.repeat_interleave(widths, dim=0).T)


def _possible(column: Any) -> bool:
    if not isinstance(column, dict) or not isinstance(column.get("task"), str):
        return False
    labels, units = column.get("labels"), [column.get("spread", 1.0), column.get("mean", 0.0)]
    named = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    return named and all(isinstance(one, int | float) and math.isfinite(one) for one in units)
