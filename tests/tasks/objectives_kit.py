"""Models that answer what they are told, for the losses of tasks, and checks that hold for several of these."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from headway.data.batches.batching import Batch


class Recorder(nn.Module):
    """A model that keeps what it was given and answers with fixed logits; twice as many rows are told by ``others``."""

    def __init__(self, logits, *others):
        super().__init__()
        self.logits, self.others = nn.Parameter(logits), others

    def forward(self, ids, *more, chosen=None):
        self.ids, self.chosen = ids, chosen
        if chosen is not None:
            return self.logits.expand(int(chosen.sum()), -1)
        return torch.cat([self.logits, *self.others]) if len(ids) > len(self.logits) else self.logits


def check_r_drop(task, batch, answers, alpha):
    """R-Drop adds the divergence of two answers in training; the mean of their losses is counted once."""
    asked = batch.targets >= 0
    one, other = (answer[asked].log_softmax(dim=-1) for answer in answers)
    plain, *_ = (sum(F.nll_loss(p, batch.targets[asked], reduction="sum") for p in (one, other)) / 2,)
    both = sum(F.kl_div(a, b, log_target=True, reduction="sum") for a, b in ((one, other), (other, one))) / 2
    model = Recorder(*answers).train()
    found, count, _ = task.loss(model, batch)
    assert count == int(asked.sum())
    assert found.item() == pytest.approx((plain + alpha / 2 * both).item(), rel=1e-5)
    once = task.loss(model.eval(), batch)[0]
    assert once.item() == pytest.approx(F.nll_loss(one, batch.targets[asked], reduction="sum").item(), rel=1e-5)


def check_parts(task, model, batch, *cuts):
    """Micro-batches of any size give the gradient of the whole."""
    gradients = []
    for places in ([0, cuts[-1]], [0, *cuts]):
        model.zero_grad()
        count = 0
        for start, stop in pairwise(places):
            mask = None if batch.mask is None else batch.mask[start:stop]
            part = Batch({"ids": batch.ids[start:stop]}, mask, batch.targets[start:stop], batch.kind)
            loss, n, _ = task.loss(model, part)
            loss.backward()
            count += n
        gradients.append([p.grad / count for p in model.parameters()])
    for whole, parts in zip(*gradients, strict=True):
        assert (whole - parts).abs().max() <= 1e-6 * max(1.0, whole.abs().max().item())
