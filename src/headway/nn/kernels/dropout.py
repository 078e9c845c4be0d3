"""Dropout from random bytes: one draw of 64 bits decides eight entries.

torch draws once per entry, which on a CPU takes a quarter of a small model's step.
"""

import contextlib
import threading
from collections.abc import Iterator

import torch
from torch import Tensor

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


def drop_by_bytes(x: Tensor, p: float) -> Tensor:
    """Dropout of ``x`` with probability ``p``, rounded to a 256th: an entry is kept if its byte is at least 256 p."""
    dropped = round(p * 256)
    if dropped == 0:
        return x
    kept = torch.ge(_random_bytes(x), dropped, out=torch.empty_like(x))  # 0 or 1
    return x * kept.mul_(256 / (256 - dropped))


def drop_oracle(x: Tensor, p: float) -> Tensor:
    """The same from the same random numbers, entry by entry."""
    dropped = round(p * 256)
    if dropped == 0:
        return x
    draws = _random_bytes(x).flatten().tolist()
    entries = [
        entry * (256 / (256 - dropped)) if draw >= dropped else entry * 0
        for entry, draw in zip(x.flatten(), draws, strict=True)
    ]
    return torch.stack(entries).view(x.shape)


def _random_bytes(x: Tensor) -> Tensor:
    """A byte for each entry of ``x``, in its shape, from the generator of this thread."""
    draws = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
    # all 64 bits: without a range, the sign would always be the same
    draws.random_(-(2**63), None, generator=generator())
    return draws.view(torch.uint8)[: x.numel()].view(x.shape)
