"""The command that runs a task's models: what it tells the command line about it.

    command(name)      the class of one     headway.tasks.NAME.spec.COMMAND

``--help`` imports it, so torch is only imported inside functions.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, get_type_hints, is_typeddict

from headway.errors import field as field_of
from headway.tasks.answers import Label, Labels
from headway.tasks.spec import TaskSpec


class Option(NamedTuple):  # made sooner than a dataclass, which --help waits for
    """An option of a command, in addition to those that all such commands have."""

    name: str
    """as a keyword: n_best for --n-best"""
    help: str
    type: type = str
    """bool for a flag"""
    default: Any = None
    show_default: bool = True
    several: bool = False
    """whether it can be given several times; its value is then a tuple"""
    goes_with: str | None = None
    """the flag that it needs"""
    metavar: str | None = None
    least: int | float | None = None
    """the smallest number that a server accepts"""
    most: int | float | None = None
    """the greatest"""

    @property
    def usual(self) -> Any:
        """Its value where it is not given."""
        return False if self.type is bool else [] if self.several else self.default


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a command."""

    run: str
    """the model, as the user named it"""
    values: Sequence[str]
    """texts, or the file names of images"""
    several: bool = False
    """whether there are several, or they come from a file or a pipe, which may hold several"""
    what: str = "text"
    """the name of an input in a file of results"""
    n_blank: int = 0
    """texts without a letter"""
    known_by: Sequence[str] = ()
    """what identifies the inputs; without it, they do themselves"""


class Command:
    """One use of the command: a pipeline, inputs and options by name; the class holds what is known before that."""

    spec: ClassVar[TaskSpec]
    answers: ClassVar[Any] = Any
    """the type of an answer (``tasks.answers``)"""
    key: ClassVar[str] = "answer"
    """what an answer is called in files, where it is no dict of fields"""
    needs: ClassVar[str] = "another model"
    """the kind of model that it needs, for the error message: "a classifier" """
    does: ClassVar[str]
    """what it does with TEXT and the model in RUN"""
    notes: ClassVar[str] = ""
    """the part of its help after the description of TEXT"""
    options: ClassVar[tuple[Option, ...]] = ()
    one_input: ClassVar[str] = ""
    """the name of an input where all of standard input is one, and not each of its lines"""
    interactive: ClassVar[str] = ""
    """the flag that starts a conversation instead"""
    takes_words: ClassVar[bool] = False
    """whether an input may be a list of words, where it is not a string as on the command line"""
    blank_means_nothing: ClassVar[bool] = False
    """whether to warn of texts without a letter"""
    keeps_columns: ClassVar[bool] = False
    """whether a file of results keeps the other columns of the inputs' table"""

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        """Raises InputError for options that the pipeline cannot use."""
        self.pipe, self.inputs, self.given = pipe, inputs, options
        self.typed = is_typeddict(self.answers)
        """whether an answer is a dict whose fields are known"""
        self.columns: list[Any] = [inputs.what, *(self.answers.__annotations__ if self.typed else [self.key])]
        """the names of the columns of a .csv file"""
        self.gathers = False
        """whether ``gathered`` makes the result from all answers together"""

    @classmethod
    def endings(cls, options: dict[str, Any]) -> tuple[str, ...]:
        """The extensions of the files that results can be written to."""
        return (".csv", ".jsonl")

    @classmethod  # most need no check
    def check(cls, options: dict[str, Any], to: str | None) -> None:
        """Raise InputError for options that conflict with each other or the results file.  No model is loaded yet."""

    @classmethod
    def takes(cls, pipe: Any, options: dict[str, Any]) -> Any | None:
        """The pipeline of the command, from a loaded one; None where that is for another task."""
        return pipe if pipe.task == cls.spec.name else None

    @classmethod
    def conversation(cls, pipe: Any, options: dict[str, Any], notice: Callable[[str], None]) -> Any:
        """The conversation: ``say`` (text -> pieces of the reply), ``reset`` and ``messages``."""
        raise NotImplementedError(f"the command of {cls.spec.name} has no conversation")

    @property
    def tokens(self) -> int:
        """The number of tokens in a batch."""
        return int(self.pipe.runtime.tokens)

    @property
    def depends_on(self) -> dict[str, Any]:
        """The options that answers depend on."""
        return self.given

    @property
    def taken(self) -> Iterable[str]:
        """Reserved names in a file of results: a table's column of such a name is renamed."""
        return self.columns

    def notice(self) -> str:
        """A message to show before the answers; usually none."""
        return ""

    def check_input(self, value: str) -> None:
        """Raise InputError for one of several inputs that cannot be answered, before any is."""

    def answer(self, part: Sequence[str]) -> Sequence[Any]:
        """The answers to some of the inputs, in order."""
        return self.pipe(list(part))

    def size(self, value: str) -> int:
        """About how many values the answer to an input has, which a server limits; 0 if no more than its text."""
        return 0

    def stream(self, value: str) -> Iterator[str] | None:
        """The continuation of a single text piece by piece; None for other kinds of answer.

        Raises InputError at once.
        """
        return None

    def results(self, found: Sequence[Any]) -> list[Any]:
        """Answers as JSON values."""
        return list(found)

    def lines(self, start: int, found: Sequence[Any]) -> Iterable[str]:
        """Answers as readable lines, from input number ``start`` (from 0)."""
        for number, one in enumerate(found, start):
            parts = [part for name, part in one.items() if name != "known"] if self.typed else [one]
            value = "\t".join(_field(part) for part in parts)
            known = f"\tknown {one['known']:.2f}" if self.typed and "known" in one else ""
            yield f"{value}\t{field_of(self.inputs.values[number])}{known}"

    def objects(self, number: int, one: Any) -> Iterable[dict[str, Any]]:
        """The answer to an input for a .jsonl file: an object for each line."""
        yield {self.inputs.what: self.inputs.values[number], **(one if self.typed else {self.key: one})}

    def rows(self, number: int, one: Any) -> Iterable[Iterable[Any]]:
        """The same for a table: a row of as many values as there are ``columns``."""
        for each in self.objects(number, one):
            yield [each.get(name) for name in self.columns] if self.typed else list(each.values())

    @property
    def types(self) -> dict[str, Any]:
        """The columns that an answer adds to a row of a data frame, with their types."""
        hints = get_type_hints(self.answers) if self.typed else dict.fromkeys(map(str, self.columns[1:]), self.answers)
        return {name: hints[name] for name in map(str, self.columns[1:])}

    def cells(self, number: int, one: Any) -> list[Any]:
        """The same for a data frame: a value for each of ``types``."""
        return list(next(iter(self.rows(number, one))))[1:]

    def line(self, one: Any) -> str:
        """The same for a .txt file."""
        return str(one).replace("\n", " ")

    def header(self) -> bytes:
        """The header of the command's own file format."""
        return b""

    def content(self, found: Sequence[Any]) -> bytes:
        """Answers in that format."""
        raise NotImplementedError(f"the command of {self.spec.name} has no file format of its own")

    def restored(self, content: bytes) -> Sequence[Any]:
        """All answers from the ``content`` of a .vectors file, for a command that ``gathers``."""
        raise NotImplementedError(f"the command of {self.spec.name} gathers no answers")

    def gathered(self, found: Sequence[Any]) -> "tuple[Command, Any]":
        """The result of all answers, of which slices are taken, and the command that shows and writes it."""
        raise NotImplementedError(f"the command of {self.spec.name} gathers no answers")

    def count(self) -> str:
        """The number of results."""
        return f"{len(self.inputs.values):,} results"


