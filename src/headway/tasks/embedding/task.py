"""Vectors of texts: an encoder whose tokens are pooled."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from headway.formats.hf.loaders import ExternalLoader, Original, pipeline_loader
from headway.formats.parity import worst
from headway.generation.sampling import check_number
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.transformer import Encoder
from headway.models.wirings import wiring_name
from headway.nn.global_state import plain_defaults
from headway.tasks.checks import Found, Material, MaterialInputs, differs
from headway.tasks.embedding.spec import SPEC
from headway.tasks.inputs import beginnings, cut_rows, known_shares, text_list
from headway.tasks.readers import TextReader, tokenizer_of
from headway.tasks.task import FolderTask
from headway.text.tokenizer import Tokenizer


@torch.no_grad()
def tokens(original: Original, theirs: Any) -> Found:
    """The vector of every token."""
    value = 0.0
    for text in original.texts:
        ids = torch.tensor([original.pipe.tokenizer.encode(text, special=True)])
        answer = torch.tensor(theirs(text)[0])
        ours = original.model(ids)[0].float()
        if answer.shape != ours.shape:
            return value, f"gives vectors of shape {list(answer.shape)} for {text[:60]!r}, expected {list(ours.shape)}"
        value = worst(value, answer - ours)
    return value, differs("gives other vectors", value)


@torch.no_grad()
def vectors(original: Original, theirs: Any) -> Found:
    """The vector of every text."""
    answers = torch.from_numpy(theirs.encode(list(original.texts), show_progress_bar=False, convert_to_numpy=True))
    value = worst(0.0, answers.float() - torch.from_numpy(original.pipe(list(original.texts))))
    return value, differs("gives other vectors", value)


def _sentence_transformer(transformers: Any, directory: Path) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(directory), device="cpu", local_files_only=True)


OF_TEXTS = ExternalLoader("SentenceTransformer(DIR)", _sentence_transformer, lambda model: model[0].auto_model, vectors)
OF_TOKENS = pipeline_loader("feature-extraction", tokens)


class Embedder(TextReader):
    """An encoder and its tokenizer: texts in, vectors out.

    How token vectors become one is what the model's PoolingHead says; without a head it is their mean, brought to
    length 1.  Of a text of more than ``max_length`` tokens ([CLS] and [SEP] counted) the beginning is read, with a
    warning, as in training and evaluation and by sentence-transformers; ``length`` is the one that its run recorded
    (``reading_length``).
    """

    task = "embedding"

    def __init__(self, model: Encoder, tokenizer: Tokenizer, length: int | None = None):
        super().__init__(model, tokenizer, length)
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
        vectors = self._vectors(texts).numpy()
        return vectors[0] if alone else vectors

    @plain_defaults()
    def similarity(
        self, a: str | Iterable[str] | np.ndarray, b: str | Iterable[str] | np.ndarray | None = None
    ) -> np.ndarray:
        """The cosine of every text of ``a`` with every one of ``b`` (by default ``a``): float32 (N, M).

        Instead of texts each may be their vectors, (N, D), as a call gives them.
        """
        first = normalize(self._given(a), dim=-1)
        second = first if b is None else normalize(self._given(b), dim=-1)
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
        return self.outputs(rows) if rows else torch.zeros(0, self.width)

    def kept_of(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        return self._pooled(outputs, mask).float()


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
    embedder = Embedder(pipe.model, pipe.tokenizer, pipe.max_length)
    embedder.runtime.precision = pipe.runtime.precision
    return embedder


class EmbeddingTask(FolderTask):
    """An encoder that gives one vector for each text."""

    spec = SPEC
    pipeline_tag = "sentence-similarity"

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Embedder:
        return Embedder(model, tokenizer_of(model, directory), facts.get("plan", {}).get("length"))

    def external_loader(self, pipe: Any, model: nn.Module, architecture: str) -> ExternalLoader | None:
        if gives(model) is Gives.VECTOR:
            return OF_TEXTS
        return None if architecture.endswith("EncoderModel") else OF_TOKENS

    def read(self, pipe: Any, model: nn.Module, ids: Tensor, mask: Tensor | None, **segments: Tensor) -> Tensor:
        return (pipe.pooled if model is pipe.model else model)(ids, mask, **segments)

    def synthetic_data(self, pipe: Any, given: MaterialInputs) -> Material:
        from headway.tasks.checks import synthetic_table

        scored = given.facts.get("data", {}).get("label_column") is not None

        def row(number: int, text: str, other: str) -> dict[str, str]:
            score = {"label_column": str(number % 5)} if scored else {}
            return {"text_column": text, "second_column": other, **score}

        return synthetic_table(pipe, given.folder, row)


TASK = EmbeddingTask()
