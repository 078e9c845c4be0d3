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

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.hub.directory import read_json
from headway.hub.kept_entries import kept
from headway.hub.label_columns import COLUMNS, width
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.state import KeyValueCache, State
from headway.runtime.engines.graph_engine import DECODER, ENCODER, MODEL, OF_COLUMN, PAST_NAME, SEGMENTS, present

BATCH, LENGTH, PAST, SOURCE = 2, 3, 5, 7
"""The sizes of the inputs with which a graph is traced; it takes any others."""

Axes = dict[int, str]


@dataclass(frozen=True)
class Value:
    """An input of a graph: an example of it, and the names of the axes that may have any size."""

    example: Tensor
    axes: Axes


@dataclass(frozen=True)
class Graph:
    """One file: the module that is traced, its inputs by name in the module's order, and the names of its outputs."""

    file: str
    module: nn.Module
    inputs: dict[str, Value]
    outputs: list[str]


def graphs_of(model: Any, names: Container[str] = (SEGMENTS,)) -> list[Graph]:
    """The graphs of a model, whose tokenizer gives inputs of these ``names``.  Raises ValueError for one without."""
    if isinstance(model, EncoderDecoder):
        return [_source_graph(model), _target_graph(model)]
    if isinstance(model, Decoder):
        return [_decoder_graph(model) if writes(model) else _encoder_graph(model, names)]
    if isinstance(model, Encoder):
        return [_image_graph(model) if model.patches is not None else _encoder_graph(model, names)]
    raise ValueError(f"{type(model).__name__} is not a model of Headway")


def given_names(directory: Path) -> list[str]:
    """The names of the inputs that a directory's tokenizer gives; none where it has no tokenizer."""
    path = directory / "tokenizer_config.json"
    return list(read_json(path)["model_input_names"]) if path.is_file() else []


def writes(model: Any) -> bool:
    """Whether a decoder continues texts: its head gives something for each token."""
    return gives(model).each_token


class Traced(nn.Module):
    """A model as a graph calls it."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model: Any = model


class TracedEncoder(Traced):
    """Ids and their mask -> the output of an encoder, or of a decoder that classifies."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """(B, T) int64 each -> (B, C), (B, T, C) or (B, T, V)."""
        mask = attention_mask.bool()
        return self.model(input_ids, mask) if token_type_ids is None else self.model(input_ids, mask, token_type_ids)


class TracedColumns(Traced):
    """Ids and their mask -> the output of each of several label columns."""

    def __init__(self, model: nn.Module, widths: list[int]):
        super().__init__(model)
        self.widths = widths

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """(B, T) int64 each -> (B, C) of each column."""
        mask = attention_mask.bool()
        logits: Tensor = self.model(input_ids, mask, *([] if token_type_ids is None else [token_type_ids]))
        return logits.split(self.widths, dim=1)


class TracedEmbedder(nn.Module):
    """Ids and their mask -> the vectors of the tokens, and one for the text, as the pipeline computes it."""

    def __init__(self, model: Encoder):
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
        return logits, *keys_and_values(state.layers)


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
        return self.model.head(x), *keys_and_values(state.layers)


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


def keys_and_values(caches: list[KeyValueCache]) -> list[Tensor]:
    """Keys and values of each layer in turn."""
    return [part for cache in caches for part in cache.read()]


def _tokens(length: int, name: str) -> Value:
    return Value(torch.ones(BATCH, length, dtype=torch.int64), {0: "batch_size", 1: name})


def _caches(config: Any, place: str, length: int, name: str) -> dict[str, Value]:
    """The inputs for keys and values of each layer; ``place`` has {} where the layer's number goes."""
    shape = BATCH, config.kv_heads, length, config.head_width
    return {  # a tensor of its own for each: the tracer takes one that is given twice for one input
        f"{place.format(layer)}.{kind}": Value(torch.zeros(shape), {0: "batch_size", 2: name})
        for layer in range(config.n_layers)
        for kind in ("key", "value")
    }


def _encoder_graph(model: Any, names: Container[str]) -> Graph:
    inputs = {name: _tokens(LENGTH, "sequence_length") for name in ("input_ids", "attention_mask")}
    if getattr(model.config, "segments", 0) > 1 and SEGMENTS in names:
        inputs[SEGMENTS] = _tokens(LENGTH, "sequence_length")
    if gives(model) in (Gives.HIDDEN, Gives.VECTOR):
        return Graph(MODEL, TracedEmbedder(model), inputs, ["last_hidden_state", "sentence_embedding"])
    if columns := kept(model, COLUMNS):
        named = [f"{OF_COLUMN}{name}" for name in columns]
        return Graph(MODEL, TracedColumns(model, [*map(width, columns.values())]), inputs, named)
    return Graph(MODEL, TracedEncoder(model), inputs, ["logits"])


def _image_graph(model: Any) -> Graph:
    patches = model.patches
    images = torch.zeros(BATCH, patches.channels, *patches.image_size)
    output = "last_hidden_state" if model.head is None else "logits"
    return Graph(MODEL, TracedImageEncoder(model), {"pixel_values": Value(images, {0: "batch_size"})}, [output])


def _decoder_graph(model: Any) -> Graph:
    past = _caches(model.config, PAST_NAME + ".{}", PAST, "past_sequence_length")
    inputs = {
        "input_ids": _tokens(LENGTH, "sequence_length"),
        "attention_mask": _tokens(PAST + LENGTH, "total_sequence_length"),
        **past,
    }
    output = "last_hidden_state" if gives(model) is Gives.HIDDEN else "logits"
    return Graph(MODEL, TracedDecoder(model), inputs, [output, *_present(past)])


def _source_graph(model: Any) -> Graph:
    inputs = {name: _tokens(SOURCE, "encoder_sequence_length") for name in ("input_ids", "attention_mask")}
    source = _caches(model.config, PAST_NAME + ".{}.encoder", SOURCE, "encoder_sequence_length")
    return Graph(ENCODER, TracedSourceEncoder(model), inputs, ["last_hidden_state", *_present(source)])


def _target_graph(model: Any) -> Graph:
    past = _caches(model.config, PAST_NAME + ".{}.decoder", PAST, "past_sequence_length")
    source = _caches(model.config, PAST_NAME + ".{}.encoder", SOURCE, "encoder_sequence_length")
    inputs = {
        "input_ids": _tokens(LENGTH, "sequence_length"),
        "encoder_attention_mask": _tokens(SOURCE, "encoder_sequence_length"),
        **past,
        **source,
    }
    return Graph(DECODER, TracedTargetDecoder(model), inputs, ["logits", *_present(past)])


def _present(past: dict[str, Value]) -> list[str]:
    return [present(name) for name in past]
