"""Run independent computations in parallel, each in a thread with its share of torch's threads.

By default torch splits every operation among its threads and synchronises them after each one; in a sequence of
hundreds of small operations, every synchronisation waits for the slowest thread.  Independent computations synchronise
only once, at the end, which matters most where another program keeps a core busy.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch


class Threads:
    """``count`` threads for independent computations; with one, they run one after the other in the caller's thread."""

    def __init__(self, count: int):
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for running computations; those still queued are cancelled."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

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
