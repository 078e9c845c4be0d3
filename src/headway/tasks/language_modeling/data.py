"""Predict the next token of running text."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.batches.batch_source import BatchSource, TextBatches, text_batches
from headway.data.batches.batching import Batch, TargetKind
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.sample import few
from headway.data.stream.batch_source import StreamBatches
from headway.errors import InputError
from headway.generation.sampling import Sampling
from headway.hub.directory import model_config
from headway.models.initialise import initialise
from headway.models.size import parameters
from headway.models.transformer import Decoder
from headway.runtime.runtime import Runtime
from headway.tasks.baselines import LossAlong, ngram_baselines
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.inputs import forbidden_ids
from headway.tasks.language_modeling.chat import chat_tokenizer
from headway.tasks.language_modeling.pipeline import Generator, begin_tokens, inputs_as_recorded
from headway.tasks.losses import LanguageModeling
from headway.tasks.rows import base_vocabulary
from headway.tasks.running_text import (
    Streaming,
    around_documents,
    bpe_size,
    encode_text,
    held_out_text,
    measured_bytes,
    text_facts,
    text_lines,
    text_parts,
)
from headway.tasks.talks import Talks, encoded_talks, talks
from headway.tasks.task import Scaling, TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import base_decoder, prepared_base
from headway.training.distributed.ranks import Ranks
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.architecture import architecture, built, reference
from headway.training.sizing.presets import decoder_config, decoder_plan, fine_tune_text_plan, regularised

SAMPLE = 80
"""Tokens of a sample."""
BEGINNING = 40
"""Characters of a line that are continued where two ways to compute are compared."""
NEEDS = "a language model is measured on running text or on conversations"


class LanguageModelData(TaskData):
    """A decoder, from scratch or from a base, on running text as one sequence of tokens."""

    unit = "windows"

    def __init__(self, given: TaskInputs):
        given = inputs_as_recorded(given)
        corpus, held_out = given.source, given.held_out
        if not isinstance(corpus, Corpus):
            raise TypeError("a language model needs running text")
        held_out = held_out if isinstance(held_out, Corpus) else None
        self.options, self.base, self.labels = given.options, given.base, []
        if self.base is not None:
            base_decoder(self.base)
        train_text, validation_text = text_parts(corpus, held_out)
        vocabulary = base_vocabulary(given, (text for text, _ in train_text))
        tokenizer = vocabulary.tokenizer
        if tokenizer is None:
            tokenizer = text_tokenizer(corpus, train_text, given.options)
        self.tokenizer = tokenizer
        self.train, self.validation = (encode_text(text, tokenizer) for text in (train_text, validation_text))
        self.bytes_per_token = measured_bytes(validation_text, self.validation, tokenizer)
        self.facts = {
            **text_facts(corpus, held_out, len(self.train), len(self.validation)),
            **vocabulary.facts,
            **begin_tokens(tokenizer),
        }
        self.along = LossAlong(max(1, len(self.validation) - 1))
        self.baselines = ngram_baselines(self.train, self.validation, tokenizer.vocab_size, self.along)
        self.n_tokens = len(self.train)

    def plan(self, seconds: float | None) -> Plan:
        if self.base is not None:
            return fine_tune_text_plan(self.options, self.base.config, self.n_tokens, seconds)
        plan = decoder_plan(
            reference(self.options), self.tokenizer.vocab_size, self.n_tokens, seconds, self.options.run.steps
        )
        return architecture(plan, self.options, "decoder")

    def settling(self, seconds: float | None) -> Callable[[Plan, float], Plan] | None:
        if self.base is not None or seconds is None:
            return None

        def settled(plan: Plan, pace: float) -> Plan:
            pace *= Ranks.joined().count  # which was measured in one of them
            passes = min(pace * seconds / max(1, self.n_tokens), float(plan.epochs or math.inf))
            why = f"about {passes:.1f} passes over the text, at {pace:,.0f} tokens a second"
            return regularised(plan, self.options, passes, why)

        return settled

    def build(self, plan: Plan) -> nn.Module:
        if self.base is not None:
            return prepared_base(self.base.model, plan)
        return built(plan, "decoder")

    def batch_source(self, plan: Plan) -> BatchSource:
        batch_source = TextBatches(self.train, self.validation, plan.length, plan.batch_tokens, plan.seed)
        batch_source.every = plan.evaluating.validation_every
        return batch_source

    def objective(self, plan: Plan) -> Objective:
        return LanguageModeling(self.bytes_per_token, plan.objective.label_smoothing)

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        return self.along.windows(plan.length, plan.evaluating.validation_every)

    def sampler(self, model: nn.Module) -> Callable[[], str]:
        """A short continuation of a line end."""
        tokenizer = self.tokenizer
        ends = set() if tokenizer.end_of_text is None else {tokenizer.end_of_text}
        start = around_documents(tokenizer)[0] or tokenizer.encode("\n") or [tokenizer.end_of_text or 0]
        return lambda: re.sub(r"\n\s*\n+", "\n", sampled(model, tokenizer, start, ends)).strip("\n")


class StreamedLanguageModelData(Streaming, LanguageModelData):
    """A decoder on shards, which are read while it is trained."""

    def batch_source(self, plan: Plan) -> BatchSource:
        batch_source = StreamBatches(**self.what_is_read(plan, *around_documents(self.tokenizer)))
        batch_source.every = plan.evaluating.validation_every
        return batch_source


def _trial(ids: torch.Tensor, vocab_size: int) -> tuple[LanguageModeling, Batch]:
    return LanguageModeling(), Batch({"ids": ids}, None, ids, TargetKind.TOKEN)


SCALING = Scaling(decoder_config, parameters, lambda config: initialise(Decoder(config), 0), _trial)


def sampled(model: nn.Module, tokenizer: Tokenizer, prompt: Sequence[int], ends: set[int]) -> str:
    """A continuation of the prompt's ids, always drawn with the same seed so that samples can be compared."""
    steps = Runtime(model).write(
        [list(prompt)],
        Sampling(temperature=0.8),
        max_tokens=SAMPLE,
        end=ends,
        forbidden=forbidden_ids(tokenizer, model_config(model).vocab_size, ends),
        seed=1,
    )
    text = tokenizer.stream(prompt)
    return "".join(text.push(step[0]) for step in steps) + text.finish()


