"""Models that read texts, with what they answer.

Letters: N texts, C labels.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, overload

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import border
from headway.hub.directory import model_config
from headway.models.heads import n_outputs
from headway.runtime.runtime import Output, Runtime
from headway.tasks.frames import FrameAnswers
from headway.tasks.inputs import beginnings, cut_pairs, known_shares, pair_list, reading_length, text_list
from headway.tasks.labels import label_answers, labels_of, likeliest
from headway.tasks.losses import of_one
from headway.text.tokenizer import Tokenizer

Answer = TypeVar("Answer")


class TextReader(FrameAnswers):
    """A model of texts, its tokenizer, and how much of a text it reads.

    Of a text of more than ``max_length`` tokens (special ones counted) the beginning is read, as in training and
    evaluation, with a warning; ``length`` is the one that its run recorded, in tokens (``reading_length``).
    """

    task: str
    reads_pairs = False

    def __init__(self, model: Any, tokenizer: Tokenizer, length: int | None = None):
        self.model, self.tokenizer, self.runtime = model, tokenizer, Runtime(model)
        self.max_length = reading_length(model, tokenizer, length)

    def rows(self, text: Any) -> tuple[list[list[int]], np.ndarray | None, bool]:
        """The ids of each input, the borders of two texts, and whether there was one input and no list."""
        if not self.reads_pairs:
            texts, alone = text_list(text)
            return beginnings(self.tokenizer, texts, self.max_length), None, alone
        pairs, alone = pair_list(text)
        joined = cut_pairs(self.tokenizer, pairs, self.max_length)
        return [pair.ids for pair in joined], np.array([border(pair.segments) for pair in joined]), alone

    def outputs(self, rows: Sequence[list[int]], borders: np.ndarray | None = None) -> Tensor:
        """``kept_of`` what the model gives for rows of ids, float32 (N, ...), N ≥ 1; a row of none is the id 0."""

        def answer(output: Output, ids: Tensor, mask: Tensor | None, _: np.ndarray) -> Tensor:
            return self.kept_of(output(ids, mask), mask)

        return torch.stack(self.runtime.read([ids or [0] for ids in rows], answer, borders))

    def kept_of(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """What is kept of the model's outputs (B, ...) for a batch with its mask."""
        return outputs.float()


def tokenizer_of(model: nn.Module, directory: Path) -> Tokenizer:
    """The tokenizer of a model that was loaded from a directory."""
    return Tokenizer.load(directory, rows=model_config(model).vocab_size)


def label_parts(model: nn.Module, directory: Path, problem: str | None = None) -> tuple[Tokenizer, list[str]]:
    """Tokenizer and labels of a classifier that was loaded from a directory.  Raises InputError as ``labels_of``."""
    return tokenizer_of(model, directory), labels_of(directory, n_outputs(model), problem)


class TextPipeline(TextReader):
    """The model of a task of texts, its tokenizer and its answers."""

    nothing = "such an answer means nothing"
    """what a warning says of a text without a token that the model knows"""

    def __init__(self, task: Any, directory: Path, parts: tuple[Any, Tokenizer, list[str]], facts: dict[str, Any]):
        """``parts`` are the model, its tokenizer and its labels, ``facts`` the headway.json of its directory or {}."""
        super().__init__(*parts[:2], facts.get("plan", {}).get("length"))
        self.of_task, self.task, self.reads_pairs = task, task.spec.name, task.reads_pairs
        self.recorded: dict[str, Any] = facts.get("data", {})
        """what its run recorded of its data"""

    def __call__(self, text: Any) -> Any:
        """The answer to an input (a text, or a tuple of two), or a list of them, in order."""
        rows, borders, alone = self.rows(text)
        known = known_shares(self.tokenizer, rows, self.nothing)
        answers = self.answers(self.outputs(rows, borders), known) if rows else []
        return answers[0] if alone else answers

    def answers(self, outputs: Tensor, known: Sequence[float]) -> list[Any]:
        """The answers to the ``outputs`` for some texts, of whose tokens these shares are known."""
        return self.of_task.answers(outputs)

    def answers_of(self, outputs: Tensor, known: Sequence[float]) -> list[Any]:
        """The same of what the model itself gives (N, ...)."""
        return self.answers(self.kept_of(outputs, None), known)

    def kept_of(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        return of_one(self.model, outputs.float())


class LabelReader(TextPipeline, Generic[Answer]):
    """A classifier of texts: the probability of each label."""

    nothing = "no label is given"

    def __init__(self, task: Any, directory: Path, parts: tuple[Any, Tokenizer, list[str]], facts: dict[str, Any]):
        super().__init__(task, directory, parts, facts)
        self.labels = parts[2]

    @overload
    def __call__(self, text: str) -> Answer: ...  # type: ignore[overload-overlap]  # a str is an Iterable[str]

    @overload
    def __call__(self, text: Iterable[str]) -> list[Answer]: ...

    def __call__(self, text: str | Iterable[str]) -> Any:
        return super().__call__(text)

    def answers(self, outputs: Tensor, known: Sequence[float]) -> list[Answer]:
        return label_answers(self.labels, outputs, known, self.named)

    def named(self, scores: dict[str, float]) -> Any:
        """The answer to a text, from the probability of each label; {} where no token is known."""
        return likeliest(scores)

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """(N, C), rows in the order of the texts."""
        rows = self.rows(texts)[0]
        return self.outputs(rows) if rows else torch.zeros(0, len(self.labels))

    def kept_of(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """The probabilities (B, C) of logits."""
        return outputs.float().softmax(dim=-1)
