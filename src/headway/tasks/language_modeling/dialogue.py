"""Reply to what is said: language modelling of conversations, trained on the replies alone."""

import json
import math
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain, islice

import numpy as np
from torch import nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import IGNORED, TargetKind
from headway.data.batches.cache import cache_key
from headway.data.batches.encoded import Column, EncodedRows, encoded_rows
from headway.data.batches.examples import Examples
from headway.data.records.chunks import ROWS
from headway.data.records.dialogues import KEY, REPLY, ROLES, WEIGHT, Dialogues, Message, without_oldest_turn
from headway.data.records.repeats import text_hashes
from headway.data.records.split import Splittable
from headway.errors import InputError
from headway.io.cache_directory import cache_directory
from headway.tasks.common.lengths import checked_length, usual_longest
from headway.tasks.common.next_token import LanguageModeling, bytes_per_token, unknown_in
from headway.tasks.common.ngram import mean_loss, unigrams
from headway.tasks.common.parts import in_parts
from headway.tasks.common.running_text import bpe_size
from headway.tasks.common.vocabulary import base_vocabulary
from headway.tasks.language_modeling.data import LanguageModelData, sampled
from headway.tasks.language_modeling.documents import begin_tokens, inputs_as_recorded
from headway.tasks.task import TaskInputs
from headway.text.chat import END, START, with_chat
from headway.text.chat.encode import encode_chat, encode_prompt, shows_last_reply_apart
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import base_decoder
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.architecture import architecture
from headway.training.sizing.baseline_models import reference
from headway.training.sizing.presets import decoder_plan, fine_tune_text_plan, tokens_of_rows

FEW_HELD_OUT = 30
"""Conversations: of fewer, what they say of a step or of a model is noisy."""
APART = (
    "the chat template shows the last reply of a conversation otherwise than those before it: each reply is an example "
    "of its own, after what was said before it"
)
LONGEST = 1024
"""Tokens: conversations are not read further than this unless ``--length`` says so."""


