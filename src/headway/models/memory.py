"""What training a configuration holds in memory, before anything is built: states of the optimiser, activations.

Weights, gradients and states are exact; activations are an estimate, which the tests compare with what autograd keeps.

Letters: B batch, T length, D width, H heads, G key-value heads, K head width, F hidden width of the feed-forward layer,
V vocabulary, L layers; c bytes of a number in products: 4 in float32, 2 in bfloat16.
"""

from typing import Any

from headway.models.config import TransformerConfig
from headway.models.size import parameters

STREAM = 4
"""Bytes of a number between blocks: the residual stream and the norms stay in float32."""


def block_matrices(config: TransformerConfig, **wiring: Any) -> int:
    """The numbers in the matrices inside the blocks, which are Muon's where that is the optimiser.

    ``wiring`` are the words by which ``size.parameters`` is told what the model is.
    """
    bare = {**wiring, "encoder": wiring["encoder"].but(bias=())} if wiring.get("encoder") else wiring
    found = parameters(config.but(bias=()), **bare)
    return found["attention"] + found["cross"] + found["feedforward"]


def optimizer_bytes(trained: int, matrices: int, optimizer: str) -> int:
    """Bytes of the optimiser's states for so many trained numbers, of which ``matrices`` are Muon's.

    Adam and AdamW keep two float32 numbers for each (and count steps: 4 bytes for each tensor, left out here).  Muon
    keeps one for each number of its matrices; all others are AdamW's.
    """
    return 8 * (trained - matrices) + 4 * matrices if optimizer == "muon" else 8 * trained


def copied_bytes(config: TransformerConfig, c: int, logits: bool, **wiring: Any) -> int:
    """Bytes of the copies of the matrices that products in another precision than float32 are made with."""
    head = config.vocab_size * config.d_model if logits else 0
    return 0 if c == STREAM else c * (block_matrices(config, **wiring) + head)


def block_activations(config: TransformerConfig, length: int, c: int, *, cross: bool, whole_scores: bool) -> float:
    """Bytes that autograd keeps of one block for each token, with fused attention, which keeps no T x T scores.

    A norm keeps its input, 4 D, and its output as the next product reads it, c D.  Attention keeps what the one matrix
    of queries, keys and values gave, c (H + 2 G) K, each normalised or turned copy of queries and keys, c (H + G) K,
    its output, c H K, and 4 H for the sums under the softmax.  The feed-forward layer keeps 2 c F (ReLU c F, gated
    4 c F).  ``whole_scores`` adds those of plain attention: c H T for each token.
    """
    width, q, kv = config.d_model, config.n_heads * config.head_width, 2 * config.kv_heads * config.head_width
    norm = (STREAM + c) * width
    turned = int(config.qk_norm) + int(config.position.kind == "rotary")
    repeated = 2 * q if config.kv_heads < config.n_heads else 0
    attention = norm + c * (q + kv + turned * (q + kv // 2) + repeated + q) + STREAM * config.n_heads
    scores = (3 if config.dropout else 1) * c * config.n_heads * length if whole_scores else 0
    kept = 4 if config.gated else 1 if config.activation == "relu" else 2
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
    """Bytes that autograd keeps of a forward pass over B sequences of T tokens, for the backward pass; an estimate.

        B T (L block + ends)            as it is
        B T (L 4 D + block + ends)      checkpointed: of each block its input alone, and one block made again at a time

    ``block`` is that of ``block_activations``.  ``ends`` are the embedding, the last norm and the loss: a float32
    number for each entry of the vocabulary, and with capped logits c more.  ``logits`` is the share of the positions
    for which there are any.  ``encoder`` is that of an encoder-decoder, whose sources are taken to be as long.
    """
    total = 0.0
    for n, stack in enumerate([config] if encoder is None else [encoder, config]):
        block = block_activations(stack, length, c, cross=n == 1, whole_scores=whole_scores)
        total += (stack.n_layers * STREAM * stack.d_model + block) if checkpointed else stack.n_layers * block
        total += 8 + ((2 if stack.embedding_norm else 1) * STREAM + c) * stack.d_model  # ids, embedding, last norm
        total += STREAM * stack.d_model if stack.dropout else 0
    total += logits * config.vocab_size * (STREAM + (c if config.logit_softcap is not None else 0))
    return int(batch * length * total)


def passing_bytes(config: TransformerConfig, batch: int, length: int, *, c: int = 4, logits: float = 1.0) -> int:
    """Bytes that a forward and backward pass need beside what is kept, at their highest: an estimate.

    Where the loss is made, the logits in float32 and in c bytes; or, if that is more, the gradients inside a block.
    """
    loss = logits * (STREAM + c) * config.vocab_size
    inside = STREAM * config.d_model + 2 * c * config.hidden * (2 if config.gated else 1)
    return int(batch * length * max(loss, inside))
