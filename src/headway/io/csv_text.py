"""Rows as CSV, which Headway and the csv module read again exactly as they were."""

import csv
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any


def as_csv(rows: Iterable[Iterable[Any]], delimiter: str = ",") -> str:
    """Rows with "\\n" after each; a cell with the delimiter, a quote, or any line end, "\\r" too, is quoted."""
    lines: list[str] = []
    csv.writer(SimpleNamespace(write=lines.append), delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def listed(names: Iterable[object]) -> str:
    """Names with commas between them, as in a line of .csv: one that has a comma is quoted."""
    return as_csv([[*map(str, names)]]).rstrip("\r\n")
