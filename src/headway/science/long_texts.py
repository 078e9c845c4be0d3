"""What a language model does with long texts: its loss beyond the length of training, and how far back it remembers.

Recall is measured on a text of tasks: ``=`` and a letter, then random digits, then ``?`` and the same letter, NEAREST
to FARTHEST tokens later; near and far tasks fill as much of the text, else nearly all of it would be digits.
"""

from typing import Any

import numpy as np
import torch

from headway.data.batches.batch_source import text_batches
from headway.data.batches.tokens import Tokens
from headway.data.records.corpus import Corpus
from headway.models.adapt.lora import count_parameters
from headway.tasks.losses import LanguageModeling
from headway.tasks.running_text import encode_text, held_out_part, whole
from headway.text.tokenizer import Tokenizer
from headway.training.sizing.presets import MOST_LOGITS

TIMES = (1, 2, 4)
"""The length of training, and longer ones."""
LEAST_WINDOWS = 4
"""Of the longest kind, at least: fewer say nothing."""
TOKENS = 1 << 16
"""Of the held-out text that are read at each length, at most; the same at all."""
WORK = 2e12
"""Parameters times tokens that are read at each length, at most, where that leaves enough windows."""
TOGETHER = 8192
"""Tokens of a batch, at most."""

LETTERS = "abcdefghijklmnop"
DIGITS = "0123456789"
NEAREST, FARTHEST = 4, 600
DISTANCES = (8, 16, 32, 64, 128, 256, 512)
"""Where recall is measured, in tokens; as many as these characters."""
WINDOW = 640
"""Tokens of a window in training: a task of any distance has room."""
SEQUENCES = 256
"""For each distance."""
CHARACTERS = 3_000_000


def held_out_tokens(corpus: Corpus, held_out: Corpus | None, tokenizer: Tokenizer) -> Tokens:
    """The text that a run on ``corpus`` is validated on: ``held_out``, or else a part of it."""
    if held_out is None:
        return encode_text(held_out_part(corpus), tokenizer)
    return encode_text(whole(held_out), tokenizer)


def reach_of(model: Any) -> int:
    """How long a sequence may be: learned positions end."""
    position = getattr(model.config, "position", None)
    return model.config.max_length if getattr(position, "kind", "") == "learned" else 1 << 20


def loss_by_length(model: Any, tokens: Tokens, length: int, longest: int) -> list[dict[str, Any]]:
    """Nats per token in windows of ``length`` tokens, of twice and of four times as many, which do not overlap.

    The same tokens are predicted at all lengths, so a model that can use more context than it was trained with gets
    better and one that is lost past it gets worse.  ``loss`` is None beyond ``longest``, where a model with learned
    positions has none, and where the text is too short for LEAST_WINDOWS.
    """
    reach = TIMES[-1] * length
    most = min(TOKENS, int(WORK / count_parameters(model)[0]))
    whole = min(len(tokens) - 1, max(most, LEAST_WINDOWS * reach)) // reach
    together = min(TOGETHER, MOST_LOGITS // model.config.vocab_size)
    losses: list[dict[str, Any]] = []
    for times in TIMES:
        loss = None
        if times * length <= longest and whole >= LEAST_WINDOWS:
            part = tokens[: whole * reach + 1]
            batches = text_batches(part, times * length, max(1, together // (times * length)))
            loss = LanguageModeling().evaluate(model, batches)["val_loss"]
        losses.append({"length": times * length, "times": times, "loss": loss})
    return losses


def recall_text(characters: int = CHARACTERS, seed: int = 0) -> str:
    """A text of tasks, of about so many characters."""
    random = np.random.default_rng([seed, 3])
    parts: list[str] = []
    length = 0
    while length < characters:
        distance = round(1 / float(random.uniform(1 / FARTHEST, 1 / NEAREST)))
        parts.append(_task(random, distance))
        length += len(parts[-1])
    return "".join(parts)


def _task(random: np.random.Generator, distance: int) -> str:
    """A letter, and the same again after ``distance`` tokens."""
    letter = LETTERS[int(random.integers(len(LETTERS)))]
    between = "".join(DIGITS[i] for i in random.integers(len(DIGITS), size=distance - 2))
    return f"={letter}{between}?{letter}"


@torch.no_grad()
def recall_by_distance(model: Any, tokenizer: Tokenizer, longest: int, seed: int = 0) -> list[dict[str, float]]:
    """How often the most probable letter is the right one, by ``distance``; guessing is right in 1 of 16.

    Distances for which a model of ``longest`` tokens has no room are left out.
    """
    letters = torch.tensor([tokenizer.encode(letter)[0] for letter in LETTERS])
    recalled = []
    for distance in DISTANCES:
        if distance + 1 > longest:
            break
        random = np.random.default_rng([seed, 4, distance])
        tasks = [_task(random, distance) for _ in range(SEQUENCES)]
        right = torch.tensor([LETTERS.index(task[-1]) for task in tasks])
        ids = torch.tensor([tokenizer.encode(task[:-1]) for task in tasks])  # (B, T)
        told = [model(part)[:, -1, letters].argmax(dim=-1) for part in ids.split(32)]
        recalled.append({"distance": distance, "accuracy": float((torch.cat(told) == right).float().mean())})
    return recalled
