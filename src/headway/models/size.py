"""What a configuration costs, computed before anything is built: parameters, FLOPs, bytes.

Everything here is arithmetic on the configuration; tests compare it with counts on real models.  A multiply-add is two
FLOPs, and only matrix products are counted: the linear layers, the scores and the weighted sums.

Letters: B batch, T length (target), S source length, D width, H heads, G key-value heads, K head width, F hidden width
of the feed-forward layer, V vocabulary, C classes.
"""

from typing import Literal

from headway.models.config import TransformerConfig
from headway.models.heads import HeadSize, TokenHead, norm_size
from headway.models.patches import Patches
from headway.models.transformer import shares_embedding
from headway.nn.kernels.window import window_scores

Wiring = Literal["encoder", "decoder", "encoder-decoder"]


def parameters(
    config: TransformerConfig,
    *,
    wiring: Wiring = "decoder",
    encoder: TransformerConfig | None = None,
    shared: bool = True,
    head: HeadSize | None = None,
    pooler: bool = False,
    patches: Patches | None = None,
) -> dict[str, int]:
    """The number of parameters, by part; a tied matrix is counted once, as embedding.

    "embedding" (tokens or patches, learned positions, relative biases, segments), "attention", "cross", "feedforward",
    "norms" and "head" (with the pooler, if any) add up to "total"; "block" is one block of the (decoder's) stack with
    all its norms.  ``encoder`` and ``shared`` are those of an encoder-decoder; without a ``head``, all but encoders
    give logits; ``pooler`` and ``patches`` are an encoder's.
    """
    _check(wiring, encoder, head, pooler or patches is not None)
    if wiring == "encoder-decoder":
        first = encoder or config
        parts = _stack(config, d_source=first.d_model)
        for part, count in _stack(first, None).items():
            parts[part] += count
        if shared and shares_embedding(config, first):
            parts["embedding"] -= config.vocab_size * config.d_model
        block = _block(config, first.d_model)
    else:
        parts, block = _stack(config, None), _block(config, None)
    head = _head(config, wiring, head)
    parts["head"] = head.matrices - head.shared + head.biases
    parts["norms"] += head.norms
    parts["head"] += (config.d_model + 1) * config.d_model if pooler else 0
    parts["embedding"] += (patches.pixels + 2) * config.d_model if patches is not None else 0  # bias and class token
    return {**parts, "block": sum(block.values()), "total": sum(parts.values())}


def forward_flops(
    config: TransformerConfig,
    batch: int,
    length: int,
    *,
    source_length: int | None = None,
    wiring: Wiring = "decoder",
    encoder: TransformerConfig | None = None,
    shared: bool = True,
    head: HeadSize | None = None,
    pooler: bool = False,
    patches: Patches | None = None,
) -> int:
    """FLOPs of one forward pass over B sequences of T tokens without padding, and without a cache.

    Scores are counted as computed: all T × T of them even under a causal mask, and in a windowed layer the pieces of
    ``attend_window`` where those are fewer.  ``source_length`` is S, for an encoder-decoder (default T).  T includes an
    image's class token; a pooler is not part of a forward pass, and ``shared`` changes nothing here.
    """
    _check(wiring, encoder, head, pooler or patches is not None)
    width = config.d_model
    flops = 0
    if wiring == "encoder-decoder":
        first, source_length = encoder or config, source_length or length
        flops += _stack_flops(first, batch, source_length, causal=False)
        flops += _cross_flops(config, first.d_model, batch, length, source_length)
    flops += _stack_flops(config, batch, length, causal=wiring != "encoder")
    head = _head(config, wiring, head)
    flops += 2 * (batch * length if head.gives.each_token else batch) * head.matrices
    if patches is not None:
        flops += 2 * batch * (length - 1) * patches.pixels * width
    return flops


def flops_per_token(config: TransformerConfig, length: int, *, wiring: Wiring = "decoder") -> float:
    """FLOPs of a forward pass per token, for sequences of that length."""
    return forward_flops(config, 1, length, wiring=wiring) / length


def training_flops(forward: int) -> int:
    """FLOPs of a training step, from those of its forward pass: the backward pass takes twice as many in addition."""
    return 3 * forward


def weight_bytes(count: int, bytes_each: int = 4) -> int:
    """Bytes of that many parameters: 4 each in float32, 2 in bfloat16 or float16, 1 in int8."""
    return count * bytes_each


