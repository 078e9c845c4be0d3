"""Optimisers: Adam, AdamW (torch's, fused) and Muon, and which parameters each is given."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.transformer import Stack
from headway.nn.attention import Attention
from headway.nn.feedforward import FeedForward


class Muon(torch.optim.Optimizer):
    """Momentum whose update is replaced by the nearest orthogonal matrix (Jordan et al. 2024), for hidden matrices.

    Matrices of one shape are orthogonalised together, by the five-step quintic Newton-Schulz iteration in bfloat16,
    and scaled by √max(1, rows / columns).  A parameter with an attribute ``stacked`` = n is n matrices on top of each
    other (queries, keys and values; a gate and what it gates), each orthogonalised by itself.  ``weight_decay`` is per
    unit of learning rate.
    """

    def __init__(self, params: Iterable[Any], lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
            for p in parameters:
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(buffer, group["momentum"])  # Nesterov's look ahead
                matrix = (p.shape[0] // getattr(p, "stacked", 1), p.shape[1])
                by_shape.setdefault(matrix, []).append((p, update))
            for (rows, columns), pairs in by_shape.items():
                stack = torch.cat([update.view(-1, rows, columns) for _, update in pairs])  # (n, rows, columns)
                stack = orthogonal(stack).float() * max(1.0, rows / columns) ** 0.5
                counts = [update.shape[0] // rows for _, update in pairs]
                for (p, _), new in zip(pairs, stack.split(counts), strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(new.reshape(p.shape), alpha=-group["lr"])


def orthogonal(matrices: Tensor) -> Tensor:
    """Bring every singular value near 1 by Newton-Schulz: (n, rows, columns) -> the same, in bfloat16."""
    x = matrices.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        product = x @ x.mT
        x = 3.4445 * x + (-4.7750 * product + 2.0315 * product @ product) @ x
    return x.mT if tall else x


def optimizers(model: nn.Module, kind: str, lr: float, weight_decay: float) -> list[torch.optim.Optimizer]:
    """The optimisers of a model; every group keeps its highest rate in ``peak``.

    The matrices inside the blocks decay, and are Muon's when ``kind`` is "muon"; embeddings, heads, norms and biases
    do not decay and are always Adam's.  ``lr`` is Adam's rate; Muon's is ``MUON_RATE`` times it.
    """
    hidden = {id(p) for stack in _stacks(model) for p in stack.blocks.parameters() if p.dim() == 2}
    for module in model.modules():
        if isinstance(module, Attention) and hasattr(module, "qkv") and module.n_heads == module.n_kv_heads:
            module.qkv.weight.stacked = 3  # type: ignore[attr-defined]
        if isinstance(module, FeedForward) and module.gated:
            module.up.weight.stacked = 2  # type: ignore[attr-defined]
    matrices = [p for p in model.parameters() if id(p) in hidden]
    others = [p for p in model.parameters() if id(p) not in hidden]
    result: list[torch.optim.Optimizer] = []
    groups = [{"params": others, "weight_decay": 0.0}]
    if kind == "muon":
        result.append(Muon(matrices, lr=lr * MUON_RATE, weight_decay=weight_decay))
    else:
        groups.append({"params": matrices, "weight_decay": weight_decay})
    adam = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    result.append(adam([g for g in groups if g["params"]], lr=lr, betas=(0.9, 0.99), eps=1e-8, fused=True))
    for optimizer in result:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return result


def set_rate(chosen: list[torch.optim.Optimizer], factor: float) -> None:
    """Set every group's rate to ``factor`` of its highest."""
    for optimizer in chosen:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor


MUON_RATE = 20 / 3
"""Muon's rate over Adam's: 0.02 beside 0.003, the published rate of the one and the best measured of the other."""


def _stacks(model: nn.Module) -> list[Stack]:
    return [module for module in model.modules() if isinstance(module, Stack)]
