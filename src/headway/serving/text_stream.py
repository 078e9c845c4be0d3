"""A text while it is written for a client: ids become pieces of text, and stop strings end it."""

from dataclasses import dataclass, field

from headway.generation.sampling import Likely, Penalties, Sampling
from headway.tasks.inputs import Prompt
from headway.text.stream_decoder import StopStrings, StreamDecoder


@dataclass(frozen=True)
class GenerationOptions:
    """How a text is continued."""

    sampling: Sampling
    max_tokens: int
    stop: tuple[str, ...] = ()
    seed: int | None = None
    penalties: Penalties | None = None
    likely: int | None = None
    """how many alternatives of each token are told; None: nothing about tokens"""


@dataclass(frozen=True)
class Token:
    """A token that was chosen."""

    text: str
    bytes: list[int]
    log_probability: float | None
    """None: of the first token of a prompt"""
    others: list[tuple[str, list[int], float]]
    """alternatives, best first: text, bytes, log-probability"""


@dataclass
class Delta:
    """What is new of a text."""

    text: str = ""
    tokens: list[Token] = field(default_factory=list)
    count: int = 0
    """tokens that were computed"""
    finish: str | None = None
    """why it ended: "stop" or "length"; None while it goes on"""
    error: Exception | None = None


LEAST = -9999.0
"""The log-probability of what is impossible, which JSON cannot say."""


class TextStream:
    """One text that is being written.  Used by the worker's thread alone."""

    def __init__(self, prompt: Prompt, options: GenerationOptions):
        self.prompt, self.options = prompt, options
        self._decoder, self._stops = prompt.text, StopStrings(options.stop)
        self._told: list[Token] = []
        self._left = options.max_tokens

    def push(self, token: int, likely: Likely | None) -> Delta:
        """What a new token makes known."""
        self._left -= 1
        if likely is not None:
            self._told.append(told(self._decoder, token, likely))
        text, stopped = self._stops.push(self._decoder.push(token))
        if not stopped and self._left == 0:
            return self._last(text, "length", 1)
        return self._piece(text, "stop" if stopped else None, 1)

    def end(self) -> Delta:
        """The rest, when the model has ended the text."""
        return self._last("", "stop", 0)

    def _last(self, text: str, finish: str, count: int) -> Delta:
        more, stopped = self._stops.push(self._decoder.finish())
        rest = "" if stopped else self._stops.finish()
        return self._piece(text + more + rest, "stop" if stopped else finish, count)

    def _piece(self, text: str, finish: str | None, count: int) -> Delta:
        """A piece with the tokens behind it: they are held back as long as their text is."""
        tokens: list[Token] = []
        if text or finish is not None:
            tokens, self._told = self._told, []
        return Delta(text, tokens, count, finish)


def told(decoder: StreamDecoder, token: int, likely: Likely | None) -> Token:
    """A token behind what a decoder has been given, and how likely it was."""
    if likely is None:
        return Token(*_spelt(decoder, token), None, [])
    others = [(*_spelt(decoder, other), max(LEAST, value)) for other, value in likely.others]
    return Token(*_spelt(decoder, token), max(LEAST, likely.log_probability), others)


def _spelt(decoder: StreamDecoder, token: int) -> tuple[str, list[int]]:
    """A token as text and as bytes; a part of a character is U+FFFD as text."""
    spelling = decoder.bytes_of(token)
    return spelling.decode("utf-8", "replace"), list(spelling)
