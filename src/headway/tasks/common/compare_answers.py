"""Compare the answers of a model with those of its export in another library: what all tasks share.

A comparison takes the original and what another library loaded, and returns (the largest difference of scores,
other differences).  Letters: B batch, T length, V vocabulary, C classes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

BOUND = 1e-4
"""The largest difference between logits, scores and vectors in float32."""
NEW = 8
"""Tokens that are written for each text."""
NEUTRAL: dict[str, Any] = {
    **{"do_sample": False, "num_beams": 1, "max_new_tokens": NEW, "max_length": None, "min_length": 0},
    **{"repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "forced_eos_token_id": None},
}
"""Greedy writing, whatever ``generation_config.json`` prefers."""

Found = tuple[float, str | None]


@dataclass(frozen=True)
class Original:
    """The original model, and the texts that both models answer."""

    pipe: Any
    """the pipeline that answers with it here"""
    model: nn.Module
    directory: Path
    """that of its copy"""
    texts: Sequence[str]
    """short enough that both read them whole, with ``NEW`` tokens after them"""


def labels_differ(original: Original, ours: Tensor, theirs: Any, inputs: Sequence[str]) -> Found:
    """``ours`` (N, C), and of the other program a list of {"label", "score"} for each input."""
    labels = original.pipe.labels
    value, problem = 0.0, None
    for text, row, found in zip(inputs, ours, theirs, strict=True):
        scores = {one["label"]: one["score"] for one in found}
        if set(scores) != set(labels):
            return value, f"its labels are {', '.join(sorted(scores)[:5])}, expected {', '.join(labels[:5])}"
        expected = torch.tensor([scores[label] for label in labels])
        value = worst(value, row - expected)
        best = max(found, key=lambda one: one["score"])["label"]
        if float(row.max() - row[labels.index(best)]) > BOUND:
            problem = problem or f"{text[:60]!r} is {best!r} there, and {labels[int(row.argmax())]!r} here"
    return value, problem


@torch.no_grad()
def continuations(original: Original, theirs: Any) -> Found:
    """Every token that is written greedily there is the likeliest here; the value is how far it is from that."""
    value, problem = 0.0, None
    ends: frozenset[int] = getattr(original.pipe, "ends", frozenset())
    for text in original.texts:
        prompt = list(theirs.tokenizer(text)["input_ids"])
        found = theirs(text, return_tensors=True, **NEUTRAL)[0]["generated_token_ids"]
        ids = torch.tensor([list(found)])
        problem = problem or ending(text, ids[0, len(prompt) :].tolist(), ends)
        logits = original.model(ids[:, :-1])[0, len(prompt) - 1 :]  # (NEW, V)
        value = worst(value, behind(logits, ids[0, len(prompt) :]))
    return value, problem or differs("continues a text with other tokens", value)


def behind(logits: Tensor, chosen: Tensor) -> Tensor:
    """How much lower the logits of the chosen tokens (T,) are than the highest of ``logits`` (T, V)."""
    return logits.max(dim=-1).values - logits.gather(1, chosen[:, None])[:, 0]


def ending(text: str, written: Iterable[int], ends: frozenset[int]) -> str | None:
    """The problem if the other library continues a text after a token that ends it here."""
    if passed := [token for token in list(written)[:-1] if token in ends]:
        return f"goes on behind the token {passed[0]}, which ends a text here, after {text[:60]!r}"
    return None


def differs(what: str, value: float) -> str | None:
    return None if value <= BOUND else f"{what}, apart by {value:.3g}, more than {BOUND:g}"


def worst(value: float, differences: Tensor) -> float:
    """The largest so far; NaN is larger than any number."""
    found = float(differences.abs().max()) if differences.numel() else 0.0
    return max(value, found, key=lambda each: (each != each, each))


def apart(one: Any, other: Any) -> float:
    """The largest difference between the numbers of two answers, and 1 at least where anything else of them differs."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((apart(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list | tuple | np.ndarray) and isinstance(other, type(one)) and len(one) == len(other):
        return max(map(apart, one, other), default=0.0)
    if isinstance(one, float | np.floating) and isinstance(other, float | np.floating):
        difference = float(one) - float(other)
        return abs(difference) if math.isfinite(difference) else 1.0
    return 0.0 if isinstance(one, int | str | None) and one == other else 1.0
