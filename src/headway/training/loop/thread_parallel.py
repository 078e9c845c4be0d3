"""The gradient of a batch by several threads, each with a share of its rows (``nn.threads`` says why)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.nn.kernels.dropout import drawing_from
from headway.nn.threads import Threads
from headway.training.hardware.precision import autocast
from headway.training.objective import Objective

MOST_SHARES = 4
"""Maximum number of shares, as each holds a copy of the gradient; with more threads, each share has several."""

LEAST_WORK = 1e10
"""FLOPs of a step from which shares are faster: below, Python's global lock limits the speed."""

TRIED_WORK = 1e9
"""FLOPs of a step from which a run by time measures whether shares are faster."""

MOST_GRADIENT = 200_000
"""Bytes of gradient for each token of a batch up to which shares are faster: every share writes its own gradient, and
all are added.

Fine-tuning 22 M parameters on 512 tokens (180,000) was measured to be faster in two shares; a step of 124 M on 1,024
tokens (480,000) took 2.28 s in two shares and 1.74 s in one.
"""


def share_count(model: nn.Module, objective: Objective, tokens: int) -> int:
    """The number of shares for batches of so many tokens where nothing is timed, as under ``--steps``.

    It depends only on the model, the batch and the number of threads, so that the same command gives the same run.
    """
    gradient = 4 * sum(p.numel() for p in model.parameters() if p.requires_grad)
    return most_shares(model, objective, tokens, LEAST_WORK) if gradient <= MOST_GRADIENT * tokens else 1


def most_shares(model: nn.Module, objective: Objective, tokens: int, least: float | None = None) -> int:
    """One share for each of torch's threads where rows are independent and a step has ``least`` FLOPs, else one share.

    Without ``least``, TRIED_WORK counts.
    """
    weights = sum(layer.weight.numel() for layer in model.modules() if isinstance(layer, nn.Linear))
    work = 6 * weights * tokens  # 2 FLOPs for each weight and token, forward once and backward twice
    pays = objective.by_rows and work >= (TRIED_WORK if least is None else least)
    on_cpu = next(model.parameters()).device.type == "cpu"
    return min(MOST_SHARES, torch.get_num_threads()) if pays and on_cpu else 1


class ThreadParallel:
    """Computes gradients in ``count`` threads; with one, in the caller's.

    The result depends on ``count``, since each share draws its own random numbers, but not on which thread finishes
    first.
    """

    def __init__(self, count: int):
        self.count = count
        self._threads = Threads(count)

    def __enter__(self) -> "ThreadParallel":
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.close()

    def add_gradient(
        self, model: nn.Module, objective: Objective, batch: Batch, precision: str, parameters: Sequence[nn.Parameter]
    ) -> tuple[Tensor, float]:
        """Add the batch's gradient to every ``grad``; returns the loss as validation measures it, a sum in nats, and
        its number of targets, or how much they weigh."""
        if self.count == 1 or len(batch) < 2:
            with autocast(batch.targets.device, precision):
                loss, count, *shown = objective.loss(model, batch)
            if batch.idle:
                loss, count, shown = 0 * loss, 0, []
            loss.backward()
            return _measured(loss, *shown), count
        parts = [batch.rows(index) for index in equal_shares(batch, self.count)]
        seeds = torch.randint(2**62, (len(parts),)).tolist()

        def one(part: Batch, seed: int) -> tuple[Tensor, float, tuple[Tensor | None, ...]]:
            with drawing_from(seed), autocast(part.targets.device, precision):
                loss, count, *shown = objective.loss(model, part)
            return _measured(loss, *shown), count, torch.autograd.grad(loss, parameters, allow_unused=True)

        found = self._threads.map(one, parts, seeds)
        for _, _, gradients in found:
            add_to_grads(parameters, gradients)
        return torch.stack([loss for loss, _, _ in found]).sum(), sum(count for _, count, _ in found)


def add_to_grads(parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    """Add one gradient for each parameter, dense or sparse, to what its ``grad`` holds."""
    pairs = [(p, g) for p, g in zip(parameters, gradients, strict=True) if g is not None]
    dense = [(p.grad, g) for p, g in pairs if p.grad is not None and not g.is_sparse]
    if dense:
        torch._foreach_add_([held for held, _ in dense], [g for _, g in dense])
    for p, g in pairs:
        if p.grad is None:
            p.grad = g
        elif g.is_sparse:
            p.grad = p.grad + g


def equal_shares(batch: Batch, count: int) -> list[Tensor]:
    """The numbers of a batch's rows in at most ``count`` parts whose largest has as few tokens as possible.

    Rows of similar length are in one part, since each part is padded to its own longest row.
    """
    lengths = batch.lengths
    order = lengths.argsort(stable=True)
    sizes = lengths[order].tolist()
    low, high = 1, len(sizes) * sizes[-1]  # tokens of the largest part, padding included
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_parts(sizes, middle)) <= count else (middle + 1, high)
    return list(order.split(_parts(sizes, low)))


def _parts(sizes: list[int], most: int) -> list[int]:
    """How many of these lengths, from the shortest on, are put into each part of at most so many tokens."""
    counts = [0]
    for size in sizes:
        if counts[-1] and (counts[-1] + 1) * size > most:
            counts.append(0)
        counts[-1] += 1
    return counts


def _measured(loss: Tensor, *shown: Tensor) -> Tensor:
    """The loss as validation measures it; not finite where the loss itself is not."""
    return (*shown, loss)[0].detach() + 0 * loss.detach()
