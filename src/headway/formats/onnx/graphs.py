"""The graphs that a model is exported to ONNX as: their modules, inputs, outputs and axes, with Hugging Face's names.

    encoder           model.onnx     input_ids, attention_mask -> logits, or last_hidden_state and sentence_embedding,
                                     or logits.COLUMN for each of several label columns
    image encoder     model.onnx     pixel_values -> logits, or last_hidden_state
    decoder           model.onnx     input_ids, attention_mask, past_key_values.N.key, ... -> logits, present.N.key, ...
    encoder-decoder   encoder.onnx   input_ids, attention_mask -> last_hidden_state, present.N.encoder.key, ...
                      decoder.onnx   input_ids, encoder_attention_mask, past_key_values.N.decoder.key, ...,
                                     past_key_values.N.encoder.key, ... -> logits, present.N.decoder.key, ...

A decoder reads a prompt and every later token by the same graph: before the prompt, the past has no tokens.  The mask
of a decoder covers the past as well as the new tokens.  The keys and values of a source are computed once, by the
encoder's graph.

Letters: B batch, T tokens, P past tokens, S source length, G key-value heads, K head width.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headway.formats.onnx.engine import (
    DECODER,
    ENCODER,
    IDS,
    MASK,
    MODEL,
    OF_COLUMN,
    PAST_NAME,
    PIXELS,
    SEGMENTS,
    SOURCE_MASK,
    present,
)
from headway.hub.kept_entries import COLUMNS, kept, width
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.state import KeyValueCache, State
from headway.runtime.engine import LOGITS, OF_TEXT, OF_TOKENS

BATCH, LENGTH, PAST, SOURCE = 2, 3, 5, 7
"""The sizes of the inputs with which a graph is traced; it takes any others."""


class Value(NamedTuple):
    """An input of a graph: an example of it, and the names of the axes that may have any size."""

    example: Tensor
    axes: dict[int, str]


class Graph(NamedTuple):
    """One file: the module that is traced, its inputs by name in the module's order, and the names of its outputs."""

    file: str
    module: nn.Module
    inputs: dict[str, Value]
    outputs: list[str]


def graphs_of(model: Any, names: Collection[str] = (SEGMENTS,)) -> list[Graph]:
    """The graphs of a model, whose tokenizer gives inputs of these ``names``.  Raises ValueError for one without."""
    if isinstance(model, EncoderDecoder):
        ids = _tokens((IDS, MASK), SOURCE, "encoder_sequence_length")
        source = _caches(model.config, "{}.encoder", SOURCE, "encoder_sequence_length")
        past = _caches(model.config, "{}.decoder", PAST, "past_sequence_length")
        new = _tokens((IDS,), LENGTH, "sequence_length") | _tokens((SOURCE_MASK,), SOURCE, "encoder_sequence_length")
        return [
            Graph(ENCODER, TracedSourceEncoder(model), ids, [OF_TOKENS, *map(present, source)]),
            Graph(DECODER, TracedTargetDecoder(model), new | past | source, [LOGITS, *map(present, past)]),
        ]
    if isinstance(model, Decoder) and gives(model).each_token:
        past = _caches(model.config, "{}", PAST, "past_sequence_length")
        new = _tokens((IDS,), LENGTH, "sequence_length") | _tokens((MASK,), PAST + LENGTH, "total_sequence_length")
        output = OF_TOKENS if gives(model) is Gives.HIDDEN else LOGITS
        return [Graph(MODEL, TracedDecoder(model), new | past, [output, *map(present, past)])]
    if not isinstance(model, Encoder | Decoder):
        raise ValueError(f"{type(model).__name__} is not a model of Headway")
    if isinstance(model, Encoder) and (patches := model.patches) is not None:
        images = Value(torch.zeros(BATCH, patches.channels, *patches.image_size), {0: "batch_size"})
        return [
            Graph(MODEL, TracedImageEncoder(model), {PIXELS: images}, [OF_TOKENS if model.head is None else LOGITS])
        ]
    segments = [SEGMENTS] if getattr(model.config, "segments", 0) > 1 and SEGMENTS in names else []
    inputs = _tokens((IDS, MASK, *segments), LENGTH, "sequence_length")
    if gives(model) in (Gives.HIDDEN, Gives.VECTOR):
        return [Graph(MODEL, TracedEmbedder(model), inputs, [OF_TOKENS, OF_TEXT])]
    columns = kept(model, COLUMNS) or {}
    outputs = [f"{OF_COLUMN}{name}" for name in columns] or [LOGITS]
    return [Graph(MODEL, TracedEncoder(model, [*map(width, columns.values())]), inputs, outputs)]


def _tokens(names: Collection[str], length: int, axis: str) -> dict[str, Value]:
    """Inputs of whole numbers (B, ``length``)."""
    return {name: Value(torch.ones(BATCH, length, dtype=torch.int64), {0: "batch_size", 1: axis}) for name in names}


