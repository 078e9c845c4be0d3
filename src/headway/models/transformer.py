"""The three wirings of the block.

    Encoder          every token attends to every token              -> vectors, or a head's output
    Decoder          every token attends to itself and those before  -> logits of the next token
    EncoderDecoder   a decoder that also attends to an encoder       -> logits of the next target token

Letters: B batch, T length (target), S source length, D width, V vocabulary, C classes.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headway.models.config import Patches, Positions, TransformerConfig, check_field
from headway.models.heads import TokenHead, make_norm
from headway.nn import positions
from headway.nn.attention import Attention
from headway.nn.block import Block
from headway.nn.dropout import Dropout
from headway.nn.feedforward import FeedForward
from headway.nn.masks import attention_mask, token_positions, with_bias
from headway.nn.masks import source_mask as across_mask
from headway.nn.patch_embedding import PatchEmbedding
from headway.nn.positions import PositionEncoding
from headway.nn.state import State


class Encoder(nn.Module):
    """Encoder-only: contextual vectors (BERT, RoBERTa, ModernBERT, ViT), and the output of ``head`` on them.

    ``pooler`` is the pooling of the first vector in some families (BERT, ViT); ``pooled`` computes it, ``forward`` does
    not use it.  With ``patches`` the encoder reads images instead of ids (ViT): (B, C, H, W) float, N + 1 tokens each.
    """

    def __init__(
        self,
        config: TransformerConfig,
        head: nn.Module | None = None,
        pooler: nn.Module | None = None,
        *,
        patches: Patches | None = None,
    ):
        super().__init__()
        self.config = config
        self.patches = patches
        self.stack = Stack(config, causal=False, embedding=patch_embedding(config, patches) if patches else None)
        self.head = head
        self.pooler = pooler

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None, *, chosen: Tensor | None = None
    ) -> Tensor:
        """(B, T) int -> (B, T, D) vectors, or (B, T, V) or (B, C) by the head.  ``mask`` is true for tokens.

        ``chosen``, bool (B, T), is for a masked-token head: logits of only those N positions, (N, V).
        """
        x = self.stack(ids, mask, segments=segments)
        if self.head is None:
            return x
        return self.head(x, mask) if chosen is None else self.head(x, mask, chosen)

    def pooled(self, ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """One vector per sequence, by the family's own pooler: (B, T) int -> (B, D)."""
        if self.pooler is None:
            raise ValueError("this model has no pooler; pool its vectors with models.heads.pool")
        return self.pooler(self.stack(ids, mask, segments=segments), mask)


class Decoder(nn.Module):
    """Decoder-only: a causal language model (GPT-2, Llama, Qwen), unless another ``head`` is given."""

    def __init__(self, config: TransformerConfig, head: nn.Module | None = None):
        super().__init__()
        self.config = config
        self.stack = Stack(config, causal=True)
        self.head = head or TokenHead(config, self.stack.embedding.tokens)

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, state: State | None = None, chosen: Tensor | None = None
    ) -> Tensor:
        """(B, T) int -> logits (B, T, V).  With a state, ``ids`` and ``mask`` continue what it has read.

        ``chosen``, bool (B, T), limits the logits to the N positions where it is true: (N, V).
        """
        x = self.stack(ids, mask, state)
        return self.head(x, mask) if chosen is None else self.head(x[chosen])

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: State | None = None) -> Tensor:
        """Logits of only the token after the last of ``ids``: (B, T) -> (B, V).  Padding must be on the left."""
        return self.head(self.stack(ids, mask, state)[:, -1])

    def new_state(self) -> State:
        """An empty state, to pass to every call that continues the same sequences."""
        return State(self.config.n_layers)


