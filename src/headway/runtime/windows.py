"""What a tokenizer puts around a text, and windows of texts longer than a model reads that look like whole ones."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from headway.text.tokenizer import Tokenizer


def frame(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after a text, such as [CLS] and [SEP]."""
    plain, whole = tokenizer.encode("a"), tokenizer.encode("a", special=True)
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain:
            return whole[:start], whole[start + len(plain) :]
    return [], []


def framed_around(
    body: list[int], place: int, around: tuple[list[int], list[int]], length: int
) -> tuple[list[int], int]:
    """(the window of at most ``length`` ids with ``body[place]`` nearest its middle, where in it that id is)."""
    front, back = around
    room = max(1, length - len(front) - len(back))
    start = max(0, min(place - room // 2, len(body) - room))
    return [*front, *body[start : start + room], *back], len(front) + place - start


def read_in_windows(
    rows: Sequence[list[int]],
    longest: int,
    around: tuple[list[int], list[int]],
    read: Callable[[list[list[int]]], Sequence[Tensor]],
) -> list[Tensor]:
    """What ``read`` finds for each token of each row of ids, (N, C), with windows of at most ``longest`` tokens.

    Every window has the special tokens ``around`` it; ``read`` gives (T or more, C) for each.  A window begins in the
    middle of the one before, and each token is that of the window in which it is farthest from an end.
    """
    front, back = around
    room = max(1, longest - len(front) - len(back))
    step = max(1, room // 2)
    windows: list[list[int]] = []
    kept: list[tuple[int, int, int]] = []
    """row, first and last token that are kept, counted in the window with what is around it"""
    for number, ids in enumerate(rows):
        starts = list(range(0, max(1, len(ids) - room + step), step)) if len(ids) > room else [0]
        cuts = [0, *((start + room + following + 1) // 2 for start, following in pairwise(starts)), len(ids)]
        for start, (first, last) in zip(starts, pairwise(cuts), strict=True):
            windows.append([*front, *ids[start : start + room], *back] or [0])
            kept.append((number, len(front) + first - start, len(front) + last - start))
    outputs: list[list[Tensor]] = [[] for _ in rows]
    for (number, first, last), values in zip(kept, read(windows), strict=True):
        outputs[number].append(values[first:last])
    return [torch.cat(parts) for parts in outputs]
