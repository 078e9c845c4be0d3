"""Run independent computations in parallel, each in a thread with its share of torch's threads.

By default torch splits every operation among its threads and synchronises them after each one; in a sequence of
hundreds of small operations, every synchronisation waits for the slowest thread.  Independent computations synchronise
only once, at the end, which matters most where another program keeps a core busy.

A thread that ends gives back the memory of its matrix products, and has ended for Python before that.  A process made
by ``os.fork`` at that moment would wait forever for the lock of that memory, so a fork waits until they are gone.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

_ending: deque[int] = deque(maxlen=64)
"""The system's numbers of threads that computed and were told to end."""


class Threads:
    """``count`` threads for independent computations; with one, they run one after the other in the caller's thread."""

    def __init__(self, count: int):
        self.count = count
        self._ids: list[int] = []
        self._pool = ThreadPoolExecutor(count, initializer=self._begin) if count > 1 else None

    def _begin(self) -> None:
        self._ids.append(threading.get_native_id())

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for running computations; those still queued are cancelled."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            _ending.extend(self._ids)

    def map(self, function: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        """The results of ``function`` for each of the arguments, in order; the first error is raised."""
        if self._pool is None:
            return list(map(function, *arguments))
        threads = torch.get_num_threads()
        each = max(1, threads // self.count)

        def one(*given: Any) -> Any:
            torch.set_num_threads(each)  # for this thread
            return function(*given)

        try:
            return list(self._pool.map(one, *arguments))
        finally:
            torch.set_num_threads(threads)


def _before_fork() -> None:
    """Wait until the ending threads are gone, a second at most; where there is no /proc, nobody can tell."""
    last = time.monotonic() + 1
    threads = tuple(_ending)
    while any(Path(f"/proc/self/task/{thread}").exists() for thread in threads) and time.monotonic() < last:
        time.sleep(0.0001)
    _ending.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)


_threads_used = False
"""Whether this process, or the one that it was forked from, has computed in several threads."""
_without_threads = False
"""Whether this process was forked from one that had."""


def check_threads() -> None:
    """Call this before computing.  Raises RuntimeError in a forked child whose threads do not exist."""
    global _threads_used
    import torch

    if torch.get_num_threads() == 1:
        return
    if _without_threads:
        raise RuntimeError(
            "this process was made by os.fork() after its parent had loaded a model, so torch's threads do not run in "
            'it; make processes with multiprocessing.get_context("spawn"), fork before headway.load, or call '
            "torch.set_num_threads(1) in this process first."
        )
    _threads_used = True


def _in_child() -> None:
    global _without_threads
    _without_threads = _threads_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
