"""Conversations as rows: which there are, and their ids, with targets where a reply is next."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

import numpy as np

from headway.data.batches.batching import IGNORED
from headway.data.batches.cache import cache_key
from headway.data.batches.encoded import encoded_rows
from headway.data.records.dialogues import KEY, REPLY, ROLES, WEIGHT, Dialogues, Message, without_oldest_turn
from headway.data.records.repeats import text_hashes
from headway.data.records.rows import ROWS
from headway.data.records.split import RowView
from headway.data.records.text_rows import Growing
from headway.errors import InputError
from headway.tasks.rows import EncodedTargets
from headway.tasks.running_text import new_tokenizer
from headway.text.chat import END, START, encode_chat, shows_last_reply_apart, with_chat
from headway.text.tokenizer import Tokenizer
from headway.training.options import TrainOptions


@dataclass(frozen=True)
class Talks(RowView):
    """Some of the conversations of a file, read whenever they are asked for."""

    source: Dialogues
    characters: np.ndarray
    """The characters of all messages of each, int64 (N,)."""

    def __iter__(self) -> Iterator[list[Message]]:
        return map(json.loads, self.source.texts(KEY, self.index))

    @property
    def n_characters(self) -> int:
        """The characters of all messages."""
        return int(self.characters.sum())

    def texts(self) -> Iterator[str]:
        """What the messages say, one after another."""
        return (message["content"] for talk in self for message in talk)

    def new_tokenizer(self, options: TrainOptions) -> Tokenizer:
        """The tokenizer of a new model, with the usual chat template.  Raises InputError."""
        names, count = "\n".join([*ROLES, ""]), self.n_characters
        later = 0 if options.data.vocab is None else len((START, END))
        sizes = {"n_characters": count, "out_of": count + len(names), "reserved": later}
        return with_chat(new_tokenizer(chain(self.texts(), [names]), options, "decoder", **sizes))


def talks(source: Dialogues) -> Talks:
    """All conversations of a file, after one pass over them."""
    growing = Growing(hashes="q", characters="q")
    rows = source.conversations
    while part := list(islice(rows, ROWS)):
        contents = [[message["content"] for message in talk] for talk in part]
        growing.add(hashes=text_hashes(["\n".join(texts) for texts in contents]))
        growing.add(characters=[sum(map(len, texts)) for texts in contents])
    return Talks(source, index=np.arange(len(source)), **growing.arrays())


@dataclass(frozen=True)
class EncodedTalks(EncodedTargets):
    """Conversations as inputs and targets of the same length; targets are ``IGNORED`` where no reply is next."""

    talks: Talks
    tokenizer: Tokenizer

    @cached_property
    def wanted(self) -> np.ndarray:
        """The tokens of replies in each, int64 (N,)."""
        return np.fromiter(map(len, self.replies()), np.int64, len(self.ids))

    @property
    def n_targets(self) -> int:
        """Tokens of replies."""
        return int(self.wanted.sum())

    @property
    def n_talks(self) -> int:
        """The conversations that they are of; of one there may be several examples."""
        return min(len(self.talks), len(self.ids))

    def replies(self) -> Iterator[np.ndarray]:
        """The tokens of the replies of each."""
        for row in self.targets:
            targets = np.array(row, dtype=np.int64)
            yield targets[targets != IGNORED]

    def cut(self, longest: int) -> "EncodedTalks":
        """The same without the oldest turns of those that are too long, and without those that have no reply then.

        Raises InputError, with the line, for one that the chat template cannot show.
        """
        if not (self.ids.lengths > longest).any() and bool(self.wanted.all()):
            return self
        return _stored(self.talks, self.tokenizer, _cut(self, longest), cache_key(self.key, longest))

    def cut_warning(self, whole: "EncodedTalks", longest: int) -> list[str]:
        """A line about what is not read of the ``whole`` ones."""
        long = int((whole.ids.lengths > longest).sum())
        if not long:
            return []
        share = (whole.n_targets - self.n_targets) / max(1, whole.n_targets)
        none = len(whole.ids) - len(self.ids)
        without = f", {none:,} have no reply left" if none else ""
        return [
            f"{long:,} of {len(whole.ids):,} conversations exceed {longest:,} tokens: their oldest turns "
            f"are left out ({share:.1%} of all tokens of replies{without}; --length to change)"
        ]


def _examples(part: Talks, tokenizer: Tokenizer) -> Iterator[tuple[int, list[Message]]]:
    """The number and the messages of each example: a conversation, or each of its replies after what was said before.

    The latter where the template shows the last reply otherwise than those before it (``shows_last_reply_apart``).
    """
    apart = shows_last_reply_apart(tokenizer)
    for number, messages in zip(part.index.tolist(), part, strict=True):
        replies = [at for at, one in enumerate(messages) if one["role"] == REPLY and one.get(WEIGHT, 1)]
        for last in replies if apart else [len(messages) - 1]:
            before = [{**one, WEIGHT: 0} if apart and one["role"] == REPLY else one for one in messages[:last]]
            yield number, [*before, messages[last]]


def encoded_talks(part: Talks, tokenizer: Tokenizer) -> EncodedTalks:
    """Some conversations as they are, however long.  Raises InputError as ``EncodedTalks.cut`` does."""
    read = (part.source.fingerprint, part.source.reading, part.index_key)
    shown = (tokenizer.to_json(), tokenizer.chat_template, tokenizer.special_tokens)
    rows = (
        row
        for number, messages in _examples(part, tokenizer)
        for row in _encode(tokenizer, messages, part.source, number)
    )
    return _stored(part, tokenizer, rows, cache_key(*read, *shown, "talks with weights"))


def _stored(part: Talks, tokenizer: Tokenizer, rows: Iterator[list[int]], key: str) -> EncodedTalks:
    return EncodedTalks(encoded_rows(rows, vocab_size=tokenizer.vocab_size + 1, key=key), key, part, tokenizer)


def _encode(
    tokenizer: Tokenizer, messages: list[Message], source: Dialogues, number: int
) -> tuple[list[int], list[int]]:
    """The ids of a conversation, and the one that follows each plus 1 where it belongs to a reply, else 0."""
    try:
        ids, reply = encode_chat(tokenizer, messages)
    except InputError as error:
        raise InputError(f"{source.name}, {source.place(number)}: {error}") from None
    pairs = zip(ids[1:], reply[1:], strict=True)
    return ids[:-1], [token + 1 if is_reply else 0 for token, is_reply in pairs]


def _cut(examples: EncodedTalks, longest: int) -> Iterator[list[int]]:
    """A conversation loses its oldest turns until it fits; if one turn is too long, its end."""
    rows, talks = iter(examples.rows), examples.talks
    for (number, messages), ids, targets in zip(_examples(talks, examples.tokenizer), rows, rows, strict=True):
        kept = messages
        while len(ids) > longest and (shorter := without_oldest_turn(kept)) is not None:
            kept = shorter
            ids, targets = _encode(examples.tokenizer, kept, talks.source, number)
        if any(targets[:longest]):
            yield ids[:longest]
            yield targets[:longest]
