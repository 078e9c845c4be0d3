"""An engine that runs exported graphs: of an encoder, of a decoder with its cache, or of an encoder-decoder.

A graph computes what the model computes, so that Headway's own loops sample and search over it, as over the model.

Letters: B rows, T length, P past tokens, S source length, G key-value heads, K head width, D width, V vocabulary.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import padded
from headway.formats.onnx.fused_attention import fused
from headway.formats.onnx.sessions import Arrays, OnnxRuntimeSession, OpenVinoSession, Session
from headway.generation.beam import Hypothesis
from headway.generation.decode import Steps
from headway.models.transformer import Encoder, EncoderDecoder
from headway.runtime.engine import (
    LOGITS,
    OF_TOKENS,
    Engine,
    Inputs,
    Lacks,
    Searching,
    Writing,
    search_by,
    write_by,
)

MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"
IDS, MASK, SEGMENTS, PIXELS = "input_ids", "attention_mask", "token_type_ids", "pixel_values"
SOURCE_MASK = "encoder_attention_mask"
PAST_NAME, PRESENT_NAME = "past_key_values", "present"
OF_COLUMN = "logits."
"""What the outputs of several label columns begin with."""

Open = Callable[[Path], Session]


class GraphEngine(Engine):
    """The graphs of one export, opened by ``session``."""

    def __init__(self, name: str, precision: str, directory: Path, model: Any, session: Open):
        super().__init__(name, precision, model)
        self.source = session(directory / ENCODER) if isinstance(model, EncoderDecoder) else None
        self.session = session(directory / (MODEL if self.source is None else DECODER))

    def outputs(self, inputs: Inputs) -> dict[str, Tensor]:
        """Those of the graph; a decoder's graph reads most tokens at once, then a few, then one, as it is used."""
        shapes, (ids, mask, segments, targets) = self.session.shapes, inputs
        if PIXELS in shapes:
            return _tensors(self.session(pixel_values=ids.numpy()))
        if self.source is not None:
            if targets is None:
                raise Lacks("give outputs for sources without targets")
            vectors, source = self._read(ids, mask)
            return {OF_TOKENS: vectors, LOGITS: _in_pieces(GraphState(self.session, source), targets)}
        if any(name.startswith(PAST_NAME) for name in shapes):
            return {self.result: _in_pieces(GraphState(self.session, {}), ids, mask)}
        given = {IDS: ids.numpy(), MASK: _whole_numbers(mask, ids)}
        if SEGMENTS in shapes:
            given[SEGMENTS] = np.zeros_like(given[IDS]) if segments is None else segments.numpy()
        elif segments is not None:
            raise Lacks("read two texts together")
        outputs = _tensors(self.session(**given))
        columns = [values for name, values in outputs.items() if name.startswith(OF_COLUMN)]
        return {LOGITS: torch.cat(columns, dim=1)} if columns else outputs

    def write(self, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
        """New tokens by row."""
        return write_by(partial(GraphState, self.session, {}), prompts, how)

    def search(self, sources: Sequence[Sequence[int]], how: Searching) -> list[list[Hypothesis]]:
        """The best targets of each source; a decoder continues the source itself."""
        start = list(how.rules.start)

        def begin(chosen: Sequence[Sequence[int]]) -> tuple[Any, list[list[int]]]:
            if self.source is None:
                return partial(GraphState, self.session, {}), [[*source, *start] for source in chosen]
            read = self._read(*padded(chosen, "cpu"))[1]
            return partial(GraphState, self.session, read), [start for _ in chosen]

        return search_by(begin, sources, how)

    def _read(self, ids: Tensor, mask: Tensor | None) -> tuple[Tensor, Arrays]:
        """Sources (B, S) -> their vectors (B, S, D), and what the decoder's graph is given of them."""
        assert self.source is not None
        seen = _whole_numbers(mask, ids)
        found = self.source(input_ids=ids.numpy(), attention_mask=seen)
        keys = {name: found[present(name)] for name in self.session.shapes if present(name) in found}
        return torch.from_numpy(found[OF_TOKENS]), {SOURCE_MASK: seen, **keys}


class GraphState:
    """What a decoder's graph has read of some texts: their keys and values, their mask, and what is of their sources.

    The graph of an encoder-decoder takes no mask, since its targets are not padded.
    """

    def __init__(self, session: Session, source: Arrays):
        self._session, self._all_sources, self._source = session, source, source
        self._past: dict[str, Any] = {}
        self._mask: np.ndarray | None = None
        self._owners = np.arange(len(source.get(SOURCE_MASK, ())))  # the source of each row

    def read(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        """More tokens of each row (B, T) -> their logits (B, T, V)."""
        shapes = self._session.shapes
        past = self._past or {
            name: np.zeros((len(ids), shape[1], 0, shape[3]), np.float32)  # (B, G, P, K)
            for name, shape in shapes.items()
            if name.startswith(PAST_NAME) and name not in self._source
        }
        given = {IDS: ids.numpy(), **self._source, **past}
        if MASK in shapes:
            new = _whole_numbers(mask, ids)
            self._mask = new if self._mask is None else np.concatenate([self._mask, new], axis=1)  # (B, P + T)
            given[MASK] = self._mask
        found = self._session.step(given)
        self._past = {name: found[present(name)] for name in past}
        return torch.from_numpy(
            self._session.array(next(found[name] for name in found if not name.startswith(PRESENT_NAME)))
        )

    def following(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """More tokens of each row (B, T) -> the logits of what follows, (B, V)."""
        return self.read(ids, mask)[:, -1]

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows, (B',) int64, in that order; the keys of sources are only copied where they change."""
        kept = rows.numpy()
        self._past = {name: self._session.array(value)[kept] for name, value in self._past.items()}
        if self._mask is not None:
            self._mask = self._mask[kept]
        if len(self._owners) and not np.array_equal(owners := self._owners[kept], self._owners):
            self._owners = owners
            self._source = {name: array[owners] for name, array in self._all_sources.items()}


def present(name: str) -> str:
    """The output that holds what the input of that name will be."""
    return name.replace(PAST_NAME, PRESENT_NAME, 1)


def _in_pieces(state: GraphState, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """The logits (B, T, V) of tokens that are read in three pieces."""
    length = ids.shape[1]
    cuts = pairwise(sorted({0, max(0, length - 4), max(0, length - 1), length}))
    read = [state.read(ids[:, start:end], None if mask is None else mask[:, start:end]) for start, end in cuts]
    return torch.cat(read, dim=1)


def _tensors(found: Arrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in found.items()}


def _whole_numbers(mask: Tensor | None, ids: Tensor) -> np.ndarray:
    """A mask as a graph reads it, int64 (B, T)."""
    return np.ones(ids.shape, dtype=np.int64) if mask is None else mask.numpy().astype(np.int64)


def onnxruntime_opens(model: Any) -> Open:
    """What opens the graphs of a model in ONNX Runtime: those of an encoder of texts with fused attention."""
    encoder = isinstance(model, Encoder) and model.patches is None
    return (lambda path: OnnxRuntimeSession(fused(path), path.parent)) if encoder else OnnxRuntimeSession


def open_engine(name: str, directory: Path, model: Any, precision: str) -> GraphEngine:
    """The engine of an export, by ONNX Runtime or OpenVINO.  Raises what the library raises for unusable files."""
    session = OpenVinoSession if name == "openvino" else onnxruntime_opens(model)
    return GraphEngine(name, precision, directory, model, session)
