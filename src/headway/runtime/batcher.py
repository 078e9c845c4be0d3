"""Continuous batching: texts that begin and end at different times are continued together, a token of each per step.

    batcher = Batcher(model)
    request = batcher.submit([1, 2, 3], Sampling(temperature=0.0), max_tokens=50, ends={0})
    while batcher.busy:
        for request, token in batcher.step(): ...      # token is None when the request is over
    batcher.cancel(request)

Letters: N running requests, T length, V vocabulary.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.data.batches.batching import sent
from headway.generation.decode import left_padded, seen_tokens
from headway.generation.sampling import Likely, Penalties, Sampling, choose, new_generator
from headway.models.device import model_device
from headway.models.transformer import Decoder
from headway.nn.global_state import plain_defaults
from headway.nn.state import State
from headway.runtime.slots import SlotState
from headway.runtime.step_graphs import StepGraphs

if TYPE_CHECKING:  # which continues texts by this module
    from headway.runtime.runtime import Runtime

SLOTS = 64
"""The number of texts that are continued together."""
PIECE = 512
"""The number of tokens of prompts that are read in a step, padding included."""
SHARED = 32
"""Tokens that a prompt must share with a running text for them to be copied."""


class Request:
    """A text that is being continued."""

    def __init__(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        max_tokens: int,
        ends: Collection[int],
        forbidden: Sequence[int],
        random: torch.Generator,
        penalties: Penalties | None = None,
        likely: int | None = None,
    ):
        self.text, self.sampling, self.left = list(prompt), sampling, max_tokens
        self.ends, self.forbidden, self.random = frozenset(ends), tuple(forbidden), random
        self.penalties, self.n_likely, self.n_prompt = penalties, likely, len(self.text)
        self.likely: Likely | None = None
        """of the newest token, where it was asked for"""
        self.unsound = False
        """whether the model gave logits for it that are no numbers"""
        self.start = 0
        """the first token of the text that the model still sees"""
        self.over = False
        self.read: State | None = None
        """what has been read of a long prompt"""

    @property
    def seen(self) -> list[int]:
        """The part of the text that the model sees."""
        return self.text[self.start :]


Tokens = list[tuple[Request, int | None]]
"""The new token of each text that has one, and None for each that ended without a further one."""


class Batcher:
    """Continues texts together by one decoder, where its weights are.

    A request joins between two steps, as soon as a slot is free, and leaves with its last token (Yu et al. 2022, Orca).
    A long prompt is read in pieces, one per step, so that the others need not wait for it; what a prompt has in common
    with the beginning of a running text is copied and not computed again.  A request gets the tokens that it gets
    alone, up to rounding.
    """

    def __init__(self, model: Decoder, *, slots: int = SLOTS, piece: int = PIECE, checks: bool = False):
        """``checks``: end a request whose logits are no numbers, instead of failing for all (a server does so)."""
        self.model, self.slots, self.piece, self.checks = model, slots, piece, checks
        self.context: int = model.config.max_length
        self.state = SlotState(model.config.n_layers)
        self.graphs = StepGraphs(model, self.state)
        self.running: list[Request] = []  # by slot
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
        max_tokens: int,
        ends: Collection[int] = (),
        forbidden: Sequence[int] = (),
        seed: int | None = None,
        penalties: Penalties | None = None,
        likely: int | None = None,
    ) -> Request:
        """Continue a prompt by at most ``max_tokens`` tokens, until one of ``ends``, without any of ``forbidden``.

        With ``likely`` each token's probability and that many alternatives are in ``Request.likely``.

        When a text has as many tokens as the model was trained for, the older half is forgotten and the rest is read
        again.  Raises ValueError for a prompt without tokens.
        """
        if not prompt:
            raise ValueError("the prompt has no tokens: give at least one")
        random = new_generator(seed, self.device)
        request = Request(prompt, sampling, max_tokens, ends, forbidden, random, penalties, likely)
        request.start = max(0, len(request.text) - self.context)
        self.waiting.append(request)
        return request

    def cancel(self, request: Request) -> None:
        """End a request now, as its caller has left."""
        request.over = True
        if request in self.running:
            self._leave(request)
        elif request in self.waiting:
            self.waiting.remove(request)

    @property
    def device(self) -> torch.device:
        """Where the model is now."""
        return model_device(self.model)

    @plain_defaults()
    @torch.no_grad()
    def step(self) -> Tokens:
        """Read a piece of the waiting prompts and one token of each running text.

        No text has two new tokens, so one whose older half was just forgotten is read again in the next step.
        """
        found: Tokens = []
        if self.running:
            found += self._chosen(list(self.running), self._read([request.text[-1] for request in self.running]))
        just = {id(request) for request, _ in found}
        if self.waiting and len(self.running) < self.slots and id(self.waiting[0]) not in just:
            found += self._read_prompts()
        return found

    def _read(self, tokens: list[int]) -> Tensor:
        """Read one more token of each running text: N of them -> (N, V)."""
        if self.device.type == "cuda":
            return self.graphs(tokens)
        return self.model.next_logits(sent([[token] for token in tokens], self.device), None, self.state)

    def _read_prompts(self) -> Tokens:
        """Read the next prompts, as many as fit into a piece, or a piece of one that is longer."""
        first = self.waiting[0]
        if first.read is None:
            first.read = self._shared(first)
        known = 0 if first.read is None else first.read.length
        if first.read is not None or len(first.seen) > self.piece:
            part = first.seen[known : known + self.piece]
            state = first.read = first.read or self.model.new_state()
            logits = self.model.next_logits(sent([part], self.device), None, state)
            if state.length < len(first.seen):
                return []
            group = [self.waiting.popleft()]
        else:
            group = self._group()
            state = self.model.new_state()
            logits = self.model.next_logits(*left_padded([one.seen for one in group], self.device), state)
        for request in group:
            request.read = None
        self.state.join(state)
        self.running += group
        return self._chosen(group, logits)

    def _group(self) -> list[Request]:
        """The waiting requests to read together: those at the front that fit into a piece and into free slots."""
        group: list[Request] = []
        longest = 0
        while self.waiting and len(group) < self.slots - len(self.running):
            longest = max(longest, len(self.waiting[0].seen))
            if group and longest * (len(group) + 1) > self.piece:
                break
            group.append(self.waiting.popleft())
        return group

    def _shared(self, request: Request) -> State | None:
        """What has been read already of a prompt: its beginning in the running text that has the most of it."""
        most, best = SHARED - 1, None
        for slot, other in enumerate(self.running):
            limit = min(len(request.seen) - 1, self.state.lengths[slot])
            count = 0
            for one, two in zip(request.seen[:limit], other.seen, strict=False):
                if one != two:
                    break
                count += 1
            if count > most:
                most, best = count, slot
        return None if best is None else self.state.prefix_state(best, most)

    def _chosen(self, requests: list[Request], logits: Tensor) -> Tokens:
        """Choose the next token of each of some running requests, and let those leave that are over."""
        if self.checks and not all(sound := logits.amax(dim=-1).isfinite().tolist()):  # one NaN makes the largest NaN
            return self._without_unsound(requests, logits, sound)
        tokens = self._tokens(requests, logits)
        found: Tokens = []
        for request, token in zip(requests, tokens, strict=True):
            request.left -= 1
            ended = token in request.ends
            if not ended:
                request.text.append(token)
            found.append((request, None if ended else token))
            if ended or request.left == 0:
                request.over = True
                self._leave(request)
            elif len(request.seen) > self.context:
                request.start = len(request.text) - self.context // 2 - 1
                self._leave(request)
                self.waiting.appendleft(request)
        return found

    def _without_unsound(self, requests: list[Request], logits: Tensor, sound: list[bool]) -> Tokens:
        """Let those leave whose logits are no numbers, and choose for the others."""
        found: Tokens = []
        for request, is_sound in zip(requests, sound, strict=True):
            if not is_sound:
                request.over = request.unsound = True
                self._leave(request)
                found.append((request, None))
        kept = [row for row, is_sound in enumerate(sound) if is_sound]
        if kept:
            found += self._chosen([requests[row] for row in kept], logits[sent(kept, logits.device)])
        return found

    def _tokens(self, requests: list[Request], logits: Tensor) -> list[int]:
        """The chosen tokens; requests with the same settings are chosen together."""
        asked = [row for row, request in enumerate(requests) if request.n_likely is not None]
        model_says = {row: logits[row].float().log_softmax(dim=-1) for row in asked}
        for row, request in enumerate(requests):
            if request.penalties is not None:
                request.penalties.apply(logits[row], request.text[request.n_prompt :])
        groups: dict[tuple[Sampling, tuple[int, ...]], list[int]] = {}
        for row, request in enumerate(requests):
            groups.setdefault((request.sampling, request.forbidden), []).append(row)
        tokens = [0] * len(requests)
        for (sampling, forbidden), rows in groups.items():
            part = logits if len(groups) == 1 else logits[sent(rows, logits.device)]
            if forbidden:
                part.index_fill_(1, sent(forbidden, logits.device), float("-inf"))
            seen = None
            if sampling.repetition_penalty != 1.0:
                seen = seen_tokens([requests[row].text for row in rows], part)
            chosen = choose(part, sampling, seen, [requests[row].random for row in rows])
            for row, token in zip(rows, chosen.tolist(), strict=True):
                tokens[row] = token
        for row, said in model_says.items():
            said.index_fill_(0, sent(requests[row].forbidden, logits.device), float("-inf"))
            best = said.topk(min(requests[row].n_likely or 0, len(said)))
            others = list(zip(best.indices.tolist(), best.values.tolist(), strict=True))
            requests[row].likely = Likely(float(said[tokens[row]]), others)
        return tokens

    def _leave(self, request: Request) -> None:
        slot = self.running.index(request)
        self.state.leave(slot)
        last: Any = self.running.pop()
        if slot < len(self.running):
            self.running[slot] = last


class RequestAlone(Request):
    """A text that is continued by itself, with a state of its own."""

    def __init__(self, begin: Callable[[], Any]):
        self.begin, self.steps, self.likely = begin, None, None
        self.over = self.unsound = False


class OneByOne(Batcher):
    """Continues texts next to each other by what cannot be batched continuously: a step takes one token of each.

    Recurrent decoders and the engines of other libraries continue each text by itself.
    """

    def __init__(self, runtime: "Runtime", *, slots: int = SLOTS):
        self.runtime, self.slots = runtime, slots
        self.running, self.waiting = [], deque()

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
        request = RequestAlone(partial(self.runtime.write, [prompt], sampling, end=ends, **how))
        self.waiting.append(request)
        return request

    def step(self) -> Tokens:
        """One token of each running text; None for one that is over."""
        while self.waiting and len(self.running) < self.slots:
            self.running.append(self.waiting.popleft())
        found: Tokens = []
        request: Any
        for request in list(self.running):
            if request.steps is None:
                request.steps = request.begin()
            step = next(request.steps, None)
            if step is None:
                request.over = True
                self.running.remove(request)
            found.append((request, None if step is None else step[0]))
        return found

    def _leave(self, request: Any) -> None:
        self.running.remove(request)
        if request.steps is not None:
            request.steps.close()


def prompt_scores(model: Decoder, ids: Sequence[int], count: int) -> Iterator[list[Likely]]:
    """Of each token but the first, given those before it, with ``count`` alternatives; a piece of the prompt at a time.

    The prompt must not be longer than the model reads.
    """
    state, device = model.new_state(), model_device(model)
    for start in range(0, len(ids) - 1, PIECE):
        following = ids[start + 1 : start + 1 + PIECE]
        part = ids[start : start + len(following)]
        likely: Tensor = model(sent([part], device), None, state)[0].float().log_softmax(dim=-1)  # (T, V)
        chosen = likely.gather(1, sent([[number] for number in following], device))[:, 0].tolist()
        best = likely.topk(min(count, likely.shape[1]))
        others = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        yield [Likely(value, list(zip(*pair, strict=True))) for value, pair in zip(chosen, others, strict=True)]
