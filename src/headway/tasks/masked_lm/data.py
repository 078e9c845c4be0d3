"""Fill in hidden tokens of running text."""

import warnings
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.batches.batch_source import own_targets, room_in, text_batches
from headway.data.batches.batching import Batch
from headway.data.batches.tokens import Tokens
from headway.data.records.split import few
from headway.errors import InputError
from headway.hub.families import family_named
from headway.hub.fine_tune import for_masked_tokens
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, MaskedTokenHead, gives
from headway.models.initialise import initialise
from headway.models.size import parameters
from headway.models.transformer import Encoder
from headway.tasks.count_baselines import token_counts, unigrams
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.losses import unknown_in
from headway.tasks.masked_lm.objective import SHARE, MaskedLM, masked_baselines, word_starts
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.running_text import RunningTextData, encode_text, frame_of, held_out_text, measured
from headway.tasks.task import Scaling, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.training.base import prepared_base
from headway.training.plan import Plan
from headway.training.sizing.layouts import ENCODER_DEFAULT, encoder_fields

SHORTEST = 4
"""Tokens of a window: two of the text, between [CLS] and [SEP]."""
NEEDS = "a masked language model is measured on running text"
MEASURED = "tokens that are masked"
"""What evaluation counts, as headway.json names it."""
OF_BEFORE = "this run began with a version that also measured tokens to predict that are not masked"
SHARE_FROM_SCRATCH = 0.3
"""The share for a new model.  More to predict teaches more in each step, and short runs gain by it: 500 steps of 2,048
tokens of Python source (width 64, 3 layers), all measured on the same 15 %, end at 3.85 nats with 0.3 and at 4.27 with
0.15."""


