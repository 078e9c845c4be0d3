"""How much memory can still be used, and a refusal before more is asked for."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from headway.errors import InputError

KEPT_FREE = 2**27
"""Bytes that stay free beside what is asked for."""


def check_fits(n_bytes: int, what: str = "the model") -> None:
    """Raise InputError, with both numbers, when ``n_bytes`` are more than the memory that is free now.

    Where the system does not tell, nothing is refused.
    """
    free = available_bytes()
    if free is not None and n_bytes > free - KEPT_FREE:
        raise InputError(
            f"{what} takes {_size(n_bytes)} of memory, but {_size(free)} are free; "
            "close other programs, or use a smaller model or a larger machine"
        )


def available_bytes() -> int | None:
    """Bytes that a process can still take: the machine's, or what a container or ``ulimit -v`` leaves, if fewer."""
    found = [value for value in (_machine(), _container(), _limit()) if value is not None]
    return max(0, min(found)) if found else None


def _machine() -> int | None:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # all there is; free pages are not told
    except (AttributeError, OSError, ValueError):
        return None


def _container() -> int | None:
    """What the control group (version 2, or 1) leaves, counting cached files as free."""
    for root, limit, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        told = [next(_lines(Path(root) / name), "max") for name in (limit, used)]
        if all(number.isdecimal() for number in told):
            cached = [
                line.split()[1] for line in _lines(Path(root) / "memory.stat") if line.startswith("inactive_file ")
            ]
            return int(told[0]) - int(told[1]) + int(cached[0] if cached else 0)
    return None


def _limit() -> int | None:
    """What the limit on the address space leaves."""
    if sys.platform == "win32":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = next(iter(_lines(Path("/proc/self/statm"))), "").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            yield from (line.strip() for line in file)
    except OSError:
        return


def _size(n_bytes: int) -> str:
    value, units = float(n_bytes), ["bytes", "KB", "MB", "GB", "TB", "PB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"
