"""How much memory there is and how much is free, container limits included, and a check before a large allocation.

A container (Docker, Kubernetes, Slurm) limits memory by a control group of Linux, version 2 or 1, while the rest of the
system still reports the whole machine.  A group's limit also holds for all groups below it.
https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from headway.errors import InputError
from headway.io import quantities

SIGNS = ("t allocate memory", "not enough memory", "out of memory", "bad_alloc", "failed to allocate")
"""Parts of the messages by which libraries say that there is no memory left."""
KEPT_FREE = 2**27
"""Bytes that must stay free in addition to what is asked for."""
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
EVERY = 10.0
"""Seconds between two returns of freed memory to the system."""
_returned = time.monotonic()


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there is no memory left, on the CPU or on an accelerator."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def check_fits(n_bytes: int, what: str = "the model") -> None:
    """Raise InputError, with both numbers, when ``n_bytes`` is more than the memory that is free now.

    Where the system does not report free memory, nothing is refused.
    """
    free = available_bytes()
    if free is not None and n_bytes > free - KEPT_FREE:
        raise InputError(
            f"{what} takes {quantities.size(n_bytes)} of memory, but {quantities.size(free)} are free; "
            "close other programs, or use a smaller model or a larger machine"
        )


def total_bytes() -> int | None:
    """Bytes of memory that processes here may use together: the machine's, or a container's limit if that is lower."""
    limits = [_meminfo("MemTotal"), *(most for most, _ in _groups())]
    return min((value for value in limits if value is not None), default=_physical())


def available_bytes() -> int | None:
    """Bytes that a process can still allocate: the machine's, or what a container or ``ulimit -v`` leaves, if fewer.

    Where the system does not report free memory, all of its memory.
    """
    machine = _meminfo("MemAvailable")
    limits = [machine if machine is not None else _physical(), *(left for _, left in _groups()), _limit()]
    known = [value for value in limits if value is not None]
    return max(0, min(known)) if known else None


def _meminfo(name: str) -> int | None:
    """A number of bytes in /proc/meminfo, which counts in kB."""
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
    """(limit in bytes, bytes left) of every control group above this process that has a limit."""
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
    """The limit of one group and the bytes it has left; cached files count as free, since the kernel evicts them."""
    values = [next(_lines(group / name), "max") for name in (limit, used)]
    if all(number.isdecimal() for number in values):
        files = (line.split() for line in _lines(group / "memory.stat"))
        free = next((int(words[1]) for words in files if words[:1] == [cached]), 0)
        yield int(values[0]), int(values[0]) - int(values[1]) + free


def _limit() -> int | None:
    """The bytes that the limit on the address space leaves."""
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


@cache
def keep_freed_memory() -> None:
    """Ask the C library to keep freed memory for the next tensor, where it is glibc; elsewhere do nothing.

    By default glibc returns every large tensor to the system when it is freed and clears new pages for the next, which
    costs a tenth of a training step on a CPU, and a tenth of the time of an encoder that answers in bfloat16.
    """
    trim_threshold, mmap_threshold = -1, -3
    _call("mallopt", mmap_threshold, 1 << 30)
    _call("mallopt", trim_threshold, (1 << 31) - 1)


def return_freed_memory(every: float = EVERY) -> None:
    """Return freed memory to the system now and then: called often, it does so only ``every`` so many seconds.

    A program that answers texts of all lengths for days would else keep what each length left between the others.
    """
    global _returned
    if time.monotonic() - _returned >= every:
        _call("malloc_trim", 0)
        _returned = time.monotonic()


def _call(name: str, *numbers: int) -> None:
    """Call a function of glibc, where there is one."""
    if sys.platform.startswith("linux"):
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            getattr(ctypes.CDLL("libc.so.6"), name)(*numbers)
