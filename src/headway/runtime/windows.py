"""What a tokenizer puts around a text, and windows of texts longer than a model reads that look like whole ones."""

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
