"""From a plan and its data to the parts of a run: model, batches, task; and what of the plan is measured with them."""

import math
import time
from dataclasses import asdict, replace
from typing import Any

from torch import nn

from headway.data.feed import Feed, RowFeed, TextFeed
from headway.models.heads import ClassificationHead, make_norm
from headway.models.initialise import initialise
from headway.models.transformer import Decoder, Encoder
from headway.tasks.classification import Classification, balanced_weights
from headway.tasks.language_modeling import LanguageModeling
from headway.training.config import TrainOptions
from headway.training.precision import faster_precision
from headway.training.prepare import RowData, TextData
from headway.training.presets import Decision, Plan

LONGEST_EVALUATION = 0.08
"""One evaluation may take this share of the time; of a longer held-out text, a part is measured."""
EVALUATION_SHARE = 0.05
"""Evaluations may take this share of the time."""


def build_model(plan: Plan, data: TextData | RowData) -> nn.Module:
    """The model of a plan, weights not yet drawn."""
    config = plan.config
    if isinstance(data, TextData):
        return Decoder(config)
    head = ClassificationHead(config, len(data.labels), norm=lambda: make_norm(config), dropout=config.dropout)
    return Encoder(config, head)


def initialise_for(plan: Plan, model: nn.Module) -> None:
    """Draw the weights as the plan's optimiser wants them: large embeddings where they are normalised for Muon."""
    std = 1.0 if plan.optimizer == "muon" and not plan.config.tied else 0.02
    initialise(model, plan.seed, embedding_std=std)


def feed_for(plan: Plan, data: TextData | RowData) -> Feed:
    """The batches that the plan wants of the data."""
    if isinstance(data, TextData):
        feed = TextFeed(data.train, data.validation, plan.length, plan.batch_tokens, plan.seed)
        feed.every = plan.validation_every
        return feed
    return RowFeed(
        data.train,
        data.train_targets,
        data.validation,
        data.validation_targets,
        plan.batch_tokens,
        plan.seed,
        max_examples=plan.max_examples,
    )


def task_for(plan: Plan, data: TextData | RowData, options: TrainOptions) -> LanguageModeling | Classification:
    """What the data are trained for, with the plan's smoothing and dropout."""
    if isinstance(data, TextData):
        return LanguageModeling(data.bytes_per_token, plan.label_smoothing)
    tokenizer = data.tokenizer
    return Classification(
        data.labels,
        weights=balanced_weights(data.train_targets, len(data.labels)) if options.balance else None,
        label_smoothing=plan.label_smoothing,
        token_dropout=plan.token_dropout,
        hidden_token=tokenizer.mask if tokenizer.mask is not None else 0,
        protected=sorted(tokenizer.special_ids),
    )


def measured(plan: Plan, model: nn.Module, feed: Feed, task: Any, limit: float | None) -> Plan:
    """The plan with what is measured here: the precision, and how many evaluations fit into the time."""
    decisions = list(plan.decisions)
    if plan.precision == "auto":
        precision, rates = faster_precision(plan.config.d_model)
        plan = replace(plan, precision=precision)
        why = ", ".join(f"{name} {rate / 1e9:,.0f}" for name, rate in rates.items())
        decisions.append(asdict(Decision("precision", precision, f"products here, GFLOP/s: {why}", "--precision")))
    cost = 0.0 if limit is None else evaluation_seconds(model, feed, task)
    if limit is not None and isinstance(feed, TextFeed) and cost > LONGEST_EVALUATION * limit:
        every = math.ceil(cost / (LONGEST_EVALUATION * limit))
        plan = replace(plan, validation_every=every)
        feed.every, cost = every, cost / every
        why = "measuring all of the held-out text would take too much of the time"
        value = f"one of every {every} windows of the held-out text"
        decisions.append(asdict(Decision("validation", value, why, "--time, --validation")))
    if limit is not None and plan.evaluations == 0:
        plan = replace(plan, evaluations=int(min(20, max(1, EVALUATION_SHARE * limit / max(cost, 1e-3)))))
    elif plan.evaluations == 0:
        plan = replace(plan, evaluations=10)
    return replace(plan, decisions=decisions)


def evaluation_seconds(model: nn.Module, feed: Feed, task: Any) -> float:
    """How long one evaluation will take, from its first batch."""
    model.eval()
    batch = next(iter(feed.validation()))
    task.evaluate(model, [batch])
    start = time.perf_counter()
    task.evaluate(model, [batch])
    cost = (time.perf_counter() - start) * feed.validation_batches()
    model.train()
    return cost
