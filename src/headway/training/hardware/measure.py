"""What a plan measures on this machine: precision, threads, speed, and how many evaluations fit into the time."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict

from torch import nn

from headway.data.batches.batch_source import BatchSource, HeldOutText
from headway.data.batches.windows import Position
from headway.io.quantities import figure
from headway.models.device import wait_for
from headway.nn.kernels.products import AUTO, ONEDNN, TORCH, faster
from headway.training.hardware.memory import out_of_memory
from headway.training.hardware.precision import faster_precision
from headway.training.loop.randomness import random_state, set_random_state
from headway.training.loop.thread_parallel import ThreadParallel, most_shares, share_count
from headway.training.objective import Objective
from headway.training.plan import Decision, Plan

LONGEST_EVALUATION = 0.08
"""One evaluation may take this share of the time; of a longer held-out text, a part is measured."""
SAVED_IN_A_SECOND = 2e8
"""Bytes of weights written, flushed to disk and read again per second, a low estimate."""
EVALUATION_SHARE = 0.05
"""Evaluations may take this share of the time."""
PROBE_SHARE = 0.02
"""Timing the first batches may take this share of the time, and then finishes the batch it is in."""
STEP_OVER_GRADIENT = 1.15
"""What a step takes, with its share of the evaluations, over its gradient: decoders of 0.6 M to 2.2 M, on a CPU."""
ROUNDS = 3
"""Batches that are timed for each number of shares, after one that is not."""

Settle = Callable[[Plan, float], Plan]
"""Completes a plan from the tokens that training reads per second."""


def measured(
    plan: Plan,
    model: nn.Module,
    batch_source: BatchSource,
    objective: Objective,
    sample: Callable[[], str] | None,
    limit: float | None,
    settle: Settle | None = None,
    windows: int | None = None,
) -> Plan:
    """The plan with the measured precision, shares, the decisions of ``settle``, and the evaluations.

    Of a held-out text, evaluations read ``windows`` windows at most; by default as many as the time allows.
    """
    device = next(model.parameters()).device
    decisions = list(plan.decisions)
    if plan.hardware.products == AUTO:
        plan = plan.but(products=TORCH)
        # without a limit of time no timing chooses: two runs of one command must be the same
        if limit is not None and device.type == "cpu" and faster()[0] == ONEDNN:
            plan = plan.but(products=ONEDNN)
            why = ", ".join(f"{name} {figure(rate, 3)}FLOP/s" for name, rate in faster()[1].items())
            decisions.append(asdict(Decision("products", "oneDNN in float32", f"here: {why}", "--products")))
    if plan.precision == "auto":
        precision, rates = faster_precision(plan.config.d_model, device)
        plan = plan.but(precision=precision)
        why = ", ".join(f"{name} {figure(rate, 3)}FLOP/s" for name, rate in rates.items())
        decisions.append(asdict(Decision("precision", precision, f"products here: {why}", "--precision")))
    plan = plan.but(decisions=decisions)
    plan = _timed(plan, model, batch_source, objective, limit, settle)
    decisions = list(plan.decisions)
    cost = 0.0 if limit is None else evaluation_seconds(model, batch_source, objective, None)
    shown = 0.0 if limit is None else _seconds_of(sample)
    if isinstance(batch_source, HeldOutText):
        every = max(1, math.ceil(cost / (LONGEST_EVALUATION * limit))) if limit is not None else 1
        why = "evaluating all of the held-out text would take too much time"
        if windows is not None:
            why = f"--validation-windows {windows}"
            every = math.ceil(math.ceil((len(batch_source.held_out) - 1) / batch_source.length) / windows)
        plan = plan.but(validation_every=every)
        batch_source.every, cost = every, cost / every
        if every > 1:
            value = f"one of every {every} windows of the held-out text"
            decisions.append(asdict(Decision("validation", value, why, "--time, --validation, --validation-windows")))
    if limit is not None and plan.evaluating.evaluations == 0:
        samples = _how_many(EVALUATION_SHARE, limit, cost + shown)
        evaluations = max(samples, _how_many(EVALUATION_SHARE / 2, limit, cost))
        plan = plan.but(evaluations=evaluations, samples=samples)
    elif plan.evaluating.evaluations == 0:
        plan = plan.but(evaluations=10)
    return plan.but(decisions=decisions)


def _timed(
    plan: Plan,
    model: nn.Module,
    batch_source: BatchSource,
    objective: Objective,
    limit: float | None,
    settle: Settle | None,
) -> Plan:
    """The plan with the faster number of shares, and settled.

    A run by ``--steps`` is not timed: two runs of one command must be the same.  The decision is recorded, so a
    continued run does not time it again.
    """
    places = batch_source.next(Position())[0].places
    usual, most = share_count(model, objective, places), most_shares(model, objective, places)
    if limit is None or (most == 1 and settle is None):
        return plan.but(shares=usual)
    times = gradient_seconds(model, objective, batch_source, plan, sorted({1, most}), PROBE_SHARE * limit)
    if not times:
        return plan.but(shares=usual)
    best = min(times, key=lambda count: times[count][0])
    decisions = list(plan.decisions)
    if len(times) > 1:
        value = "each computes some rows of a batch" if best > 1 else "all in each operation"
        why = ", ".join(
            f"{seconds:.3g} s {'in each operation' if n == 1 else 'by rows'}" for n, (seconds, _) in times.items()
        )
        decisions.append(asdict(Decision("threads", value, f"seconds for a gradient: {why}", "--threads")))
    plan = plan.but(shares=best, decisions=decisions)
    seconds, places_each = times[best]
    return plan if settle is None else settle(plan, places_each / seconds / STEP_OVER_GRADIENT)


def evaluation_seconds(
    model: nn.Module, batch_source: BatchSource, objective: Objective, sample: Callable[[], str] | None
) -> float:
    """How long one evaluation will take, estimated from its first batch, with the sample and saving the model."""
    model.eval()
    batch = next(iter(batch_source.validation())).to(next(model.parameters()).device)
    objective.evaluate(model, [batch])
    start = time.perf_counter()
    objective.evaluate(model, [batch])
    cost = (time.perf_counter() - start) * batch_source.validation_batches()
    cost += _seconds_of(sample)
    model.train()
    return cost + 4 * sum(p.numel() for p in model.parameters()) / SAVED_IN_A_SECOND


def _seconds_of(sample: Callable[[], str] | None) -> float:
    if sample is None:
        return 0.0
    start = time.perf_counter()
    sample()
    return time.perf_counter() - start


def _how_many(share: float, limit: float, each: float) -> int:
    """The number of evaluations that take this share of the time, from 1 to 20."""
    return int(min(20, max(1, share * limit / max(each, 1e-3))))


def gradient_seconds(
    model: nn.Module, objective: Objective, batch_source: BatchSource, plan: Plan, counts: Sequence[int], most: float
) -> dict[int, tuple[float, float]]:
    """For each number of shares, the median seconds of a batch's gradient, and the places for tokens in a batch.

    All read the same batches in turn, so that a slow moment affects all alike.  No batch is started after ``most``
    seconds; empty where the first, which is not timed, took as long.  Weights, random state and mode are restored, and
    gradients are cleared.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    device, training = next(model.parameters()).device, model.training
    random, position, began = random_state(device), Position(), time.monotonic()
    times: dict[int, list[float]] = {count: [] for count in counts}
    places: list[int] = []
    with out_of_memory("at the first batch, tried before step 1", plan), ExitStack() as stack:
        ways = {count: stack.enter_context(ThreadParallel(count)) for count in counts}
        try:
            model.train()
            for number in range(1 + ROUNDS):
                if number and time.monotonic() - began > most:
                    break
                batch, position = batch_source.next(position)
                batch = batch.to(device)
                for count, shares in ways.items():
                    wait_for(device)
                    start = time.perf_counter()
                    shares.add_gradient(model, objective, batch, plan.precision, parameters)
                    wait_for(device)
                    if number:
                        times[count].append(time.perf_counter() - start)
                    for p in parameters:
                        p.grad = None
                places += [batch.places] if number else []
        finally:
            for p in parameters:
                p.grad = None
            model.train(training)
            set_random_state(device, random)
    return {count: (statistics.median(taken), statistics.mean(places)) for count, taken in times.items() if taken}
