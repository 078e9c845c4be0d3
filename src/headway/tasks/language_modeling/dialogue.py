"""Reply to what is said: language modelling of conversations, trained on the replies alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from headway.data.batches.batch_source import Feed, RowFeed
from headway.data.batches.batching import IGNORED
from headway.data.records.dialogues import REPLY, ROLES, Dialogues, Message, without_oldest_turn
from headway.data.records.split import HELD_OUT, split_indices
from headway.errors import InputError
from headway.tasks.common.lengths import usual_longest
from headway.tasks.common.next_token import LanguageModeling
from headway.tasks.common.ngram import each_unigram, unigram_baselines
from headway.tasks.common.running_text import bpe_size
from headway.tasks.common.sample import sampled
from headway.tasks.common.vocabulary import base_vocabulary
from headway.tasks.language_modeling.data import LanguageModelData
from headway.tasks.task import TaskInputs
from headway.text.chat import with_chat
from headway.text.chat.encode import encode_chat, encode_prompt
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import base_decoder
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.architecture import architecture
from headway.training.sizing.baseline_models import reference
from headway.training.sizing.presets import decoder_plan, fine_tune_text_plan

FEW_HELD_OUT = 30
"""Conversations: of fewer, what they say of a step or of a model is noisy."""
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
        source, held_out = given.source, given.held_out
        if not isinstance(source, Dialogues) or not (held_out is None or isinstance(held_out, Dialogues)):
            raise TypeError("a chat model needs conversations")
        self.options, self.base, self.labels = given.options, given.base, []
        if self.base is not None:
            base_decoder(self.base)
        index, held = split_dialogues(source, self.options.seed_of_split)
        if isinstance(held_out, Dialogues):
            index, held = np.arange(len(source)), np.arange(len(held_out))
        other = held_out if isinstance(held_out, Dialogues) else source
        texts = [message["content"] for i in index for message in source.conversations[i]]
        vocabulary = base_vocabulary(given, texts, chat=True)
        self.tokenizer = vocabulary.tokenizer or with_chat(_tokenizer(texts, self.options))
        parts = [_encoded(self.tokenizer, source, index), _encoded(self.tokenizer, other, held)]
        self.longest = self.options.data.length or usual_longest([len(ids) for ids, _ in parts[0]], LONGEST)
        if self.base is not None:
            self.longest = min(self.longest, self.base.config.max_length)
        train = _fitted(self.tokenizer, source, index, parts[0], self.longest)
        validation = _fitted(self.tokenizer, other, held, parts[1], self.longest)
        if not train.ids or not validation.ids:
            raise InputError(f"{source.name}: no reply begins within {self.longest:,} tokens; use a larger --length.")
        self.train_examples, self.validation_examples = train, validation
        self.first = other.conversations[int(held[0])]
        origin = f" ({held_out.name})" if held_out is not None else " (10 %, duplicates on one side)"
        self.facts = {
            "inputs": [str(path) for path in source.paths],
            "fingerprint": source.fingerprint,
            "train": f"{len(train.ids):,} conversations with {train.n_targets:,} tokens of replies",
            "validation": f"{len(validation.ids):,} conversations with {validation.n_targets:,}{origin}",
            "conversations": len(source) + (0 if held_out is None else len(held_out)),
            "warnings": [*train.warnings(self.longest), *_few_warning(len(validation.ids))],
            **vocabulary.facts,
        }
        self.n_tokens = sum(map(len, train.ids))
        said = np.concatenate(_replies(train))
        vocab_size, wanted = self.tokenizer.vocab_size, _replies(validation)
        self.baselines = unigram_baselines(said, np.concatenate(wanted), vocab_size)
        self._each = {"unigram": each_unigram(said, wanted, vocab_size)}

    def plan(self, seconds: float | None) -> Plan:
        if self.base is None:
            options = reference(self.options).but(length=self.longest)
            plan = decoder_plan(options, self.tokenizer.vocab_size, self.n_tokens, seconds, options.run.steps)
            return architecture(plan.but(max_examples=options.optimisation.batch_size), self.options, "decoder")
        plan = fine_tune_text_plan(self.options, self.base.config, self.n_tokens, seconds)
        size = self.options.optimisation.batch_tokens or max(plan.batch_tokens, self.longest)
        return plan.but(length=self.longest, batch_tokens=size, max_examples=self.options.optimisation.batch_size)

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        return self._each

    def feed(self, plan: Plan) -> Feed:
        train, validation = self.train_examples, self.validation_examples
        held_out = validation.ids, validation.targets
        most = plan.max_examples
        return RowFeed(train.ids, train.targets, *held_out, plan.batch_tokens, plan.seed, max_examples=most)

    def objective(self, plan: Plan) -> Objective:
        return dialogue_task(self.tokenizer, self.validation_examples, plan.objective.label_smoothing)

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


@dataclass
class Examples:
    """Conversations as inputs and targets of the same length; targets are ``IGNORED`` where no reply is next."""

    ids: list[list[int]]
    targets: list[list[int]]
    n_conversations: int
    """how many there were"""
    n_long: int
    """how many were longer than is read"""
    n_lost: int
    """tokens of replies that were left out with the oldest turns, or cut off"""

    @property
    def n_targets(self) -> int:
        """Tokens of replies."""
        return sum(target != IGNORED for targets in self.targets for target in targets)

    def warnings(self, longest: int) -> list[str]:
        """Lines about what is not read."""
        if not self.n_long:
            return []
        share = self.n_lost / max(1, self.n_lost + self.n_targets)
        none = self.n_conversations - len(self.ids)
        without = f", {none:,} have no reply left" if none else ""
        return [
            f"{self.n_long:,} of {self.n_conversations:,} conversations exceed {longest:,} tokens: their oldest turns "
            f"are left out ({share:.1%} of all tokens of replies{without}; --length to change)"
        ]


def split_dialogues(source: Dialogues, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the conversations to train on, and of those that a run with this seed holds out."""
    texts = ["\n".join(message["content"] for message in talk) for talk in source.conversations]
    return split_indices(texts, [""] * len(texts), HELD_OUT, seed)


