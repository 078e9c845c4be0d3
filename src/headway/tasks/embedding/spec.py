"""Vectors of texts, in words and names, and the command that runs its models."""

import functools
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from headway.errors import InputError, field
from headway.tasks.answers import Ranked
from headway.tasks.command import Command, Inputs, Option
from headway.tasks.spec import OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import ACCURACY, AVERAGE_PRECISION, VAL_LOSS, Metric

MRR = Metric("mrr", "mean reciprocal rank")
SPEARMAN = Metric("spearman", "rank correlation", units="correlation")
ROC_AUC = Metric("roc_auc", "area under the ROC curve", units="area")

SPEC = TaskSpec(
    name="embedding",
    heads=(("encoder", "vector"), ("encoder", "hidden")),
    title="Text embedder",
    verb="embed",
    help="Turn texts into vectors, compare them, or find the nearest.",
    answers="vectors",
    unit="pair",
    outputs="vectors",
    metrics=(ACCURACY, MRR, SPEARMAN, ROC_AUC, AVERAGE_PRECISION, VAL_LOSS),
    headline=(ROC_AUC, SPEARMAN, ACCURACY),
    compared=(ROC_AUC, SPEARMAN, ACCURACY),
    answer_unit="texts embedded",
    options=OF_TEXTS | {"layout"},
    supports=frozenset(),
)


class Numbers(Command):
    """A row of as many numbers for each text: the embedder's, or the cosines with all texts."""

    spec = SPEC
    answers = list[float] | Ranked
    places = 6
    """how many digits a person sees of each"""

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any], width: int):
        super().__init__(pipe, inputs, options)
        self.width = width
        self.columns = ["text", *range(width)]

    def answer(self, part: Sequence[str]) -> Any:
        return self.pipe(part)

    def results(self, vectors: Any) -> list[Any]:
        return list(vectors.tolist())

    def lines(self, start: int, found: Any) -> Iterator[str]:
        return ("\t".join(f"{value:.{self.places}f}" for value in row) for row in found)

    def objects(self, number: int, one: Any) -> Iterator[dict[str, Any]]:
        yield {"text": self.inputs.values[number], "vector": one.tolist()}

    def rows(self, number: int, one: Any) -> Iterator[list[str]]:
        yield [self.inputs.values[number], *(f"{value:.8g}" for value in one)]

    @property
    def types(self) -> dict[str, Any]:
        return {"vector": list[float]}

    def cells(self, number: int, one: Any) -> list[Any]:
        return [one.tolist()]

    def header(self) -> bytes:
        from numpy.lib import format as npy

        file, shape = io.BytesIO(), (len(self.inputs.values), self.width)
        npy.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
        return file.getvalue()

    def content(self, vectors: Any) -> bytes:
        import numpy as np

        return np.asarray(vectors, dtype="<f4").tobytes()


class Embed(Numbers):
    """The vectors of texts, or what is made of them."""

    needs = "an encoder without a classifier"
    does = "Turn TEXT into vectors with the model in RUN; a row of numbers for each, in order."
    options = (
        Option("similarity", "Print the cosine of every text with every other instead.", bool),
        Option("nearest", "Rank the texts by their similarity to this one instead.", metavar="TEXT"),
        Option("k", "With --nearest: the number of texts.", int, 5, least=1),
    )

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        self.nearest: str | None = options["nearest"]
        super().__init__(pipe, inputs, options, pipe.width if self.nearest is None else 1)
        self.gathers = options["similarity"] or self.nearest is not None

    @classmethod
    def endings(cls, options: dict[str, Any]) -> tuple[str, ...]:
        return (".jsonl", ".csv") if options["nearest"] is not None else (".npy", ".jsonl", ".csv")

    @classmethod
    def check(cls, options: dict[str, Any], to: str | None) -> None:
        if options["similarity"] and options["nearest"] is not None:
            raise InputError("--similarity and --nearest were both given; choose one.")

    @classmethod
    def takes(cls, pipe: Any, options: dict[str, Any]) -> Any | None:
        from headway.generation.sampling import check_number
        from headway.tasks.embedding.task import as_embedder

        if options["nearest"] is not None:
            check_number("k", options["k"], 1, 1 << 31, "a whole number, 1 or more", whole=True)
        return as_embedder(pipe)

    @property
    def depends_on(self) -> dict[str, Any]:
        return {"nearest": self.nearest}  # cosines and rankings are computed again, from what was written

    @functools.cached_property
    def query(self) -> Any:
        """The vector of the text that others are compared with, (1, D)."""
        return self.pipe([self.nearest])

    def answer(self, part: Sequence[str]) -> Any:
        """The vectors of texts, (B, D); with --nearest their cosines with that text, (B, 1)."""
        vectors = super().answer(part)
        return vectors if self.nearest is None else self.pipe.similarity(self.query, vectors).T

    def restored(self, content: bytes) -> Any:
        import numpy as np

        return np.frombuffer(content, dtype="<f4").reshape(len(self.inputs.values), self.width)

    def gathered(self, vectors: Any) -> tuple[Command, Any]:
        if self.nearest is not None:
            best = (-vectors[:, 0]).argsort(kind="stable")[: self.given["k"]].tolist()
            chosen = set(best)
            texts = {number: text for number, text in enumerate(self.inputs.values) if number in chosen}
            ranked = [{"text": texts[number], "score": float(vectors[number, 0]), "index": number} for number in best]
            inputs = replace(self.inputs, values=[one["text"] for one in ranked])
            return Ranking(self.pipe, inputs, self.given), ranked
        cosines = Numbers(self.pipe, self.inputs, self.given, len(self.inputs.values))
        cosines.places = 3
        return cosines, Cosines(self.pipe, vectors)


class Cosines:
    """The cosines of vectors (N, D) with each other, computed for some rows at a time: float32 (rows, N)."""

    def __init__(self, pipe: Any, vectors: Any):
        self.pipe, self.vectors = pipe, vectors

    def __getitem__(self, rows: slice) -> Any:
        return self.pipe.similarity(self.vectors[rows], self.vectors)


class Ranking(Command):
    """The texts that are nearest to one, best first."""

    spec = SPEC

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.columns = [*Ranked.__annotations__]

    def answer(self, part: Sequence[str]) -> Sequence[Any]:
        raise NotImplementedError("a ranking is of all texts together")

    def lines(self, start: int, found: Sequence[dict[str, Any]]) -> Iterator[str]:
        return (f"{one['score']:.3f}\t{field(one['text'])}" for one in found)

    def objects(self, number: int, one: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield one


COMMAND = Embed
