"""Compare exported graphs with the model that they were made of: outputs for random inputs, and answers to texts.

Letters: B batch, T length, S source length, N answers, D width, V vocabulary, C classes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.generation.decode import left_padded
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.transformer import Decoder, EncoderDecoder
from headway.runtime.engines.graph import DECODER, ENCODER, MODEL, PAST_NAME, Open, Session, Written, present
from headway.tasks.checks import NEW, behind, worst
from headway.workflows.export.onnx_graphs import given_names, writes
from headway.workflows.export.parity import LONGEST, magnitude, own_texts, room
from headway.workflows.export.tally import HERE, THERE, timed
from headway.workflows.export.target import Subject

SHAPES = ((1, 1), (1, 23), (3, 7), (8, LONGEST))
"""Rows and length of the batches of random inputs; the rows of a batch differ in length."""
TEXTS, AT_ONCE = 32, 8
"""Number of texts that are answered, and how many of them together."""

Rows = Sequence[Sequence[int]]
Pair = tuple[Tensor, Tensor]
"""An output of the model, and the graph's."""


@dataclass
class Found:
    """What a comparison found."""

    difference: float = 0.0
    """the largest difference between outputs, or between the logits of an answer of the graph and the model's best"""
    size: float = 1.0
    """the magnitude of the model's outputs, which rounding errors grow with"""
    equal: int = 0
    answers: int = 0
    """how many labels or tokens are the model's own, and of how many"""
    cosines: list[float] = field(default_factory=list)
    """of the vectors of texts with the model's"""
    seconds: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """how long the model and the graph took to answer"""
    texts: int = 0
    """how many texts or images were answered"""


@torch.no_grad()
def compare_graphs(subject: Subject, directory: Path, open_graph: Open) -> Found:
    """Open the graphs in a directory by ``open_graph``, and compare them with the subject."""
    model: Any = subject.model
    found = Found()
    compared = _comparison_of(model)(subject, lambda file: open_graph(directory / file), found.seconds)
    names = given_names(directory)
    reads = [name for name in (getattr(compared, "encoder", None) or compared.session).shapes if PAST_NAME not in name]
    if names and set(reads) != set(names):
        raise ValueError(f"it reads {', '.join(reads)}, and its tokenizer gives {', '.join(names)}")
    draw = np.random.default_rng(0)
    for n_rows, length in SHAPES:
        for pair in compared.read(compared.rows(draw, n_rows, length)):
            found.difference = worst(found.difference, pair[0] - pair[1])
            found.size = max(found.size, magnitude(pair[0]))
    rows: Rows = []
    if subject.tokenizer is not None and not (isinstance(model, Decoder) and gives(model) is Gives.HIDDEN):
        texts = own_texts(subject.tokenizer, room(model), TEXTS)
        rows = [subject.tokenizer.encode(text, special=True) for text in texts]
    elif subject.tokenizer is None and model.head is not None:
        rows = [[number] for number in range(TEXTS)]  # images
    for at in range(0, len(rows), AT_ONCE):
        ours, theirs = compared.answer(rows[at : at + AT_ONCE])
        found.texts += len(rows[at : at + AT_ONCE])
        if theirs.dim() == 2:  # vectors (N, D)
            found.cosines += F.cosine_similarity(ours, theirs).tolist()
            continue
        lower = behind(ours, theirs)
        found.difference = worst(found.difference, lower)
        found.equal += int((lower <= 0).sum())
        found.answers += len(theirs)
    return found


