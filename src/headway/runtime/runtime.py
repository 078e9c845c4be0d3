"""A model ready for inference: its device, its batches, and how it generates.

    runtime = Runtime(model)
    runtime.read(rows, lambda output, ids, mask, index: output(ids, mask))  # one answer for each row, in order
    for step in runtime.write(prompts, Sampling(), max_tokens=100, end=end): ...    # new tokens by row, as they come
    runtime.search(sources, rules, beam=5)                          # the best targets of each source

A runtime follows its model: after ``model.to("cuda")`` it computes there.  On the CPU, engines may compute in the
model's place (``headway.formats``), one where few inputs are given and one where many are; what an engine lacks, the
model does, and that is said once.  Below float32 an engine computes each input by itself, and the model reads those of
one length together, so that no answer depends on the inputs beside it: whole numbers get their scale from all that is
read together, and roundings differ by the shape.  (Texts that are continued together are equal up to rounding.)

Letters: B rows read together, T length of the longest of them, S source length.
"""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import Batch, length_batches, on_device, padded, segments_of
from headway.generation.beam import Hypothesis
from headway.generation.decode import Conditional, Model, Steps
from headway.generation.sampling import Sampling
from headway.hub.generation_config import TargetRules
from headway.io.memory import keep_freed_memory
from headway.models.baselines import RecurrentDecoder
from headway.models.device import model_device
from headway.models.transformer import Decoder, EncoderDecoder
from headway.nn.global_state import plain_defaults
from headway.nn.threads import Threads, check_threads
from headway.runtime.batcher import Batcher
from headway.runtime.engine import TORCH, Engine, Lacks, Searching, Writing
from headway.runtime.precision import FLOAT32, prepare

T = TypeVar("T")
FEW = 5
"""Inputs up to which they are few: between 1 and 32, with which engines are measured, by their ratio."""
BATCH_TOKENS = 8192
"""Source tokens that each thread searches targets of at once, counted once per hypothesis of a beam."""
Answers = Tensor | tuple[Tensor, ...]
"""The result of a batch: the first axis of each tensor is the rows."""
CACHE = 4 << 20
"""Maximum bytes of a block's widest activations, those of its feed-forward layer.  More do not stay in the cache from
one product to the next, and larger batches are then slower."""
LEAST, MOST = 256, 8192
"""Bounds of the tokens at once for any model: fewer would be mostly overhead, more are no faster."""
ON_A_GPU = 1 << 15
"""The same for a GPU, which is idle while it is told what to compute, however many tokens there are."""
SHARED_FROM = 8
"""Sequences from which the threads of a CPU divide them: a batch each is faster than all threads in one batch."""


class Output(Protocol):
    """What computes a model's output: the model itself, or an engine."""

    def __call__(self, ids: Tensor, mask: Tensor | None = None, *, chosen: Tensor | None = None) -> Tensor:
        """Ids and mask (B, T), or images, -> as the model's own ``forward``."""


