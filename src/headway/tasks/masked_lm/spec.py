"""Masked language modelling, in words and names, and the command that runs its models."""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from headway.errors import InputError, field, shown
from headway.tasks.answers import Token
from headway.tasks.command import Command, Inputs, Option
from headway.tasks.spec import OF_TEXTS, TRY_ANOTHER, TaskSpec
from headway.training.evaluation.metric import ACCURACY, PERPLEXITY, VAL_LOSS

SPEC = TaskSpec(
    name="masked_lm",
    heads=(("encoder", "vocabulary"),),
    title="Masked language model",
    verb="fill",
    help="Predict the masked words of a text.",
    answers="spans",
    unit="masked token",
    loss_unit="nats per masked token",
    logits=0.15,
    outputs="logits of every token",
    metrics=(ACCURACY, VAL_LOSS, PERPLEXITY),
    answer_unit="texts filled in",
    options=OF_TEXTS | {"layout", "mlm_probability", "whole_words", "stream", "validation_windows"},
    advice_if_baseline_wins=(
        "That baseline is not kept; train longer, or start from a pretrained model (--from).",
        TRY_ANOTHER,
    ),
)


WINDOW = 1000
"""The values that a place counts for: a long text is read again for each."""
Place = list[Token]
"""The tokens for an open place."""


class Fill(Command):
    """The likeliest tokens for each open place of each text; none for a blank one of several."""

    spec = SPEC
    answers = list[Token] | list[list[Token]]
    key = "result"
    needs = "a masked language model"
    does = "Name the likeliest tokens for each [MASK] (or <mask>) in TEXT, by the model in RUN."
    notes = "Blank lines stay blank."
    options = (Option("k", "Number of tokens for each [MASK].", int, 5, least=1, most=100),)

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.columns = ["text", "place", *Token.__annotations__]
        pipe([], **options)  # says what is wrong with the numbers

    @functools.cached_property
    def several_places(self) -> bool:
        """Whether the texts have several open places together."""
        places = itertools.chain.from_iterable(range(self.pipe.count_open(value)) for value in self.inputs.values)
        return len(list(itertools.islice(places, 2))) > 1

    def check_input(self, value: str) -> None:
        from headway.tasks.masked_lm.pipeline import NOTHING_OPEN

        if value.strip() and not self.pipe.is_open(value):
            raise InputError(f"{shown(value)}: {NOTHING_OPEN}")

    def size(self, value: str) -> int:
        return WINDOW * self.pipe.count_open(value)

    def answer(self, part: Sequence[str]) -> Sequence[Any]:
        filled = [bool(one.strip()) or not self.inputs.several for one in part]
        answers = iter(self.pipe([one for one, is_filled in zip(part, filled, strict=True) if is_filled], **self.given))
        return [next(answers) if is_filled else [] for is_filled in filled]

    def lines(self, start: int, found: Sequence[Any]) -> Iterator[str]:
        for number, places in enumerate(map(_places, found), start):
            text = self.inputs.values[number]
            if not places:
                yield ""
            for number, place in enumerate(places, start=1):
                if self.several_places:
                    yield f"{field(text)}  (place {number} of {len(places)})" if len(places) > 1 else field(text)
                for one in place:
                    yield f"{one['score']:.3f}\t{field(one['token'])}"

    @property
    def types(self) -> dict[str, Any]:
        return {"answer": list[Place]}

    def cells(self, number: int, one: Any) -> list[Any]:
        return [_places(one)]

    def rows(self, number: int, one: Any) -> Iterator[list[Any]]:
        for at, place in enumerate(_places(one), start=1):
            for each in place:
                yield [self.inputs.values[number], at, each["token"], f"{each['score']:.6f}"]


def _places(result: list[Any]) -> list[Place]:
    """The answers for each open place of a text; none for a blank one."""
    return [result] if result and isinstance(result[0], dict) else result


COMMAND = Fill
