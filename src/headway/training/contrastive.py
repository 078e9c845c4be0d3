"""Few labelled rows bring an encoder's vectors into order: those of one label together, those of others apart.

Tunstall et al. 2022 (SetFit): pairs of rows have the target 1 where their labels agree and 0 where they differ, and the
squared difference of that and the cosine of their vectors is brought down for a few dozen steps.  Here a batch holds as
many rows of each label, and all its pairs count at once.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from headway.data.batches import pad
from headway.models.dropout import set_dropout
from headway.models.freeze import freeze
from headway.models.heads import pool
from headway.models.transformer import Encoder

STEPS = 60
LEARNING_RATE = 1e-4
BATCH = 16
WARMUP = 0.1


def tune_vectors(
    model: Encoder, rows: list[list[int]], targets: list[int], seed: int, show: Callable[[float, float], None]
) -> None:
    """Train the blocks of an encoder on labelled rows of ids, in place; embeddings stay.

    ``show`` is told the share that is done and the loss.
    """
    dropout = model.config.dropout
    set_dropout(freeze(model, 0), 0.1)
    model.train()
    parameters = [p for p in model.stack.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.01, fused=True)
    random = np.random.default_rng(seed)
    torch.manual_seed(seed)
    of_class = [np.flatnonzero(np.asarray(targets) == c) for c in sorted(set(targets))]
    each = max(2, BATCH // len(of_class))
    for step in range(STEPS):
        share = step / STEPS
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, (share + 1 / STEPS) / WARMUP) * (1 - share)
        batch = np.concatenate([random.permutation(index)[:each] for index in of_class])
        ids, mask = pad([rows[i] for i in batch])
        x = pool(model.stack(ids, mask), mask, "mean")  # (B, D)
        loss = pair_loss(x, torch.tensor([targets[i] for i in batch]))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        show((step + 1) / STEPS, loss.item())
    set_dropout(model, dropout)
    model.requires_grad_(True).eval()


def pair_loss(x: Tensor, targets: Tensor) -> Tensor:
    """The mean over all pairs of (cosine - 1)² where classes agree and cosine² where not: (B, D), (B,) -> ()."""
    x = torch.nn.functional.normalize(x, dim=-1)
    cosine = x @ x.T  # (B, B)
    agree = (targets[:, None] == targets[None]).to(x.dtype)
    others = ~torch.eye(len(x), dtype=torch.bool, device=x.device)
    return (cosine - agree)[others].square().mean()