def text_tokenizer(corpus: Corpus, train_text: Iterable[tuple[str, bool]], options: TrainOptions) -> Tokenizer:
    kind = options.data.tokenizer or "bpe"
    if kind == "wordpiece":
        raise InputError("--tokenizer wordpiece does not keep spaces; for running text use bpe, word or char.")
    vocab = options.data.vocab
    if vocab is None and kind == "bpe":
        vocab = bpe_size(corpus.n_characters)
    source = corpus.chunks() if kind == "char" else train_text  # every character of the text, also of the held-out part
    return train_tokenizer((text for text, _ in source), kind, vocab, role="decoder", out_of=corpus.n_characters)


def measure(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the tokens that were counted.  Raises InputError."""
    if isinstance(given.source, Dialogues):
        return _dialogue_metrics(pipe, given.source, given)
    return _text_metrics(pipe, given)


def held_out_inputs(pipe: Generator, given: EvaluationInputs, count: int) -> list[str]:
    """The beginnings of lines of the held-out text, or of what users say first in conversations."""
    if isinstance(given.source, Dialogues):
        texts = few((talk[0]["content"] for talk in _held_out_talks(given.source, given)), count)
    else:
        texts = few(text_lines(held_out_text(given, NEEDS)), count)
    return [text[:BEGINNING] for text in texts]


def _held_out_talks(source: Dialogues, given: EvaluationInputs) -> Talks:
    return given.held_out(talks(source))


def _dialogue_metrics(pipe: Generator, source: Dialogues, given: EvaluationInputs) -> dict[str, Any]:
    """Of replies alone, in conversations of at most the length of training."""
    length = given.length(pipe.model.config.max_length)
    found = given.sampled(_held_out_talks(source, given))
    examples = encoded_talks(found, chat_tokenizer(pipe.tokenizer)).cut(length)
    given.counts["measured"] = examples.n_talks
    if not len(examples.ids):
        raise InputError(f"{source.name}: no reply begins within the {length:,} tokens that are read.")
    batches = pipe.runtime.batches(examples.examples.batches(pipe.runtime.tokens))
    return {**examples.objective().evaluate(pipe.model, batches, given.each), "examples": examples.n_targets}


def _text_metrics(pipe: Generator, given: EvaluationInputs) -> dict[str, Any]:
    length = given.length(pipe.model.config.max_length)
    text = held_out_text(given, NEEDS)
    tokens = encode_text(text, pipe.tokenizer)
    every = given.stride(len(tokens) // length)
    task = LanguageModeling(measured_bytes(text, tokens, pipe.tokenizer))
    count = sum(batch.targets.numel() for batch in text_batches(tokens, length, 32, every))
    batches = pipe.runtime.batches(text_batches(tokens, length, 32, every))
    return {**task.evaluate(pipe.model, batches, given.each), "examples": count}