class DialogueData(LanguageModelData):
    """A decoder, from scratch or from a base, on conversations in the form that a chat template gives them.

    The template is the base's; without one it is the usual one, whose two tokens are added to the tokenizer.  Each
    conversation is a sequence of its own.  What is not a reply is read, and nothing is asked of it.
    """

    unit = "conversations"
    careful_below = FEW_HELD_OUT

    def __init__(self, given: TaskInputs):
        given = inputs_as_recorded(given)
        source, held_out = given.source, given.held_out
        if not isinstance(source, Dialogues) or not (held_out is None or isinstance(held_out, Dialogues)):
            raise TypeError("a chat model needs conversations")
        self.options, self.base, self.labels = given.options, given.base, []
        if self.base is not None:
            base_decoder(self.base)
        self.parts = in_parts(given, talks(source), talks(held_out) if isinstance(held_out, Dialogues) else None)
        train, held = self.parts.train, self.parts.held_out
        characters = int(train.characters.sum())
        vocabulary = base_vocabulary(given, train.texts(), chat=True, out_of=characters)
        self.tokenizer = vocabulary.tokenizer or with_chat(_tokenizer(train, self.options, characters))
        whole = encoded_talks(train, self.tokenizer)
        self.longest = self.options.data.length or usual_longest(whole.ids.lengths + 1, LONGEST)
        if self.base is not None:
            self.longest = min(self.longest, checked_length(self.options, self.base.config.max_length))
        self.train_examples = whole.cut(self.longest)
        self.validation_examples = validation = encoded_talks(held, self.tokenizer).cut(self.longest)
        if not len(self.train_examples.ids) or not len(validation.ids):
            raise InputError(f"{source.name}: no reply begins within {self.longest:,} tokens; use a larger --length.")
        self.first = next(iter(held))
        origin = f" ({held_out.name})" if held_out is not None else " (10 %, duplicates on one side)"
        apart = len(whole.ids) > len(train)
        self.unit = "replies" if apart else self.unit
        n_train, n_held_out = self.train_examples.n_talks, validation.n_talks
        self.parts.counts.update({"trained": n_train, "measured": n_held_out})
        self.facts = {
            "inputs": [str(path) for path in source.paths],
            "fingerprint": source.fingerprint,
            "train": f"{n_train:,} conversations with {self.train_examples.n_targets:,} tokens of replies",
            "validation": f"{n_held_out:,} conversations with {validation.n_targets:,}{origin}",
            "conversations": len(source) + (0 if held_out is None else len(held_out)),
            "warnings": [
                *self.parts.warnings,
                *cut_warning(whole, self.train_examples, self.longest),
                *_few_warning(n_held_out),
                *([APART] if apart else []),
            ],
            **vocabulary.facts,
            **begin_tokens(self.tokenizer),
        }
        self.n_tokens = int(self.train_examples.ids.lengths.sum())
        chances = unigrams(self.train_examples.counts())
        self.baselines = [
            {"name": "uniform (ln V)", "val_loss": math.log(len(chances))},
            {"name": "unigram", "val_loss": mean_loss(chances, validation.counts())},
        ]
        losses = -np.log(chances)
        each = ((float(losses[reply].sum()), len(reply)) for reply in validation.replies())
        self.of_baselines = {"unigram": np.fromiter(each, np.dtype((np.float64, 2)), len(validation.ids))}

    def plan(self, seconds: float | None) -> Plan:
        rows = self.options.optimisation.batch_size
        if self.base is None:
            options = reference(self.options).but(length=self.longest)
            plan = decoder_plan(options, self.tokenizer.vocab_size, self.n_tokens, seconds, options.run.steps)
            size = tokens_of_rows(self.options, self.longest, plan.batch_tokens)
            return architecture(plan.but(max_examples=rows, batch_tokens=size), self.options, "decoder")
        plan = fine_tune_text_plan(self.options, self.base.config, self.n_tokens, seconds)
        size = tokens_of_rows(self.options, self.longest, max(plan.batch_tokens, self.longest))
        return plan.but(length=self.longest, batch_tokens=size, max_examples=rows)

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        return dict(self.of_baselines)

    def batch_source(self, plan: Plan) -> BatchSource:
        train, held_out = self.train_examples.examples, self.validation_examples.examples
        return RowBatches(train, held_out, plan.batch_tokens, plan.seed, max_examples=plan.max_examples)

    def objective(self, plan: Plan) -> Objective:
        return self.validation_examples.objective(plan.objective.label_smoothing)

    def sampler(self, model: nn.Module) -> Callable[[], str]:
        """A reply to the beginning of the first held-out conversation."""
        number = next(i for i, message in enumerate(self.first) if message["role"] == REPLY)
        said, tokenizer = self.first[:number], self.tokenizer
        prompt = encode_prompt(tokenizer, said)[-self.longest + 1 :]
        last = {targets[-1] for targets in self.validation_examples.targets} & tokenizer.special_ids
        ends = last if tokenizer.end_of_text is None else {*last, tokenizer.end_of_text}

        def sample() -> str:
            reply = sampled(model, tokenizer, prompt, ends).strip()
            question = said[-1]["content"].strip() if said else ""
            return f"{question[-200:]}\n> {reply}"

        return sample


@dataclass(frozen=True)
class Talks(Splittable):
    """Some of the conversations of a file, read whenever they are asked for."""

    source: Dialogues
    index: np.ndarray
    """Their numbers in the file in ascending order, int64 (N,)."""
    hashes: np.ndarray
    """Equal for conversations that read the same, int64 (N,)."""
    characters: np.ndarray
    """The characters of all messages of each, int64 (N,)."""

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[list[Message]]:
        return map(json.loads, self.source.texts(KEY, self.index))

    def texts(self) -> Iterator[str]:
        """What the messages say, one after another."""
        return (message["content"] for talk in self for message in talk)

    def part(self, rows: np.ndarray) -> "Talks":
        """Some of them, by their numbers here in ascending order."""
        return Talks(self.source, self.index[rows], self.hashes[rows], self.characters[rows])


def talks(source: Dialogues) -> Talks:
    """All conversations of a file, after one pass over them."""
    hashes, characters = array("q"), array("q")
    rows = source.conversations
    while part := list(islice(rows, ROWS)):
        said = [[message["content"] for message in talk] for talk in part]
        hashes.frombytes(text_hashes(["\n".join(texts) for texts in said]).tobytes())
        characters.extend(sum(map(len, texts)) for texts in said)
    return Talks(source, np.arange(len(hashes)), np.frombuffer(hashes, np.int64), np.frombuffer(characters, np.int64))


