"""Which implementation computes each operation: the only place that looks at device, precision and shape.

All choices agree in values and gradients up to rounding; they were made by measured speed.  While a graph is exported
(``torch.compiler.is_exporting``), only torch's own operations are chosen, since another program has no others.

Letters: B batch, T queries, S keys, H heads, G heads of keys, K head width, R pairs, N places, V vocabulary,
I inputs, O outputs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from headway.nn.activations import ACTIVATIONS
from headway.nn.kernels.attention import attend_filled, attend_oracle, attend_plain, attend_window
from headway.nn.kernels.closed_form import IGNORED, CrossEntropy, Normalise, Rope, SiluGate, apply_rope_oracle
from headway.nn.kernels.dropout import drop_by_bytes
from headway.nn.kernels.products import (
    FUSED,
    OneDnnLinear,
    has_onednn,
    is_by_columns,
    one_row,
    onednn_everywhere,
    onednn_linear,
)
from headway.nn.kernels.products import has_embedding_bags as has_embedding_bags

ANY_SHAPE = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Torch's fused kernels but cuDNN's, which prepares for each shape that it meets (40 ms each on an H200)."""
PLAIN_SCORES = 1 << 26
"""How many scores plain attention may compute in bfloat16 on a CPU: 128 MiB of them."""
VECTOR = 16
"""Numbers in float32 that a processor with AVX-512 computes at once."""
LEFT_OVER = 6
"""With so many keys beyond whole vectors, filling another vector up is faster (up to 1.9 times, measured)."""
FILLED_SCORES = 1 << 12
"""The fewest scores of a text for which that pays: below, the copy of the keys takes as long as it saves."""
FEW_ROWS = 32
"""How many rows oneDNN may multiply in float32 where torch's own product is as fast for many."""
LARGE_MATRIX = 1 << 18
"""The fewest numbers of a matrix for which that pays: smaller ones are read before other threads are awake."""
LARGE_PRODUCT = 1 << 21
"""The fewest multiplications for which oneDNN pays where it is the faster: a call of it takes 10 µs more."""


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    dropout: float = 0.0,
    window: int | None = None,
) -> Tensor:
    """softmax(q kᵀ / √d_k) v: (B, H, T, K), (B, G, S, K), (B, G, S, K) -> (B, H, T, K).

    Each of the G heads of keys and values serves as many of the H heads of queries.  Likewise keys of fewer rows serve
    as many consecutive rows of queries each: the hypotheses of a beam, which read one source.

    ``mask`` broadcasts to (B, H, T, S): bool, true = may attend, or float, added to the scores.  ``causal`` is the
    causal triangle without a mask tensor, only for T = S (else ValueError).  ``window``, only without a mask and for
    T = S, allows the keys nearer than that.  ``attend_oracle`` computes the same step by step.

    With a window: in pieces, so that the scores grow with T and not with T².  On a CPU with dropout or in bfloat16:
    plain products (``is_plain``).  Otherwise: torch's fused kernel, which stores no T × S scores; on a CPU without
    gradients, with the keys filled up to whole vectors where that is faster; on a GPU without gradients, one that is
    ready for any length.  In an exported graph: step by step, which is as fast there and takes fewer operations.
    """
    rows, heads = q.shape[0] // k.shape[0], q.shape[1] // k.shape[1]
    if rows > 1:  # they act as further queries
        y = attend(q.unflatten(0, (-1, rows)).transpose(1, 2).flatten(2, 3), k, v, mask, causal, dropout)
        return y.unflatten(2, (rows, -1)).transpose(1, 2).flatten(0, 1)
    if heads > 1 and q.shape[2] == 1 and (mask is None or mask.shape[1] == 1):  # of one token, so do heads
        y = attend(q.unflatten(1, (-1, heads)).flatten(2, 3), k, v, mask, False, dropout)  # (B, G, H / G, K)
        return y.flatten(1, 2)[:, :, None]
    if heads > 1:
        k, v = k.repeat_interleave(heads, dim=1), v.repeat_interleave(heads, dim=1)  # (B, H, S, K)
    if window is not None and mask is None and q.shape[2] == k.shape[2]:
        return attend_window(q, k, v, window, causal, dropout)
    if causal and q.shape[2] != k.shape[2]:
        raise ValueError(f"causal needs as many keys as queries, found {q.shape[2]} queries and {k.shape[2]} keys")
    if torch.compiler.is_exporting():
        return attend_oracle(q, k, v, mask, causal)[0]
    n_scores = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
    if is_plain(q.device.type == "cpu", q.dtype == torch.bfloat16, n_scores, dropout):
        return attend_plain(q, k, v, mask, causal, dropout)
    if is_filled(q, k):
        return attend_filled(q, k, v, mask, causal, VECTOR)
    if q.device.type == "cuda" and not torch.is_grad_enabled():
        with sdpa_kernel(ANY_SHAPE):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)


def is_filled(q: Tensor, k: Tensor) -> bool:
    """Whether keys are added to fill whole vectors: for many scores in float32 on a CPU, without gradients.

    The number of texts does not count, so that none is computed otherwise beside others.
    """
    if q.device.type != "cpu" or q.dtype != torch.float32 or q.shape[2] == 1 or torch.is_grad_enabled():
        return False
    if q.shape[1] * q.shape[2] * k.shape[2] < FILLED_SCORES:
        return False
    return k.shape[2] % VECTOR >= LEFT_OVER and torch.backends.cpu.get_cpu_capability() == "AVX512"