def _field(part: Any) -> str:
    """A part of an answer on a line."""
    if isinstance(part, float):
        return f"{part:.6g}" if abs(part) < 1e6 else f"{part:.0f}"
    return "" if part is None else field_of(str(part))


def free_names(fields: Iterable[str], columns: Iterable[str], prefix: str = "predicted") -> dict[str, str]:
    """What fields of answers are called beside columns of a table: ``predicted: FIELD`` where one has that name."""
    names: dict[str, str] = {}
    taken = {*columns}
    for field in fields:
        name = field
        while name in taken:
            name = f"{prefix}: {name}"
        names[field] = name
        taken.add(name)
    return names


def plain_command(spec: TaskSpec, **told: Any) -> type[Command]:
    """The command of a task that has none of its own: an answer for each input; ``told`` are attributes of it."""
    does = spec.help or f"Use the model for {spec.name.replace('_', ' ')} in RUN."
    usual = {"spec": spec, "needs": f"a model for {spec.name}", "does": does, "__doc__": spec.title}
    return type("PlainCommand", (Command,), {**usual, **told})


def label_command(spec: TaskSpec, *, several: bool = False, **told: Any) -> "type[LabelCommand]":
    """The command of a task whose answers are labels, one for an input or ``several``; ``told`` are its attributes."""
    answers = Labels if several else Label
    return type("OwnLabelCommand", (LabelCommand,), {"spec": spec, "answers": answers, "__doc__": spec.title, **told})


class LabelCommand(Command):
    """Labels with their probabilities; of texts also which share of the tokens is known, where that is below half."""

    needs = "a classifier"
    does = "Classify TEXT with the model in RUN."
    keeps_columns = True
    answers: ClassVar[Any] = Label

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        several = {"scores": [f"score: {label}" for label in pipe.labels]}
        several |= {} if self.spec.reads == "text" else {"known": []}
        fields = self.answers.__annotations__
        self.columns = [inputs.what, *(column for name in fields for column in several.get(name, [name]))]

    @property
    def taken(self) -> list[str]:
        return [*self.columns, "scores"]

    @property
    def types(self) -> dict[str, Any]:
        return {name: float if at else str for at, name in enumerate(self.columns[1:])}

    def lines(self, start: int, found: Sequence[dict[str, Any]]) -> Iterator[str]:
        for number, one in enumerate(found, start):
            if "labels" in one:
                answer = ", ".join(f"{field_of(label)} {one['scores'][label]:.3f}" for label in one["labels"]) or "-"
            else:
                score = one["score" if "score" in one else "value"]
                answer = "\t" if one["label"] is None else f"{field_of(one['label'])}\t{score:.3f}"
            known = f"\tknown {one['known']:.2f}" if "known" in one else ""
            yield f"{answer}\t{field_of(self.inputs.values[number])}{known}"

    def rows(self, number: int, one: dict[str, Any]) -> Iterator[list[Any]]:
        best = (";".join(one["labels"]) if one["scores"] else None) if "labels" in one else one["label"]
        scores = [one[name] for name in ("score", "value") if name in one]
        scores += [one["scores"].get(label) for label in self.pipe.labels]
        scores += [one.get("known", None if one["scores"] else 0.0)] if self.spec.reads == "text" else []
        yield [self.inputs.values[number], best, *scores]
