"""The options of ``headway.train`` by name and type; keywords.pyi tells editors and type checkers the same."""

from typing import Any, TypedDict

from headway.training.options import OPTIONS

TYPES: dict[str, Any] = {
    name: float | entry.type if entry.metadata["duration"] else entry.type  # a time may be a number of seconds
    for name, entry in OPTIONS.items()
}
TrainKeywords = TypedDict("TrainKeywords", TYPES, total=False)
"""Each field of ``TrainOptions``, none of them required."""
