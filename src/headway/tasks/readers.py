"""Models that read texts, with what they answer.

Letters: N texts, C labels.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import border
from headway.hub.directory import model_config
from headway.models.heads import n_outputs
from headway.runtime.runtime import Output, Runtime
from headway.tasks.answers import Label
from headway.tasks.frames import FrameAnswers
from headway.tasks.inputs import beginnings, cut_pairs, known_shares, pair_list, reading_length, text_list
from headway.tasks.labels import label_answers, labels_of
from headway.tasks.losses import of_one
from headway.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from headway.tasks.base import TextTask

Answer = TypeVar("Answer")


class TextReader(FrameAnswers, ABC):
    """A model of texts, its tokenizer, and how much of a text it reads.

    Of a text of more than ``max_length`` tokens (special ones counted) the beginning is read, as in training and
    evaluation, with a warning; ``length`` is the one that its run recorded, in tokens (``reading_length``).
    """

    task: str
    reads_pairs = False
    recorded: Mapping[str, Any] = MappingProxyType({})
    """what its run recorded of its data"""

    def __init__(self, model: Any, tokenizer: Tokenizer, length: int | None = None):
        self.model, self.tokenizer, self.runtime = model, tokenizer, Runtime(model)
        self.max_length = reading_length(model, tokenizer, length)

    @abstractmethod
    def __call__(self, text: Any) -> Any:
        """The answer to one input, or the answers to a list, in order."""

    def rows(self, text: Any) -> tuple[list[list[int]], np.ndarray | None, bool]:
        """The ids of each input, the borders of two texts, and whether there was one input and no list."""
        if not self.reads_pairs:
            texts, alone = text_list(text)
            return beginnings(self.tokenizer, texts, self.max_length), None, alone
        pairs, alone = pair_list(text)
        joined = cut_pairs(self.tokenizer, pairs, self.max_length)
        return [pair.ids for pair in joined], np.array([border(pair.segments) for pair in joined]), alone

    def outputs(
        self,
        rows: Sequence[list[int]],
        borders: np.ndarray | None = None,
        then: Callable[[Tensor, Tensor | None], Tensor] = lambda outputs, mask: outputs.float(),
    ) -> Tensor:
        """What the model gives for rows of ids, float32 (N, ...), N ≥ 1; a row of none is the id 0.

        ``then`` makes of the outputs of a batch, with its mask, what is kept of them.
        """

        def answer(output: Output, ids: Tensor, mask: Tensor | None, _: np.ndarray) -> Tensor:
            return then(output(ids, mask), mask)

        return torch.stack(self.runtime.read([ids or [0] for ids in rows], answer, borders))


def tokenizer_of(model: nn.Module, directory: Path) -> Tokenizer:
    """The tokenizer of a model that was loaded from a directory."""
    return Tokenizer.load(directory, rows=model_config(model).vocab_size)


def label_parts(model: nn.Module, directory: Path, problem: str | None = None) -> tuple[Tokenizer, list[str]]:
    """Tokenizer and labels of a classifier that was loaded from a directory.  Raises InputError as ``labels_of``."""
    return tokenizer_of(model, directory), labels_of(directory, n_outputs(model), problem)


class LabelReader(TextReader, Generic[Answer]):
    """A classifier of texts: the probability of each label."""

    def __init__(self, model: Any, tokenizer: Tokenizer, labels: Sequence[str], length: int | None = None):
        super().__init__(model, tokenizer, length)
        self.labels = list(labels)

    @overload
    def __call__(self, text: str) -> Answer: ...  # type: ignore[overload-overlap]  # a str is an Iterable[str]

    @overload
    def __call__(self, text: Iterable[str]) -> list[Answer]: ...

    def __call__(self, text: str | Iterable[str]) -> Any:
        """The answer to a text, or a list of them, in order."""
        rows, _, alone = self.rows(text)
        known = known_shares(self.tokenizer, rows, "no label is given")
        results = self._named(self._probabilities(rows), known)
        return results[0] if alone else results

    def answers_of(self, outputs: Tensor, known: Sequence[float]) -> list[Answer]:
        """The answers to the logits of some texts (N, C), of whose tokens these shares are known."""
        return self._named(self.likely(outputs, None), known)

    def _named(self, probabilities: Tensor, known: Sequence[float]) -> list[Answer]:
        return [self.named(answer) for answer in label_answers(self.labels, probabilities, known)]

    def named(self, answer: Label) -> Answer:
        """The answer to a text, from one of ``label_answers``."""
        named: Any = answer
        return named

    def probabilities(self, texts: Sequence[str]) -> Tensor:
        """(N, C), rows in the order of the texts."""
        return self._probabilities(self.rows(texts)[0])

    def _probabilities(self, rows: Sequence[list[int]]) -> Tensor:
        return self.outputs(rows, then=self.likely) if rows else torch.zeros(0, len(self.labels))

    def likely(self, logits: Tensor, mask: Tensor | None) -> Tensor:
        """The probabilities (B, C) of logits."""
        return logits.float().softmax(dim=-1)


class TextPipeline(TextReader):
    """The model of a task of texts, its tokenizer and its answers."""

    nothing = "such an answer means nothing"
    """what a warning says of a text without a token that the model knows"""

    def __init__(self, task: "TextTask", model: nn.Module, tokenizer: Tokenizer, facts: dict[str, Any]):
        super().__init__(model, tokenizer, facts.get("plan", {}).get("length"))
        self.task, self.reads_pairs, self.recorded = task.spec.name, task.reads_pairs, facts.get("data", {})
        self._answers: Callable[[Tensor], list[Any]] = task.answers

    def __call__(self, text: str | tuple[str, str] | Iterable[str | tuple[str, str]]) -> Any:
        """The answer to an input, or a list of them, in order; a long one is cut as in training, with a warning.

        An input is a text, or a tuple of two.
        """
        rows, borders, alone = self.rows(text)
        known = known_shares(self.tokenizer, rows, self.nothing)
        answers = self.answers_of(self.outputs(rows, borders), known) if rows else []
        return answers[0] if alone else answers

    def answers_of(self, outputs: Tensor, known: Sequence[float]) -> list[Any]:
        """The answers to the outputs (N, ...) for some texts, of whose tokens these shares are known."""
        return self._answers(of_one(self.model, outputs))
