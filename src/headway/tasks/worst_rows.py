"""The held-out rows on which a model of a ``TextTask`` errs most, as the report shows them."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from headway.data.batches.batching import Examples, TargetKind
from headway.data.records.labels import BETWEEN
from headway.tasks.base import of_columns, to_compare
from headway.tasks.losses import of_one

if TYPE_CHECKING:
    from headway.tasks.rows_data import NumberData

MOST_LOOKED_AT = 1000
"""Held-out rows among which those to show are found."""
EACH = 10
"""Rows of each kind that are shown."""
LONGEST = 300
"""Characters that are kept of a text."""
AT_ONCE = 16
"""Rows that are read together."""


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
    pipe: Any = data.task.reading(Path(), (alone, data.tokenizer, data.labels), facts)
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
