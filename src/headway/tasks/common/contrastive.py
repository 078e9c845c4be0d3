"""Contrastive tuning with few labelled rows: vectors of one label move together, those of different labels apart.

Contrastive tuning before a linear classifier is SetFit (Tunstall et al. 2022); the loss is that of Khosla et al. 2020,
which looks at all pairs of a batch at once.  A batch holds as many rows of each label.
"""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import pad
from headway.models.adapt.freeze import freeze, set_dropout
from headway.models.heads import pool
from headway.models.transformer import Encoder

STEPS = 40
LEAST_STEPS = 5
"""Where the time is not enough for so many, it is better spent on reading rows."""
LEARNING_RATE = 1e-4
BATCH = 16
WARMUP = 0.1
TEMPERATURE = 0.1
TUNED_BY = {"learning_rate": LEARNING_RATE, "batch": BATCH, "warmup": WARMUP, "temperature": TEMPERATURE}
"""What a run records of it, beside the number of steps."""


def tune_vectors(
    model: Encoder,
    rows: Sequence[list[int]],
    targets: Sequence[int] | np.ndarray,
    seed: int,
    show: Callable[[float, float], None],
    seconds: float | None = None,
) -> int:
    """Train the blocks of an encoder on labelled rows of ids, in place; embeddings stay.  Returns the number of steps.

    ``show`` receives the progress (0 to 1) and the loss.  STEPS are taken, or as many as ``seconds`` are enough for.
    """
    began, longest = time.monotonic(), 0.0
    if seconds is not None:
        longest = _step_seconds(model, [rows[i] for i in range(min(len(rows), BATCH))])
        if LEAST_STEPS * longest > seconds:
            return 0
    dropout = model.config.dropout
    set_dropout(freeze(model, 0), 0.1)
    model.train()
    device = next(model.parameters()).device
    parameters = [p for p in model.stack.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.01, fused=True)
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    classes = np.asarray(targets)
    of_class = [np.flatnonzero(classes == c) for c in np.unique(classes)]
    each = max(2, BATCH // len(of_class))
    step, used = 0, 0.0
    while step < STEPS and (seconds is None or used + longest < seconds):
        share = max(step / STEPS, used / (seconds or math.inf))
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (share + 1 / STEPS) / WARMUP) * (1 - share)
        batch = np.concatenate([random.permutation(index)[:each] for index in of_class])
        ids, mask = pad([rows[i] for i in batch])
        ids, mask = ids.to(device), mask.to(device)
        x = pool(model.stack(ids, mask), mask, "mean")  # (B, D)
        loss = pair_loss(x, torch.tensor(classes[batch], device=device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        show(max(step / STEPS, share), loss.item())
        used, longest = time.monotonic() - began, max(longest, time.monotonic() - began - used)
    set_dropout(model, dropout)
    model.requires_grad_(True).eval()
    return step


@torch.no_grad()
def _step_seconds(model: Encoder, rows: Sequence[list[int]]) -> float:
    """About how long a step on such rows takes: three times as long as reading them, which is done twice to warm up."""
    ids, mask = (one.to(next(model.parameters()).device) for one in pad(rows))
    for _ in range(2):
        began = time.monotonic()
        model.stack(ids, mask)
    return 3 * (time.monotonic() - began)


def pair_loss(x: Tensor, targets: Tensor) -> Tensor:
    """The mean over rows of the mean of -ln p of the others of its label, p a softmax over cosines: (B, D), (B,) -> ().

    A row whose label no other has does not count.
    """
    x = torch.nn.functional.normalize(x, dim=-1)
    itself = torch.eye(len(x), dtype=torch.bool, device=x.device)
    scores = (x @ x.T / TEMPERATURE).masked_fill(itself, float("-inf"))  # (B, B)
    agree = (targets[:, None] == targets[None]) & ~itself
    total = scores.log_softmax(dim=-1).masked_fill(~agree, 0.0).sum(dim=-1)  # (B,)
    has = agree.any(dim=-1)
    return -(total[has] / agree.sum(dim=-1)[has]).mean()
