"""The held-out rows on which a model errs most, as the report shows them."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from headway.data.batches.batching import Examples, TargetKind, length_batches, pad
from headway.data.records.labels import BETWEEN
from headway.tasks.losses import of_one
from headway.tasks.task import of_columns, to_compare

if TYPE_CHECKING:
    from headway.tasks.rows_data import NumberData

MOST_LOOKED_AT = 1000
"""Held-out rows among which those to show are found."""
EACH = 10
"""Rows of each kind that are shown."""
LONGEST = 300
"""Characters that are kept of a text."""
AT_ONCE, BATCH_TOKENS = 16, 2048
"""Rows that are read together by a ``TextTask``, and the tokens that a classifier reads."""


@torch.no_grad()
def worst_rows(data: "NumberData", model: nn.Module, chosen: Sequence[int], texts: Sequence[str]) -> dict[str, Any]:
    """``worst``: the rows with the largest losses among ``chosen`` ones, each with its label and what is predicted."""
    was_training = model.training
    model.eval()
    objective, device = data.objective(None), next(model.parameters()).device
    parts = [chosen[at : at + AT_ONCE] for at in range(0, len(chosen), AT_ONCE)]
    rows = (Examples([data.validation[at] for at in part], data.targets[part], TargetKind.ROW) for part in parts)
    outputs = torch.cat([model(*one.together().to(device).read).float().cpu() for one in rows])
    model.train(was_training)
    both = of_one(model, outputs), torch.tensor(data.targets[chosen])
    worst = (-objective.losses(*both)).argsort(stable=True)[:EACH].tolist()
    metrics = objective.measured(*both)
    alone: Any = copy.copy(model)
    alone.kept = dict(getattr(model, "kept", {}))  # a pipeline adds to it
    facts = {"plan": {"length": data.longest}, "data": data.facts, "metrics": metrics}
    pipe: Any = data.task.reader(data.task, Path(), (alone, data.tokenizer, data.labels), facts)
    answers = map(in_words, pipe.answers_of(outputs[worst], [1.0] * len(worst)))
    labels = data.parts.held_out.part(np.array(chosen)[worst]).labels
    told = [
        {"text": beginning(texts[at]), "label": label.replace(BETWEEN, " | "), "predicted": answer}
        for at, label, answer in zip(worst, labels, answers, strict=True)
    ]
    return {"looked_at": len(chosen), "worst": told}


def in_words(answer: Any) -> str:
    """An answer in a few words: its labels or its number, and of several columns each."""
    if of_columns(answer):
        return ", ".join(f"{name}: {in_words(one)}" for name, one in answer.items())
    short = answer["value"] if isinstance(answer, dict) and set(answer) == {"value"} else to_compare(answer)
    if isinstance(short, list):
        return ", ".join(map(str, short))
    return f"{short:.3g}" if isinstance(short, float) else str(short)


def beginning(text: str) -> str:
    """As much of a text as is shown."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


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
