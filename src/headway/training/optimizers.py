"""Optimisers: Adam, AdamW (torch's, fused) and Muon, and which parameters each trains."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headway.models.baselines import BaselineStack
from headway.models.transformer import Stack
from headway.nn.attention import Attention
from headway.nn.baselines import GATES, Recurrent
from headway.nn.feedforward import FeedForward
from headway.training.plan import ADAM_BETAS, MuonPlan
from headway.training.sharding import like, whole

EPS = 1e-8
"""What keeps Adam's steps finite."""


class Muon(torch.optim.Optimizer):
    """Momentum whose update is replaced by the nearest orthogonal matrix (Jordan et al. 2024), for hidden matrices.

    Matrices of one shape are orthogonalised together, by the five-step quintic Newton-Schulz iteration in bfloat16 or
    float32 (``dtype``), and scaled by √max(1, rows / columns).  A parameter with an attribute ``stacked`` = n is n
    matrices on top of each other (queries, keys and values; a gate and its values), each orthogonalised separately.
    ``weight_decay`` is per unit of learning rate.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change the weights by their gradients."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = {}
            for p in parameters:
                buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = whole(p.grad.lerp(buffer, group["momentum"]))  # Nesterov's look ahead
                matrix = (p.shape[0] // getattr(p, "stacked", 1), p.shape[1])
                by_shape.setdefault(matrix, []).append((p, update))
            for (rows, columns), pairs in by_shape.items():
                stack = torch.cat([update.view(-1, rows, columns) for _, update in pairs])  # (n, rows, columns)
                stack = orthogonal(stack.to(self.dtype)).float() * max(1.0, rows / columns) ** 0.5
                counts = [update.shape[0] // rows for _, update in pairs]
                for (p, _), new in zip(pairs, stack.split(counts), strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(like(p, new.reshape(p.shape)), alpha=-group["lr"])


def orthogonal(matrices: Tensor) -> Tensor:
    """Bring every singular value near 1 by Newton-Schulz: (n, rows, columns) -> the same."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    if x.shape[-1] >= 2 * x.shape[-2] and x.dtype != torch.bfloat16:
        x = _newton_schulz_of_long(x)
    else:
        for _ in range(5):  # x becomes 3.4445 x - 4.7750 (x xᵀ) x + 2.0315 (x xᵀ)² x
            product = x @ x.mT
            factor = torch.baddbmm(product, product, product, beta=-4.7750, alpha=2.0315)
            x = torch.baddbmm(x, factor, x, beta=3.4445)
    return x.mT if tall else x


def _newton_schulz_of_long(x: Tensor) -> Tensor:
    """The same five steps on G = x xᵀ: each multiplies x by P = 3.4445 - 4.7750 G + 2.0315 G², so G becomes P G P.

    Where x is four times as long as high that takes less than half the time; in bfloat16, G would be too coarse.
    """
    gram = x @ x.mT
    whole = torch.eye(x.shape[-2], dtype=x.dtype, device=x.device).expand_as(gram)
    for _ in range(5):
        factor = torch.baddbmm(gram, gram, gram, beta=-4.7750, alpha=2.0315)
        factor.diagonal(dim1=-2, dim2=-1).add_(3.4445)
        whole = factor @ whole
        gram = factor @ gram @ factor
    return whole @ x