class _EncoderComparison:
    """An encoder, or a decoder that classifies: one call for a batch, padded on the right."""

    def __init__(self, subject: Subject, session: Callable[[str], Session], seconds: list[float]):
        self.model: Any = subject.model
        self.session, self.seconds = session(MODEL), seconds

    def rows(self, draw: np.random.Generator, n_rows: int, length: int) -> Rows:
        """Random ids, the first row of the full length that the model reads."""
        return _random_rows(draw, self.model.config, n_rows, length)

    def read(self, rows: Rows) -> list[Pair]:
        """Each output of both, where there are tokens."""
        ids, mask = _padded(rows)
        given = {"input_ids": ids.numpy(), "attention_mask": mask.long().numpy()}
        segments = None
        if "token_type_ids" in self.session.shapes:
            segments = (ids % self.model.config.segments) * mask
            given["token_type_ids"] = segments.numpy()
        with timed(self.seconds, HERE):
            ours = self._ours(ids, mask, segments)
        with timed(self.seconds, THERE):
            theirs = self.session(**given)
        if ours.keys() != theirs.keys():
            raise ValueError(f"its outputs are {', '.join(theirs)}, expected {', '.join(ours)}")
        pairs = [(ours[name], torch.from_numpy(theirs[name])) for name in ours]
        return [(one[mask], other[mask]) if one.dim() == 3 else (one, other) for one, other in pairs]

    def answer(self, rows: Rows) -> Pair:
        """Logits (N, C) of the model and the choices (N,) of the graph, or the vectors of both (N, D)."""
        ours, theirs = self.read(rows)[-1]
        return (ours, theirs) if "logits" not in self._names else (ours, theirs.argmax(dim=-1))

    def _ours(self, ids: Tensor, mask: Tensor, segments: Tensor | None) -> dict[str, Tensor]:
        if isinstance(self.model, Decoder):
            found = {"logits": self.model(ids, mask)}
        elif gives(self.model) in (Gives.HIDDEN, Gives.VECTOR):
            x = self.model.stack(ids, mask, segments=segments)
            found = {"last_hidden_state": x, "sentence_embedding": (self.model.head or PoolingHead())(x, mask)}
        else:
            found = {"logits": self.model(ids, mask, segments)}
        self._names = list(found)
        return found


class _ImageComparison(_EncoderComparison):
    """An encoder of images; a row is an image, as the number that it is drawn by."""

    def rows(self, draw: np.random.Generator, n_rows: int, length: int) -> Rows:
        return [[length + number] for number in range(n_rows)]

    def read(self, rows: Rows) -> list[Pair]:
        patches = self.model.patches
        draw = torch.Generator().manual_seed(rows[0][0])
        images = torch.randn(len(rows), patches.channels, *patches.image_size, generator=draw)
        (theirs,) = self.session(pixel_values=images.numpy()).values()
        return [(self.model(images), torch.from_numpy(theirs))]

    def answer(self, rows: Rows) -> Pair:
        ours, theirs = self.read(rows)[0]
        return ours, theirs.argmax(dim=-1)


class _DecoderComparison(_EncoderComparison):
    """A decoder with its cache: prompts padded on the left, then a few tokens at once, then one by one."""

    def read(self, rows: Rows) -> list[Pair]:
        """The logits of both for each token; those of the graph in pieces, which need its cache."""
        ids, mask = left_padded(rows, "cpu")
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        written, length, found = Written(self.session, len(rows)), ids.shape[1], []
        for start, end in _pieces(length):
            new = written.read(input_ids=ids[:, start:end].numpy(), attention_mask=mask[:, :end].long().numpy())
            found.append(torch.from_numpy(new))
        return [(self.model(ids, mask)[mask], torch.cat(found, dim=1)[mask])]

    def answer(self, rows: Rows) -> Pair:
        """NEW greedy tokens (N,) of the graph after each row, and the logits (N, V) of the model there."""
        ids, mask = left_padded(rows, "cpu")
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        written, new, chosen = Written(self.session, len(rows)), ids, []
        with timed(self.seconds, THERE):
            for step in range(NEW):
                seen = F.pad(mask, (0, step), value=True).long().numpy()
                logits = written.read(input_ids=new.numpy(), attention_mask=seen)
                new = torch.from_numpy(logits[:, -1:].argmax(axis=-1))
                chosen.append(new)
        with timed(self.seconds, HERE):
            _greedy(self.model, ids, mask)
        continued = torch.cat([ids, *chosen[:-1]], dim=1)
        logits = self.model(continued, F.pad(mask, (0, NEW - 1), value=True))[:, -NEW:]
        return logits.flatten(0, 1), torch.cat(chosen, dim=1).flatten()


