"""Predict the label of a text."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.models.adapt.ensemble import Ensemble
from headway.models.transformer import Decoder, Encoder
from headway.runtime.runtime import Output, Runtime
from headway.runtime.windows import frame, framed
from headway.tasks.common.as_list import text_list
from headway.tasks.common.labels import label_answers
from headway.text.tokenizer import Tokenizer


class Classifier:
    """An encoder or a decoder with a classification head, its tokenizer and the names of its labels."""

    task = "classification"

    def __init__(self, model: Encoder | Decoder | Ensemble, tokenizer: Tokenizer, labels: Sequence[str]):
        self.model, self.tokenizer, self.labels = model, tokenizer, list(labels)
        self.runtime = Runtime(model)

    def __call__(self, text: str | Iterable[str]) -> Any:
        """{"label", "score", "scores"} of a text, or a list of them, in order.

        ``scores`` has the probability of every label; they sum to one.  A text longer than the model was trained for is
        read in overlapping windows, whose probabilities are averaged.
        """
        texts, alone = text_list(text)
        results = label_answers(self.labels, self.probabilities(texts))
        return results[0] if alone else results

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """(N, C) float32, rows in the order of the texts."""
        windows: list[list[int]] = []
        owners: list[int] = []
        for owner, row in enumerate(self.tokenizer.encode_batch(texts, special=True)):
            for window in self._windows(texts[owner], row):
                windows.append(window)
                owners.append(owner)
        if not windows:
            return torch.zeros(0, len(self.labels))

        def answer(output: Output, ids: Tensor, mask: Tensor | None, _: np.ndarray) -> Tensor:
            return output(ids, mask).float().softmax(dim=-1)

        likely = torch.stack(self.runtime.read(windows, answer))  # (windows, C)
        if len(windows) == len(texts):  # one window each, as nearly always
            return likely
        rows = torch.tensor(owners)
        total, count = torch.zeros(len(texts), len(self.labels)), torch.zeros(len(texts), 1)
        total.index_add_(0, rows, likely)
        count.index_add_(0, rows, torch.ones(len(rows), 1))
        return total / count.clamp(min=1)

    def _windows(self, text: str, ids: list[int]) -> list[list[int]]:
        """A text's ids, in overlapping windows that each look like a whole text where it is too long for the model."""
        longest = self.model.config.max_length
        if len(ids) <= longest:
            return [ids or [0]]
        return framed(self.tokenizer.encode(text), frame(self.tokenizer), longest)