def dialogue_examples(tokenizer: Tokenizer, source: Dialogues, index: Sequence[int] | np.ndarray, longest: int):
    """Some conversations of a file, those longer than ``longest`` tokens without their oldest turns.

    Raises InputError, with the line, for one that the chat template cannot show.
    """
    return _fitted(tokenizer, source, index, _encoded(tokenizer, source, index), longest)


def dialogue_task(tokenizer: Tokenizer, validation: Examples, label_smoothing: float = 0.0) -> LanguageModeling:
    """The task whose bits per byte are those of the replies."""
    replies = [[target for target in targets if target != IGNORED] for targets in validation.targets]
    n_bytes = sum(len(tokenizer.decode(reply).encode("utf-8", "surrogatepass")) for reply in replies)
    return LanguageModeling(max(1, n_bytes) / max(1, validation.n_targets), label_smoothing)


Encoded = tuple[list[int], list[bool]]
"""The ids of a conversation, and which belong to replies."""


def _encoded(tokenizer: Tokenizer, source: Dialogues, index: Sequence[int] | np.ndarray) -> list[Encoded]:
    return [_encode(tokenizer, source.conversations[i], source, int(i)) for i in index]


def _encode(tokenizer: Tokenizer, messages: list[Message], source: Dialogues, number: int) -> Encoded:
    try:
        return encode_chat(tokenizer, messages)
    except InputError as error:
        raise InputError(f"{source.name}, {source.place(number)}: {error}") from None


def _fitted(
    tokenizer: Tokenizer, source: Dialogues, index: Sequence[int] | np.ndarray, encoded: list[Encoded], longest: int
) -> Examples:
    """Inputs and targets.  A conversation loses its oldest turns until it fits; if one turn is too long, its end."""
    found = Examples([], [], len(encoded), 0, 0)
    for number, (ids, reply) in zip(index, encoded, strict=True):
        kept, known = list(source.conversations[number]), sum(reply[1:])
        if len(ids) > longest + 1:
            found.n_long += 1
        while len(ids) > longest + 1 and (shorter := without_oldest_turn(kept)) is not None:
            kept = shorter
            ids, reply = _encode(tokenizer, kept, source, int(number))
        ids, reply = ids[: longest + 1], reply[: longest + 1]
        found.n_lost += known - sum(reply[1:])
        if any(reply[1:]):
            found.ids.append(ids[:-1])
            pairs = zip(ids[1:], reply[1:], strict=True)
            found.targets.append([token if is_reply else IGNORED for token, is_reply in pairs])
    return found


def _tokenizer(texts: Sequence[str], options: TrainOptions) -> Tokenizer:
    kind = options.data.tokenizer or "bpe"
    if kind == "wordpiece":
        raise InputError("--tokenizer wordpiece does not keep spaces; for conversations use bpe, word or char.")
    vocab = options.data.vocab
    if vocab is None and kind == "bpe":
        vocab = bpe_size(sum(map(len, texts)))
    return train_tokenizer([*texts, "\n".join([*ROLES, ""])], kind, vocab, role="decoder")


def _few_warning(count: int) -> list[str]:
    """A line where which step is kept, and every figure, rests on few conversations."""
    if count >= FEW_HELD_OUT:
        return []
    held_out = "1 conversation is" if count == 1 else f"{count} conversations are"
    return [
        f"only {held_out} held out, so metrics are noisy: a later step is kept only where it is clearly better "
        "(--validation FILE holds out others)"
    ]


def _replies(part: Examples) -> list[np.ndarray]:
    """The tokens of the replies of each conversation."""
    return [np.array([t for t in targets if t != IGNORED], dtype=np.int64) for targets in part.targets]
