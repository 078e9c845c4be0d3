"""How far back a model remembers: a text in which a letter is repeated after a number of tokens.

The text is a row of tasks: ``=`` and a letter, then random digits, then ``?`` and the same letter.  From the letter to
where it comes again it is NEAREST to FARTHEST tokens, and tasks of 4 to 8 fill as much of the text as those of 256 to
512.  (With as many tasks of each, nearly all of the text is digits, and no recurrent model learns anything of it in
minutes.)  Digits cannot be predicted, and the letter only by a model that remembered it (a recurrent model) or looks it
up (a Transformer).
"""

from typing import Any

import numpy as np
import torch

from headway.text.tokenizer import Tokenizer

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
    found = []
    for distance in DISTANCES:
        if distance + 1 > longest:
            break
        random = np.random.default_rng([seed, 4, distance])
        tasks = [_task(random, distance) for _ in range(SEQUENCES)]
        right = torch.tensor([LETTERS.index(task[-1]) for task in tasks])
        ids = torch.tensor([tokenizer.encode(task[:-1]) for task in tasks])  # (B, T)
        told = [model(part)[:, -1, letters].argmax(dim=-1) for part in ids.split(32)]
        found.append({"distance": distance, "accuracy": float((torch.cat(told) == right).float().mean())})
    return found
