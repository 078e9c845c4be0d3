"""How much memory there is and how much is free, containers counted, and a refusal before more is asked for.

A container (Docker, Kubernetes, Slurm) bounds memory by a control group of Linux, version 2 or 1, while the rest of
the system still tells the numbers of the whole machine.  A group's bound holds for all groups below it.
https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from headway.errors import InputError
from headway.io import quantities

KEPT_FREE = 2**27
"""Bytes that stay free beside what is asked for."""
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def check_fits(n_bytes: int, what: str = "the model") -> None:
    """Raise InputError, with both numbers, when ``n_bytes`` are more than the memory that is free now.

    Where the system does not tell, nothing is refused.
    """
    free = available_bytes()
    if free is not None and n_bytes > free - KEPT_FREE:
        raise InputError(
            f"{what} takes {quantities.size(n_bytes)} of memory, but {quantities.size(free)} are free; "
            "close other programs, or use a smaller model or a larger machine"
        )


def total_bytes() -> int | None:
    """Bytes of memory that processes here may take together: the machine's, or a container's, if fewer."""
    found = [_told("MemTotal"), *(most for most, _ in _groups())]
    return min((value for value in found if value is not None), default=_physical())


def available_bytes() -> int | None:
    """Bytes that a process can still take: the machine's, or what a container or ``ulimit -v`` leaves, if fewer.

    Where the system does not tell what is free, it is all there is.
    """
    machine = _told("MemAvailable")
    found = [machine if machine is not None else _physical(), *(left for _, left in _groups()), _limit()]
    known = [value for value in found if value is not None]
    return max(0, min(known)) if known else None


def _told(name: str) -> int | None:
    """A number of bytes in /proc/meminfo, which tells kB."""
    for line in _lines(PROC / "meminfo"):
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def _physical() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _groups() -> Iterator[tuple[int, int]]:
    """(bytes that it may take, bytes that are left) of every control group above this process that has a bound."""
    for line in _lines(PROC / "self" / "cgroup"):  # NUMBER:CONTROLLERS:/PATH; version 2 names no controllers
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            files, root = ("memory.max", "memory.current", "inactive_file"), GROUPS
        elif "memory" in controllers.split(","):
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            root = GROUPS / "memory"
        else:
            continue
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root) and ".." not in folder.parts:
                yield from _bound(folder, *files)


def _bound(group: Path, limit: str, used: str, cached: str) -> Iterator[tuple[int, int]]:
    """What one group may take and has left; files in the cache count as free, since they give way."""
    told = [next(_lines(group / name), "max") for name in (limit, used)]
    if all(number.isdecimal() for number in told):
        files = (line.split() for line in _lines(group / "memory.stat"))
        free = next((int(words[1]) for words in files if words[:1] == [cached]), 0)
        yield int(told[0]), int(told[0]) - int(told[1]) + free


def _limit() -> int | None:
    """What the limit on the address space leaves."""
    if sys.platform == "win32":
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    pages = next(_lines(PROC / "self" / "statm"), "").split()
    if limit == resource.RLIM_INFINITY or not pages:
        return None
    return limit - int(pages[0]) * os.sysconf("SC_PAGE_SIZE")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            yield from (line.strip() for line in file)
    except OSError:
        return
