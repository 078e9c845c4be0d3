"""The most informative held-out rows of a classifier: the most confident mistakes, and rows near the boundary."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.batches.batching import length_batches, pad
from headway.tasks.worst_rows import EACH, beginning

BATCH_TOKENS = 2048


def telling_rows(
    model: nn.Module, rows: Sequence[list[int]], targets: np.ndarray, texts: Sequence[str], labels: Sequence[str]
) -> dict[str, Any]:
    """``worst``: the most confident mistakes; ``boundary``: rows whose two likeliest labels are close."""
    best, order = _likeliest(model, rows, min(2, len(labels)))  # (N, 2) each
    first, second, sure, next_best = order[:, 0], order[:, -1], best[:, 0], best[:, -1]
    wrong = [i for i in np.argsort(-sure, kind="stable") if first[i] != targets[i]]
    near: Sequence[Any] = np.argsort(sure - next_best, kind="stable").tolist() if len(labels) > 1 else []

    def told(i: int) -> dict[str, Any]:
        return {
            **{"text": beginning(texts[i]), "label": labels[targets[i]], "predicted": labels[first[i]]},
            **{"score": float(sure[i]), "second": labels[second[i]], "second_score": float(next_best[i])},
        }

    return {
        "looked_at": len(rows),
        "wrong": len(wrong),
        "worst": [told(int(i)) for i in wrong[:EACH]],
        "boundary": [told(int(i)) for i in near[:EACH]],
    }


@torch.no_grad()
def _likeliest(model: nn.Module, rows: Sequence[list[int]], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of the likeliest classes of each row, (N, count) float32, and their numbers."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    best, numbers = np.zeros((len(rows), count), dtype=np.float32), np.zeros((len(rows), count), dtype=np.int64)
    for index in length_batches([len(row) for row in rows], BATCH_TOKENS, 0, 0):
        ids, mask = pad([rows[i] for i in index])
        likely = model(ids.to(device), mask.to(device)).float().softmax(dim=-1).cpu().topk(count, dim=-1)
        best[index], numbers[index] = likely.values.numpy(), likely.indices.numpy()
    model.train(was_training)
    return best, numbers
