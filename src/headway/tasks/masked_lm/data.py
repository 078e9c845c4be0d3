"""Fill in hidden tokens of running text."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.batches.batch_source import BatchSource, FramedBatches, framed, text_batches
from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.cache import cache_key, tokenised
from headway.data.batches.tokens import TokenFile, Tokens
from headway.data.records.corpus import Corpus
from headway.data.records.sample import few
from headway.data.records.split import HELD_OUT
from headway.data.stream.batch_source import FramedStreamBatches
from headway.data.stream.streamed import Streamed
from headway.errors import InputError
from headway.hub.families import family_named
from headway.hub.fine_tune import for_masked_tokens
from headway.io.cache_directory import cache_directory
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, MaskedTokenHead, gives
from headway.models.initialise import initialise
from headway.models.size import parameters
from headway.models.transformer import Encoder
from headway.tasks.baselines import token_counts, unigrams
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.losses import unknown_in
from headway.tasks.masked_lm.objective import MaskedLM, masked_baselines, word_starts
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.rows import base_vocabulary
from headway.tasks.running_text import Streaming, Text, bpe_size, held_out_text, text_facts, text_lines, text_parts
from headway.tasks.task import Scaling, TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import prepared_base
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan
from headway.training.sizing.layouts import ENCODER_DEFAULT, encoder_fields
from headway.training.sizing.presets import decoder_plan, fine_tune_text_plan

MASK_SHARE = 0.15
"""The share of tokens to be predicted with a published model, as most were trained."""
SHORTEST = 4
"""Tokens of a window: two of the text, between [CLS] and [SEP]."""
MEASURED = "tokens that are masked"
"""What evaluation counts, as headway.json names it."""
OF_BEFORE = "this run began with a version that also measured tokens to predict that are not masked"
MASK_SHARE_FROM_SCRATCH = 0.3
"""The share for a new model.  More to predict teaches more in each step, and short runs gain by it: 500 steps of 2,048
tokens of Python source (width 64, 3 layers), all measured on the same 15 %, end at 3.85 nats with 0.3 and at 4.27 with
0.15."""


class MaskedLMData(TaskData):
    """An encoder with a masked-token head, from scratch or from a base, on running text in packed windows.

    From scratch it has the size that the rule for language models gives.  Documents follow each other with [SEP]
    between them; every window begins with [CLS] and ends with [SEP], as a text does later.
    """

    unit = "windows"

    def __init__(self, given: TaskInputs):
        corpus, held_out = given.source, given.held_out
        if not isinstance(corpus, Corpus):
            raise TypeError("a masked language model needs running text")
        held_out = held_out if isinstance(held_out, Corpus) else None
        self.new_head = given.base is not None and gives(given.base.model) is not Gives.VOCABULARY
        self.options, self.base, self.labels = given.options, given.base, []
        base = self.base
        asked = self.options.data.length
        if asked is not None and asked < SHORTEST:
            raise InputError(f"--length is {asked}; windows with masked tokens need {SHORTEST} tokens or more.")
        if base is not None and (not isinstance(base.model, Encoder) or base.tokenizer.mask is None):
            raise InputError(
                f"{base.path}: is not an encoder with a [MASK], so it cannot be trained to fill in tokens, which "
                "--task masked_lm does and --adapt starts with; name another with --from, or leave that option out."
            )
        train_text, validation_text = text_parts(corpus, held_out)
        vocabulary = base_vocabulary(given, (text for text, _ in train_text))
        self.tokenizer = vocabulary.tokenizer or _tokenizer(corpus, train_text, self.options)
        parts = train_text, validation_text
        self.train, self.validation = (encode_documents(text, self.tokenizer) for text in parts)
        self.facts = {
            **text_facts(corpus, held_out, len(self.train), len(self.validation)),
            **vocabulary.facts,
            "measured": MEASURED,
        }
        self.mixed = given.earlier is not None and given.earlier["data"].get("measured") != MEASURED
        if self.mixed:
            self.facts["warnings"].append(f"{OF_BEFORE}; it goes on as it began")
        if unknown := unknown_in([self.validation], self.tokenizer):
            unmasked = f"{unknown:,} of {len(self.validation):,} held-out tokens are unknown text"
            self.facts["warnings"].append(f"{unmasked}, which is neither masked nor measured")
        longest = self.base.config.max_length if self.base is not None else 1 << 20
        self.length = asked or min(256, longest, max(16, len(self.train) // 20))
        self.share = self.options.for_tasks.mlm_probability or (
            MASK_SHARE_FROM_SCRATCH if self.base is None else MASK_SHARE
        )
        self.baselines = self._baselines()
        self.n_tokens = len(self.train)

    def plan(self, seconds: float | None) -> Plan:
        options = self.options.but(length=self.length)
        if self.base is not None:
            plan = fine_tune_text_plan(options, self.base.config, self.n_tokens, seconds)
        else:
            sized = options.but(layout=None)  # as a language model's
            plan = decoder_plan(sized, self.tokenizer.vocab_size, self.n_tokens, seconds, options.run.steps)
            plan = _with_encoder(plan, options)
        share = self.share
        what = "whole words" if self.options.for_tasks.whole_words else "tokens"
        scratch = "a new model learns faster with more" if self.base is None else "as published models were trained"
        why = scratch if self.options.for_tasks.mlm_probability is None else "as asked"
        decision = Decision("hidden", f"{share:.0%} of the {what}", why, "--mlm-probability, --whole-words")
        decisions = [*plan.decisions, asdict(decision)]
        if self.new_head:
            why = f"{self.options.fine_tuning.from_model} has none that was trained"
            decisions.append(asdict(Decision("head", "a new one, which starts untrained", why, "--from")))
        return plan.but(mask_share=share, whole_words=self.options.for_tasks.whole_words, decisions=decisions)

    def build(self, plan: Plan) -> nn.Module:
        if self.base is not None and isinstance(self.base.model, Encoder):
            return prepared_base(for_masked_tokens(self.base.model, seed=plan.seed), plan)
        return new_model(plan.config, plan.seed, self.options.architecture.layout or ENCODER_DEFAULT)

    def batch_source(self, plan: Plan) -> BatchSource:
        batch_source = FramedBatches(
            self.train, self.validation, plan.length, plan.batch_tokens, plan.seed, frame_of(self.tokenizer)
        )
        batch_source.every = plan.evaluating.validation_every
        return batch_source

    def objective(self, plan: Plan) -> Objective:
        whole_words, share = plan.objective.whole_words, plan.objective.mask_share
        return task_of(self.tokenizer, share, whole_words=whole_words, mixed=self.mixed)

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        task = task_of(self.tokenizer, plan.objective.mask_share, whole_words=plan.objective.whole_words)
        ordinary = task.ordinary.numpy()
        losses = np.zeros(self.tokenizer.vocab_size)
        losses[ordinary] = -np.log(unigrams(token_counts(self.train, self.tokenizer.vocab_size)[ordinary]))
        batches = held_out_batches(self.validation, self.tokenizer, plan.length, plan.evaluating.validation_every)
        return {"unigram": np.concatenate([task.losses_of(losses, batch) for batch in batches])}

    def _baselines(self) -> list[dict[str, object]]:
        """Measured on the very tokens that evaluation hides."""
        task = task_of(self.tokenizer, self.share, whole_words=self.options.for_tasks.whole_words)
        ordinary = task.ordinary.numpy()
        counts = token_counts(self.train, self.tokenizer.vocab_size)
        targets = task.held_out_counts(held_out_batches(self.validation, self.tokenizer, self.length))
        return masked_baselines(counts[ordinary], targets[ordinary])


class StreamedMaskedLMData(Streaming, MaskedLMData):
    """An encoder with a masked-token head on shards, which are read while it is trained."""

    def batch_source(self, plan: Plan) -> BatchSource:
        read = self.what_is_read(plan, [], self.tokenizer.sep)
        batch_source = FramedStreamBatches(**read, frame=frame_of(self.tokenizer))
        batch_source.every = plan.evaluating.validation_every
        return batch_source


def frame_of(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """What stands before and after a window: [CLS] and [SEP], where the tokenizer has them."""
    first, last = ([] if number is None else [number] for number in (tokenizer.cls, tokenizer.sep))
    return first, last


def task_of(tokenizer: Tokenizer, share: float, *, whole_words: bool, mixed: bool = False) -> MaskedLM:
    """The task with this tokenizer's tokens.  Raises InputError where they do not tell where words begin."""
    starts = word_starts(tokenizer) if whole_words else None
    if whole_words and starts is None:
        raise InputError("--whole-words: the tokens of this tokenizer do not show where a word begins; leave it out.")
    mask = tokenizer.mask
    if mask is None:
        raise InputError("the tokenizer has no [MASK], so no token can be masked.")
    return MaskedLM(mask, tokenizer.special_ids, tokenizer.vocab_size, share=share, starts_word=starts, mixed=mixed)