class _TranslationComparison:
    """An encoder-decoder: sources padded on the right; their keys and values are computed once."""

    def __init__(self, subject: Subject, session: Callable[[str], Session], seconds: list[float]):
        self.model: Any = subject.model
        self.encoder, self.decoder, self.seconds = session(ENCODER), session(DECODER), seconds
        self.start = list(getattr(getattr(subject.pipe, "rules", None), "start", ())) or [0]

    def rows(self, draw: np.random.Generator, n_rows: int, length: int) -> Rows:
        return _random_rows(draw, self.model.encoder_config, n_rows, length)

    def read(self, rows: Rows) -> list[Pair]:
        """The vectors of the sources, and the logits of targets of the same ids backwards."""
        ids, mask = _padded(rows)
        source, written = self._begin(ids, mask)
        longest = self.model.config.max_length
        target = (ids.flip(1) % self.model.config.vocab_size)[:, :longest]
        pieces = [written.read(input_ids=target[:, start:end].numpy()) for start, end in _pieces(target.shape[1])]
        theirs = torch.from_numpy(np.concatenate(pieces, axis=1))
        return [(self.model.encode(ids, mask)[mask], source[mask]), (self.model(ids, target, mask), theirs)]

    def answer(self, rows: Rows) -> Pair:
        """NEW greedy tokens (N,) of the graph for each source, and the logits (N, V) of the model there."""
        ids, mask = _padded(rows)
        start = torch.tensor([self.start] * len(rows))
        chosen, new = [], start
        with timed(self.seconds, THERE):
            _, written = self._begin(ids, mask)
            for _ in range(NEW):
                logits = written.read(input_ids=new.numpy())
                new = torch.from_numpy(logits[:, -1:].argmax(axis=-1))
                chosen.append(new)
        with timed(self.seconds, HERE):
            _greedy(self.model, start, None, self.model.encode(ids, mask), mask)
        logits = self.model(ids, torch.cat([start, *chosen[:-1]], dim=1), mask)[:, -NEW:]
        return logits.flatten(0, 1), torch.cat(chosen, dim=1).flatten()

    def _begin(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Written]:
        """The vectors of the sources (B, S, D), and their targets, still empty."""
        seen = mask.long().numpy()
        found = self.encoder(input_ids=ids.numpy(), attention_mask=seen)
        keys = {name: found[present(name)] for name in self.decoder.shapes if present(name) in found}
        written = Written(self.decoder, len(ids), encoder_attention_mask=seen, **keys)
        return torch.from_numpy(found["last_hidden_state"]), written


def _comparison_of(model: Any) -> Any:
    if isinstance(model, EncoderDecoder):
        return _TranslationComparison
    if isinstance(model, Decoder) and writes(model):
        return _DecoderComparison
    return _ImageComparison if getattr(model, "patches", None) is not None else _EncoderComparison


def _greedy(model: Any, ids: Tensor, mask: Tensor | None, *source: Tensor) -> None:
    """NEW greedy tokens of the model itself, by its own cache."""
    state = model.new_state()
    for _ in range(NEW):
        logits = model.next_logits(ids, *source, state=state, mask=mask)  # (B, V)
        ids, mask = logits.argmax(dim=-1, keepdim=True), None


def _random_rows(draw: np.random.Generator, config: Any, n_rows: int, length: int) -> Rows:
    longest = min(length, config.max_length)
    lengths = [longest, *draw.integers(1, longest + 1, n_rows - 1).tolist()]
    return [draw.integers(0, config.vocab_size, each).tolist() for each in lengths]


def _pieces(length: int) -> Iterator[tuple[int, int]]:
    """Where the pieces begin and end in which tokens are read: most, then three, then one."""
    cuts = sorted({0, max(0, length - 4), max(0, length - 1), length})
    return pairwise(cuts)


def _padded(rows: Rows) -> tuple[Tensor, Tensor]:
    """Ids (B, T) with padding on the right, and the mask (B, T)."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    return ids, torch.arange(longest)[None] < torch.tensor([len(row) for row in rows])[:, None]