def cache_bytes(
    config: TransformerConfig, batch: int, length: int, *, source_length: int = 0, bytes_each: int = 4
) -> int:
    """Bytes of the keys and values in a state for B sequences of T tokens (and the S tokens of their sources).

    The cache grows by doubling, from at least 64 tokens, so up to twice as much may be reserved.
    """
    return 2 * config.n_layers * batch * (length + source_length) * config.kv_heads * config.head_width * bytes_each


def _head(config: TransformerConfig, wiring: str, head: HeadSize | None) -> HeadSize:
    """The size of the head; without one, an encoder gives vectors and all others give logits over the vocabulary."""
    if head is not None:
        return head
    return HeadSize() if wiring == "encoder" else TokenHead.size_of(config)


def _stack(config: TransformerConfig, d_source: int | None) -> dict[str, int]:
    width, position = config.d_model, config.position
    embedding = (config.vocab_size + config.segments) * width
    embedding += (config.max_length + position.start) * width if position.kind == "learned" else 0
    embedding += position.buckets * config.n_heads if position.kind == "relative" else 0
    parts = {part: config.n_layers * count for part, count in _block(config, d_source).items()}
    outer = int(config.embedding_norm) + int(config.norm_order == "pre") - int(not config.first_norm)
    parts["norms"] += outer * norm_size(config, width)
    return {"embedding": embedding, **parts}


def _block(config: TransformerConfig, d_source: int | None) -> dict[str, int]:
    width, hidden = config.d_model, config.hidden
    up = 2 * hidden if config.gated else hidden
    feedforward = (up + hidden) * width + (up + width if "ff" in config.bias else 0)
    n_attentions = 1 if d_source is None else 2
    norms = (n_attentions + 1) * norm_size(config, width)
    norms += 2 * n_attentions * norm_size(config, config.head_width) if config.qk_norm else 0
    cross = 0 if d_source is None else _attention(config, d_source)
    return {"attention": _attention(config, width), "cross": cross, "feedforward": feedforward, "norms": norms}


def _attention(config: TransformerConfig, d_source: int) -> int:
    q, kv = config.n_heads * config.head_width, 2 * config.kv_heads * config.head_width
    biases = (q + kv if "qkv" in config.bias else 0) + (config.d_model if "out" in config.bias else 0)
    return 2 * q * config.d_model + kv * d_source + biases


def _stack_flops(config: TransformerConfig, batch: int, length: int, *, causal: bool) -> int:
    """FLOPs of the self-attentions and feed-forward layers."""
    q, kv = config.n_heads * config.head_width, 2 * config.kv_heads * config.head_width
    linear = (2 * q + kv + (3 if config.gated else 2) * config.hidden) * config.d_model
    flops = config.n_layers * 2 * batch * length * linear
    for layer in range(config.n_layers):
        by_mask = config.position.kind in ("alibi", "relative")  # these two use a whole mask
        window = None if by_mask else config.layer_window(layer)
        flops += 2 * 2 * batch * q * window_scores(length, window, causal)
    return flops


def _cross_flops(config: TransformerConfig, d_source: int, batch: int, length: int, source_length: int) -> int:
    """FLOPs of the cross-attentions: queries and outputs of the target, keys and values of the source, and scores."""
    q, kv = config.n_heads * config.head_width, 2 * config.kv_heads * config.head_width
    linear = 2 * q * config.d_model * length + kv * d_source * source_length
    return config.n_layers * 2 * batch * (linear + 2 * q * length * source_length)


def _check(wiring: str, encoder: TransformerConfig | None, head: HeadSize | None, encoders_own: bool) -> None:
    if wiring not in ("encoder", "decoder", "encoder-decoder"):
        raise ValueError(f"wiring is {wiring!r}, but must be encoder, decoder or encoder-decoder")
    if encoder is not None and wiring != "encoder-decoder":
        raise ValueError(f"a second configuration is for the wiring 'encoder-decoder', not {wiring!r}")
    if head is not None and wiring not in head.wirings:
        raise ValueError(f"this head is for the wiring {' or '.join(head.wirings)}, not {wiring!r}")
    if encoders_own and wiring != "encoder":
        raise ValueError(f"a pooler and patches are for the wiring 'encoder', not {wiring!r}")
