"""Where a layer's random numbers come from: torch's own generator, or one that belongs to the thread that computes.

Threads that drew from one generator would each get what the others left, which differs from run to run.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch

_here = threading.local()


def generator() -> torch.Generator | None:
    """What to draw from in this thread; None is torch's own generator."""
    return getattr(_here, "generator", None)


@contextlib.contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """While it is entered, this thread draws from a generator of its own that begins at ``seed``."""
    before = generator()
    _here.generator = torch.Generator().manual_seed(seed)
    try:
        yield
    finally:
        _here.generator = before
