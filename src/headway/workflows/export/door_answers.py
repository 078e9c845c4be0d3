"""Answers of a model here and of its copy behind a door, compared: labels, tokens, vectors.

Each function takes what is asked and what the door opened, and gives (the largest difference of scores, other
differences).  Letters: B batch, T length, V vocabulary, C classes.
"""

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
class Asked:
    """The original model, and what is asked of both."""

    pipe: Any
    """the pipeline that answers with it here"""
    model: nn.Module
    directory: Path
    """that of its copy"""
    texts: Sequence[str]
    """short enough that both read them whole, with ``NEW`` tokens after them"""


def classes(asked: Asked, theirs: Any) -> Found:
    """The label of each text, and the probability of every label."""
    ours = asked.pipe.probabilities(asked.texts)
    return _labels(asked, ours, theirs(list(asked.texts), top_k=None), asked.texts)


def pictures(asked: Asked, theirs: Any) -> Found:
    """The same of pictures, which are random here, in the size that the model reads and in others."""
    from PIL import Image

    height, width = asked.pipe.preprocessor.size
    draw = np.random.default_rng(0)
    sizes = [(height, width)] + ([(height + 7, 2 * width + 3)] if asked.pipe.preprocessor.do_resize else [])
    made = [draw.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes for _ in range(8)]
    found = theirs([Image.fromarray(array) for array in made], top_k=len(asked.pipe.labels))
    names = [f"picture {number}" for number in range(len(made))]
    return _labels(asked, asked.pipe.probabilities(made), found, names)


def _labels(asked: Asked, ours: Tensor, theirs: Any, inputs: Sequence[str]) -> Found:
    """``ours`` (N, C), and of the other program a list of {"label", "score"} for each input."""
    labels = asked.pipe.labels
    value, problem = 0.0, None
    for text, row, found in zip(inputs, ours, theirs, strict=True):
        scores = {one["label"]: one["score"] for one in found}
        if set(scores) != set(labels):
            return value, f"its labels are {', '.join(sorted(scores)[:5])}, expected {', '.join(labels[:5])}"
        expected = torch.tensor([scores[label] for label in labels])
        value = _worst(value, row - expected)
        best = max(found, key=lambda one: one["score"])["label"]
        if float(row.max() - row[labels.index(best)]) > BOUND:
            problem = problem or f"{text[:60]!r} is {best!r} there, and {labels[int(row.argmax())]!r} here"
    return value, problem


@torch.no_grad()
def continuations(asked: Asked, theirs: Any) -> Found:
    """Every token that is written greedily there is the likeliest here; the value is how far it is from that."""
    value, problem = 0.0, None
    ends: frozenset[int] = getattr(asked.pipe, "ends", frozenset())
    for text in asked.texts:
        prompt = list(theirs.tokenizer(text)["input_ids"])
        found = theirs(text, return_tensors=True, **NEUTRAL)[0]["generated_token_ids"]
        ids = torch.tensor([list(found)])
        problem = problem or _ending(text, ids[0, len(prompt) :].tolist(), ends)
        logits = asked.model(ids[:, :-1])[0, len(prompt) - 1 :]  # (NEW, V)
        value = _worst(value, _behind(logits, ids[0, len(prompt) :]))
    return value, problem or _differs("continues a text with other tokens", value)


@torch.no_grad()
def targets(asked: Asked, theirs: Any) -> Found:
    """The same of the targets that an encoder-decoder writes for sources."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(asked.directory, local_files_only=True)
    rules, start = asked.pipe.rules, len(asked.pipe.rules.start)
    value, problem = 0.0, None
    for text in asked.texts:
        source = tokenizer(text, return_tensors="pt")["input_ids"]
        ids = theirs.generate(source, **NEUTRAL)  # (1, T)
        written = ids[0, start:].tolist()
        if not problem and tuple(ids[0, :start].tolist()) != rules.start:
            problem = f"begins a target with the tokens {ids[0, :start].tolist()}, expected {list(rules.start)}"
        problem = problem or _ending(text, written, frozenset(rules.end))
        logits = asked.model(source, ids[:, :-1])[0, start - 1 :]  # (NEW, V)
        logits[:, list(rules.forbidden)] = -torch.inf
        value = _worst(value, _behind(logits, ids[0, start:]))
    return value, problem or _differs("writes other targets", value)


@torch.no_grad()
def fillings(asked: Asked, theirs: Any) -> Found:
    """The five likeliest tokens for the open place of each text, and their probabilities."""
    pipe, value = asked.pipe, 0.0
    mask = theirs.tokenizer.mask_token
    for text in asked.texts:
        ids = pipe.ids_of(f"{text} {mask}")
        place = len(ids) - 1 - ids[::-1].index(pipe.mask)
        ours = asked.model(torch.tensor([ids]))[0, place].float().softmax(dim=-1)  # (V,)
        found = theirs(f"{text} {mask}", top_k=5)
        best = ours.topk(len(found)).values
        value = _worst(value, best - torch.tensor([one["score"] for one in found]))
        value = _worst(value, best - torch.tensor([float(ours[one["token"]]) for one in found]))
    return value, _differs("fills an open place with other tokens", value)


@torch.no_grad()
def tokens(asked: Asked, theirs: Any) -> Found:
    """The vector of every token."""
    value = 0.0
    for text in asked.texts:
        ids = torch.tensor([asked.pipe.tokenizer.encode(text, special=True)])
        found = torch.tensor(theirs(text)[0])
        ours = asked.model(ids)[0].float()
        if found.shape != ours.shape:
            return value, f"gives vectors of shape {list(found.shape)} for {text[:60]!r}, expected {list(ours.shape)}"
        value = _worst(value, found - ours)
    return value, _differs("gives other vectors", value)


@torch.no_grad()
def vectors(asked: Asked, theirs: Any) -> Found:
    """The vector of every text."""
    found = torch.from_numpy(theirs.encode(list(asked.texts), show_progress_bar=False, convert_to_numpy=True))
    value = _worst(0.0, found.float() - torch.from_numpy(asked.pipe(list(asked.texts))))
    return value, _differs("gives other vectors", value)


def _behind(logits: Tensor, chosen: Tensor) -> Tensor:
    """How far the tokens that were chosen (T,) are behind the likeliest of ``logits`` (T, V)."""
    return logits.max(dim=-1).values - logits.gather(1, chosen[:, None])[:, 0]


def _ending(text: str, written: Iterable[int], ends: frozenset[int]) -> str | None:
    """What is wrong where a text goes on behind a token that ends it here."""
    if passed := [token for token in list(written)[:-1] if token in ends]:
        return f"goes on behind the token {passed[0]}, which ends a text here, after {text[:60]!r}"
    return None


def _differs(what: str, value: float) -> str | None:
    return None if value <= BOUND else f"{what}, apart by {value:.3g}, more than {BOUND:g}"


def _worst(value: float, differences: Tensor) -> float:
    """The largest so far; NaN is larger than any number."""
    found = float(differences.abs().max()) if differences.numel() else 0.0
    return max(value, found, key=lambda each: (each != each, each))