class RowAdam(torch.optim.Optimizer):
    """Adam for a table of which each step reads few rows: it changes only those, and only their moments decay.

    The table's gradient must be sparse (``nn.Embedding.sparse``).  Adam on all rows would also move the others, by
    their old moments; leaving unread rows unchanged is known as "lazy Adam".
    """

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float] = ADAM_BETAS, eps: float = EPS):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Change the rows that have a gradient."""
        for group in self.param_groups:
            first, second = group["betas"]
            for p in (p for p in group["params"] if p.grad is not None):
                state, gradient = self.state[p], p.grad.coalesce()
                if not state:
                    state.update(step=torch.zeros(()), exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                rows, g = gradient.indices()[0], gradient.values()  # (n,), (n, D)
                mean = state["exp_avg"][rows].lerp_(g, 1 - first)
                square = state["exp_avg_sq"][rows].mul_(second).addcmul_(g, g, value=1 - second)
                state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
                count = state["step"].item()
                scale = (square / (1 - second**count)).sqrt_().add_(group["eps"])
                p.index_add_(0, rows, mean / scale, alpha=-group["lr"] / (1 - first**count))


MUON = MuonPlan()
LARGE_TABLE = 4096
"""Rows from which an untied token embedding is trained row by row."""


def optimizers(
    model: nn.Module,
    kind: str,
    lr: float,
    weight_decay: float,
    *,
    muon: MuonPlan = MUON,
    layer_decay: float = 1.0,
    by_rows: bool = False,
    precision: str = "float32",
) -> list[torch.optim.Optimizer]:
    """The optimisers of a model's trained parameters; every group keeps its highest rate in ``peak``.

    The matrices inside the blocks decay, and are Muon's when ``kind`` is "muon"; embeddings, heads, norms and biases
    do not decay and are always Adam's.  Of an own module without blocks (``headway.fit``) all matrices decay.  ``lr``
    is Adam's rate; ``muon`` says what differs with Muon.

    With ``layer_decay`` below 1 the last block and the head have the full rate, each block before ``layer_decay`` times
    that of the next, and the embeddings the least (Howard and Ruder 2018; Sun et al. 2019).  ``by_rows`` gives large
    tables to RowAdam.  The weights of a module with a ``unit`` move in steps of it (the head of a model whose output is
    a number of that unit).  ``precision`` is that of the run; Muon's products are in it too, since its iteration would
    take longer than all the rest on a processor without bfloat16.
    """
    for module in model.modules():
        if isinstance(module, Attention) and hasattr(module, "qkv") and module.n_heads == module.n_kv_heads:
            module.qkv.weight.stacked = 3  # type: ignore[attr-defined]
        if isinstance(module, FeedForward) and module.gated:
            module.up.weight.stacked = 2  # type: ignore[attr-defined]
        if (unit := getattr(module, "unit", None)) is not None:
            for p in module.parameters(recurse=False):
                p.unit = unit  # type: ignore[attr-defined]
        if isinstance(module, Recurrent):
            for p in module.parameters():
                p.stacked = GATES[module.kind]  # type: ignore[attr-defined]
    tables = _large_tables(model) if by_rows else set()
    embeddings = _untied(model) if kind == "muon" and muon.embedding_rate != 1.0 else set()
    hidden = {id(p) for p in _matrices(model)}
    depth = _depths(model) if layer_decay < 1 else {}  # else one group: Muon updates matrices of all blocks together
    groups: dict[tuple[str, int, float], list[nn.Parameter]] = {}
    for p in (p for p in model.parameters() if p.requires_grad):
        what = "table" if id(p) in tables else "matrix" if id(p) in hidden else "other"
        what = "embedding" if id(p) in embeddings - tables else what
        groups.setdefault((what, depth.get(id(p), 0), getattr(p, "unit", 1.0)), []).append(p)
    result: list[torch.optim.Optimizer] = []
    adams, muons = [], []
    for (what, below, unit), params in groups.items():
        rate = lr * layer_decay**below * unit
        if what == "table":
            result.append(RowAdam(params, lr=rate))
        elif what == "matrix" and kind == "muon":
            muons.append({"params": params, "lr": rate * muon.muon_rate, "weight_decay": weight_decay})
        else:
            rate *= muon.embedding_rate if what == "embedding" else 1.0
            decay = weight_decay if what == "matrix" else 0.0
            adams.append({"params": params, "lr": rate, "weight_decay": decay, "eps": EPS / unit})
    if muons:
        result.append(Muon(muons, momentum=muon.momentum, dtype=getattr(torch, precision)))
    adam = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    if adams:
        result.append(adam(adams, betas=(muon.betas[0], muon.betas[1]) if muons else ADAM_BETAS, eps=EPS, fused=True))
    for optimizer in result:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return result


def set_rate(chosen: list[torch.optim.Optimizer], factor: float) -> None:
    """Set every group's rate to ``factor`` times its peak."""
    for optimizer in chosen:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * factor


def _stacks(model: nn.Module) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, Stack | BaselineStack)]


def _matrices(model: nn.Module) -> list[nn.Parameter]:
    """The hidden matrices; of an own module without a stack all but embeddings, kernels of convolutions included."""
    stacks = _stacks(model)
    if stacks or not getattr(model, "own_module", False):
        return [p for stack in stacks for p in stack.blocks.parameters() if p.dim() == 2]
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding | nn.EmbeddingBag)}
    return [p for p in model.parameters() if p.dim() > 1 and id(p) not in tables]


def _large_tables(model: nn.Module) -> set[int]:
    """The large untied token embeddings; from now on their gradients are sparse."""
    alone, tables = _untied(model), set()
    for table in [stack.embedding.tokens for stack in _stacks(model)]:
        if table.num_embeddings >= LARGE_TABLE and id(table.weight) in alone and table.weight.requires_grad:
            table.sparse = True
            tables.add(id(table.weight))
    return tables


def _untied(model: nn.Module) -> set[int]:
    """The token embeddings that are not tied, for example to the head."""
    owners = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    weights = [id(stack.embedding.tokens.weight) for stack in _stacks(model)]
    return {weight for weight in weights if owners[weight] == 1}


def _depths(model: nn.Module) -> dict[int, int]:
    """The depth of each parameter below the top of a stack: 0 for the last trained block, highest for embeddings."""
    depths: dict[int, int] = {}
    for stack in _stacks(model):
        trained = [i for i, block in enumerate(stack.blocks) if any(p.requires_grad for p in block.parameters())]
        top = trained[-1] if trained else len(stack.blocks) - 1
        for p in stack.embedding.parameters():
            depths[id(p)] = top + 1
        for i, block in enumerate(stack.blocks):
            depths |= {id(p): max(0, top - i) for p in block.parameters()}
    return depths
