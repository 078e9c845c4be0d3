"""Predict the label of a text."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.models.adapt.ensemble import Ensemble
from headway.models.transformer import Decoder, Encoder
from headway.runtime.runtime import Output, Runtime
from headway.tasks.inputs import beginnings, known_shares, reading_length, text_list
from headway.tasks.labels import label_answers
from headway.text.tokenizer import Tokenizer


class Classifier:
    """An encoder or a decoder with a classification head, its tokenizer and the names of its labels.

    ``length`` is the one that its run recorded, in tokens (``reading_length``).
    """

    task = "classification"

    def __init__(
        self,
        model: Encoder | Decoder | Ensemble,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        length: int | None = None,
    ):
        self.model, self.tokenizer, self.labels = model, tokenizer, list(labels)
        self.max_length = reading_length(model, tokenizer, length)
        self.runtime = Runtime(model)

    def __call__(self, text: str | Iterable[str]) -> Any:
        """{"label", "score", "scores"} of a text, or a list of them, in order.

        ``scores`` has the probability of every label; they sum to one.  Of a text of more than ``max_length`` tokens
        the beginning is read, as in training and evaluation, with a warning.  Without a token that the model knows,
        label and score are None and ``scores`` is empty, with a warning; where it knows less than half of the tokens,
        ``known`` is their share.
        """
        texts, alone = text_list(text)
        rows = beginnings(self.tokenizer, texts, self.max_length)
        known = known_shares(self.tokenizer, rows, "no label is given")
        results = label_answers(self.labels, self._probabilities(rows), known)
        return results[0] if alone else results

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """(N, C) float32, rows in the order of the texts."""
        return self._probabilities(beginnings(self.tokenizer, texts, self.max_length))

    def _probabilities(self, rows: Sequence[list[int]]) -> Tensor:
        rows = [ids or [0] for ids in rows]

        def answer(output: Output, ids: Tensor, mask: Tensor | None, _: np.ndarray) -> Tensor:
            return output(ids, mask).float().softmax(dim=-1)

        return torch.stack(self.runtime.read(rows, answer)) if rows else torch.zeros(0, len(self.labels))
