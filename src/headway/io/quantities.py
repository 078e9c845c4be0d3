"""Quantities in words, formatted and parsed: measured numbers, metrics, counts, sizes in bytes, and durations.

Measured numbers have three to five significant digits; exact, short ones such as 40,960 are written in full.
"""

import math
import re
from collections.abc import Mapping

from headway.errors import InputError, shown

SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
"""For measured numbers, such as FLOPs."""
COUNTS = ((1e12, "T"), (1e9, "B"), (1e6, "M"))
"""For tokens and parameters, as papers write them: 7 B is seven billion."""
SIZES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
TIMES = ((86_400, "days"), (3600, "h"), (60, "min"))
LONGEST_TIME = 10 * 366 * 24 * 3600.0
"""The longest time, in seconds, that a command accepts; far above any in use."""


def figure(value: float, digits: int = 4) -> str:
    """A measured number: 0.3, 12.35, 123,500, 12.35 M, 1.235e-05; at most ``digits`` significant digits."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    value = float(f"{value:.{digits}g}")
    if abs(value) >= 1e15:
        return f"{value:.{digits}g}"
    if abs(value) >= 1e6:
        return _scaled(value, SI, digits)
    if abs(value) >= 1000:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.{digits}g}"


def metric(value: float) -> str:
    """A loss, an accuracy or another metric: four decimals, or five significant digits from 10 on."""
    return f"{value:.4f}" if abs(value) < 10 else figure(value, 5)


def count(value: float) -> str:
    """A short form of a count: 878, 40,960, 1.79 M, 3.2 B."""
    return f"{value:,.0f}" if abs(value) < 999_500 else _scaled(value, COUNTS)


def short_count(value: float) -> str:
    """The shortest form of a count, such as for an axis: 878, 41 k, 1.79 M, 3.2 B."""
    return _scaled(value, (*COUNTS, (1e3, "k")))


def counted(n: int, noun: str) -> str:
    """A number with its noun: "1 row", "2,003 rows"."""
    return f"{n:,} {plural(n, noun)}"


def rows_in_words(counts: Mapping[str, int]) -> str:
    """What became of the rows that were read: "900 rows read, 27 left out, 873 measured"; what is 0 is not said."""
    words = {"read": "read", "skipped": "left out", "known": "known to the base", "trained": "trained on"}
    words |= {"held_out": "held out", "measured": "measured"}
    return "rows: " + ", ".join(f"{counts[key]:,} {verb}" for key, verb in words.items() if counts.get(key))


def plural(n: float | None, noun: str) -> str:
    """The noun in the number that ``n`` asks for: "row" for 1, "rows" for any other and for None."""
    return noun if n == 1 else f"{noun}s"


def size(n_bytes: float) -> str:
    """Bytes: 878 bytes, 12.3 kB, 7.16 MB, 80 GB; 1 kB is 1,000 bytes."""
    return counted(round(n_bytes), "byte") if n_bytes < 999.5 else _scaled(n_bytes, SIZES)


def size_unit(n_bytes: float) -> tuple[float, str]:
    """The best unit for a size, kB or larger, as for a table in one unit: its bytes and its symbol."""
    return next((unit for unit in SIZES if n_bytes >= unit[0]), SIZES[-1])


def duration(seconds: float) -> str:
    """A duration in full: 1.9 s, 22 s, 1 min 49 s, 2 h 5 min."""
    whole = round(max(0.0, seconds))
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def short_duration(seconds: float) -> str:
    """A duration in one unit: 3 s, 22 s, 1.8 min, 2.1 h, 14.5 days."""
    unit_size, unit = time_unit(seconds)
    value = f"{seconds:.0f}" if unit == "s" and seconds >= 10 else f"{seconds / unit_size:,.1f}".removesuffix(".0")
    return f"{value} {unit}"


def time_unit(seconds: float) -> tuple[int, str]:
    """The best unit for a duration: its seconds and its symbol."""
    return next(
        ((length, sign) for length, sign in TIMES if seconds >= (4 if sign == "days" else 1.5) * length), (1, "s")
    )


def parse_seconds(value: str | float, option: str = "--time") -> float:
    """The seconds that "90s", "5m", "1h30m", "15" or 15 means; a number without a unit is in seconds.

    Raises InputError naming the ``option`` for anything else, for 0, and for more than ten years.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = f"{value:f}" if number else value if isinstance(value, str) else ""
    match = re.fullmatch(r"\s*(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?\s*", text)
    parts = [float(part or 0) for part in match.groups()] if match else []
    total = parts[0] * 3600 + parts[1] * 60 + parts[2] if parts else 0.0
    if not 0 < total <= LONGEST_TIME:
        raise InputError(f"{option} is {shown(value)}; it must be more than 0, written as 90s, 5m or 1h.")
    return total


def time_text(value: str | float, option: str = "--time") -> str:
    """A duration as text: text unchanged, a number of seconds as "15s".  Raises as ``parse_seconds``."""
    seconds = parse_seconds(value, option)
    return value if isinstance(value, str) else f"{seconds:f}".rstrip("0").rstrip(".") + "s"


def _scaled(value: float, units: tuple[tuple[float, str], ...], digits: int = 3) -> str:
    """A number in the largest unit that it reaches after rounding."""
    value = float(f"{value:.{digits}g}")
    for unit_size, unit in units:
        if abs(value) >= unit_size:
            scaled = f"{value / unit_size:.{digits}g}"
            return f"{scaled if 'e' not in scaled else f'{value / unit_size:,.0f}'} {unit}"
    return f"{value:.{digits}g}"
