"""Several label columns, in words and names, and the command that runs the models."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headway.tasks import registry
from headway.tasks.answers import Label, Labels, Number, Rating
from headway.tasks.command import Command, Inputs, free_names
from headway.tasks.spec import OF_ROWS, TaskSpec

SPEC = TaskSpec(
    name="multi_column",
    heads=(("encoder", "row"), ("decoder", "row")),
    problem="multi_column",
    title="Predictor of several columns",
    help="Predict several columns of a text, or of every text in a file.",
    answers="columns",
    loss_unit="mean loss of the columns",
    outputs="outputs for the columns",
    answer_unit="texts answered",
    options=OF_ROWS,
)


class ColumnsCommand(Command):
    """For each column what the command of its own task says."""

    spec = SPEC
    answers = dict[str, Label | Labels | Rating | Number]
    needs = "a model that predicts several columns"
    does = "Predict the columns of TEXT with the model in RUN."
    keeps_columns = True

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.parts = {name: registry.command(part.task)(part, inputs, {}) for name, part in pipe.columns.items()}
        fields = [
            f"{name}: {field}" for name, part in self.parts.items() for field in self._fields(part, part.columns)[1:]
        ]
        free = free_names(fields, self.parts)  # a column may be called like a field of another
        self.columns = [inputs.what]
        for name, part in self.parts.items():
            self.columns += [name, *(free[f"{name}: {field}"] for field in self._fields(part, part.columns)[1:])]

    @staticmethod
    def _fields(part: Command, row: Iterable[Any]) -> list[Any]:
        """The values for a column of the results, without the text and without the share of known tokens."""
        return [value for name, value in zip(part.columns, row, strict=True) if name not in (part.inputs.what, "known")]

    @property
    def types(self) -> dict[str, Any]:
        kinds = (self._fields(part, [None, *part.types.values()]) for part in self.parts.values())
        return dict(zip(self.columns[1:], (kind for part in kinds for kind in part), strict=True))

    def lines(self, start: int, found: Sequence[dict[str, Any]]) -> Iterator[str]:
        for number, one in enumerate(found, start):
            shown = ((name, *part.lines(number, [one[name]])) for name, part in self.parts.items())
            text = self.inputs.values[number]
            yield "\t".join([*(f"{name}: {line.split(chr(9))[0]}" for name, line in shown), " ".join(text.split())])

    def objects(self, number: int, one: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {self.inputs.what: self.inputs.values[number], **one}

    def rows(self, number: int, one: dict[str, Any]) -> Iterator[Iterable[Any]]:
        of_parts = (self._fields(part, next(iter(part.rows(number, one[name])))) for name, part in self.parts.items())
        yield [self.inputs.values[number], *(value for row in of_parts for value in row)]


COMMAND = ColumnsCommand
