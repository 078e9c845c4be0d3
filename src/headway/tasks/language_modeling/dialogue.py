"""Reply to what is said: language modelling of conversations, trained on the replies alone."""

import math
from collections.abc import Callable
from itertools import chain

import numpy as np
from torch import nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.records.dialogues import REPLY, ROLES, Dialogues
from headway.errors import InputError
from headway.tasks.baselines import mean_loss, unigrams
from headway.tasks.held_out import in_parts
from headway.tasks.inputs import checked_length, usual_longest
from headway.tasks.language_modeling.data import LanguageModelData, sampled
from headway.tasks.language_modeling.pipeline import begin_tokens, inputs_as_recorded
from headway.tasks.rows import base_vocabulary
from headway.tasks.running_text import bpe_size
from headway.tasks.talks import EncodedTalks, Talks, encoded_talks, talks
from headway.tasks.task import TaskInputs
from headway.text.chat import END, START, with_chat
from headway.text.chat.encode import encode_prompt
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import base_decoder
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.architecture import architecture, reference
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
