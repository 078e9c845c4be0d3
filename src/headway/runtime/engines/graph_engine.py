"""An engine that runs exported graphs: of an encoder, of a decoder with its cache, or of an encoder-decoder.

A graph computes what the model computes, so that Headway's own loops sample and search over it, as over the model.

Letters: B rows, T length, P past tokens, S source length, N chosen places, D width, V vocabulary, C classes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import padded
from headway.generation.beam import Hypothesis
from headway.generation.decode import Steps
from headway.models.heads import Gives, gives
from headway.models.transformer import EncoderDecoder
from headway.runtime.engines.engine import Lacks, Searching, Writing, search_by, write_by
from headway.runtime.engines.graph import DECODER, ENCODER, MODEL, Open, Session, Written, present

SEGMENTS, MASK, PIXELS = "token_type_ids", "attention_mask", "pixel_values"
OF_TOKENS, OF_TEXT = "last_hidden_state", "sentence_embedding"


class GraphEngine:
    """The graphs of one export, opened by ``session``."""

    def __init__(self, name: str, precision: str, directory: Path, model: Any, session: Open):
        self.name, self.precision = name, precision
        self.source = session(directory / ENCODER) if isinstance(model, EncoderDecoder) else None
        self.session = session(directory / (MODEL if self.source is None else DECODER))
        self._pools = gives(model) is Gives.VECTOR

    def output(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        chosen: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """Ids (B, T), their mask and segments, or images (B, channels, H, W) -> what the model gives for them.

        With ``chosen``, bool (B, T), the logits of only those N places, (N, V).
        """
        shapes = self.session.shapes
        if PIXELS in shapes:
            (found,) = self.session(pixel_values=ids.numpy()).values()
            return torch.from_numpy(found)
        given = {"input_ids": ids.numpy(), MASK: _whole_numbers(mask, ids)}
        if SEGMENTS in shapes:
            given[SEGMENTS] = np.zeros_like(given["input_ids"]) if segments is None else segments.numpy()
        elif segments is not None:
            raise Lacks("read two texts together")
        outputs = self.session(**given)
        named = outputs.get("logits", outputs.get(OF_TEXT if self._pools else OF_TOKENS))
        output = torch.from_numpy(named)
        return output if chosen is None else output[chosen]

    def write(self, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
        """New tokens by row."""
        return write_by(GraphDecoder(self.session), prompts, how)

    def search(self, sources: Sequence[Sequence[int]], how: Searching) -> list[list[Hypothesis]]:
        """The best targets of each source; a decoder continues the source itself."""
        start = list(how.rules.start)

        def model_of(chosen: Sequence[Sequence[int]]) -> tuple[Any, list[list[int]]]:
            if self.source is None:
                return GraphDecoder(self.session), [[*source, *start] for source in chosen]
            return GraphTargets(self.source, self.session, chosen), [start for _ in chosen]

        return search_by(model_of, sources, how)


class GraphDecoder:
    """A decoder's graph, as ``generation.decode`` and ``generation.beam`` continue texts by it."""

    def __init__(self, session: Session):
        self.session = session

    def new_state(self) -> "DecoderState":
        """An empty state."""
        return DecoderState()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, T) -> (B, V)."""
        state = self.new_state() if state is None else state
        if state.written is None:
            state.written = Written(self.session, len(ids))
        new = _whole_numbers(mask, ids)
        state.mask = new if state.mask is None else np.concatenate([state.mask, new], axis=1)  # (B, P + T)
        logits = state.written.read(input_ids=ids.numpy(), attention_mask=state.mask)
        return torch.from_numpy(logits)[:, -1]


class DecoderState:
    """What a decoder's graph has read of some texts."""

    def __init__(self) -> None:
        self.written: Written | None = None
        self.mask: np.ndarray | None = None

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows, (B',) int64, in that order; rows may repeat or be left out."""
        assert self.written is not None and self.mask is not None
        self.written.reorder(rows.numpy())
        self.mask = self.mask[rows.numpy()]


class GraphTargets:
    """The targets of given sources, as ``generation.beam`` searches them; the sources are read once, now."""

    def __init__(self, encoder: Session, decoder: Session, sources: Sequence[Sequence[int]]):
        ids, mask = padded(sources, "cpu")  # (B, S) both
        seen = _whole_numbers(mask, ids)
        found = encoder(input_ids=ids.numpy(), attention_mask=seen)
        self.decoder = decoder
        self.source: dict[str, np.ndarray] = {"encoder_attention_mask": seen}
        self.source |= {name: found[present(name)] for name in decoder.shapes if present(name) in found}

    def new_state(self) -> "TargetState":
        """An empty state for the targets of all sources, in their order."""
        return TargetState(
            self.source, Written(self.decoder, len(self.source["encoder_attention_mask"]), **self.source)
        )

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """(B, T), without padding, -> (B, V)."""
        state = self.new_state() if state is None else state
        return torch.from_numpy(state.written.read(input_ids=ids.numpy()))[:, -1]


class TargetState:
    """What a decoder's graph has read of some targets, and which source each belongs to."""

    def __init__(self, source: dict[str, np.ndarray], written: Written):
        self._source, self.written = source, written
        self._owners = np.arange(len(source["encoder_attention_mask"]))

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows, (B',) int64, in that order; the keys of sources are only copied where they change."""
        self.written.reorder(rows.numpy())
        owners = self._owners[rows.numpy()]
        if not np.array_equal(owners, self._owners):
            self._owners = owners
            self.written.source = {name: array[owners] for name, array in self._source.items()}


def _whole_numbers(mask: Tensor | None, ids: Tensor) -> np.ndarray:
    """A mask as a graph reads it, int64 (B, T)."""
    return np.ones(ids.shape, dtype=np.int64) if mask is None else mask.numpy().astype(np.int64)