@dataclass(frozen=True)
class EncodedTalks:
    """Conversations as inputs and targets of the same length; targets are ``IGNORED`` where no reply is next."""

    talks: Talks
    tokenizer: Tokenizer
    rows: EncodedRows
    """ids and targets in turn, the latter plus 1"""
    key: str

    @property
    def ids(self) -> Column:
        """The inputs of each."""
        return Column(self.rows, 0, 2)

    @property
    def targets(self) -> Column:
        """As many targets."""
        return Column(self.rows, 1, 2, below=IGNORED)

    @property
    def examples(self) -> Examples:
        """Each with its targets."""
        return Examples(self.ids, self.targets, TargetKind.TOKEN)

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
        for row in islice(self.rows, 1, None, 2):
            targets = np.array(row, dtype=np.int64)
            yield targets[targets > 0] - 1

    def counts(self) -> np.ndarray:
        """How often each token occurs in replies, int64 (V,)."""
        found = np.zeros(self.tokenizer.vocab_size, dtype=np.int64)
        for reply in self.replies():
            np.add.at(found, reply, 1)
        return found

    def too_long(self, longest: int) -> np.ndarray:
        """Which have more tokens than that, bool (N,)."""
        return self.ids.lengths > longest

    def cut(self, longest: int) -> "EncodedTalks":
        """The same without the oldest turns of those that are too long, and without those that have no reply then.

        Raises InputError, with the line, for one that the chat template cannot show.
        """
        if not self.too_long(longest).any() and bool(self.wanted.all()):
            return self
        return _stored(self.talks, self.tokenizer, _cut(self, longest), cache_key(self.key, longest))

    def objective(self, label_smoothing: float = 0.0) -> LanguageModeling:
        """The task whose bits per byte are those of these replies."""
        texts = (self.tokenizer.decode(reply) for reply in self.replies())
        n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
        unknown = unknown_in(self.replies(), self.tokenizer)
        return LanguageModeling(bytes_per_token(n_bytes, self.n_targets, unknown), label_smoothing)


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
    read = (part.source.fingerprint, part.source.reading, sha256(part.index.tobytes()).hexdigest())
    shown = (tokenizer.to_json(), tokenizer.chat_template, tokenizer.special_tokens)
    rows = (
        row
        for number, messages in _examples(part, tokenizer)
        for row in _encode(tokenizer, messages, part.source, number)
    )
    return _stored(part, tokenizer, rows, cache_key(*read, *shown, "talks with weights"))


def _stored(part: Talks, tokenizer: Tokenizer, rows: Iterator[list[int]], key: str) -> EncodedTalks:
    kept = encoded_rows(rows, vocab_size=tokenizer.vocab_size + 1, key=key, directory=cache_directory())
    return EncodedTalks(part, tokenizer, kept, key)


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


def _tokenizer(train: Talks, options: TrainOptions, characters: int) -> Tokenizer:
    kind = options.data.tokenizer or "bpe"
    if kind == "wordpiece":
        raise InputError("--tokenizer wordpiece does not keep spaces; for conversations use bpe, word or char.")
    vocab = options.data.vocab
    if vocab is None and kind == "bpe":
        vocab = bpe_size(characters)
    names = "\n".join([*ROLES, ""])
    texts = chain(train.texts(), [names])
    later = len((START, END)) if options.data.vocab is not None else 0
    return train_tokenizer(texts, kind, vocab, role="decoder", out_of=characters + len(names), reserved=later)


def cut_warning(whole: EncodedTalks, kept: EncodedTalks, longest: int) -> list[str]:
    """A line about what is not read."""
    long = int(whole.too_long(longest).sum())
    if not long:
        return []
    share = (whole.n_targets - kept.n_targets) / max(1, whole.n_targets)
    none = len(whole.ids) - len(kept.ids)
    without = f", {none:,} have no reply left" if none else ""
    return [
        f"{long:,} of {len(whole.ids):,} conversations exceed {longest:,} tokens: their oldest turns "
        f"are left out ({share:.1%} of all tokens of replies{without}; --length to change)"
    ]


def _few_warning(count: int) -> list[str]:
    """A line where which step is kept, and every figure, rests on few conversations."""
    if count >= FEW_HELD_OUT:
        return []
    held_out = "1 conversation is" if count == 1 else f"{count} conversations are"
    return [
        f"only {held_out} held out, so metrics are noisy: a later step is kept only where it is clearly better "
        "(--validation FILE holds out others)"
    ]