class EncoderDecoder(nn.Module):
    """Encoder-decoder: logits of a target, given a source (Vaswani et al. 2017, T5, BART, Marian).

    ``encoder`` is the encoder's configuration where it differs from the decoder's.  Both share one table of token
    vectors where their sizes allow it, unless ``shared`` is false.
    """

    def __init__(self, config: TransformerConfig, encoder: TransformerConfig | None = None, *, shared: bool = True):
        super().__init__()
        self.config = config
        self.encoder_config = encoder or config
        self.encoder = Stack(self.encoder_config, causal=False)
        self.decoder = Stack(config, causal=True, d_source=self.encoder_config.d_model)
        self.shared = shared and shares_embedding(config, self.encoder_config)
        if self.shared:
            self.encoder.embedding.tokens.weight = self.decoder.embedding.tokens.weight
        self.head: nn.Module = TokenHead(config, self.decoder.embedding.tokens)

    def forward(self, source_ids: Tensor, target_ids: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """(B, S) and (B, T) int -> logits (B, T, V).  ``target_ids`` are the decoder's inputs, already shifted."""
        return self.decode(target_ids, self.encode(source_ids, source_mask), source_mask)

    def encode(self, source_ids: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """(B, S) int -> (B, S, D)."""
        return self.encoder(source_ids, source_mask)

    def decode(
        self, target_ids: Tensor, source: Tensor, source_mask: Tensor | None = None, state: State | None = None
    ) -> Tensor:
        """(B, T) int and an encoded source (B, S, D) -> logits (B, T, V).

        A state keeps the source mask of its first call, and reorders it with everything else.
        """
        return self.head(self._read(target_ids, None, source, source_mask, state))

    def next_logits(
        self,
        target_ids: Tensor,
        source: Tensor,
        source_mask: Tensor | None = None,
        state: State | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Logits of only the token after the last target token: (B, T) and (B, S, D) -> (B, V).

        ``mask`` (B, T) is true where there is a target token; padding must be on the left.
        """
        return self.head(self._read(target_ids, mask, source, source_mask, state)[:, -1])

    def _read(
        self, target_ids: Tensor, mask: Tensor | None, source: Tensor, source_mask: Tensor | None, state: State | None
    ) -> Tensor:
        if state is not None:
            if state.source_mask is None:
                state.source_mask = source_mask
            source_mask = state.source_mask
        return self.decoder(target_ids, mask, state, source=source, source_mask=source_mask)

    def new_state(self) -> State:
        """An empty state for ``decode``; the source's keys are computed once and kept in it."""
        return State(self.config.n_layers)


class Embeddings(nn.Module):
    """Token vectors, with the additions of the configuration: positions, segments, a scale, a norm, dropout."""

    def __init__(self, config: TransformerConfig, position: PositionEncoding):
        super().__init__()
        if config.vocab_size < 1:
            raise ValueError("vocab_size is 0, but a model that reads tokens must know at least one")
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.position = position
        self.learned = position.make_vectors()
        self.segments = nn.Embedding(config.segments, config.d_model) if config.segments else None
        self.scale = math.sqrt(config.d_model) if config.embedding_scale else None
        self.norm = make_norm(config) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)

    def forward(self, ids: Tensor, positions: Tensor, segments: Tensor | None, length: int) -> Tensor:
        """(B, T) int, with positions (B or 1, T), all below ``length`` -> (B, T, D)."""
        x = self.tokens(ids)
        if self.scale is not None:
            x = x * self.scale
        vectors = self.position.embed(positions, length)  # (B or 1, T, D)
        if vectors is not None:
            x = x + vectors.to(x.dtype)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        return self.dropout(self.norm(x))

    def size(self, ids: Tensor) -> tuple[int, int]:
        """The number of sequences and the number of tokens of each: B and T."""
        batch, length = ids.shape
        return batch, length


class Stack(nn.Module):
    """Embeddings, the blocks, and the final norm of a pre-norm model: shared by all three wirings."""

    def __init__(
        self,
        config: TransformerConfig,
        *,
        causal: bool,
        d_source: int | None = None,
        embedding: PatchEmbedding | None = None,
    ):
        super().__init__()
        self.config, self.causal = config, causal
        self.embedding: Embeddings | PatchEmbedding = (
            Embeddings(config, position_encoding(config, causal=causal)) if embedding is None else embedding
        )
        self.blocks = nn.ModuleList(block(config, layer, d_source) for layer in range(config.n_layers))
        self.norm = make_norm(config) if config.norm_order == "pre" else nn.Identity()
        self.windows = [config.layer_window(layer) for layer in range(config.n_layers)]
        self.relative = self.embedding.position.make_biases()
        self.recompute = False
        """whether to recompute blocks in the backward pass instead of storing their activations (Chen et al. 2016)"""

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        state: State | None = None,
        *,
        segments: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: Tensor | None = None,
    ) -> Tensor:
        """(B, T) int -> (B, T, D).  ``source`` (B, S, D) and its mask (B, S) are for blocks with cross-attention."""
        queries, keys, key_mask = self._positions(ids, mask, state)
        position, windows = self.embedding.position, set(self.windows)
        masks = {window: self.attention_mask(queries, keys, key_mask, window) for window in windows}
        rotations = {window: position.rotation(queries, window) for window in windows}
        unread = state is None or not state.cross[0].length
        across = None if source_mask is None else across_mask(source_mask, check=unread)
        x = self.embedding(ids, queries, segments, length=keys.shape[1])
        recompute = self.recompute and torch.is_grad_enabled()
        for layer, block in enumerate(self.blocks):
            window = self.windows[layer]
            run = partial(checkpoint, block, use_reentrant=False) if recompute else block
            x = run(
                x,
                mask=masks[window][0],
                causal=masks[window][1],
                rotation=rotations[window],
                cache=None if state is None else state.layers[layer],
                source=source,
                source_mask=across,
                source_cache=None if state is None else state.cross[layer],
            )
        return self.norm(x)

    def _positions(self, ids: Tensor, mask: Tensor | None, state: State | None):
        """Positions of the queries (B or 1, T) and keys (B or 1, S), and which keys are real (B, S) or None."""
        batch, length = self.embedding.size(ids)
        if state is not None:
            return state.place(mask, batch, length, ids.device)
        keys = torch.arange(length, device=ids.device)[None] if mask is None else token_positions(mask)
        return keys, keys, mask

    def attention_mask(
        self, queries: Tensor, keys: Tensor, key_mask: Tensor | None, window: int | None
    ) -> tuple[Tensor | None, bool]:
        """The mask for layers with that window (or None), and whether attention is plainly causal.

        The mask includes the bias of the positions.  Without such a bias and without padding, attention needs no mask
        for as many queries as keys, nor for one query after all keys.
        """
        n_queries, n_keys = queries.shape[1], keys.shape[1]
        bias = self.embedding.position.bias(queries, keys)
        if bias is None and key_mask is None:
            if n_queries == n_keys:
                return None, self.causal
            if n_queries == 1 and window is None:
                return None, False
        mask = attention_mask(queries, keys, causal=self.causal, window=window, key_mask=key_mask)
        return with_bias(mask, bias), False


def shares_embedding(decoder: TransformerConfig, encoder: TransformerConfig) -> bool:
    """Whether one table of token vectors can serve both stacks of an encoder-decoder."""
    return (decoder.vocab_size, decoder.d_model) == (encoder.vocab_size, encoder.d_model)


def block(config: TransformerConfig, layer: int, d_source: int | None, kind: type[Block] = Block) -> Block:
    """One block as the configuration wants it; ``kind`` is a subclass with another ``forward``."""

    def attention(source: int | None, window: int | None) -> Attention:
        return Attention(
            config.d_model,
            config.n_heads,
            n_kv_heads=config.n_kv_heads,
            d_head=config.d_head,
            d_source=source,
            bias="qkv" in config.bias,
            out_bias="out" in config.bias,
            qk_norm=(lambda width: make_norm(config, width)) if config.qk_norm else None,
            dropout=config.dropout,
            window=window,
        )

    feedforward = FeedForward(
        config.d_model, config.hidden, activation=config.activation, gated=config.gated, bias="ff" in config.bias
    )
    block = kind(
        attention(None, config.layer_window(layer)),
        feedforward,
        lambda: make_norm(config),
        cross=attention(d_source, None) if d_source is not None else None,
        order=config.norm_order,
        dropout=config.dropout,
    )
    if layer == 0 and not config.first_norm:
        block.attention.norm = nn.Identity()
    return block


def position_encoding(config: TransformerConfig, *, causal: bool) -> PositionEncoding:
    """A new encoding, for one stack of blocks; ``causal``: whether its queries cannot attend to later keys."""
    return ENCODINGS[config.position.kind](config, config.position, causal)


ENCODINGS: dict[str, Callable[[TransformerConfig, Positions, bool], PositionEncoding]] = {
    "sinusoidal": lambda config, own, _: positions.SinusoidalEncoding(config.d_model, own.start, own.sinusoids),
    "learned": lambda config, own, _: positions.LearnedEncoding(config.max_length, config.d_model, own.start),
    "rotary": lambda config, own, _: positions.RotaryEncoding(config.rotated, own.base, own.window_base, own.scaling),
    "alibi": lambda config, *_: positions.AlibiEncoding(config.n_heads),
    "relative": lambda config, own, causal: positions.RelativeEncoding(
        config.n_heads, own.buckets, own.max_distance, causal=causal
    ),
    "none": lambda *_: PositionEncoding(),
}


def patch_embedding(config: TransformerConfig, patches: Patches) -> PatchEmbedding:
    """The embedding of a model that reads images.

    Raises ValueError where the configuration asks for something that such an embedding does not support.
    """
    wanted = {"vocab_size": 0, "max_length": patches.tokens, "embedding_norm": False}
    for name, value in {**wanted, "embedding_scale": False, "segments": 0}.items():
        check_field(config, getattr(config, name) == value, name, f"{value} for these patches")
    if config.position.kind != "learned" or config.position.start:
        raise ValueError(f"positions is {config.position.kind!r}, but must be learned, from 0, for patches")
    return PatchEmbedding(config.d_model, patches.image_size, patches.patch_size, patches.channels, config.dropout)
