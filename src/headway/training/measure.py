"""What of a plan is measured on this machine: the precision, and how many evaluations fit into the time."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace

from torch import nn

from headway.data.feed import Feed, HeldOutText
from headway.data.windows import Position
from headway.tasks.task import Task
from headway.training.plan import Decision, Plan
from headway.training.precision import faster_precision
from headway.training.shares import share_count

LONGEST_EVALUATION = 0.08
"""One evaluation may take this share of the time; of a longer held-out text, a part is measured."""
SAVED_IN_A_SECOND = 3e8
"""Bytes of weights that are written and flushed to disk, by a modest estimate."""
EVALUATION_SHARE = 0.05
"""Evaluations may take this share of the time."""


def measured(
    plan: Plan, model: nn.Module, feed: Feed, task: Task, sample: Callable[[], str] | None, limit: float | None
) -> Plan:
    """The plan with what is measured here: the precision, and how many evaluations fit into the time."""
    decisions = list(plan.decisions)
    if plan.precision == "auto":
        precision, rates = faster_precision(plan.config.d_model, next(model.parameters()).device)
        plan = replace(plan, precision=precision)
        why = ", ".join(f"{name} {rate / 1e9:,.0f}" for name, rate in rates.items())
        decisions.append(asdict(Decision("precision", precision, f"products here, GFLOP/s: {why}", "--precision")))
    plan = replace(plan, shares=share_count(model, task, feed.next(Position())[0].places))
    cost = 0.0 if limit is None else evaluation_seconds(model, feed, task, None)
    shown = 0.0 if limit is None else _seconds_of(sample)
    if limit is not None and isinstance(feed, HeldOutText) and cost > LONGEST_EVALUATION * limit:
        every = math.ceil(cost / (LONGEST_EVALUATION * limit))
        plan = replace(plan, validation_every=every)
        feed.every, cost = every, cost / every
        why = "measuring all of the held-out text would take too much of the time"
        value = f"one of every {every} windows of the held-out text"
        decisions.append(asdict(Decision("validation", value, why, "--time, --validation")))
    if limit is not None and plan.evaluations == 0:
        samples = _how_many(EVALUATION_SHARE, limit, cost + shown)
        evaluations = max(samples, _how_many(EVALUATION_SHARE / 2, limit, cost))
        plan = replace(plan, evaluations=evaluations, samples=samples)
    elif plan.evaluations == 0:
        plan = replace(plan, evaluations=10)
    return replace(plan, decisions=decisions)


def evaluation_seconds(model: nn.Module, feed: Feed, task: Task, sample: Callable[[], str] | None) -> float:
    """How long one evaluation will take, from its first batch, with the sample that is drawn and the model saved."""
    model.eval()
    batch = next(iter(feed.validation())).to(next(model.parameters()).device)
    task.evaluate(model, [batch])
    start = time.perf_counter()
    task.evaluate(model, [batch])
    cost = (time.perf_counter() - start) * feed.validation_batches()
    cost += _seconds_of(sample)
    model.train()
    return cost + 4 * sum(p.numel() for p in model.parameters()) / SAVED_IN_A_SECOND


def _seconds_of(sample: Callable[[], str] | None) -> float:
    """How long a sample takes."""
    if sample is None:
        return 0.0
    start = time.perf_counter()
    sample()
    return time.perf_counter() - start


def _how_many(share: float, limit: float, each: float) -> int:
    """How many evaluations take this share of the time, from 1 to 20."""
    return int(min(20, max(1, share * limit / max(each, 1e-3))))