def held_out_batches(tokens: Tokens, tokenizer: Tokenizer, length: int, every: int = 1) -> Iterator[Batch]:
    """Non-overlapping windows of ``length`` tokens, the frame counted; of which every n-th."""
    frame = frame_of(tokenizer)
    room = length - len(frame[0]) - len(frame[1])
    return (framed(batch, frame) for batch in text_batches(tokens, room, 32, every))


def encode_documents(text: Text, tokenizer: Tokenizer) -> TokenFile:
    """Tokens of running text with [SEP] between documents, read from the cache."""
    return tokenised(
        text,
        tokenizer.encode_batch,
        end_of_text=tokenizer.sep,
        vocab_size=tokenizer.vocab_size,
        key=cache_key(text.key[0], tokenizer.to_json(), text.key[1], HELD_OUT, "between", tokenizer.sep),
        directory=cache_directory(),
    )


def _tokenizer(corpus: Corpus, train_text: Iterable[tuple[str, bool]], options: TrainOptions) -> Tokenizer:
    kind = options.data.tokenizer or "bpe"
    vocab = options.data.vocab
    if vocab is None and kind in ("bpe", "wordpiece"):
        vocab = bpe_size(corpus.n_characters)
    source = corpus.chunks() if kind == "char" else train_text
    return train_tokenizer((text for text, _ in source), kind, vocab, role="encoder", out_of=corpus.n_characters)


