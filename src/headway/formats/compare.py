"""Compare an export with the model that it was made of, by the engine that answers from it.

    comparison = Comparison(subject)
    parity = comparison.of(open_engine(name, directory, model, precision), bound)

Both are asked for their outputs for random inputs, and then for what their users want: labels and vectors of texts,
texts that are continued, targets that are searched for.

Letters: B rows, T length, N answers, D width, V vocabulary, C classes.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.data.batches.batching import pad
from headway.formats.parity import (
    LONGEST,
    NEW,
    Parity,
    behind,
    exceeding,
    has_units,
    magnitude,
    own_texts,
    room,
    units_of,
    worst,
)
from headway.formats.registry import FLOAT32
from headway.formats.subject import Subject
from headway.generation.beam import Hypothesis
from headway.generation.decode import left_padded
from headway.generation.sampling import Sampling
from headway.hub.generation_config import TargetRules
from headway.models.heads import Gives, PoolingHead, gives, n_outputs
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.runtime.engine import LOGITS, OF_TEXT, OF_TOKENS, Engine, Inputs, Lacks, Searching, Writing
from headway.runtime.runtime import Runtime

SHAPES = ((1, 1), (1, 23), (3, 7), (8, LONGEST))
"""Rows and length of the batches of random inputs; the rows of a batch differ in length."""
TEXTS, AT_ONCE = 32, 8
"""Number of texts that are answered, and how many of them are read together."""
BEAMS = (1, 5)
"""The widths of the beams by which targets are searched for."""
HERE, THERE = 0, 1
"""Whose time is taken: Headway's, or that of the engine."""


