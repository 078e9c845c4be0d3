"""Predict the next token: of running text, or of the replies in conversations."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.batches.batch_source import BatchSource, RowBatches, own_targets, text_batches
from headway.data.batches.batching import Batch
from headway.data.records.dialogues import REPLY, Dialogues
from headway.data.records.split import few
from headway.errors import InputError
from headway.hub.directory import model_config
from headway.models.initialise import initialise
from headway.models.size import parameters
from headway.models.transformer import Decoder
from headway.tasks.count_baselines import LossAlong, ngram_baselines, unigram_baselines
from headway.tasks.dialogue import encoded_talks, talks
from headway.tasks.held_out import EvaluationInputs, in_parts
from headway.tasks.inputs import Prompt, checked_length, usual_longest
from headway.tasks.language_modeling.pipeline import Generator, as_recorded, begin_tokens, chat_tokenizer
from headway.tasks.losses import LanguageModeling, modeling_of
from headway.tasks.rows import tokenizer_for
from headway.tasks.running_text import (
    RunningTextData,
    around_documents,
    encode_text,
    held_out_text,
    measured,
    measured_bytes,
)
from headway.tasks.task import Scaling, TaskInputs
from headway.text.chat import encode_prompt
from headway.training.base import base_decoder, prepared_base
from headway.training.objective import Objective
from headway.training.plan import Plan
from headway.training.ranks import Ranks
from headway.training.sizing.architecture import architecture, built, reference
from headway.training.sizing.presets import decoder_config, regularised, tokens_of_rows

SAMPLE = 80
"""Tokens of a sample."""
BEGINNING = 40
"""Characters of a line that are continued where two ways to compute are compared."""
NEEDS = "a language model is measured on running text or on conversations"
FEW_HELD_OUT = 30
"""Conversations: of fewer, what they say of a step or of a model is noisy."""
FEW_WARNING = (
    "only {} held out, so metrics are noisy: a later step is kept only where it is clearly better "
    "(--validation FILE holds out others)"
)
APART = (
    "the chat template shows the last reply of a conversation otherwise than those before it: each reply is an example "
    "of its own, after what was said before it"
)
LONGEST = 1024
"""Tokens: conversations are not read further than this unless ``--length`` says so."""


class LanguageModelData(RunningTextData):
    """A decoder, from scratch or from a base, on running text."""

    def __init__(self, given: TaskInputs):
        base, tokenizer = given.base, given.tokenizer
        if base is not None:
            base = replace(base, processor=as_recorded(base.tokenizer, base.facts))
            base_decoder(base)
        tokenizer = tokenizer and as_recorded(tokenizer, given.earlier)
        super().__init__(replace(given, base=base, tokenizer=tokenizer))
        self.facts |= begin_tokens(self.tokenizer)

    def read(self, given: TaskInputs) -> None:
        super().read(given)
        self.bytes_per_token = measured_bytes(self.held_out_text, self.validation, self.tokenizer)
        self.along = LossAlong(max(1, len(self.validation) - 1))
        self.baselines = ngram_baselines(self.train, self.validation, self.tokenizer.vocab_size, self.along)

    def new_plan(self, seconds: float | None) -> Plan:
        return architecture(self.decoder_plan(reference(self.options), seconds), self.options, "decoder")

    def finalize_plan(self, seconds: float | None) -> Callable[[Plan, float], Plan] | None:
        if self.base is not None or seconds is None:
            return None

        def settled(plan: Plan, pace: float) -> Plan:
            pace *= Ranks.joined().count  # which was measured in one of them
            passes = min(pace * seconds / max(1, self.n_tokens), float(plan.epochs or math.inf))
            why = f"about {passes:.1f} passes over the text, at {pace:,.0f} tokens a second"
            return regularised(plan, self.options, passes, why)

        return settled

    def build(self, plan: Plan) -> nn.Module:
        return built(plan, "decoder") if self.base is None else prepared_base(self.base.model, plan)

    def objective(self, plan: Plan) -> Objective:
        return LanguageModeling(self.bytes_per_token, plan.objective.label_smoothing)

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        return self.along.windows(plan.length, plan.evaluating.validation_every)

    def sampler(self, model: nn.Module) -> Callable[[], str]:
        """A short continuation of a line end."""
        tokenizer = self.tokenizer
        start = around_documents(tokenizer)[0] or tokenizer.encode("\n") or [tokenizer.end_of_text or 0]
        return lambda: re.sub(r"\n\s*\n+", "\n", self.sampled(model, start)).strip("\n")

    def sampled(self, model: Any, ids: Sequence[int], ends: Collection[int] = ()) -> str:
        """A continuation of the ids, drawn with the same seed each time, so that samples compare."""
        end = self.tokenizer.end_of_text
        ends = frozenset(ends if end is None else (*ends, end))
        prompt = Prompt(list(ids), ends, self.tokenizer, model_config(model).vocab_size)
        pieces = Generator(model, self.tokenizer).continued([prompt], max_tokens=SAMPLE, temperature=0.8, seed=1)
        return "".join(piece for _, piece in pieces)


class DialogueData(LanguageModelData):
    """A decoder, from scratch or from a base, on conversations in the form that a chat template gives them.

    The template is the base's; without one it is the usual one, whose two tokens are added to the tokenizer.  Each
    conversation is a sequence of its own.  What is not a reply is read, and nothing is asked of it.
    """

    unit = "conversations"
    min_units = FEW_HELD_OUT

    def read(self, given: TaskInputs) -> None:
        source, held_out = given.source, given.held_out
        if not isinstance(source, Dialogues) or not (held_out is None or isinstance(held_out, Dialogues)):
            raise TypeError("a chat model needs conversations")
        self.parts = in_parts(given, talks(source), None if held_out is None else talks(held_out))
        train, held = self.parts.train, self.parts.held_out
        new = partial(train.new_tokenizer, self.options)
        self.tokenizer, made = tokenizer_for(given, train.texts(), new, chat=True, out_of=train.n_characters)
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
        conversations = "1 conversation is" if n_held_out == 1 else f"{n_held_out} conversations are"
        self.parts.counts.update({"trained": n_train, "measured": n_held_out})
        self.facts = {
            "inputs": [str(path) for path in source.paths],
            "fingerprint": source.fingerprint,
            "train": f"{n_train:,} conversations with {self.train_examples.n_targets:,} tokens of replies",
            "validation": f"{n_held_out:,} conversations with {validation.n_targets:,}{origin}",
            "conversations": len(source) + (0 if held_out is None else len(held_out)),
            "warnings": [
                *self.parts.warnings,
                *self.train_examples.cut_warning(whole, self.longest),
                *([FEW_WARNING.format(conversations)] if n_held_out < FEW_HELD_OUT else []),
                *([APART] if apart else []),
            ],
            **made,
        }
        self.n_tokens = int(self.train_examples.ids.lengths.sum())
        size = self.tokenizer.vocab_size
        self.baselines, each = unigram_baselines(self.train_examples.targets, validation.targets, size)
        self.of_baselines = {"unigram": each}

    def new_plan(self, seconds: float | None) -> Plan:
        sized = self.decoder_plan(reference(self.options).but(length=self.longest), seconds)
        return architecture(sized, self.options, "decoder")

    def completed(self, plan: Plan) -> Plan:
        usual = plan.batch_tokens if self.base is None else max(plan.batch_tokens, self.longest)
        return plan.but(length=self.longest, batch_tokens=tokens_of_rows(self.options, self.longest, usual))

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        return dict(self.of_baselines)

    def batch_source(self, plan: Plan) -> BatchSource:
        train, held_out = self.train_examples.examples, self.validation_examples.examples
        return RowBatches(train, held_out, plan.batch_tokens, plan.seed, max_examples=plan.batch_size)

    def objective(self, plan: Plan) -> Objective:
        return modeling_of(self.validation_examples.replies(), self.tokenizer, plan.objective.label_smoothing)

    def sampler(self, model: nn.Module) -> Callable[[], str]:
        """A reply to the beginning of the first held-out conversation."""
        number = next(i for i, message in enumerate(self.first) if message["role"] == REPLY)
        before = self.first[:number]
        prompt = encode_prompt(self.tokenizer, before)[-self.longest + 1 :]
        ends = {targets[-1] for targets in self.validation_examples.targets} & self.tokenizer.special_ids
        question = before[-1]["content"].strip() if before else ""
        return lambda: f"{question[-200:]}\n> {self.sampled(model, prompt, ends).strip()}"


def open_data(given: TaskInputs) -> LanguageModelData:
    """The prepared data of a run.  Raises InputError."""
    return (DialogueData if isinstance(given.source, Dialogues) else LanguageModelData)(given)


def _trial(ids: torch.Tensor, vocab_size: int) -> tuple[LanguageModeling, Batch]:
    return LanguageModeling(), own_targets(ids)


SCALING = Scaling(decoder_config, parameters, lambda config: initialise(Decoder(config), 0), _trial)


def held_out_inputs(pipe: Generator, given: EvaluationInputs, count: int) -> list[str]:
    """The beginnings of lines of the held-out text, or of what users say first in conversations."""
    if isinstance(given.source, Dialogues):
        texts = few((talk[0]["content"] for talk in given.held_out(talks(given.source))), count)
    else:
        texts = few(held_out_text(given, NEEDS).lines(), count)
    return [text[:BEGINNING] for text in texts]


def measure(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the tokens that were counted: of conversations those of replies.

    Conversations are read to the length of training at most.  Raises InputError.
    """
    length, tokenizer = given.length(pipe.model.config.max_length), pipe.tokenizer
    if not isinstance(given.source, Dialogues):
        text = held_out_text(given, NEEDS)
        tokens = encode_text(text, tokenizer)
        objective = LanguageModeling(measured_bytes(text, tokens, tokenizer))
        windows = text_batches(tokens, length, 32, given.stride(len(tokens) // length))
        return measured(pipe, objective, windows, given.each)
    chosen = given.sampled(given.held_out(talks(given.source)))
    examples = encoded_talks(chosen, chat_tokenizer(tokenizer)).cut(length)
    given.counts["measured"] = examples.n_talks
    if not len(examples.ids):
        raise InputError(f"{given.source.name}: no reply begins within the {length:,} tokens that are read.")
    objective = modeling_of(examples.replies(), examples.tokenizer)
    return measured(pipe, objective, examples.examples.batches(pipe.runtime.tokens), given.each)
