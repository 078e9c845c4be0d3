"""Quantities for people: measured numbers in three to five significant digits, counts, bytes and times."""

import math

UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def figure(value: float, digits: int = 4) -> str:
    """A measured number: 0.3, 12.35, 123,500, 12.35 M, 1.235e-05; at most ``digits`` significant digits."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    value = float(f"{value:.{digits}g}")
    if abs(value) >= 1e15:
        return f"{value:.{digits}g}"
    for unit_size, unit in UNITS:
        if abs(value) >= unit_size:
            return f"{value / unit_size:.{digits}g} {unit}"
    if abs(value) >= 1000:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.{digits}g}"


def metric(value: float) -> str:
    """A loss, an accuracy or another metric, to compare with others: four decimals, or five digits from 10 on."""
    return f"{value:.4f}" if abs(value) < 10 else figure(value, 5)


def count(value: float) -> str:
    """A count in short: 878, 40,960, 1.79 M, 3.2 G."""
    for unit_size, unit in UNITS:
        if abs(value) >= unit_size:
            return f"{value / unit_size:.3g} {unit}"
    return f"{value:,.0f}"


def size(count_of_bytes: float) -> str:
    """Bytes in kB, MB, GB or TB."""
    for unit_size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count_of_bytes >= unit_size:
            return f"{count_of_bytes / unit_size:.3g} {unit}"
    return f"{count_of_bytes / 1e3:.3g} kB"