@dataclass
class Tally:
    """What a comparison adds up, answer by answer."""

    difference: float = 0.0
    """the largest between numbers here and there"""
    lag: float = 0.0
    """the largest by which a choice there is less likely here than the likeliest"""
    size: float = 1.0
    """the magnitude of the numbers here, with which rounding errors grow"""
    equal: int = 0
    answers: int = 0
    """how many answers there are also the answers here, and of how many"""
    cosines: list[float] = field(default_factory=list)
    """of the vectors of texts there with those here"""
    written: list[list[int]] = field(default_factory=list)
    """the tokens with which texts are continued there"""
    random: bool = False
    """whether random inputs were read"""
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """how long it took here and there"""

    def compare(self, here: Tensor, there: Tensor) -> None:
        """Numbers of one shape.  Raises ValueError for others."""
        if here.shape != there.shape:
            raise ValueError(f"the answers have shape {list(there.shape)}, expected {list(here.shape)}")
        self.size = max(self.size, magnitude(here))
        self.difference = worst(self.difference, here - there)

    def choose(self, logits: Tensor, chosen: Tensor) -> None:
        """What was chosen there, (N,), and the logits (N, V) or (N, C) here."""
        lag = behind(logits, chosen)
        self.size = max(self.size, magnitude(logits))
        self.lag = worst(self.lag, lag)
        self.equal += int((lag <= 0).sum())
        self.answers += len(chosen)

    @contextmanager
    def timed(self, side: int) -> Iterator[None]:
        """Add what passes inside the context to one of the times."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[side] += time.perf_counter() - began


class Comparison:
    """What a model and engines are asked, so that their answers can be compared."""

    def __init__(
        self, subject: Subject, *, texts: int = TEXTS, context: int | None = None, segments: bool | None = None
    ):
        """Of ``texts`` texts the answers are compared; ``context`` is what the export reads, if that is less.

        ``segments`` says whether it can be told which of two texts a token is of; without it, as the model can.
        """
        model, tokenizer = subject.model, subject.tokenizer
        self.model, self.runtime = model, Runtime(model)
        self.context = context or model.config.max_length
        self.new = max(1, min(NEW, self.context // 2))
        self._several_units = has_units(model) and n_outputs(model) > 1
        self._segments = getattr(model.config, "segments", 0) > 1 and segments is not False
        self.texts: dict[tuple[int, ...], str] = {}
        """the texts that are answered, by their ids"""
        self.rules: TargetRules | None = None
        """of a translator"""
        self.rows: list[list[int]] = []
        """texts that are continued, or translated"""
        self.read: list[Inputs] = []
        """texts or images whose outputs are the answers"""
        if getattr(model, "patches", None) is not None:
            self.random = [self._images(*shape) for shape in SHAPES]
            if model.head is not None:
                self.read = [self._images(AT_ONCE, at) for at in range(0, texts, AT_ONCE)]
            return
        draw, writes = np.random.default_rng(0), isinstance(model, Decoder) and gives(model) is Gives.VOCABULARY
        self.random = [self._inputs(self._random_rows(draw, *shape)) for shape in SHAPES]
        rows: list[list[int]] = []
        if tokenizer is not None and not (isinstance(model, Decoder) and gives(model) is Gives.HIDDEN):
            longest = self.context - self.new if writes else self.context
            for text in own_texts(tokenizer, room(model, self.context), texts) or ["a"]:
                rows.append(tokenizer.encode(text, special=True)[: max(1, longest)] or [0])
                self.texts[tuple(rows[-1])] = text
        if isinstance(model, EncoderDecoder):
            rules = getattr(subject.pipe, "rules", None) or TargetRules((0,))
            self.rules = replace(rules, end=rules.end[:1])
        if writes or self.rules is not None:
            self.rows = rows
        else:
            self.read = [self._inputs(rows[at : at + AT_ONCE]) for at in range(0, len(rows), AT_ONCE)]

    @torch.no_grad()
    def of(self, engine: Engine, bound: float | None, tally: Tally | None = None) -> Parity:
        """The result of asking an engine, and the model; the bound is multiplied by the magnitude of the outputs.

        Below float32 an engine writes each text by itself, as ``Runtime`` has it.  What is added up is in ``tally``.
        """
        tally = Tally() if tally is None else tally
        with suppress(Lacks):
            for inputs in self.random:
                self._outputs(tally, engine, inputs)
                tally.random = True
        for inputs in self.read:
            here, there = self._outputs(tally, engine, inputs)
            if engine.result == LOGITS and not self._several_units:
                logits, theirs = (_at_tokens(side[LOGITS], inputs.mask) for side in (here, there))
                tally.choose(logits, theirs.argmax(dim=-1))
            elif OF_TEXT in there:
                tally.cosines += F.cosine_similarity(here[OF_TEXT], there[OF_TEXT]).tolist()
        groups = [self.rows][: len(self.rows)] if engine.precision == FLOAT32 else [[row] for row in self.rows]
        for rows in groups:
            if self.rules is None:
                self._write(tally, engine, rows)
                continue
            for beam in BEAMS:
                self._search(tally, engine, rows, Searching(self.rules, [self.new] * len(rows), beam, n_best=beam))
        return self._parity(tally, bound)

    def _parity(self, tally: Tally, bound: float | None) -> Parity:
        limit = None if bound is None else bound * tally.size
        lag = "it gives other labels, apart" if self.read else "it continues a text with other tokens, apart"
        if self.rules is not None:
            lag = "it writes other targets, whose log-probability is lower"
        problems = exceeding(tally.difference, limit, "the answers differ") + exceeding(tally.lag, limit, lag)
        count = len(self.rows) + sum(len(inputs.ids) for inputs in self.read)
        over = ["random inputs"] if tally.random else []
        over += [f"the answers to {count} {'texts' if self.texts else 'images'}"] if count else []
        notes = []
        if tally.cosines:
            mean = sum(tally.cosines) / len(tally.cosines)
            notes = [f"cosine of a text's vectors: {mean:.4f} on average, {min(tally.cosines):.4f} at least"]
        return Parity(
            tally.difference,
            over=" and ".join(over),
            bound=limit,
            agreement=(tally.equal, tally.answers) if tally.answers else None,
            problem="; ".join(problems) or None,
            seconds=(tally.seconds[HERE], tally.seconds[THERE]),
            notes=tuple(notes),
        )

    def _outputs(self, tally: Tally, engine: Engine, inputs: Inputs) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Compare every output that the engine gives, where there are tokens; both sides' outputs.

        Raises ValueError where the engine's ``result`` is not among them.
        """
        with tally.timed(THERE):
            there = engine.outputs(inputs)
        with tally.timed(HERE):
            here = _own_outputs(self.model, inputs, engine.result)
        if engine.result not in there or not there.keys() <= here.keys():
            raise ValueError(f"its outputs are {', '.join(there)}, expected {engine.result}")
        for name, value in there.items():
            real = None if inputs.targets is not None and name == LOGITS else inputs.mask
            units = units_of(self.model, here[name]) if self._several_units else 1.0
            tally.compare(_at_tokens(here[name] / units, real), _at_tokens(value / units, real))
        return here, there

    def _write(self, tally: Tally, engine: Engine, rows: list[list[int]]) -> None:
        """Compare every token that is written greedily with the likeliest here."""
        how = Writing(Sampling(temperature=0), self.new, context=self.context)
        written: list[list[int]] = [[] for _ in rows]
        with tally.timed(THERE):
            for step in engine.write(rows, how):
                for row, token in step.items():
                    written[row].append(token)
        with tally.timed(HERE):
            list(self.runtime.write(rows, how.sampling, max_tokens=self.new))
        for prompt, tokens in zip(rows, written, strict=True):
            logits = self.model(torch.tensor([prompt + tokens[:-1]]))[0, len(prompt) - 1 :]  # (T, V)
            tally.choose(logits, torch.tensor(tokens))
        tally.written += written

    def _search(self, tally: Tally, engine: Engine, rows: list[list[int]], how: Searching) -> None:
        """Compare the log-probabilities of the targets that are found for each source.

        The first must be as likely as any other, and with one beam as the one that is found here.
        """
        with tally.timed(THERE):
            theirs = engine.search(rows, how)
        with tally.timed(HERE):
            best = [one for (one,) in self.runtime.search(rows, how.rules, beam=how.beam, most=how.limits)]
        for source, there, ours in zip(rows, theirs, best, strict=True):
            every = [*there, ours] if how.beam == 1 else there
            here = self._log_probabilities(source, every, how.rules)
            tally.compare(here[: len(there)], torch.tensor([target.log_probability for target in there]))
            scores = here / torch.tensor([len(target.ids) + (not target.cut) for target in every])
            tally.lag = worst(tally.lag, scores.max() - scores[0])
            tally.equal += there[0].ids == ours.ids
            tally.answers += 1

    def _log_probabilities(self, source: list[int], targets: Sequence[Hypothesis], rules: TargetRules) -> Tensor:
        """ln p of each target of a source, with the token that ends it unless it was cut off: (N,)."""
        ids, mask = pad([[*target.ids, *([] if target.cut else rules.end)] for target in targets])
        start = torch.tensor([rules.start] * len(targets))
        inputs = torch.cat([start, ids[:, :-1]], dim=1)
        logits = self.model(torch.tensor([source] * len(targets)), inputs)[:, start.shape[1] - 1 :]
        if rules.forbidden:
            logits[..., list(rules.forbidden)] = -torch.inf
        return logits.log_softmax(dim=-1).gather(2, ids[..., None])[..., 0].where(mask, 0.0).sum(dim=1)

    def _inputs(self, rows: list[list[int]]) -> Inputs:
        """Rows that are padded, on the left for a decoder; targets are the same ids backwards."""
        model = self.model
        if isinstance(model, Decoder) and gives(model).each_token:
            ids, seen = left_padded(rows, "cpu")
            return Inputs(ids, torch.ones_like(ids, dtype=torch.bool) if seen is None else seen)
        ids, mask = pad(rows)
        if isinstance(model, EncoderDecoder):
            targets = (ids.flip(1) % model.config.vocab_size)[:, : model.config.max_length]
            return Inputs(ids, mask, targets=targets)
        return Inputs(ids, mask, (ids % model.config.segments) * mask if self._segments else None)

    def _random_rows(self, draw: np.random.Generator, n_rows: int, length: int) -> list[list[int]]:
        config = getattr(self.model, "encoder_config", self.model.config)
        longest = min(length, config.max_length, self.context)
        lengths = [longest, *draw.integers(1, longest + 1, n_rows - 1).tolist()]
        return [draw.integers(0, config.vocab_size, each).tolist() for each in lengths]

    def _images(self, count: int, seed: int) -> Inputs:
        patches = self.model.patches
        draw = torch.Generator().manual_seed(seed)
        return Inputs(torch.randn(count, patches.channels, *patches.image_size, generator=draw))


def _own_outputs(model: Any, inputs: Inputs, result: str) -> dict[str, Tensor]:
    """All that an export of a model may give; ``result`` is the name of what its ``forward`` gives."""
    ids, mask, segments, targets = inputs
    if targets is not None:
        return {OF_TOKENS: model.encode(ids, mask), LOGITS: model(ids, targets, mask)}
    if not isinstance(model, Encoder) or model.patches is not None:
        return {result: model(ids) if mask is None else model(ids, mask)}
    x, head = model.stack(ids, mask, segments=segments), model.head or PoolingHead()
    return {OF_TOKENS: x, LOGITS if result == LOGITS else OF_TEXT: head(x, mask)}


def _at_tokens(values: Tensor, mask: Tensor | None) -> Tensor:
    """The numbers (N, D) of tokens, of those (B, T, D) of places; other numbers as they are."""
    return values if mask is None or values.dim() < 3 else values[mask]
