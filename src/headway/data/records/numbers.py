"""Numbers as people write them in a column: plain, with a decimal comma, thousands, a currency or a percent sign."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.data.open.columns import BLANK, CURRENCY, MINUS

CELL = re.compile(
    rf"(\()?([+{MINUS}])?[{BLANK}]?({CURRENCY})?[{BLANK}]?([{MINUS}])?([\d.,'’{BLANK}]*\d(?:[eE][-+]?\d+)?)"
    rf"(?:[.,][{MINUS}]{{1,2}}|([{MINUS}]))?[{BLANK}]?({CURRENCY}|%)?(\))?"
)
"""An amount in parentheses is negative; a sign before or after a currency or after the digits; digits with their marks,
",-" for no cents; a currency or a percent sign."""
GROUPS = {mark: re.compile(rf"\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+") for mark in ".,"}
"""Whole numbers whose thousands are set apart by a mark."""


class Unclear(ValueError):
    """A column whose numbers could mean two things; the message says which."""


@dataclass(frozen=True)
class Written:
    """How the numbers of a column are written: 1,5 is one and a half; 1,250 only where another cell shows it."""

    decimal: str = "."
    """what stands before the decimals, "." or ","; what is unclear by itself is read so"""
    unit: str = ""
    """the currency or the percent sign beside them"""
    doubt: str = ""
    """what was read so although it could mean another number, in words"""

    @classmethod
    def recorded(cls, facts: Mapping[str, Any]) -> "Written | None":
        """What ``facts`` gave, which a run has recorded; None where it has not."""
        return cls(facts["decimal"], facts.get("unit", "")) if "decimal" in facts else None

    def facts(self) -> dict[str, Any]:
        """As a run records it."""
        return {"decimal": self.decimal, **({"unit": self.unit} if self.unit else {})}

    @classmethod
    def of(cls, cells: Iterable[str], known: "Written | None" = None, *, mixed: bool = False) -> "Written":
        """That of a column, where it does not show it the one that is ``known``.

        ``mixed`` are texts and numbers of a file that has types, of which a text such as 1.250 is unclear.  Raises
        Unclear for numbers that could mean two things, or in another unit than the known ones.
        """
        shown, units, unclear, amounts = dict[str, str](), dict[str, str](), dict[str, str](), dict[str, str]()
        plain = whole = ""
        for cell in cells:
            if (match := CELL.fullmatch(cell.strip())) is None:
                continue
            written, beside = _spaceless(match[5]), match[3] or match[7]
            units |= {unit: cell for unit in (match[3], match[7]) if unit}
            plain, whole = plain or ("" if beside else cell), whole or ("" if {".", ","} & set(written) else cell)
            mark = _mark(written)
            if mark:
                shown.setdefault(mark, cell)
            elif "," in written or "." in written:
                mark = "," if "," in written else "."
                unclear.setdefault(mark, cell)
                if beside not in (None, "%") and written.index(mark) > 1:  # no amount of 12.345 has three decimals
                    amounts.setdefault(",."[mark == ","], cell)
        if len(units) > 1:
            raise Unclear(
                f"the numbers are in {' and in '.join(units)} ({', '.join(units.values())}); write all in one unit"
            )
        if "%" in units and plain:
            raise Unclear(f"{units['%']} is in % and {plain} is not; write all in one way")
        unit = next(iter(units), "")
        if known is not None and unit == "%" != known.unit:
            raise Unclear(f"{units[unit]} is in %, and the numbers of the model are not")
        if known is not None and known.unit == "%" != unit and plain:
            raise Unclear(f"{plain} is not in %, as the numbers of the model are")
        if known is not None and known.unit and unit and known.unit != unit:
            raise Unclear(f"{units[unit]} is not in {known.unit}, as the numbers of the model are")
        if len(shown) > 1:
            raise Unclear(f"decimals are written in two ways ({shown['.']} and {shown[',']}); write them in one")
        if mixed and unclear:
            raise Unclear(f"{next(iter(unclear.values()))} could be a text with thousands; make all cells numbers")
        if shown or known is not None:
            return cls(next(iter(shown)) if shown or known is None else known.decimal, unit)
        return cls._unshown(unclear, amounts, whole, unit)

    @classmethod
    def _unshown(cls, unclear: dict[str, str], amounts: dict[str, str], whole: str, unit: str) -> "Written":
        """That of a column in which every mark could stand before thousands or before decimals."""
        money = unit not in ("", "%")
        for mark, cell in unclear.items():
            other = ",."[mark == ","]
            if money and (whole or amounts):  # of money all have two decimals or none
                return cls(other, unit)
            decimal = cell.replace(mark, ".")
            if mark == "," or whole or money:
                raise Unclear(f"{cell} could be {cell.replace(mark, '')} or {decimal} as a decimal; write one of these")
            # with points in every cell they are decimals, as programs write them
            return cls(".", unit, f"{cell} is read with decimals; write {cell.replace(mark, '')} if it means thousands")
        return cls(".", unit)


def _mark(written: str) -> str:
    """The mark before decimals that a number shows, "." or ","; nothing where it shows none."""
    commas, points = written.count(","), written.count(".")
    if not commas + points:
        return ""
    if commas and points:
        return max(",.", key=written.rindex)
    mark, other = ",." if commas else ".,"
    if commas + points > 1:
        return other
    return "" if GROUPS[mark].fullmatch(written) and written[0] != "0" else mark


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
    match, other = CELL.fullmatch(cell), "," if decimal == "." else "."
    if match is None or (match[3] and match[7]):
        return math.nan
    opened, *signs, closed = match[1], match[2], match[4], match[6], match[8]
    signs = [sign for sign in (*signs, opened) if sign]
    if bool(opened) != bool(closed) or len(signs) > 1 or (opened and not (match[3] or set(".,") & set(match[5]))):
        return math.nan
    whole, mark, rest = _spaceless(match[5]).partition(decimal)
    if other in whole and not GROUPS[other].fullmatch(whole):
        return math.nan
    try:
        value = float(f"{whole.replace(other, '')}{'.' if mark else ''}{rest}")
    except ValueError:
        return math.nan
    return (-value if signs not in ([], ["+"]) else value) if math.isfinite(value) else math.nan


def _spaceless(written: str) -> str:
    """Digits without blanks and apostrophes between thousands."""
    return re.sub(rf"(?<=\d)['’{BLANK}](?=\d{{3}}(?:\D|$))", "", written)
