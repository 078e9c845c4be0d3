"""The command of classifiers: the label of each input, and the probability of every label."""

from collections.abc import Iterator, Sequence
from typing import Any

from headway.errors import field
from headway.tasks.command import Command, Inputs


class LabelCommand(Command):
    """Labels with their probabilities."""

    needs = "a classifier"
    does = "Classify TEXT with the model in RUN."
    keeps_columns = True

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.columns = [inputs.what, "label", "score", *(f"score: {label}" for label in pipe.labels)]

    @property
    def taken(self) -> list[str]:
        return [*self.columns, "scores"]

    def lines(self, start: int, found: Sequence[dict[str, Any]]) -> Iterator[str]:
        for number, one in enumerate(found, start):
            answer = "\t" if one["label"] is None else f"{field(one['label'])}\t{one['score']:.3f}"
            known = f"\tknown {one['known']:.2f}" if "known" in one else ""
            yield f"{answer}\t{field(self.inputs.values[number])}{known}"

    def objects(self, number: int, one: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {self.inputs.what: self.inputs.values[number], **one}

    def rows(self, number: int, one: dict[str, Any]) -> Iterator[list[str]]:
        scores = (one["score"], *(one["scores"].get(label) for label in self.pipe.labels))
        cells = ("" if score is None else f"{score:.6f}" for score in scores)
        yield [self.inputs.values[number], one["label"] or "", *cells]
