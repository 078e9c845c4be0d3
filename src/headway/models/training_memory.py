"""The memory that training a configuration needs, computed before anything is built: optimiser states, activations.

Weights, gradients and states are exact; activations are an estimate, which tests compare with what autograd stores.

Letters: B batch, T length, D width, H heads, G key-value heads, K head width, F hidden width of the feed-forward layer,
V vocabulary, L layers; c bytes per number in matrix products: 4 in float32, 2 in bfloat16.
"""

from typing import Any

from headway.models.config import TransformerConfig
from headway.models.size import parameters

STREAM = 4
"""Bytes per number between blocks: the residual stream and the norms stay in float32."""


def block_matrices(config: TransformerConfig, **wiring: Any) -> int:
    """The number of entries in the matrices of the blocks, which Muon trains where it is the optimiser.

    ``wiring`` are the keyword arguments of ``size.parameters`` that describe the model.
    """
    bare = {**wiring, "encoder": wiring["encoder"].but(bias=())} if wiring.get("encoder") else wiring
    found = parameters(config.but(bias=()), **bare)
    return found["attention"] + found["cross"] + found["feedforward"]


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
