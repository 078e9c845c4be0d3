"""Find the spans of a text: names, places, or whatever the tags stand for.

Letters: N tokens, C classes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.models.transformer import Encoder
from headway.runtime.runtime import Output, Runtime
from headway.runtime.windows import frame
from headway.tasks.common.as_list import text_list
from headway.tasks.token_classification.schemes import OUTSIDE, entities
from headway.tasks.token_classification.words import first_tokens, split_words
from headway.text.tokenizer import Tokenizer


class Tagger:
    """An encoder with a classifier of tokens, its tokenizer and the names of its tags."""

    task = "token_classification"

    def __init__(self, model: Encoder, tokenizer: Tokenizer, labels: Sequence[str]):
        self.model, self.tokenizer, self.labels = model, tokenizer, list(labels)
        self.runtime = Runtime(model)

    def __call__(self, text: str | Iterable[str]) -> Any:
        """The spans of a text in order, {"text", "label", "start", "end", "score"}; of several texts a list for each.

        ``start`` and ``end`` are characters [start, end) of the text; a word has the tag of its first token; ``score``
        is the mean probability of the tags of the span's words.  A text longer than the model reads is read in
        overlapping windows, each word in the one where it is farthest from an end.
        """
        texts, alone = text_list(text)
        found = list(self.tokenizer.encode_places(texts))
        likely = self._probabilities([ids for ids, _ in found])
        whole = OUTSIDE not in self.labels
        results = [
            self._spans(one, places, each, whole) for one, (_, places), each in zip(texts, found, likely, strict=True)
        ]
        return results[0] if alone else results

    def _spans(self, text: str, places: list[tuple[int, int]], likely: Tensor, whole: bool) -> list[dict[str, Any]]:
        """The spans of a text by the probabilities of its tokens (N, C)."""
        words = split_words(text)
        firsts = first_tokens(words, places)
        if not firsts:
            return []
        best = likely[[token for token, _, _ in firsts]].max(dim=-1)
        scores: list[float] = best.values.tolist()
        spans = []
        for kind, first, last in entities([self.labels[number] for number in best.indices.tolist()], whole=whole):
            start, end = words[firsts[first][1]][0], words[firsts[last - 1][2] - 1][1]
            score = sum(scores[first:last]) / (last - first)
            spans.append({"text": text[start:end], "label": kind, "start": start, "end": end, "score": score})
        return spans

    def _probabilities(self, rows: Sequence[list[int]]) -> list[Tensor]:
        """Of each row of ids the probabilities of every token, (N, C) float32."""
        front, back = frame(self.tokenizer)
        room = max(1, self.model.config.max_length - len(front) - len(back))
        windows: list[list[int]] = []
        owners: list[tuple[int, int]] = []
        for row, ids in enumerate(rows):
            for start in _starts(len(ids), room):
                windows.append([*front, *ids[start : start + room], *back] or [0])
                owners.append((row, start))

        def answer(output: Output, ids: Tensor, mask: Tensor | None, _: np.ndarray) -> Tensor:
            return output(ids, mask).float().softmax(dim=-1)  # (B, T, C)

        found = [torch.zeros(len(ids), len(self.labels)) for ids in rows]
        margin = [np.full(len(ids), -1) for ids in rows]
        for (row, start), likely in zip(owners, self.runtime.read(windows, answer), strict=True):
            end = min(len(rows[row]), start + room)
            own = _margins(start, end, len(rows[row]))
            nearer = own > margin[row][start:end]
            margin[row][start:end][nearer] = own[nearer]
            kept = torch.from_numpy(nearer)
            found[row][start:end][kept] = likely[len(front) : len(front) + end - start][kept]
        return found


def _starts(length: int, room: int) -> range:
    """Where windows of ``room`` tokens begin: each in the middle of the one before, until all are read."""
    if length <= room:
        return range(min(1, length))
    step = max(1, room // 2)
    return range(0, length - room + step, step)


def _margins(start: int, end: int, length: int) -> np.ndarray:
    """How many tokens of a window are on the nearer side of each of its own, int64 (end - start,).

    Where the text itself begins or ends, nothing is missing.
    """
    at = np.arange(start, end)
    before = at - start if start else np.full(end - start, length)
    after = end - 1 - at if end < length else np.full(end - start, length)
    return np.minimum(before, after)
