"""Continue texts with what cannot be batched continuously, with the methods of ``runtime.batcher.Batcher``.

Recurrent decoders and the engines of other libraries continue each text by itself; a step takes one token of each.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

from headway.generation.decode import Steps
from headway.generation.sampling import Likely, Penalties, Sampling
from headway.runtime.runtime import Runtime


class Request:
    """A text that is being continued."""

    def __init__(self, how: dict[str, Any]):
        self.how = how
        self.steps: Steps | None = None
        self.over = self.unsound = False
        self.likely: Likely | None = None


class OneByOne:
    """Continues texts beside each other, each with a state of its own."""

    def __init__(self, runtime: Runtime, *, slots: int):
        self.runtime, self.slots = runtime, slots
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()

    @property
    def busy(self) -> bool:
        """Whether any request is not over."""
        return bool(self.running or self.waiting)

    def submit(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        ends: Collection[int] = (),
        penalties: Penalties | None = None,
        likely: int | None = None,
        **how: Any,
    ) -> Request:
        """Continue a prompt, as ``Batcher.submit``; penalties and probabilities are not offered."""
        if penalties is not None or likely is not None:
            raise ValueError("penalties and probabilities need a model that is batched continuously")
        request = Request({"prompts": [prompt], "sampling": sampling, "end": ends, **how})
        self.waiting.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """End a request now."""
        request.over = True
        if request in self.running:
            self.running.remove(request)
            if request.steps is not None:
                request.steps.close()
        elif request in self.waiting:
            self.waiting.remove(request)

    def step(self) -> list[tuple[Request, int | None]]:
        """One token of each running text; None for one that is over."""
        while self.waiting and len(self.running) < self.slots:
            self.running.append(self.waiting.popleft())
        return [(request, self._next(request)) for request in list(self.running)]

    def _next(self, request: Request) -> int | None:
        if request.steps is None:
            request.steps = self.runtime.write(**request.how)
        step = next(request.steps, None)
        if step is None:
            request.over = True
            self.running.remove(request)
            return None
        return step[0]
