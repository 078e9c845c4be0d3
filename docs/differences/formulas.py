"""The formulas of some texts that differ from those of the papers, to measure the effect of each.

No model of Headway uses them.  The pages in this folder name the sources and the consequences.

Letters: B batch, H heads, T length, K head width, D width.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.attention import Attention
from headway.nn.block import Residual


def layer_norm_outside(x: Tensor, eps: float, *, unbiased: bool = False) -> Tensor:
    """(x - mean) / (σ + ε) over the last axis, with ε outside the root: (..., D) -> (..., D).

    ``unbiased`` divides the variance by D - 1.
    """
    variance = x.var(dim=-1, keepdim=True, correction=int(unbiased))
    return (x - x.mean(dim=-1, keepdim=True)) / (variance.sqrt() + eps)


class NormalisedResidual(Residual):
    """norm(x) + dropout(layer(norm(x))): the residual connection starts after the norm, not before it."""

    def forward(self, x: Tensor, **given: Any) -> Tensor:
        """(B, T, D) -> (B, T, D); keyword arguments go to the layer."""
        x = self.norm(x)
        return x + self.dropout(self.layer(x, **given))


def with_normalised_residuals(model: nn.Module) -> nn.Module:
    """Change a model in place so that its residuals add to the normalised stream; all weights stay."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is Residual:
                setattr(module, name, NormalisedResidual(child.layer, child.norm, "pre", child.dropout.p))
    return model


def along_depth(model: Any, ids: Tensor) -> list[dict[str, float]]:
    """Statistics of the stream after the embedding and after each block of an encoder or decoder.

    ``size`` is the standard deviation of its entries, ``cosine`` the mean cosine with the output of the
    embedding, and ``gradient`` the norm of the gradient of a random weighted sum of the model's outputs.
    """
    streams: list[Tensor] = []

    def note(module: nn.Module, given: Any, x: Tensor) -> None:
        x.retain_grad()
        streams.append(x)

    parts = [model.stack.embedding, *model.stack.blocks]
    hooks = [part.register_forward_hook(note) for part in parts]
    try:
        result = model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    (result * torch.randn(result.shape, generator=torch.Generator().manual_seed(0))).sum().backward()
    model.zero_grad()
    rows = []
    for x in streams:
        gradient = x.grad.norm() if x.grad is not None else torch.tensor(0.0)
        cosine = F.cosine_similarity(streams[0].detach(), x.detach(), dim=-1).mean()
        rows.append({"size": float(x.detach().std()), "cosine": float(cosine), "gradient": float(gradient)})
    return rows


def sinusoids_shifted(positions: Tensor, width: int, shift: int = 1) -> Tensor:
    """sin(p / 10000^(2i/D)) at 2i and cos(p / 10000^((2i + shift)/D)) at 2i + 1: (T,) -> (T, D) float64, D even.

    ``shift`` 0 gives the paper's table.  With 1 the cosine has the exponent of its own place, with 2 the exponent of
    the next pair.
    """
    at = positions.double()[:, None]
    even = torch.arange(0, width, 2).double()
    table = torch.zeros(len(positions), width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(at * 10000.0 ** (-even / width))
    table[:, 1::2] = torch.cos(at * 10000.0 ** (-(even + shift) / width))
    return table


def left_by_best_matrix(table: Tensor, distance: int) -> Tensor:
    """The error of the best matrix that maps each row to the row ``distance`` later: (T, D) -> (D,).

    It is the root mean square error of each entry for the least-squares matrix.
    """
    before, after = table[:-distance], table[distance:]
    matrix = torch.linalg.lstsq(before, after, driver="gelsd").solution  # (D, D)
    return (before @ matrix - after).square().mean(dim=0).sqrt()


def spread_of_products(table: Tensor, distance: int) -> float:
    """The largest minus the smallest product of two rows that are ``distance`` apart."""
    products = (table[:-distance] * table[distance:]).sum(dim=-1)
    return float(products.max() - products.min())


def average_heads(heads: Tensor, matrix: Tensor) -> Tensor:
    """The mean of the heads, projected: (B, H, T, K) and (D, K) -> (B, T, D)."""
    return heads.mean(dim=1) @ matrix.T


def output_matrix_of_mean(matrix: Tensor, n_heads: int) -> Tensor:
    """The output matrix by which concatenated heads give their projected mean: (D, K) -> (D, H K)."""
    return matrix.repeat(1, n_heads) / n_heads


def with_averaged_heads(layer: Attention) -> Attention:
    """Change an attention layer in place so that it averages its heads: its output matrix becomes the repeated mean of
    its blocks, which is the nearest matrix of that form.
    """
    blocks = layer.out.weight.detach().unflatten(1, (layer.n_heads, -1))  # (D, H, K)
    with torch.no_grad():
        layer.out.weight.copy_(output_matrix_of_mean(blocks.mean(dim=1) * layer.n_heads, layer.n_heads))
    return layer


def rank(outputs: Tensor, tolerance: float = 1e-6) -> int:
    """The numerical rank of vectors (N, D): singular values above ``tolerance`` times the largest."""
    sizes = torch.linalg.svdvals(outputs.double())
    return int((sizes > tolerance * sizes[0]).sum())
