"""The source of a layer's random numbers: torch's own generator, or one that belongs to the current thread.

Threads that share a generator would each draw numbers that depend on the others' timing, which differs between runs.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch

_here = threading.local()


def generator() -> torch.Generator | None:
    """The generator for this thread; None is torch's own."""
    return getattr(_here, "generator", None)


@contextlib.contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Within the context, this thread draws from a generator of its own, seeded with ``seed``."""
    before = generator()
    _here.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _here.generator = before