class Runtime:
    """A model, its device, and the batches and threads of inference.

    On a processor several batches are computed at a time, each in its own thread; on another device they are sent
    one after the other, without waiting for results before the last is sent.
    """

    def __init__(self, model: Any):
        self.model, self.precision = model, FLOAT32
        self.few: Engine | None = None
        """what computes in the model's place where at most ``FEW`` inputs are given, while the model is on the CPU"""
        self.many: Engine | None = None
        """the same where more are given"""
        self.between: Callable[[], None] | None = None
        """called before each batch of ``read``, ``read_equal`` and ``search``; what it raises ends the call"""
        self._said: set[str] = set()  # what the engine lacks
        self._idle: tuple[list[int], Batcher] | None = None  # of a GPU, with where the weights were
        keep_freed_memory()

    def prepare(self, precision: str) -> None:
        """Bring the model's weights to a precision, once and in place (``runtime.precision``)."""
        prepare(self.model, precision)
        self.precision = precision

    def use(self, few: Engine | None, many: Engine | None) -> None:
        """Let engines compute in the model's place where few and where many inputs are given; None is the model."""
        self.few, self.many = few, many
        if self.engine is not None:
            self.precision = self.engine.precision

    @property
    def engine(self) -> Engine | None:
        """The engine, of two the one for few inputs; None where the model computes everything."""
        return self.few or self.many

    @property
    def described(self) -> dict[str, str]:
        """The ``precision`` and the ``engine`` that answer; both engines, where few and many inputs have their own."""
        few, many = (TORCH if engine is None else engine.name for engine in (self.few, self.many))
        return {"precision": self.precision, "engine": few if few == many else f"{few}, of many at once {many}"}

    @property
    def device(self) -> torch.device:
        """The model's present device."""
        return model_device(self.model)

    @property
    def tokens(self) -> int:
        """The number of tokens in a batch, padding included."""
        return tokens_at_once(self.model.config, self.device)

    def batches(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """The given batches, each moved to the model's device when its turn comes."""
        return on_device(batches, self.device)

    @plain_defaults()
    def read(
        self,
        rows: Sequence[Sequence[int]],
        answer: Callable[[Output, Tensor, Tensor | None, np.ndarray], Answers],
        borders: np.ndarray | None = None,
    ) -> list[Any]:
        """One answer for each row of ids, in order, without gradients; each is on the processor.

        ``answer`` is given what computes the model's output, ids (B, T) and a mask (B, T), or None where all are
        tokens, both on the model's device, and the numbers of the rows, int64 (B,).  It may give one tensor or a tuple
        of them.  On a processor it is called in several threads at a time, unless an engine computes: that has its own.
        ``borders``, int64 (N,), are the places at which the second text of each row begins, where rows are two texts.
        """
        check_threads()
        engine = self._engine_for(len(rows))
        device = self.device if engine is None else torch.device("cpu")
        groups = [np.arange(len(rows))][: len(rows)]  # one input, or none, needs no sorting
        if _alone(engine):
            groups = list(np.arange(len(rows))[:, None])
        elif len(rows) > 1:
            lengths, threads_at_most = [len(row) for row in rows], 1 if engine is not None else self._threads(len(rows))
            groups = length_batches(lengths, tokens_for_each(lengths, self.tokens, threads_at_most), 0, 0)
            groups = self._of_one_length(groups, lengths)
        output = partial(self._output, engine)

        def one(index: np.ndarray) -> Answers:
            self._pause()
            ids, mask = padded([rows[i] for i in index], device)
            with torch.no_grad():
                if borders is None:
                    return answer(output, ids, mask, index)
                segments = segments_of(borders[index], ids.shape[1]).to(device)
                return answer(partial(output, segments=segments), ids, mask, index)

        in_order: list[Any] = [None] * len(rows)
        with Threads(1 if engine is not None else self._threads(len(groups))) as threads:
            for index, answers in zip(groups, threads.map(one, groups), strict=True):
                for i, each in zip(index.tolist(), _by_row(answers), strict=True):
                    in_order[i] = each
        return in_order

    @plain_defaults()
    @torch.no_grad()
    def read_equal(
        self, count: int, tokens: int, make: Callable[[range], Tensor], answer: Callable[[Output, Tensor], Tensor]
    ) -> list[Tensor]:
        """One answer for each of ``count`` inputs that are ``tokens`` tokens each, in order, without gradients.

        ``make`` gets the numbers of some inputs and returns the model's input for them (B, ...), on the CPU; it is
        called when their turn comes, so that only one batch is in memory at a time.  ``answer`` is given what computes
        the model's output, and that input.
        """
        check_threads()
        engine = self._engine_for(count)
        output = partial(self._output, engine)
        size, device = 1 if _alone(engine) else max(1, self.tokens // tokens), self.device
        parts = [range(at, min(at + size, count)) for at in range(0, count, size)]
        answers: list[Tensor] = []
        for part in parts:
            self._pause()
            answers += answer(output, make(part).to(device, non_blocking=True)).cpu()
        return answers

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        *,
        max_tokens: int,
        end: int | Collection[int] | None = None,
        forbidden: Sequence[int] = (),
        seed: int | None = None,
    ) -> Steps:
        """Continue every prompt token by token, as ``generation.decode`` says.

        A decoder continues many prompts in turn, as slots become free (``runtime.batcher``).
        """
        same: dict[str, Any] = {"max_tokens": max_tokens, "forbidden": forbidden, "seed": seed}
        if len(prompts) > 1 and _alone(self._engine_for(len(prompts))):
            return _in_turn([self.write([prompt], sampling, end=end, **same) for prompt in prompts])
        ends = () if end is None else (end,) if isinstance(end, int) else end
        context = self.model.config.max_length
        how = Writing(sampling, max_tokens, ends, forbidden, seed, context)
        steps = self._by(self._engine_for(len(prompts)), lambda engine: engine.write(prompts, how))
        if steps is not None:
            return steps
        if isinstance(self.model, Decoder) and not isinstance(self.model, RecurrentDecoder):
            return self._written(prompts, sampling, ends=ends, **same)
        return how.by(self.model, prompts, self.device)

    def _written(self, prompts: Sequence[Sequence[int]], sampling: Sampling, **how: Any) -> Steps:
        check_threads()
        if not all(prompts):
            raise ValueError(f"prompt {[bool(one) for one in prompts].index(False)} has no tokens: give at least one")
        with self._batcher() as batcher:
            requests = [batcher.submit(prompt, sampling, **how) for prompt in prompts]
            rows = {id(request): row for row, request in enumerate(requests)}
            while batcher.busy:
                step = {rows[id(request)]: token for request, token in batcher.step() if token is not None}
                if step:
                    for row in (yield step) or ():
                        batcher.cancel(requests[row])

    @contextmanager
    def _batcher(self) -> Iterator[Batcher]:
        """A batcher for the texts of one call; on a GPU that of the call before, which knows its steps already."""
        weights = [weight.data_ptr() for weight in self.model.parameters()] if self.device.type == "cuda" else []
        before, self._idle = self._idle, None
        batcher = before[1] if before is not None and before[0] == weights else Batcher(self.model)
        yield batcher
        if weights and not batcher.busy:
            self._idle = weights, batcher

    @plain_defaults()
    def search(
        self,
        sources: Sequence[Sequence[int]],
        rules: TargetRules,
        *,
        beam: int = 5,
        n_best: int = 1,
        length_penalty: float = 1.0,
        most: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """For each source its ``n_best`` best targets, best first; no result depends on the other sources.

        A decoder continues the source itself.  ``most`` says how many tokens each target may have, its end among
        them; without it they may be as long as the model and the rules allow.
        """
        check_threads()
        if len(sources) > 1 and _alone(self._engine_for(len(sources))):
            same: dict[str, Any] = {"beam": beam, "n_best": n_best, "length_penalty": length_penalty}
            each = [None] * len(sources) if most is None else [[limit] for limit in most]
            return [self.search([one], rules, most=own, **same)[0] for one, own in zip(sources, each, strict=True)]
        limits = [longest_target(self.model, rules, len(source)) for source in sources]
        if most is not None:
            limits = [min(pair) for pair in zip(limits, most, strict=True)]
        how = Searching(rules, limits, beam, n_best, length_penalty)
        by_engine = self._by(self._engine_for(len(sources)), lambda engine: engine.search(sources, how))
        if by_engine is not None:
            return by_engine
        device = self.device
        sizes = [beam * len(source) for source in sources]
        batches = self._of_one_length(length_batches(sizes, BATCH_TOKENS, 0, 0) if sources else [], sizes)
        batches.sort(key=lambda index: -sum(len(sources[i]) for i in index))  # then the last to end is small

        def write(index: Sequence[int]) -> list[list[Hypothesis]]:
            self._pause()
            chosen = [sources[i] for i in index]
            reads = isinstance(self.model, EncoderDecoder)
            writer: Model = Conditional(self.model, chosen, device) if reads else self.model
            begun = [list(rules.start) if reads else [*source, *rules.start] for source in chosen]
            return how.by(writer, begun, index, device)

        in_order: list[list[Hypothesis]] = [[] for _ in sources]
        with Threads(self._threads(len(batches))) as threads:
            for index, answers in zip(batches, threads.map(write, batches), strict=True):
                for i, answer in zip(index, answers, strict=True):
                    in_order[i] = answer
        return in_order

    def _pause(self) -> None:
        if self.between is not None:
            self.between()

    def _of_one_length(self, batches: list[np.ndarray], lengths: Sequence[int]) -> list[np.ndarray]:
        """Batches of rows; below float32 on a processor each of one length, as padding would change how it rounds."""
        if self.precision == FLOAT32 or self.engine is not None or self.device.type != "cpu":
            return batches
        changes = [1 + np.flatnonzero(np.diff(np.take(lengths, index))) for index in batches]  # which are in order
        return [part for index, at in zip(batches, changes, strict=True) for part in np.split(index, at)]

    def _threads(self, batches: int) -> int:
        """The number of batches computed at a time."""
        return max(1, min(torch.get_num_threads(), batches)) if self.device.type == "cpu" else 1

    def _engine_for(self, count: int) -> Engine | None:
        """The engine for so many inputs; None: the model computes."""
        if self.engine is None or self.device.type != "cpu":
            return None
        return self.few if count <= FEW else self.many

    def _output(self, engine: Engine | None, ids: Tensor, mask: Tensor | None = None, **more: Tensor | None) -> Tensor:
        """What the model gives for ids, mask, ``chosen`` and ``segments``, by the engine if there is one."""
        named = {name: value for name, value in more.items() if value is not None}
        outputs = self._by(engine, lambda engine: engine.output(ids, mask, **named))
        return self.model(ids, mask, **named) if outputs is None else outputs

    def _by(self, engine: Engine | None, call: Callable[[Engine], T]) -> T | None:
        """What an engine gives; None where there is none, and where it lacks what it is asked for."""
        if engine is None:
            return None
        try:
            return call(engine)
        except Lacks as lack:
            if str(lack) not in self._said:
                self._said.add(str(lack))
                warnings.warn(f"{engine.name} does not {lack}: torch does it instead", stacklevel=3)
            return None


def _by_row(answers: Answers) -> Iterable[Any]:
    """The answers of each row, moved to the CPU."""
    if isinstance(answers, Tensor):
        return answers.cpu()
    return zip(*(part.cpu() for part in answers), strict=True)


def _alone(engine: Engine | None) -> bool:
    """Whether an engine is given one input at a time: its roundings would depend on the inputs beside it."""
    return engine is not None and engine.precision != FLOAT32


def _in_turn(texts: Sequence[Steps]) -> Steps:
    """The tokens of several texts by row, each of which is row 0 of its own steps."""
    for row, steps in enumerate(texts):
        for step in steps:
            if row in ((yield {row: step[0]}) or ()):
                steps.close()


def longest_target(model: EncoderDecoder | Decoder, rules: TargetRules, n_source: int) -> int:
    """The maximum length of the target of a source of ``n_source`` tokens, its ending token counted, its start not."""
    room = min(model.config.max_length, rules.max_length or model.config.max_length) - len(rules.start)
    if isinstance(model, Decoder):
        room -= n_source
    return max(1, room)


def tokens_for_each(lengths: Sequence[int], most: int, threads: int) -> int:
    """How many tokens of some sequences, padding included, are read at once, at most ``most``, by so many threads.

    From ``SHARED_FROM`` sequences on each thread has a batch.
    """
    if threads == 1 or len(lengths) < SHARED_FROM:
        return most
    return min(most, sum(lengths) // threads + 2 * max(lengths))


def tokens_at_once(config: Any, device: torch.device) -> int:
    """How many tokens, padding included, a model of this configuration reads at once on a device."""
    if device.type == "cuda":
        return ON_A_GPU
    hidden = getattr(config, "hidden", None)  # baselines have no feed-forward layer, and are faster in large batches
    return MOST if hidden is None else max(LEAST, min(MOST, CACHE // (4 * hidden)))
