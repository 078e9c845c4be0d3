"""What a plan measures on this machine: precision, threads, speed, and how many evaluations fit into the time."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import torch

from headway.data.batches.batch_source import BatchSource, HeldOutText, Position
from headway.io.quantities import figure
from headway.models.device import wait_for
from headway.nn.kernels.products import AUTO, TORCH, faster
from headway.training.hardware.memory import out_of_memory
from headway.training.hardware.precision import built_in_precision, faster_precision
from headway.training.job import Job
from headway.training.loop.schedule import mean_accumulation
from headway.training.loop.state import as_before
from headway.training.loop.thread_parallel import ThreadParallel, most_shares, share_count
from headway.training.plan import Plan

LONGEST_EVALUATION = 0.08
"""One evaluation may take this share of the time; of a longer held-out text, a part is measured."""
SAVED_IN_A_SECOND = 2e8
"""Bytes of weights written, flushed to disk and read again per second, a low estimate."""
EVALUATION_SHARE = 0.05
"""Evaluations may take this share of the time."""
EVALUATED_TOKENS, LEAST_EVALUATED = 0.25, 4096
"""Under --steps evaluations may read this share of the tokens that are trained on, or so many tokens each."""
SAMPLED = 4
"""Batches by which the tokens of all are estimated."""
PROBE_SHARE = 0.02
"""Timing the first batches may take this share of the time, and then finishes the batch it is in."""
STEP_OVER_GRADIENT = 1.15
"""What a step takes, with its share of the evaluations, over its gradient: decoders of 0.6 M to 2.2 M, on a CPU."""
SLOW = 1 / 60
"""The share of the time: a batch that takes longer is evaluated once to estimate how long all take."""
LATER = 2
"""Further copies of the weights after a step, at least: the optimiser's state, and the best weights so far."""
ROUNDS = 3
"""Batches that are timed for each number of shares, after one that is not."""

Settle = Callable[[Plan, float], Plan]
"""Completes a plan from the tokens that training reads per second."""


def measured(job: Job, sample: Callable[[], str] | None, settle: Settle | None) -> Plan:
    """The plan with the measured precision, shares, the decisions of ``settle``, and the evaluations.

    Of a held-out text, evaluations read as many windows as the options say, or else the time allows.  Where steps bound
    the run, sizes alone decide.  As many evaluations as were asked for read all batches each time, so that runs with
    other batches, such as the trials of a search, are compared by the same.
    """
    plan, limit, device, batch_source = job.plan, job.limit, job.device, job.batch_source
    windows, asked = job.options.for_tasks.validation_windows, plan.evaluating.evaluations > 0
    if plan.hardware.products == AUTO:
        quick, rates = faster() if device.type == "cpu" else (TORCH, {})
        plan = plan.but(products=TORCH if limit is None else quick)
        if quick != TORCH:
            plan = _chosen(plan, "products", plan.hardware.products, quick, rates)
    if plan.precision == "auto":
        quick, rates = faster_precision(plan.config.d_model, device)
        plan = plan.but(precision=built_in_precision(plan.config.d_model, device) if limit is None else quick)
        plan = _chosen(plan, "precision", plan.precision, quick, rates)
    plan = _timed(job, plan, settle)
    cost, shown = (0.0, 0.0) if limit is None else (evaluation_seconds(job), _seconds_of(sample))
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
            plan = plan.decided("validation", value, why, "--time, --validation, --validation-windows")
    if not asked:
        samples = 0 if limit is None else _how_many(EVALUATION_SHARE, limit, cost + shown)
        most = 10 if limit is None else max(samples, _how_many(EVALUATION_SHARE / 2, limit, cost))
        plan = plan.but(evaluations=most, samples=samples or plan.evaluating.samples)
    part = 1 if windows is not None or asked else _part(job, plan, cost)
    if part > 1:
        value = f"{plan.evaluating.evaluations}, each on one of every {part} batches held out"
        why = "all of them would take too large a share of the run; the kept weights are measured on all"
        plan = plan.decided("evaluations", value, why, "--evaluations")
    return plan.but(validation_part=part)


def _part(job: Job, plan: Plan, cost: float) -> int:
    """Of how many batches held out the evaluations during training read one, so that they keep to their share."""
    steps, count, batches = job.options.run.steps, plan.evaluating.evaluations, job.batch_source.validation_batches()
    if count < 3 or (job.limit is None and steps is None):  # one before training and one at its end are of all
        return 1
    if job.limit is not None:
        much = count * cost / (EVALUATION_SHARE * job.limit)
    else:
        trained, held_out = _places(job.batch_source)
        read = (steps or 0) * mean_accumulation(plan.accumulate, plan.grow_batch) * trained
        much = count * batches * held_out / (EVALUATED_TOKENS * read)
        batches = min(batches, int(batches * held_out / LEAST_EVALUATED))
    return max(1, min(batches, math.ceil(much)))


def _places(batch_source: BatchSource) -> tuple[float, float]:
    """The places for tokens in a batch, and in one of what is held out; those of rows are estimated by some batches."""
    if isinstance(batch_source, HeldOutText):
        each = batch_source.size * batch_source.length
        return each, 2 * each
    position, trained = Position(), []
    for _ in range(SAMPLED):
        batch, position = batch_source.next(position)
        trained.append(batch.places)
    held_out = [batch.places for batch in itertools.islice(batch_source.validation(), SAMPLED)]
    return statistics.mean(trained), statistics.mean(held_out)


