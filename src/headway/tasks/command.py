"""The command that answers with the models of a task: what its room says of it, and the command line needs to know.

    command(name)      the class of one     headway.tasks.NAME.command.COMMAND

It is read for ``--help``, so that torch is imported inside functions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headway.tasks.spec import TaskSpec


@dataclass(frozen=True)
class Option:
    """An option of a command, besides those that all such commands have."""

    name: str
    """as a keyword: n_best for --n-best"""
    help: str
    type: type = str
    """bool for a flag"""
    default: Any = None
    show_default: bool = True
    several: bool = False
    """whether it can be given several times; its value is a tuple then"""
    goes_with: str | None = None
    """the flag without which it means nothing"""
    metavar: str | None = None


@dataclass(frozen=True)
class Inputs:
    """What is to be answered."""

    run: str
    """the model, as it was named"""
    values: Sequence[str]
    """texts, or the names of pictures"""
    several: bool = False
    """whether they are several, or those of a file or a pipe, which may be several"""
    what: str = "text"
    """what one is called in a file of results"""
    rows: Sequence[dict[str, str]] | None = None
    """the rows of the table that they stand in, if they do"""
    known_by: Sequence[str] = field(default=())
    """what says whether an input is still the same, if the input itself does not"""


class Command(ABC):
    """One use of the command: a pipeline, inputs and options by name; as a class, what is known before that."""

    spec: ClassVar[TaskSpec]
    needs: ClassVar[str]
    """what a model is to be, where it is another: "a classifier" """
    does: ClassVar[str]
    """what it does with TEXT and the model in RUN"""
    notes: ClassVar[str] = ""
    """what follows in its help on what TEXT can be"""
    options: ClassVar[tuple[Option, ...]] = ()
    one_input: ClassVar[str] = ""
    """where its verb takes a single text, and all of standard input as one: what that is called"""
    interactive: ClassVar[str] = ""
    """the flag with which it holds a conversation instead"""
    blank_means_nothing: ClassVar[bool] = False
    """whether there is a warning of texts without a letter"""
    keeps_columns: ClassVar[bool] = False
    """whether a file of results has the other columns of the table that the inputs are from"""

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        """Raises InputError for options that the pipeline cannot use."""
        self.pipe, self.inputs, self.given = pipe, inputs, options
        self.columns: list[Any] = [inputs.what]
        """the names of the columns of a .csv file"""
        self.gathers = False
        """whether what is shown is made of all answers together, by ``gathered``"""

    @classmethod
    def endings(cls, options: dict[str, Any]) -> tuple[str, ...]:
        """The endings of the files that results can be written to."""
        return (".csv", ".jsonl")

    @classmethod  # noqa: B027  # most have nothing to say
    def check(cls, options: dict[str, Any], to: str | None) -> None:
        """Raise InputError for options that contradict each other, or the file of results.  No model is loaded yet."""

    @classmethod
    def takes(cls, pipe: Any, options: dict[str, Any]) -> Any | None:
        """The pipeline that answers, from one that was loaded; None where that is of another task."""
        return pipe if pipe.task == cls.spec.name else None

    @classmethod
    def conversation(cls, pipe: Any, options: dict[str, Any], notice: Callable[[str], None]) -> Any:
        """What a conversation is held with: ``say`` (text -> pieces of the reply), ``reset`` and ``messages``."""
        raise NotImplementedError

    @property
    def tokens(self) -> int:
        """How many tokens are a batch."""
        from headway.runtime.batching import tokens_at_once

        return tokens_at_once(self.pipe.model.config)

    @property
    def depends_on(self) -> dict[str, Any]:
        """The options that answers depend on."""
        return self.given

    @property
    def taken(self) -> Iterable[str]:
        """Names that a file of results has by itself: a column of a table that is called so gets another name."""
        return self.columns

    def notice(self) -> str:
        """What there is to say before anything is answered; usually nothing."""
        return ""

    def check_input(self, value: str) -> None:  # noqa: B027
        """Raise InputError for one of several inputs that cannot be answered: before any is."""

    @abstractmethod
    def answer(self, part: Sequence[str]) -> Sequence[Any]:
        """The answers to some of the inputs, in order."""

    def stream(self, value: str) -> Iterator[str] | None:
        """The answer to a single text piece by piece, which goes on with that text; None for other kinds of answer.

        Raises InputError at once.
        """
        return None

    def results(self, found: Sequence[Any]) -> list[Any]:
        """Answers as JSON has them."""
        return list(found)

    @abstractmethod
    def lines(self, start: int, found: Sequence[Any]) -> Iterable[str]:
        """Answers as lines for a person, from input number ``start``, from 0, on."""

    @abstractmethod
    def objects(self, number: int, one: Any) -> Iterable[dict[str, Any]]:
        """The answer to an input as a .jsonl file has it: an object for each line."""

    def rows(self, number: int, one: Any) -> Iterable[Iterable[Any]]:
        """The same as a .csv file has it: a row of as many values as there are ``columns``."""
        for each in self.objects(number, one):
            yield [f"{value:.6f}" if isinstance(value, float) else value for value in each.values()]

    def line(self, one: Any) -> str:
        """The same as a .txt file has it."""
        return str(one).replace("\n", " ")

    def header(self) -> bytes:
        """What comes before the answers in a file of a kind of its own."""
        return b""

    def content(self, found: Sequence[Any]) -> bytes:
        """Answers as such a file has them."""
        raise NotImplementedError

    def restored(self, content: bytes) -> Sequence[Any]:
        """All answers from the ``content`` of a .vectors file, for a command that ``gathers``."""
        raise NotImplementedError

    def gathered(self, found: Sequence[Any]) -> "tuple[Command, Sequence[Any]]":
        """What is made of all answers, and how it is shown and written."""
        raise NotImplementedError

    def count(self) -> str:
        """How many results there are."""
        return f"{len(self.inputs.values):,} results"
