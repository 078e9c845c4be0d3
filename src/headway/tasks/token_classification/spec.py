"""Token classification, in words and names, and the command that runs its models."""

from collections.abc import Iterator, Sequence
from typing import Any

from headway.errors import field
from headway.tasks.answers import Span
from headway.tasks.command import Command, Inputs, Option
from headway.tasks.spec import OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import ACCURACY, VAL_LOSS, Metric

ENTITY_F1 = Metric("entity_f1", "entity F1", units="quotient")
ENTITY_PRECISION = Metric("entity_precision", "entity precision")
ENTITY_RECALL = Metric("entity_recall", "entity recall")

SPEC = TaskSpec(
    name="token_classification",
    heads=(("encoder", "token"),),
    title="Token classifier",
    verb="tag",
    help="Find spans, such as names, in a text or in every text of a file.",
    answers="spans",
    unit="word",
    loss_unit="nats per word",
    outputs="logits of every token",
    metrics=(ENTITY_F1, ENTITY_PRECISION, ENTITY_RECALL, ACCURACY, VAL_LOSS),
    headline=(ENTITY_F1, ACCURACY),
    compared=(ENTITY_F1, ACCURACY),
    answer_unit="texts tagged",
    options=OF_TEXTS - {"second_column"} | {"layout", "token_dropout", "label_smoothing"},
    searched=frozenset({"label_smoothing", "token_dropout"}),
)


class Tag(Command):
    """The spans of each text; none where nothing is found."""

    spec = SPEC
    answers = list[Span]
    needs = "a token classifier"
    does = "Find the spans in TEXT (names, places, or what the model in RUN was trained to find)."
    notes = "start and end are characters of the text, from 0; end is the one after the last."
    options = (Option("pretokenized", "Each text is its words: with blanks between them, or as a JSON list.", bool),)
    blank_means_nothing = True
    takes_words = True

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.columns = ["number", *Span.__annotations__]

    def answer(self, part: Sequence[Any]) -> Sequence[list[dict[str, Any]]]:
        return self.pipe([self._read(one) for one in part])

    def _read(self, one: Any) -> Any:
        """A text, or the list of its words."""
        from headway.data.formats.tags import listed

        if isinstance(one, str) and self.given["pretokenized"]:
            return found if (found := listed(one)) is not None else one.split()
        return one

    def _text(self, number: int) -> str:
        """The text that the characters of an answer are of."""
        read = self._read(self.inputs.values[number])
        return read if isinstance(read, str) else " ".join(read)

    def lines(self, start: int, found: Sequence[list[dict[str, Any]]]) -> Iterator[str]:
        for number, spans in enumerate(found, start):
            if self.inputs.several:
                yield ("\n" if number else "") + field(self._text(number))
            for span in spans:
                places = f"{span['start']}\t{span['end']}"
                yield f"{field(span['label'])}\t{span['score']:.3f}\t{places}\t{field(span['text'])}"

    def objects(self, number: int, one: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield {"text": self._text(number), "spans": one}

    @property
    def types(self) -> dict[str, Any]:
        return {"answer": self.answers}

    def cells(self, number: int, one: list[dict[str, Any]]) -> list[Any]:
        return [one]

    def rows(self, number: int, one: list[dict[str, Any]]) -> Iterator[list[Any]]:
        for span in one:
            yield [number + 1, *({**span, "score": f"{span['score']:.6f}"}[name] for name in Span.__annotations__)]


COMMAND = Tag