def _caches(config: Any, layer_name: str, length: int, axis: str) -> dict[str, Value]:
    """The inputs for keys and values of each layer; ``layer_name`` has {} where the layer's number goes."""
    shape = BATCH, config.kv_heads, length, config.head_width
    return {  # a tensor of its own for each: the tracer takes one that is given twice for one input
        f"{PAST_NAME}.{layer_name.format(layer)}.{part}": Value(torch.zeros(shape), {0: "batch_size", 2: axis})
        for layer in range(config.n_layers)
        for part in ("key", "value")
    }


class Traced(nn.Module):
    """A model as a graph calls it."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model: Any = model


class TracedEncoder(Traced):
    """Ids and their mask -> the output of an encoder, or of a decoder that classifies; of several columns, each."""

    def __init__(self, model: nn.Module, widths: list[int]):
        super().__init__(model)
        self.widths = widths

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor | tuple[Tensor, ...]:
        """(B, T) int64 each -> (B, C), (B, T, C) or (B, T, V), or (B, C) of each column."""
        segments = [] if token_type_ids is None else [token_type_ids]
        output: Tensor = self.model(input_ids, attention_mask.bool(), *segments)
        return output.split(self.widths, dim=1) if self.widths else output


class TracedEmbedder(nn.Module):
    """Ids and their mask -> the vectors of the tokens, and one for the text, as the pipeline computes it."""

    def __init__(self, model: Encoder | Decoder):
        super().__init__()
        self.stack = model.stack
        self.head = model.head or PoolingHead()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(B, T) int64 each -> (B, T, D) and (B, E)."""
        mask = attention_mask.bool()
        x = self.stack(input_ids, mask, segments=token_type_ids)
        return x, self.head(x, mask)


class TracedImageEncoder(Traced):
    """Images -> the output of an encoder of patches."""

    def forward(self, pixel_values: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, classes) or (B, N + 1, D)."""
        return self.model(pixel_values)


class TracedDecoder(Traced):
    """New ids after what was read -> their logits, and all keys and values."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]) -> tuple[Tensor, ...]:
        """(B, T), (B, P + T) int64 and keys and values (B, G, P, K) -> (B, T, V) and (B, G, P + T, K)."""
        state = PastState(past)
        state.mask = attention_mask[:, : state.length].bool()
        logits = self.model(input_ids, attention_mask[:, state.length :].bool(), state)
        return logits, *state.keys_and_values


class TracedSourceEncoder(Traced):
    """A source -> its vectors, and the keys and values of each layer's cross-attention."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
        """(B, S) int64 each -> (B, S, D) and keys and values (B, G, S, K)."""
        source = self.model.encode(input_ids, attention_mask.bool())
        blocks: Any = self.model.decoder.blocks
        return source, *(part for block in blocks for part in block.cross.layer.source_keys(source))


class TracedTargetDecoder(Traced):
    """New ids of a target after those that were read -> their logits, and all keys and values of self-attention."""

    def forward(
        self, input_ids: Tensor, encoder_attention_mask: Tensor, past: list[Tensor], source: list[Tensor]
    ) -> tuple[Tensor, ...]:
        """(B, T), (B, S) int64, keys and values (B, G, P, K) and (B, G, S, K) -> (B, T, V) and (B, G, P + T, K)."""
        state = PastState(past, source)
        state.source_mask = encoder_attention_mask.bool()
        x = self.model.decoder(input_ids, None, state, source_mask=state.source_mask)
        return self.model.head(x), *state.keys_and_values


class PastCache(KeyValueCache):
    """A cache that holds given keys and values (B, G, P, K); what is added is put behind them, in new tensors."""

    def __init__(self, keys: Tensor, values: Tensor):
        super().__init__()
        self.keys, self.values, self.length = keys, values, keys.shape[2]

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add (B, G, T, K) keys and values; return all so far, (B, G, P + T, K)."""
        self.keys, self.values = torch.cat([self.keys, keys], dim=2), torch.cat([self.values, values], dim=2)
        self.length = self.keys.shape[2]
        return self.read()

    def read(self) -> tuple[Tensor, Tensor]:
        """All keys and values so far, each (B, G, P, K)."""
        return self.keys, self.values


class PastState(State):
    """A state with the keys and values of each layer in turn, and those of the source where there is one."""

    def __init__(self, past: list[Tensor], source: list[Tensor] | None = None):
        super().__init__(len(past) // 2)
        self.layers = [PastCache(*pair) for pair in zip(past[0::2], past[1::2], strict=True)]
        if source is not None:
            self.cross = [PastCache(*pair) for pair in zip(source[0::2], source[1::2], strict=True)]

    @property
    def keys_and_values(self) -> list[Tensor]:
        """Keys and values of each layer in turn."""
        return [part for cache in self.layers for part in cache.read()]
