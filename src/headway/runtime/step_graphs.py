"""A decoder's step as a CUDA graph: a GPU is told once what a step computes, and after that only to do it again.

Without a graph a step of a small model waits for Python, which starts a few hundred short computations one by one.  A
graph starts them all at once, but always in the same shapes and places.  So there is one for each power of two of texts
and of tokens of the longest text, and what is beyond the texts that there are is computed in vain.

Letters: N texts, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.models.device import model_device
from headway.models.transformer import Decoder
from headway.runtime.slots import BLOCK, FixedSlots, SlotState


class StepGraphs:
    """The steps of a decoder and a state on a GPU, each recorded when it is first needed."""

    def __init__(self, model: Decoder, state: SlotState):
        self.model, self.state = model, state
        self._steps: dict[tuple[int, int], Step] = {}
        self._keys: Tensor | None = None
        self._pool: Any = None

    def __call__(self, tokens: Sequence[int]) -> Tensor:
        """Read one more token of each text: N of them -> (N, V).  The next call writes over the result."""
        n, lengths = len(tokens), self.state.lengths
        shape = power(n, 1), min(power(max(lengths) + 1, BLOCK), self.model.config.max_length)
        self.state.make_room(*shape)
        keys = self.state.layers[0].buffers()[0]
        if keys is not self._keys:  # there was no room, and now everything lies elsewhere
            self._steps, self._keys, self._pool = {}, keys, None
        more = [0] * (shape[0] - n)
        numbers = torch.tensor([[*tokens, *more], [*lengths, *more]])
        if shape not in self._steps:
            self._steps[shape] = self._step(numbers, shape[1])
        logits = self._steps[shape](numbers)
        self.state.lengths = [length + 1 for length in lengths]
        return logits[:n]

    def _step(self, numbers: Tensor, length: int) -> "Step":
        given = numbers.to(model_device(self.model))  # recording writes keys and values to where they belong
        slots = FixedSlots(self.state, given[1], length)
        repeat, logits = self.record(lambda: self.model.next_logits(given[0, :, None], None, slots))
        return Step(given, slots, repeat, logits)

    def record(self, compute: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """A computation as a CUDA graph: what repeats it, and the tensor that then has its result."""
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()  # all take their memory from one: no two are computed at once
        own = torch.cuda.Stream()
        own.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(own):
            compute()  # libraries set themselves up in their first call, which a graph may not contain
        torch.cuda.current_stream().wait_stream(own)
        graph = torch.cuda.CUDAGraph()
        torch._C._cuda_clearCublasWorkspaces()  # so that this graph's lies in its own memory, whoever clears them later
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            result = compute()
        torch._C._cuda_clearCublasWorkspaces()  # nobody else uses it
        return graph.replay, result


@dataclass(frozen=True)
class Step:
    """A recorded step, with all that it reads and that nobody else keeps: a graph knows addresses alone."""

    given: Tensor
    """tokens and lengths of the texts, int64 (2, N)"""
    slots: FixedSlots
    repeat: Callable[[], None]
    logits: Tensor
    """(N, V)"""

    def __call__(self, numbers: Tensor) -> Tensor:
        """Other tokens and lengths -> logits of what comes next."""
        self.given.copy_(numbers)
        self.repeat()
        return self.logits


def power(count: int, least: int) -> int:
    """The least of ``least``, 2 ``least``, 4 ``least`` ... that is not below ``count``."""
    while least < count:
        least *= 2
    return least
