"""Texts as vectors, near each other when the texts mean alike."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.generation.sampling import check_number
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.transformer import Encoder
from headway.models.wirings import wiring_name
from headway.nn.global_state import plain_defaults
from headway.runtime.runtime import Output, Runtime
from headway.tasks.inputs import beginnings, cut_rows, known_shares, reading_length, text_list
from headway.text.tokenizer import Tokenizer


def as_embedder(pipe: Any) -> "Embedder | None":
    """The embedder of an encoder that was loaded for another task of tokens, by the mean of its vectors; else None.

    The model's head is replaced, in place: only one of the two pipelines can be used afterwards.
    """
    if isinstance(pipe, Embedder) or not (
        wiring_name(pipe.model) == "encoder" and gives(pipe.model) is Gives.VOCABULARY
    ):
        return pipe if isinstance(pipe, Embedder) else None
    if pipe.runtime.engine is not None:
        warnings.warn(f"{pipe.runtime.engine.name} does not make vectors of this model: torch does it", stacklevel=2)
    pipe.model.head = PoolingHead("mean")
    found = Embedder(pipe.model, pipe.tokenizer, pipe.max_length)
    found.runtime.precision = pipe.runtime.precision
    return found


class Embedder:
    """An encoder and its tokenizer: texts in, vectors out.

    How token vectors become one is what the model's PoolingHead says; without a head it is their mean, brought to
    length 1.  Of a text of more than ``max_length`` tokens ([CLS] and [SEP] counted) the beginning is read, with a
    warning, as in training and evaluation and by sentence-transformers; ``length`` is the one that its run recorded
    (``reading_length``).
    """

    task = "embedding"

    def __init__(self, model: Encoder, tokenizer: Tokenizer, length: int | None = None):
        self.model, self.tokenizer, self.runtime = model, tokenizer, Runtime(model)
        self.max_length = reading_length(model, tokenizer, length)
        self._pool = PoolingHead() if model.head is None else None

    def pooled(self, ids: Tensor, mask: Tensor | None = None, **segments: Tensor) -> Tensor:
        """One vector for each sequence of ids: (B, T) -> (B, D), whatever the model's head."""
        return self._pooled(self.model(ids, mask, **segments), mask)

    def _pooled(self, vectors: Tensor, mask: Tensor | None) -> Tensor:
        return vectors if self._pool is None else self._pool(vectors, mask)

    @property
    def width(self) -> int:
        """D, the numbers of a vector."""
        head: Any = self.model.head
        dense = head.dense if gives(self.model) is Gives.VECTOR else None
        return self.model.config.d_model if dense is None else dense.out_features

    def __call__(self, text: str | Iterable[str]) -> np.ndarray:
        """The vector of a text, float32 (D,), or of each of a list, (N, D), in order."""
        texts, alone = text_list(text)
        found = self._vectors(texts).numpy()
        return found[0] if alone else found

    @plain_defaults()
    def similarity(
        self, a: str | Iterable[str] | np.ndarray, b: str | Iterable[str] | np.ndarray | None = None
    ) -> np.ndarray:
        """The cosine of every text of ``a`` with every one of ``b`` (by default ``a``): float32 (N, M).

        Instead of texts each may be their vectors, (N, D), as a call gives them.
        """
        first = _units(self._given(a))
        second = first if b is None else _units(self._given(b))
        return (first @ second.T).numpy()

    def nearest(
        self, query: str | Iterable[str], texts: Iterable[str], k: int = 5, vectors: np.ndarray | None = None
    ) -> Any:
        """The ``k`` of ``texts`` that are nearest to ``query``: [{"text", "score", "index"}, ...], best first.

        ``score`` is the cosine and ``index`` the place in ``texts``, whose ``vectors`` are computed unless they are
        given.  A list of queries gives a list of such lists.
        """
        check_number("k", k, 1, 1 << 31, "a whole number, 1 or more", whole=True)
        (queries, alone), among = text_list(query), text_list(texts)[0]
        cosines = self.similarity(queries, among if vectors is None else vectors)
        results = []
        for row in cosines:
            order = np.argsort(-row, kind="stable")[:k].tolist()
            results.append([{"text": among[i], "score": float(row[i]), "index": i} for i in order])
        return results[0] if alone else results

    def _given(self, given: str | Iterable[str] | np.ndarray) -> Tensor:
        """The vectors of texts, or those that were given."""
        vectors = isinstance(given, np.ndarray) and given.dtype.kind in "iuf"
        return torch.tensor(given) if vectors else self._vectors(text_list(given)[0])

    @plain_defaults()
    def of_ids(self, rows: Sequence[list[int]]) -> np.ndarray:
        """The vectors of texts that are given as ids, float32 (N, D): read as they are, with no special token added."""
        return self._of_rows(cut_rows(self.tokenizer, rows, self.max_length)).numpy()

    @plain_defaults()
    def _vectors(self, texts: list[str]) -> Tensor:
        """(N, D) float32, rows in the order of the texts."""
        return self._of_rows(beginnings(self.tokenizer, texts, self.max_length))

    def _of_rows(self, rows: list[list[int]]) -> Tensor:
        known_shares(self.tokenizer, rows, "such a vector means nothing")
        rows = [ids or [0] for ids in rows]

        def answer(output: Output, ids: Tensor, mask: Tensor | None, _: np.ndarray) -> Tensor:
            return self._pooled(output(ids, mask), mask).float()

        return torch.stack(self.runtime.read(rows, answer)) if rows else torch.zeros(0, self.width)


def _units(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1)