def _chosen(plan: Plan, what: str, value: str, quick: str, rates: dict[str, float]) -> Plan:
    """The plan with one of the ways that were timed; a run without a limit of time takes none by its time."""
    here = ", ".join(f"{name} {figure(rate, 3)}FLOP/s" for name, rate in rates.items())
    slower = f"nothing is timed without --time; {quick} would be faster here ({here})"
    return plan.decided(what, value, f"products here: {here}" if value == quick else slower, f"--{what}")


def _timed(job: Job, plan: Plan, settle: Settle | None) -> Plan:
    """The plan with the faster number of shares, and settled.

    Neither where a gradient, which takes a third of an evaluation or more, does not fit into the time for timing.
    A run by ``--steps`` is not timed: two runs of one command must be the same.  The decision is recorded, so a
    continued run does not time it again.
    """
    limit, places = job.limit, job.batch_source.next(Position())[0].places
    usual, most = (count(job.model, job.objective, places) for count in (share_count, most_shares))
    times: dict[int, tuple[float, float]] = {}
    if limit is not None and job.batch_seconds <= 3 * PROBE_SHARE * limit and (most > 1 or settle is not None):
        times = gradient_seconds(job, plan, sorted({1, most}), PROBE_SHARE * limit)
    if not times:
        return plan.but(shares=usual)
    best = min(times, key=lambda count: times[count][0])
    plan = plan.but(shares=best)
    if len(times) > 1:
        value = "each computes some rows of a batch" if best > 1 else "all in each operation"
        ways = {n: "in each operation" if n == 1 else "by rows" for n in times}
        why = ", ".join(f"{seconds:.3g} s {ways[n]}" for n, (seconds, _) in times.items())
        plan = plan.decided("threads", value, f"seconds for a gradient: {why}", "--threads")
    seconds, places_each = times[best]
    return plan if settle is None else settle(plan, places_each / seconds / STEP_OVER_GRADIENT)


def batch_seconds(job: Job, limit: float) -> float:
    """How long an evaluation takes on the longest batch held out, from one on the (smaller) longest of training.

    A quick one is timed again, as the first call takes longer.  Random state and mode are restored.
    """
    with out_of_memory("at the longest batch, tried before step 1", job.plan), as_before(job.model) as device:
        trained, held_out = job.batch_source.longest()
        job.model.eval()
        seconds = _seconds_of(evaluate := partial(job.objective.evaluate, job.model, [trained.to(device)]))
        seconds = seconds if seconds > SLOW * limit else _seconds_of(evaluate)
    return seconds * held_out.places / trained.places


def evaluation_seconds(job: Job, sample: Callable[[], str] | None = None) -> float:
    """How long one evaluation will take, with the sample and saving the model."""
    job.model.eval()
    cost = job.batch_seconds * job.batch_source.validation_batches() + _seconds_of(sample)
    job.model.train()
    return cost + 4 * sum(p.numel() for p in job.model.parameters()) / SAVED_IN_A_SECOND


def _seconds_of(call: Callable[[], object] | None) -> float:
    if call is None:
        return 0.0
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _how_many(share: float, limit: float, each: float) -> int:
    """The number of evaluations that take this share of the time, from 1 to 20."""
    return int(min(20, max(1, share * limit / max(each, 1e-3))))


def gradient_seconds(job: Job, plan: Plan, counts: Sequence[int], most: float) -> dict[int, tuple[float, float]]:
    """For each number of shares, the median seconds of a batch's gradient, and the places for tokens in a batch.

    All read the same batches in turn, so that a slow moment affects all alike.  No batch is started after ``most``
    seconds; empty where the first, which is not timed, took as long.  Weights, random state and mode are restored, and
    gradients are cleared.
    """
    position, began, model, parameters = Position(), time.monotonic(), job.model, job.parameters
    times: dict[int, list[float]] = {count: [] for count in counts}
    places: list[int] = []
    where = "at the first batch, tried before step 1"
    with out_of_memory(where, plan), as_before(model) as device, ExitStack() as stack:
        ways = {count: stack.enter_context(ThreadParallel(count)) for count in counts}
        model.train()
        for number in range(1 + ROUNDS):
            if number and time.monotonic() - began > most:
                break
            batch, position = job.batch_source.next(position)
            batch = batch.to(device)
            for count, shares in ways.items():
                wait_for(device)
                start = time.perf_counter()
                shares.add_gradient(model, job.objective, batch, plan.precision, parameters)
                wait_for(device)
                if number:
                    times[count].append(time.perf_counter() - start)
                for p in parameters:
                    p.grad = None
            places += [batch.places] if number else []
    return {count: (statistics.median(taken), statistics.mean(places)) for count, taken in times.items() if taken}


def try_longest(job: Job) -> None:
    """Compute a gradient and an evaluation of the longest batches: raises OutOfMemory where they do not fit.

    Weights, random state and mode are restored, and gradients are cleared.  Of several ranks, each tries its own part.
    """
    model, plan, objective = job.model, job.plan, job.objective
    with out_of_memory("at the longest batch, tried before step 1", plan), as_before(model) as device:
        longest, held_out = job.batch_source.longest()
        later = [torch.empty_like(p) for p in job.parameters for _ in range(LATER)]
        model.train()
        with ThreadParallel(plan.hardware.shares) as shares:
            shares.add_gradient(model, objective, job.ranks.part(longest).to(device), plan.precision, job.parameters)
        model.eval()
        objective.evaluate(model, [held_out.to(device)])
        del later
