"""What models answer: the dicts of pipelines, of ``--json`` and of HTTP, whose fields are the columns of a .csv file.

A command names the type of its answers (``Command.answers``); a server publishes it as JSON Schema.
"""

from typing import Any, NotRequired, TypedDict


class Label(TypedDict):
    """One label for an input."""

    label: str | None
    """the likeliest; None where no token of a text is known"""
    score: float | None
    """its probability"""
    scores: dict[str, float]
    """the probability of every label; they sum to one"""
    known: NotRequired[float]
    """the share of known tokens of a text, where it is below half"""


class Labels(TypedDict):
    """The labels of a text, several or none."""

    labels: list[str]
    """those whose probability is at least their threshold, in the order of the model"""
    scores: dict[str, float]
    """the probability of every label; empty where no token of a text is known"""
    known: NotRequired[float]
    """the share of known tokens of a text, where it is below half"""


class Rating(TypedDict):
    """A level on a scale for a text."""

    label: str | None
    """the likeliest level; None where no token of a text is known"""
    value: float | None
    """the mean of the levels, each by its probability"""
    scores: dict[str, float]
    """the probability of every level; they sum to one"""
    known: NotRequired[float]
    """the share of known tokens of a text, where it is below half"""


class Number(TypedDict):
    """A number for a text."""

    value: float | None
    """in the unit of the numbers that were learnt; None where no token of a text is known"""
    known: NotRequired[float]
    """the share of known tokens of a text, where it is below half"""


class Span(TypedDict):
    """A span of a text."""

    text: str
    label: str
    start: int
    """its first character, from 0"""
    end: int
    """the character after its last"""
    score: float
    """the mean probability of the tags of its words"""


class Token(TypedDict):
    """A token for an open place."""

    token: str
    score: float
    """its probability among all tokens"""


class Target(TypedDict):
    """A text that was written for another."""

    text: str
    score: float
    """ln p divided by its length to the power of the penalty"""
    alignment: NotRequired[dict[str, Any] | None]
    """the source word of each of its words"""


class Ranked(TypedDict):
    """A text and its similarity to another."""

    text: str
    score: float
    """the cosine of their vectors"""
    index: int
    """its place among the texts, from 0"""