def new_model(config: TransformerConfig, seed: int, layout: str = ENCODER_DEFAULT) -> nn.Module:
    """An encoder with the masked-token head of its layout's family, its weights drawn from a seed."""
    model = Encoder(config)
    model.head = family_named(layout).head(Gives.VOCABULARY, config, model.stack.embedding.tokens)
    return initialise(model, seed)


def encoder_config(
    vocab_size: int, width: int, layers: int, heads: int, length: int, layout: str | None = None
) -> TransformerConfig:
    """An encoder in one of ENCODER_LAYOUTS, in any size, without dropout.  Raises InputError for another layout."""
    fields = encoder_fields(layout)
    return TransformerConfig(
        vocab_size=vocab_size,
        d_model=width,
        n_layers=layers,
        n_heads=heads,
        # with its gate as many parameters as 4 times the width
        d_ff=max(32, round(8 * width / 3 / 32) * 32) if fields["gated"] else 4 * width,
        max_length=length,
        **{**fields, "bias": fields["bias"] or ("head",)},
        dropout=0.0,
    )


def _with_encoder(plan: Plan, options: TrainOptions) -> Plan:
    """The plan of a language model with an encoder of the same width and layers."""
    before, layout = plan.config, options.architecture.layout
    sizes = before.vocab_size, before.d_model, before.n_layers, before.n_heads, before.max_length
    config = encoder_config(*sizes, layout)
    if options.optimisation.dropout is not None:  # else none: other tokens are hidden in every pass
        config = config.but(dropout=before.dropout)
    shape = f"width {config.d_model}, {config.n_layers} layers, {config.n_heads} heads, {config.max_length} tokens"
    decisions = [decision for decision in plan.decisions if decision["what"] not in ("dropout", "decay")]
    decisions[0] = {**decisions[0], "value": shape}
    return plan.but(model=asdict(config), weight_decay=options.optimisation.weight_decay or 0.0, decisions=decisions)


def _parameters(config: TransformerConfig) -> dict[str, int]:
    return parameters(config, wiring="encoder", head=MaskedTokenHead.size_of(config, dense_bias=False))


def _trial(ids: torch.Tensor, vocab_size: int) -> tuple[MaskedLM, Batch]:
    return MaskedLM(0, {0}, vocab_size, share=MASK_SHARE_FROM_SCRATCH), Batch({"ids": ids}, None, ids, TargetKind.TOKEN)


SCALING = Scaling(encoder_config, _parameters, lambda config: new_model(config, 0), _trial)


def open_data(given: TaskInputs) -> MaskedLMData | StreamedMaskedLMData:
    """The prepared data of a run.  Raises InputError."""
    return StreamedMaskedLMData(given) if isinstance(given.source, Streamed) else MaskedLMData(given)


def measure(pipe: MaskFiller, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the hidden tokens that were counted: the same ones of a text in the same windows."""
    text = held_out_text(given, "a masked language model is measured on running text")
    tokens = encode_documents(text, pipe.tokenizer)
    length = int(given.plan.get("length", min(256, pipe.model.config.max_length)))
    share = given.plan.get("mask_share") or MASK_SHARE
    task = task_of(pipe.tokenizer, share, whole_words=bool(given.plan.get("whole_words", False)))
    every = given.stride(len(tokens) // length)
    examples = int(task.held_out_counts(held_out_batches(tokens, pipe.tokenizer, length, every)).sum())
    batches = pipe.runtime.batches(held_out_batches(tokens, pipe.tokenizer, length, every))
    metrics = task.evaluate(pipe.model, batches, given.each)
    if given.facts and given.facts.get("data", {}).get("measured") != MEASURED:
        warnings.warn(f"{OF_BEFORE}; only masked tokens are counted now, so the figures differ", stacklevel=3)
    return {**metrics, "examples": examples}


def held_out_inputs(pipe: MaskFiller, given: EvaluationInputs, count: int) -> list[str]:
    """Lines of the held-out text, each with its middle word masked."""
    lines = text_lines(held_out_text(given, "a masked language model is measured on running text"))
    words = (line.split() for line in lines if not pipe.is_open(line))
    return [" ".join([*one[: len(one) // 2], "[MASK]", *one[len(one) // 2 + 1 :]]) for one in few(words, count)]