class MaskedLMData(RunningTextData):
    """An encoder with a masked-token head, from scratch or from a base, on running text in packed windows.

    From scratch it has the size that the rule for language models gives.  Documents follow each other with [SEP]
    between them; every window begins with [CLS] and ends with [SEP], as a text does later.
    """

    framed = True

    def __init__(self, given: TaskInputs):
        base, asked = given.base, given.options.data.length
        if asked is not None and asked < SHORTEST:
            raise InputError(f"--length is {asked}; windows with masked tokens need {SHORTEST} tokens or more.")
        if base is not None and (not isinstance(base.model, Encoder) or base.tokenizer.mask is None):
            raise InputError(
                f"{base.path}: is not an encoder with a [MASK], so it cannot be trained to fill in tokens, which "
                "--task masked_lm does and --adapt starts with; name another with --from, or leave that option out."
            )
        self.new_head = base is not None and gives(base.model) is not Gives.VOCABULARY
        super().__init__(given)

    def read(self, given: TaskInputs) -> None:
        super().read(given)
        self.facts["measured"] = MEASURED
        self.mixed = given.earlier is not None and given.earlier["data"].get("measured") != MEASURED
        if self.mixed:
            self.facts["warnings"].append(f"{OF_BEFORE}; it goes on as it began")
        if unknown := unknown_in([self.validation], self.tokenizer):
            unmasked = f"{unknown:,} of {len(self.validation):,} held-out tokens are unknown text"
            self.facts["warnings"].append(f"{unmasked}, which is neither masked nor measured")
        longest = self.base.config.max_length if self.base is not None else 1 << 20
        length = self.options.data.length or min(256, longest, max(16, len(self.train) // 20))
        self.options = self.options.but(length=length)
        usual = SHARE_FROM_SCRATCH if self.base is None else SHARE
        self.share = self.options.for_tasks.mlm_probability or usual
        # the baselines are measured on the very tokens that evaluation hides
        task = task_of(self.tokenizer, self.share, whole_words=self.options.for_tasks.whole_words)
        ordinary, self.counts = task.ordinary.numpy(), token_counts(self.train, self.tokenizer.vocab_size)
        targets = task.held_out_counts(held_out_batches(self.validation, self.tokenizer, length))
        self.baselines = masked_baselines(self.counts[ordinary], targets[ordinary])

    def new_plan(self, seconds: float | None) -> Plan:
        """That of a decoder, with an encoder of the same width and layers."""
        plan, layout = self.decoder_plan(self.options.but(layout=None), seconds), self.options.architecture.layout
        before = plan.config
        sizes = before.vocab_size, before.d_model, before.n_layers, before.n_heads, before.max_length
        config = encoder_config(*sizes, layout)
        if self.options.optimisation.dropout is not None:  # else none: other tokens are hidden in every pass
            config = config.but(dropout=before.dropout)
        shape = f"width {config.d_model}, {config.n_layers} layers, {config.n_heads} heads, {config.max_length} tokens"
        decisions = [decision for decision in plan.decisions if decision["what"] not in ("dropout", "decay")]
        decisions[0] = {**decisions[0], "value": shape}
        decay = self.options.optimisation.weight_decay or 0.0
        return plan.but(model=asdict(config), weight_decay=decay, decisions=decisions)

    def completed(self, plan: Plan) -> Plan:
        asked, share = self.options.for_tasks, self.share
        what = "whole words" if asked.whole_words else "tokens"
        scratch = "a new model learns faster with more" if self.base is None else "as published models were trained"
        why = scratch if asked.mlm_probability is None else "as asked"
        changes = {"mlm_probability": share, "whole_words": asked.whole_words}
        plan = plan.decided("hidden", f"{share:.0%} of the {what}", why, "--mlm-probability, --whole-words", **changes)
        if not self.new_head:
            return plan
        why = f"{self.options.fine_tuning.from_model} has none that was trained"
        return plan.decided("head", "a new one, which starts untrained", why, "--from")

    def build(self, plan: Plan) -> nn.Module:
        if self.base is not None and isinstance(self.base.model, Encoder):
            return prepared_base(for_masked_tokens(self.base.model, seed=plan.seed), plan)
        return new_model(plan.config, plan.seed, self.options.architecture.layout or ENCODER_DEFAULT)

    def objective(self, plan: Plan) -> MaskedLM:
        whole_words, share = plan.objective.whole_words, plan.objective.mlm_probability
        return task_of(self.tokenizer, share, whole_words=whole_words, mixed=self.mixed)

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        task = task_of(self.tokenizer, plan.objective.mlm_probability, whole_words=plan.objective.whole_words)
        ordinary, losses = task.ordinary.numpy(), np.zeros(self.tokenizer.vocab_size)
        losses[ordinary] = -np.log(unigrams(self.counts[ordinary]))
        batches = held_out_batches(self.validation, self.tokenizer, plan.length, plan.evaluating.validation_every)
        return {"unigram": np.concatenate([task.losses_of(losses, batch) for batch in batches])}


open_data = MaskedLMData


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
    return text_batches(tokens, room_in(length, frame), 32, every, frame)


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


def _parameters(config: TransformerConfig) -> dict[str, int]:
    return parameters(config, wiring="encoder", head=MaskedTokenHead.size_of(config, dense_bias=False))


def _trial(ids: torch.Tensor, vocab_size: int) -> tuple[MaskedLM, Batch]:
    return MaskedLM(0, {0}, vocab_size, share=SHARE_FROM_SCRATCH), own_targets(ids)


SCALING = Scaling(encoder_config, _parameters, lambda config: new_model(config, 0), _trial)


def measure(pipe: MaskFiller, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the hidden tokens that were counted: the same ones of a text in the same windows."""
    tokens = encode_text(held_out_text(given, NEEDS), pipe.tokenizer, framed=True)
    length = int(given.plan.get("length", min(256, pipe.model.config.max_length)))
    share = given.plan.get("mlm_probability") or SHARE
    task = task_of(pipe.tokenizer, share, whole_words=bool(given.plan.get("whole_words", False)))
    windows = held_out_batches(tokens, pipe.tokenizer, length, given.stride(len(tokens) // length))
    metrics = measured(pipe, task, windows, given.each)
    if given.facts and given.facts.get("data", {}).get("measured") != MEASURED:
        warnings.warn(f"{OF_BEFORE}; only masked tokens are counted now, so the figures differ", stacklevel=3)
    return metrics


def held_out_inputs(pipe: MaskFiller, given: EvaluationInputs, count: int) -> list[str]:
    """Lines of the held-out text, each with its middle word masked."""
    words = (line.split() for line in held_out_text(given, NEEDS).lines() if not pipe.is_open(line))
    return [" ".join([*one[: len(one) // 2], "[MASK]", *one[len(one) // 2 + 1 :]]) for one in few(words, count)]
