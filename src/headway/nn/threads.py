"""Independent computations side by side, each in a thread with its share of torch's.

Left alone, torch divides every operation among its threads, and they meet again after each: of hundreds of small
operations one after the other, every meeting waits for the slowest.  Side by side they meet once, at the end, which
matters most where another program keeps a core busy.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch


class Threads:
    """``count`` threads for independent computations; with one, they run in the caller's, one after the other."""

    def __init__(self, count: int):
        self.count = count
        self._pool = ThreadPoolExecutor(count) if count > 1 else None

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what runs; what waits is not begun."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable[..., Any], *arguments: Iterable[Any]) -> list[Any]:
        """What ``function`` gives for each of the arguments, in order; the first error is raised."""
        if self._pool is None:
            return list(map(function, *arguments))
        threads = torch.get_num_threads()
        each = max(1, threads // self.count)

        def one(*given: Any) -> Any:
            torch.set_num_threads(each)  # of this thread, and of matrix products everywhere
            return function(*given)

        try:
            return list(self._pool.map(one, *arguments))
        finally:
            torch.set_num_threads(threads)