def is_plain(cpu: bool, bfloat16: bool, n_scores: int, dropout: float) -> bool:
    """Whether attention without a window stores all its scores, which the memory plan of a run has to count.

    On a CPU in bfloat16 the plain product is about four times as fast as torch's fused kernel, forward and backward
    together; above ``PLAIN_SCORES`` the fused kernel's lower memory matters more (it has no dropout there).
    """
    return cpu and (dropout > 0 or (bfloat16 and n_scores <= PLAIN_SCORES))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> Tensor:
    """x Wᵀ + b, and the activation of it where one is named: (..., I), (O, I), (O,) -> (..., O).

    On a CPU in float32: one row by an embedding bag (``is_one_row``); oneDNN's product where it is faster
    (``is_onednn``), without gradients with the activation in the same pass.  Otherwise: torch's own.
    """
    if is_one_row(x, weight):
        y = one_row(x, weight) if bias is None else one_row(x, weight) + bias
    elif not is_onednn(x, weight):
        y = F.linear(x, weight, bias)
    elif torch.is_grad_enabled():
        y = OneDnnLinear.apply(x, weight, bias)
    elif activation in FUSED:
        return onednn_linear(x, weight, bias, activation)
    else:
        y = onednn_linear(x, weight, bias)
    return y if activation is None else ACTIVATIONS[activation](y)


def is_one_row(x: Tensor, weight: Tensor) -> bool:
    """Whether ``linear`` multiplies one row (..., I) and the matrix (O, I) by an embedding bag.

    Without gradients, where the matrix is large and lies in memory by columns.
    """
    if x.numel() != x.shape[-1] or not is_by_columns(weight) or weight.numel() < LARGE_MATRIX:
        return False
    if x.dtype != torch.float32 or weight.dtype != torch.float32 or x.device.type != "cpu" or weight.is_meta:
        return False
    if torch.is_grad_enabled() or torch.compiler.is_exporting() or torch.is_autocast_enabled("cpu"):
        return False
    return has_embedding_bags()


def is_onednn(x: Tensor, weight: Tensor) -> bool:
    """Whether ``linear`` multiplies x (..., I) and the matrix (O, I) by oneDNN.

    Large products where ``products`` says so; and, without gradients and on several threads, few rows anywhere.
    """
    if x.dtype != torch.float32 or weight.dtype != torch.float32 or x.device.type != "cpu" or weight.is_meta:
        return False
    if torch.compiler.is_exporting():
        return False
    few = 0 < x.numel() <= FEW_ROWS * x.shape[-1] and weight.numel() >= LARGE_MATRIX
    many = x.numel() * weight.shape[0] >= LARGE_PRODUCT
    if not (few or many) or torch.is_autocast_enabled("cpu"):
        return False
    if many and onednn_everywhere():
        return True
    return few and not torch.is_grad_enabled() and torch.get_num_threads() > 1 and has_onednn()


def rms_norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """γ x / √(mean of x² + ε) over the last axis: (..., D) -> (..., D); γ is (D,), or (H, D) with one for each head.

    On a CPU with gradients: in closed form, since torch composes it from several operations; in bfloat16 the result is
    so too, whatever γ is in.  Otherwise: torch's own.
    """
    if x.device.type != "cpu" or not torch.is_grad_enabled() or torch.compiler.is_exporting():
        if weight is not None and weight.dim() > 1:
            return F.rms_norm(x, (x.shape[-1],), None, eps) * weight.to(x.dtype)
        return F.rms_norm(x, (x.shape[-1],), weight, eps)
    return Normalise.apply(x, weight, eps)


def gated(halves: Tensor, activation: str) -> Tensor:
    """activation(a) · b of the halves a and b of the last axis: (..., 2 F) -> (..., F).

    With gradients and silu: in closed form, which stores a quarter less.  Otherwise: torch's own.
    """
    learning = torch.is_grad_enabled() and not torch.compiler.is_exporting()
    if activation == "silu" and learning:
        return SiluGate.apply(halves)
    gate, up = halves.chunk(2, dim=-1)
    return ACTIVATIONS[activation](gate) * up


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (x[i], x[i + R]) by an angle, given its cosine and sine (..., R): (..., K) -> the same.

    Entries past 2 R stay as they are.  The product of a query and a key, each rotated by the angles of its position,
    depends only on the difference of their positions.

    Always with the gradient in closed form: autograd would store more, and torch has no kernel for it.
    """
    cos, sin, width = cos.to(x.dtype), sin.to(x.dtype), 2 * cos.shape[-1]
    rotate = apply_rope_oracle if torch.compiler.is_exporting() else Rope.apply
    rotated = rotate(x[..., :width], cos, sin)
    return rotated if width == x.shape[-1] else torch.cat([rotated, x[..., width:]], dim=-1)


def dropout(x: Tensor, p: float) -> Tensor:
    """``x`` with each entry zeroed with probability ``p`` (rounded to a 256th) and the others divided by 1 - p.

    Always from random bytes, drawn from the thread's own generator, which torch's kernel does not accept.
    """
    return drop_by_bytes(x, p)


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The sum of -ln p of the targets, in nats: (), from logits (N, V) in float32 and targets (N,).

    Targets equal to ``IGNORED`` do not count.  ``smoothing`` spreads that fraction of each target evenly over the
    vocabulary (Szegedy et al. 2016).

    On a CPU with gradients: in closed form, with one exponential per logit.  Otherwise: torch's own.
    """
    if logits.device.type == "cpu" and torch.is_grad_enabled() and logits.requires_grad:
        return CrossEntropy.apply(logits, targets, smoothing)
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORED)


def unsmoothed(loss: Tensor, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """What ``cross_entropy`` with this ``smoothing`` is without it, from its result, and without a gradient."""
    if not smoothing:
        return loss.detach()
    logits, counted = logits.detach(), targets != IGNORED
    apart = logits.mean(dim=-1) - logits.gather(1, targets.clamp(min=0)[:, None])[:, 0]
    return loss.detach() + smoothing * apart[counted].sum()
