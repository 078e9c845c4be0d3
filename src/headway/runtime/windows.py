"""Texts longer than a model's maximum length, as windows that each look like a whole text."""

from headway.text.tokenizer import Tokenizer


def frame(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after a text, such as [CLS] and [SEP]."""
    plain, whole = tokenizer.encode("a"), tokenizer.encode("a", special=True)
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain:
            return whole[:start], whole[start + len(plain) :]
    return [], []


def framed(body: list[int], around: tuple[list[int], list[int]], length: int) -> list[list[int]]:
    """A text's ids with the frame ``around`` them, in windows of at most ``length``; each window has the frame.

    Each window begins in the middle of the previous one.
    """
    front, back = around
    room = max(1, length - len(front) - len(back))
    if len(body) <= room:
        return [[*front, *body, *back] or [0]]
    step = max(1, room // 2)
    return [[*front, *body[start : start + room], *back] for start in range(0, len(body) - room + step, step)]


def framed_around(
    body: list[int], place: int, around: tuple[list[int], list[int]], length: int
) -> tuple[list[int], int]:
    """(the window of at most ``length`` ids with ``body[place]`` nearest its middle, where in it that id is)."""
    front, back = around
    room = max(1, length - len(front) - len(back))
    start = max(0, min(place - room // 2, len(body) - room))
    return [*front, *body[start : start + room], *back], len(front) + place - start
