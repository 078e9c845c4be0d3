"""Translation, and all else that writes a text for a text: words and names, and the command that runs its models."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from headway.errors import InputError, field, printable
from headway.tasks.answers import Target
from headway.tasks.command import Command, Inputs, Option
from headway.tasks.spec import OF_KINDS, OF_TEXTS, TaskSpec
from headway.training.evaluation.metric import BLEU, CHRF, PERPLEXITY, VAL_LOSS, Metric

ACCURACY = Metric("accuracy", "accuracy of each next token given the true beginning")

ANY = TaskSpec(
    name="text_to_text",
    named_heads=(("encoder-decoder", "vocabulary"), ("decoder", "vocabulary")),
    title="Writer of a text for a text",
    verb="translate",
    help="Translate or summarize a text, or every text in a file.",
    unit="pair",
    loss_unit="nats per token",
    logits=1.0,
    outputs="logits of every token",
    metrics=(CHRF, ACCURACY, VAL_LOSS, PERPLEXITY),
    headline=(CHRF, VAL_LOSS),
    compared=(CHRF,),
    writes="targets",
    answer_unit="texts written",
    models=("transformer", "encoder-decoder", "decoder", "rnn", "lstm", "gru"),
    options=OF_TEXTS | OF_KINDS | {"bpe_dropout", "r_drop", "label_smoothing", "source_language", "target_language"},
    searched=frozenset({"label_smoothing"}),
    advice_if_baseline_wins=("Train longer or on more pairs, or find known answers with --task embedding.",) * 2,
)
SPEC = {
    "text_to_text": ANY,
    "translation": replace(
        ANY,
        name="translation",
        heads=(("encoder-decoder", "vocabulary"),),
        named_heads=(("decoder", "vocabulary"),),
        title="Translator",
        metrics=(BLEU, CHRF, ACCURACY, VAL_LOSS, PERPLEXITY),
        headline=(CHRF, BLEU, VAL_LOSS),
        answer_unit="texts translated",
        aliases=("summarize",),
    ),
}


SMALLER = 4
"""By so much a piece is smaller than one of texts that are only read: to write takes longer."""

Hypotheses = list[dict[str, Any]]
"""The translations of a text, best first."""


class Write(Command):
    """The best targets for each text; a blank one stays as it is."""

    spec = ANY
    answers = str | Target | list[Target]
    needs = "an encoder-decoder"
    does = "Translate TEXT with the model in RUN, or rewrite it as the model was trained to."
    notes = (
        "Lines keep their order, and empty ones stay empty.  With --n-best the translations of several texts begin "
        "with the number of the text and their rank."
    )
    options = (
        Option("beam", "Beam width; 1 is greedy.", int, 5, least=1, most=16),
        Option("n_best", "Number of translations of each text.", int, 1, least=1, most=16),
        Option("length_penalty", "Above 0 favours longer translations.", float, 1.0, least=-10, most=10),
        Option("scores", "Show scores: ln p divided by the length to the power of the penalty.", bool),
        Option("source_language", "Language of the texts, for a model of many (M2M-100)."),
        Option("target_language", "Language to write, for a model of many (M2M-100, some of Marian)."),
        Option("alignment", "Show the source word of each translated word.", bool),
    )
    keeps_columns = True
    taken = ("number", "rank", "text", "translation", "score", "alignment")

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.n_best, self.alignment, self.scores = (options[name] for name in ("n_best", "alignment", "scores"))
        self.ranked = self.n_best > 1
        self.columns = [*(["number", "rank"] if self.ranked else []), "text", "translation", "score"]
        self.search = {name: options[name] for name in ("beam", "n_best", "length_penalty")}
        pipe([], **self.search)  # says what is wrong with the numbers

    @classmethod
    def endings(cls, options: dict[str, Any]) -> tuple[str, ...]:
        return (".txt", ".csv", ".jsonl")

    @classmethod
    def check(cls, options: dict[str, Any], to: str | None) -> None:
        if to is not None and options["alignment"] and not to.endswith(".jsonl"):
            raise InputError(f"--to {to}: cannot hold alignments; name a .jsonl file.")
        if to is not None and to.endswith(".txt") and (options["n_best"] > 1 or options["scores"]):
            raise InputError(
                f"--to {to}: has one line for each text; for --n-best and --scores name a .csv or .jsonl file."
            )

    @classmethod
    def takes(cls, pipe: Any, options: dict[str, Any]) -> Any | None:
        pair = options["source_language"], options["target_language"]
        taken = super().takes(pipe, options)
        return taken if taken is None or pair == (None, None) else taken.between(*pair)

    @property
    def tokens(self) -> int:
        from headway.runtime.runtime import BATCH_TOKENS

        return max(1, int(BATCH_TOKENS // self.given["beam"] // SMALLER))

    def check_input(self, value: str) -> None:
        self.pipe.sources_of(value, self.n_best)

    def size(self, value: str) -> int:
        return self.n_best * (1 + len(value.split())) ** 2 if self.alignment else 0

    def answer(self, part: Sequence[str]) -> Sequence[Hypotheses]:
        hypotheses: list[Hypotheses] = self.pipe.hypotheses(part, **self.search, alignment=self.alignment)
        for one in (one for each in hypotheses for one in each if self.alignment):
            one["alignment"] = one["alignment"] and one["alignment"].plain()
        return hypotheses

    def results(self, hypotheses: Sequence[Hypotheses]) -> list[Any]:
        whole = self.scores or self.alignment
        return [each if self.ranked else each[0] if whole else each[0]["text"] for each in hypotheses]

    def lines(self, start: int, found: Sequence[Hypotheses]) -> Iterator[str]:
        for number, each in enumerate(found, start=start + 1):
            for rank, one in enumerate(each, start=1):
                place = f"{number}\t{rank}\t" if self.inputs.several and self.ranked else ""
                yield from self._lines(one, place)

    def _lines(self, one: dict[str, Any], place: str) -> Iterator[str]:
        """A translation, with its score where that is asked for, and from which word each of its words came.

        Of several texts each has one line, whatever it holds.
        """
        text = printable(one["text"].replace("\n", " ")) if self.inputs.several else one["text"]
        yield f"{place}{one['score']:.3f}\t{text}" if self.scores else f"{place}{text}"
        if one.get("alignment"):
            words, rows = one["alignment"]["source"], one["alignment"]["weights"]
            for target, row in zip(one["alignment"]["target"], rows if words else [], strict=bool(words)):
                weight = max(row)
                yield f"  {field(target)} < {field(words[row.index(weight)])} ({weight:.2f})"

    def objects(self, number: int, one: Hypotheses) -> Iterator[dict[str, Any]]:
        for rank, each in enumerate(one, start=1):
            place = {"number": number + 1, "rank": rank} if self.ranked else {}
            text = {"text": self.inputs.values[number], "translation": each["text"]}
            yield {**place, **text, **{name: value for name, value in each.items() if name != "text"}}

    @property
    def types(self) -> dict[str, Any]:
        return {"answer": list[Target]} if self.ranked else {"translation": str, "score": float}

    def cells(self, number: int, one: Hypotheses) -> list[Any]:
        return [one] if self.ranked else [one[0][name] for name in ("text", "score")]

    def line(self, one: Hypotheses) -> str:
        return super().line(one[0]["text"])

    def count(self) -> str:
        if not self.ranked:
            return super().count()
        texts, blank = len(self.inputs.values), self.inputs.n_blank
        return f"{self.n_best * (texts - blank) + blank:,} translations of {texts:,} texts"


class Translate(Write):
    """The best translations of each text."""

    spec = SPEC["translation"]


COMMAND = {"text_to_text": Write, "translation": Translate}
