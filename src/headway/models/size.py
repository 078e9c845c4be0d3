"""What a configuration costs, computed before anything is built: parameters, FLOPs, bytes, the memory of training.

Everything here is arithmetic on the configuration; tests compare it with counts on real models.  A multiply-add is two
FLOPs, and only matrix products are counted: the linear layers, the scores and the weighted sums.  Of the memory of
training, activations are an estimate, which tests compare with what autograd stores.

Letters: B batch, T length (target), S source length, D width, H heads, G key-value heads, K head width, F hidden width
of the feed-forward layer, V vocabulary, C classes, L layers; c bytes per number in matrix products: 4 in float32, 2 in
bfloat16.
"""

from typing import Any, Literal

from headway.models.config import Patches, TransformerConfig
from headway.models.heads import HeadSize, TokenHead, norm_size
from headway.models.transformer import shares_embedding
from headway.nn.kernels.attention import window_scores

Wiring = Literal["encoder", "decoder", "encoder-decoder"]
STREAM = 4
"""Bytes per number between blocks: the residual stream and the norms stay in float32."""


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
        q, kv = config.n_heads * config.head_width, 2 * config.kv_heads * config.head_width
        linear = 2 * q * width * length + kv * first.d_model * source_length  # queries and outputs, keys and values
        flops += config.n_layers * 2 * batch * (linear + 2 * q * length * source_length)
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


def block_matrices(config: TransformerConfig, **wiring: Any) -> int:
    """The number of entries in the matrices of the blocks, which Muon trains where it is the optimiser.

    ``wiring`` are the keyword arguments of ``parameters`` that describe the model.
    """
    bare = {**wiring, "encoder": wiring["encoder"].but(bias=())} if wiring.get("encoder") else wiring
    parts = parameters(config.but(bias=()), **bare)
    return parts["attention"] + parts["cross"] + parts["feedforward"]


def optimizer_bytes(trained: int, matrices: int, optimizer: str) -> int:
    """Bytes of the optimiser's states for ``trained`` parameters, of which ``matrices`` are trained by Muon.

    Adam and AdamW keep two float32 numbers per parameter (and a step count of 4 bytes per tensor, not counted here).
    Muon keeps one per entry of its matrices; AdamW trains the rest.
    """
    return 8 * (trained - matrices) + 4 * matrices if optimizer == "muon" else 8 * trained


def copied_bytes(config: TransformerConfig, c: int, logits: bool, **wiring: Any) -> int:
    """Bytes of the copies of the matrices for products in a lower precision than float32."""
    head = config.vocab_size * config.d_model if logits else 0
    return 0 if c == STREAM else c * (block_matrices(config, **wiring) + head)


def block_activations(config: TransformerConfig, length: int, c: int, *, cross: bool, whole_scores: bool) -> float:
    """Bytes that autograd stores for one block per token, with fused attention, which stores no T × T scores.

    A norm stores its input, 4 D, and its output in the precision of the next product, c D.  Attention stores the
    queries, keys and values, c (H + 2 G) K, each normalised or rotated copy of queries and keys, c (H + G) K, its
    output, c H K, and 4 H for the sums under the softmax.  The feed-forward layer stores 2 c F (ReLU c F, a gated SiLU
    3 c F, gated otherwise 4 c F).  ``whole_scores`` adds the scores of plain attention: c H T per token.
    """
    width, q, kv = config.d_model, config.n_heads * config.head_width, 2 * config.kv_heads * config.head_width
    norm = (STREAM + c) * width
    turned = int(config.qk_norm) + int(config.position.kind == "rotary")
    repeated = 2 * q if config.kv_heads < config.n_heads else 0
    attention = norm + c * (q + kv + turned * (q + kv // 2) + repeated + q) + STREAM * config.n_heads
    scores = (3 if config.dropout else 1) * c * config.n_heads * length if whole_scores else 0
    kept = (3 if config.activation == "silu" else 4) if config.gated else 1 if config.activation == "relu" else 2
    parts = 2 if cross else 1
    dropped = (parts + 1) * STREAM * width if config.dropout else 0
    return parts * (attention + scores) + norm + kept * c * config.hidden + dropped


def activation_bytes(
    config: TransformerConfig,
    batch: int,
    length: int,
    *,
    c: int = 4,
    checkpointed: bool = False,
    logits: float = 1.0,
    encoder: TransformerConfig | None = None,
    whole_scores: bool = False,
) -> int:
    """Bytes that autograd stores in a forward pass over B sequences of T tokens; an estimate.

        B T (L block + ends)            by default
        B T (L 4 D + block + ends)      checkpointed: only the input of each block, and one recomputed block at a time

    ``block`` is that of ``block_activations``.  ``ends`` are the embedding, the last norm and the loss: a float32
    number per entry of the vocabulary, and c more with capped logits.  ``logits`` is the fraction of the positions that
    have logits.  ``encoder`` is that of an encoder-decoder, whose sources are assumed to be as long.
    """
    total = 0.0
    for n, stack in enumerate([config] if encoder is None else [encoder, config]):
        block = block_activations(stack, length, c, cross=n == 1, whole_scores=whole_scores)
        total += (stack.n_layers * STREAM * stack.d_model + block) if checkpointed else stack.n_layers * block
        total += 8 + ((2 if stack.embedding_norm else 1) * STREAM + c) * stack.d_model  # ids, embedding, last norm
        total += STREAM * stack.d_model if stack.dropout else 0
    total += logits * config.vocab_size * (STREAM + (c if config.logit_softcap is not None else 0))
    return int(batch * length * total)


def workspace_bytes(config: TransformerConfig, batch: int, length: int, *, c: int = 4, logits: float = 1.0) -> int:
    """The peak of temporary bytes in a forward and backward pass, in addition to what is stored: an estimate.

    It is reached at the loss, with logits in float32 and in c bytes; or, if that is more, at the gradients inside a
    block.
    """
    loss = logits * (STREAM + c) * config.vocab_size
    inside = STREAM * config.d_model + 2 * c * config.hidden * (2 if config.gated else 1)
    return int(batch * length * max(loss, inside))


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


def _check(wiring: str, encoder: TransformerConfig | None, head: HeadSize | None, encoders_own: bool) -> None:
    if wiring not in ("encoder", "decoder", "encoder-decoder"):
        raise ValueError(f"wiring is {wiring!r}, but must be encoder, decoder or encoder-decoder")
    if encoder is not None and wiring != "encoder-decoder":
        raise ValueError(f"a second configuration is for the wiring 'encoder-decoder', not {wiring!r}")
    if head is not None and wiring not in head.wirings:
        raise ValueError(f"this head is for the wiring {' or '.join(head.wirings)}, not {wiring!r}")
    if encoders_own and wiring != "encoder":
        raise ValueError(f"a pooler and patches are for the wiring 'encoder', not {wiring!r}")
