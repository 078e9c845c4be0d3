"""Numbers as people write them in a column: plain, with a decimal comma, thousands, a currency or a percent sign.

What a cell means depends on the others: 1,5 is one and a half, and 1,250 is that only where another cell shows it.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.data.open.columns import BLANK, CURRENCY

CELL = re.compile(
    rf"([-+−]?)[{BLANK}]?({CURRENCY})?[{BLANK}]?([\d.,'’{BLANK}]*\d(?:[eE][-+]?\d+)?)[{BLANK}]?({CURRENCY}|%)?"
)
"""A sign, a currency, digits with their marks, and a currency or a percent sign."""
GROUPS = {mark: re.compile(rf"\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+") for mark in ".,"}
"""Whole numbers whose thousands are set apart by a mark."""


class Unclear(ValueError):
    """A column whose numbers could mean two things; the message says which."""


@dataclass(frozen=True)
class Written:
    """How the numbers of a column are written."""

    decimal: str = "."
    """what stands before the decimals, "." or ","; what is unclear by itself is read so"""
    unit: str = ""
    """the currency or the percent sign beside them"""

    @classmethod
    def recorded(cls, facts: Mapping[str, Any]) -> "Written | None":
        """What ``facts`` gave, which a run has recorded; None where it has not."""
        return cls(facts["decimal"], facts.get("unit", "")) if "decimal" in facts else None

    def facts(self) -> dict[str, Any]:
        """As a run records it."""
        return {"decimal": self.decimal, **({"unit": self.unit} if self.unit else {})}

    @classmethod
    def of(cls, cells: Iterable[str], known: "Written | None" = None) -> "Written":
        """That of a column, where it does not show it the one that is ``known``.

        Raises Unclear for numbers that could mean two things, or in another unit than the known ones.
        """
        shown, units, unclear, whole = dict[str, str](), dict[str, str](), dict[str, str](), False
        for cell in cells:
            if (found := CELL.fullmatch(cell.strip())) is None:
                continue
            units |= {unit: cell for unit in (found[2], found[4]) if unit}
            written = _spaceless(found[3])
            mark = _mark(written, money=(found[2] or found[4]) not in (None, "%"))
            whole = whole or not {".", ","} & set(written)
            if mark:
                shown.setdefault(mark, cell)
            elif "," in written or "." in written:
                unclear.setdefault("," if "," in written else ".", cell)
        if len(units) > 1:
            raise Unclear(
                f"the numbers are in {' and in '.join(units)} ({', '.join(units.values())}); write all in one unit"
            )
        if known is not None and known.unit and units and known.unit not in units:
            raise Unclear(f"{next(iter(units.values()))} is not in {known.unit}, as the numbers of the model are")
        if len(shown) > 1:
            raise Unclear(f"decimals are written in two ways ({shown['.']} and {shown[',']}); write them in one")
        for mark, cell in unclear.items() if not shown and known is None else ():
            if mark == "," or whole:  # with points in every cell they are decimals, as programs write them
                decimal = cell.replace(mark, ".")
                raise Unclear(f"{cell} could be {cell.replace(mark, '')} or {decimal} as a decimal; write one of these")
        usual = "." if known is None else known.decimal
        return cls(next(iter(shown), usual), next(iter(units), ""))


def _mark(written: str, *, money: bool) -> str:
    """The mark before decimals that a number shows, "." or ","; nothing where it shows none."""
    commas, points = written.count(","), written.count(".")
    if not commas + points:
        return ""
    if commas and points:
        return max(",.", key=written.rindex)
    mark, other = ",." if commas else ".,"
    thousands = bool(GROUPS[mark].fullmatch(written)) and written[0] != "0"
    if commas + points > 1 or (money and thousands):  # an amount of money has no three decimals
        return other
    return "" if thousands else mark


def numbers(cells: Iterable[str], decimal: str = ".") -> np.ndarray:
    """The number that each cell means, float64 (N,); NaN for one that means none, or an infinite one."""
    return np.array([_number(cell.strip(), decimal) for cell in cells], dtype=np.float64)


def found_numbers(cells: Sequence[str]) -> np.ndarray:
    """The numbers among some cells, without what is none; with a decimal point where it is not clear."""
    try:
        written = Written.of(cells)
    except Unclear:
        written = Written()
    values = numbers(cells, written.decimal)
    return values[~np.isnan(values)]


def _number(cell: str, decimal: str) -> float:
    found, other = CELL.fullmatch(cell), "," if decimal == "." else "."
    if found is None or (found[2] and found[4]):
        return math.nan
    whole, mark, rest = _spaceless(found[3]).partition(decimal)
    if other in whole and not GROUPS[other].fullmatch(whole):
        return math.nan
    try:
        value = float(f"{whole.replace(other, '')}{'.' if mark else ''}{rest}")
    except ValueError:
        return math.nan
    return (-value if found[1] in ("-", "−") else value) if math.isfinite(value) else math.nan


def _spaceless(written: str) -> str:
    """Digits without blanks and apostrophes between thousands."""
    return re.sub(rf"(?<=\d)['’{BLANK}](?=\d{{3}}(?:\D|$))", "", written)
