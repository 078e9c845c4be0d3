"""The training loop: evaluate when due, save when due, rate, batches, gradient, clip, judge, step, log."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from headway.data.batches.batch_source import BatchSource, Position
from headway.data.batches.batching import on_device
from headway.errors import RunFailed
from headway.io.quantities import metric, parse_seconds
from headway.training.evaluation.comparison import in_order
from headway.training.hardware.memory import out_of_memory
from headway.training.health import LEARNING, Health
from headway.training.job import Job
from headway.training.loop.prefetch import Prefetch, together
from headway.training.loop.schedule import Budget, Load, accumulation, factor
from headway.training.loop.state import State, Training, WeightAverage, random_state, set_random_state
from headway.training.loop.stop import Stop, StopRequested
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.objective import Objective
from headway.training.optimizers import optimizers, set_rate
from headway.training.sharding import whole
from headway.training.store.checkpoint import SaveFailed, Saver

MOST_BAD_STEPS = 3
"""Steps in a row with a loss or a gradient that is not finite, before training stops."""
RECENT, LEAST = 128, 32
"""How many recent losses a new one is compared with, and the fewest that are needed for it."""
DEVIATIONS = 6.0
"""A loss that is this many standard deviations above the mean of the recent ones is a spike (OLMo 2: 6)."""
LEAST_DEVIATION = 0.02
"""Least height of a spike, relative to the mean: small changes of a nearly constant loss are not spikes."""
SAID = 3
"""Spikes that are reported; later ones are only in the log."""
NAMED = 64
"""Maximum number of examples that a line of the log names."""
ADVICE = "Try a smaller --learning-rate or --precision float32, with another --out."
Saved = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors and plain values of a checkpoint."""


class Interrupted(Exception):
    """The user stopped the run, and it was saved."""


def train(job: Job, budget: Budget, saved: Saved | None) -> Training:
    """Train until the budget is used up; the best weights are kept.  Raises Interrupted or a RunFailed."""
    plan, ranks, run, bounds = job.plan, job.ranks, job.run, job.options.run
    now = _started(job, saved)
    state, parameters = now.state, job.parameters
    watch = LossGuard(job, state)
    spread = any(isinstance(p, DTensor) for p in parameters)
    save_every, warn = parse_seconds(bounds.save_every, "--save-every"), job.progress.warn
    saver = Saver(run.checkpoints, warn, "stop" if spread else bounds.on_save_error, ranks if spread else None)
    state.evaluations = min(state.evaluations, _due(job, _share(job, budget, state)))
    began, last_save, shown = time.monotonic() - state.seconds, time.monotonic(), 0.0
    with (
        out_of_memory(lambda: f"at step {state.step + 1}", plan),
        ranks.named(),
        saver,
        Stop(ranks) as stop,
        ThreadParallel(plan.hardware.shares) as shares,
        Prefetch(job.batch_source, ranks, job.options.runtime.workers) as batches,
    ):
        while True:
            share, save_due, stopping = ranks.all_reduce_max(
                _share(job, budget, state) if ranks.first else 0.0,
                ranks.first and time.monotonic() - last_save > save_every,
                stop.asked,
            )
            due = _due(job, share)
            if due > state.evaluations or state.measure_first:
                load, part = Load(), plan.evaluating.validation_part
                try:
                    _evaluate(job, now, share, stop)
                    state.evaluations = due
                    budget.keep(evaluation=load.seconds * (part + 1 if part > 1 else 1), ending=load.ending)
                except StopRequested:
                    stopping = True  # the evaluation is repeated when the run resumes
            state.seconds = time.monotonic() - began
            over = not stopping and (share >= 1.0 or _gains_nothing(job, state))
            if over or stopping or save_due:
                checkpoint = now.saved()
                last_save = time.monotonic()
                if ranks.first or spread:
                    saver.save(state.step, *checkpoint)
            if over:
                break
            if stopping:
                saver.wait()
                _note_checkpoints(job, saver)
                raise Interrupted
            saver.check()
            _note_checkpoints(job, saver)
            rate = factor(share, plan.schedule, plan.warmup)
            set_rate(now.optimizers, rate)
            step = Load()
            gradient = _gradient(job, now, share, stop, shares, batches)
            if gradient is None:
                continue
            total, count, positions = gradient
            loss_sum, targets = ranks.all_reduce_sum(total.item(), count)
            state.position = together(state.position, ranks)
            if not spread:
                ranks.add_gradients(parameters)
            norm = divide_and_clip(parameters, targets / ranks.count if spread else targets, plan.max_grad_norm)
            state.train_loss = loss_sum / targets
            if watch.allows(state.train_loss, norm, positions):
                for optimizer in now.optimizers:
                    optimizer.step()
                if now.average is not None:
                    now.average.update()
            for p in parameters:
                p.grad = None
            state.step += 1
            state.seconds = time.monotonic() - began
            budget.keep(step=step.seconds)  # so that the last one ends in time
            if state.seconds - shown >= 0.5 or state.step % plan.log_every == 0:
                shown = state.seconds
                _show_step(job, state, share, _share(job, budget, state))
            if state.step % plan.log_every == 0 or state.step == 1:
                values = {"loss": state.train_loss, "learning_rate": plan.learning_rate * rate, "norm": norm}
                run.log("step", step=state.step, seconds=round(state.seconds, 3), tokens=state.tokens, **values)
    _check_end(job, now, saver)
    return now


def _started(job: Job, saved: Saved | None) -> Training:
    """The state of training at its first step, or as a checkpoint saved it."""
    plan, tuning = job.plan, job.plan.fine_tuning
    by_rows = tuning.base is not None and job.ranks.count == 1  # the large tables of a pretrained model
    how: dict[str, Any] = {"muon": plan.muon, "layer_decay": tuning.layer_decay, "precision": plan.precision}
    chosen = optimizers(job.model, plan.optimizer, plan.learning_rate, plan.weight_decay, by_rows=by_rows, **how)
    average = WeightAverage(job.model, plan.average) if plan.average else None
    now = Training(job.model, chosen, average, job.ranks)
    if saved is not None:
        now.restore(*saved)
        if now.state.cycle < job.cycle:
            now.restart(job.cycle)
    else:
        now.state.cycle, now.state.measure_first = job.cycle, job.known.pretrained
    return now


def _gradient(
    job: Job, now: Training, share: float, stop: Stop, shares: ThreadParallel, batches: Prefetch
) -> tuple[Tensor, float, list[Position]] | None:
    """Add up the gradient of a step: the sum of the loss, its ``Objective.loss`` count, and the batches' positions.

    None if someone asked to stop: a step that is not whole is no step, so everything is as it was before.
    """
    state, plan, device = now.state, job.plan, now.device
    before, random, parameters = (state.position, state.tokens), random_state(device), job.parameters
    positions: list[Position] = []
    total, count = torch.zeros((), device=device), 0.0
    try:
        for _ in range(accumulation(share, plan.accumulate, plan.grow_batch)):
            positions.append(state.position)
            with stop.waiting():
                part, tokens, state.position = batches.next(state.position)
            state.tokens += tokens
            if part is not None:
                loss, n = shares.add_gradient(job.model, job.objective, part.to(device), plan.precision, parameters)
                total, count = total + loss, count + n
    except StopRequested:
        state.position, state.tokens = before
        set_random_state(device, random)
        return None
    return total, count, positions


def _show_step(job: Job, state: State, share: float, now: float) -> None:
    """Show a step; the time that is left is reckoned with the progress ``now``, behind it."""
    used = state.seconds - (state.since_seconds if job.cycle else 0.0)
    left = used * (1 / max(now, 1e-9) - 1)
    job.progress.step(share, state.step, state.train_loss, left, state.tokens / max(state.seconds, 1e-9))


def _check_end(job: Job, now: Training, saver: Saver) -> None:
    """Wait for the last checkpoint.  Raises Diverged if no evaluation gave a finite loss."""
    saver.wait()
    _note_checkpoints(job, saver)
    if job.ranks.first and saver.latest != now.state.step:
        last = "there is none" if saver.latest is None else f"the newest is from step {saver.latest:,}"
        job.progress.warn(f"the last checkpoint could not be saved; {last}, and more --steps would resume from it")
    if not now.best:
        raise Diverged(f"the validation loss was never finite, last at step {now.state.step}. {ADVICE}")


def _share(job: Job, budget: Budget, state: State) -> float:
    """The progress of the run: by its time or steps, or by its epochs if that is more."""
    share = budget.share(state.step)
    if job.cycle or not job.plan.epochs:
        return share
    return max(share, min(1.0, job.batch_source.epochs(state.position) / job.plan.epochs))


def _due(job: Job, share: float) -> int:
    """How many evaluations are due when ``share`` of the run is done."""
    return int(share * job.plan.evaluating.evaluations + 1e-9)


def _gains_nothing(job: Job, state: State) -> bool:
    """Whether at least two evaluations, over the plan's patience, have brought no improvement."""
    plan = job.plan
    if plan.evaluating.patience and state.stale >= plan.evaluating.patience:
        return True
    since = job.batch_source.epochs(state.position) * (1 - state.best_step / max(1, state.step))
    return bool(plan.evaluating.patience_passes) and state.stale >= 2 and since >= plan.evaluating.patience_passes


def _evaluate(job: Job, now: Training, share: float, stop: Stop) -> None:
    """Evaluate in float32, and keep the weights if they are the best.  Raises StopRequested, with nothing changed."""
    state, random, bounds, run = now.state, random_state(now.device), job.options.run, job.run
    held_out, part = (job.model, job.objective, job.batch_source), job.plan.evaluating.validation_part
    if now.average is not None:
        now.average.swap()
    job.model.eval()
    try:
        with out_of_memory(f"at the evaluation after step {state.step}"):
            metrics, units = held_out_metrics(*held_out, part, stop)
            whole = held_out_metrics(*held_out, 1, stop) if part > 1 and state.measure_first else None
            text = job.sample() if job.sample is not None and _shows(job, share) else None
        stop.poll()
        cost, careful = job.objective.cost(metrics), len(units) < job.min_units
        kept = now.keep_if_best(cost, metrics, units, last=bounds.keep == "last", careful=careful, whole=whole)
        if kept:
            job.saved = _saved(job, job.keep_best)
        if bounds.snapshots:
            _saved(job, partial(job.snapshot, state.step))
    finally:
        job.model.train()
        if now.average is not None:
            now.average.swap()
        set_random_state(now.device, random)
    numbers = {key: value for key, value in metrics.items() if isinstance(value, float)}
    first, state.measure_first, health, last = state.measure_first, False, Health(), {}
    if not first:  # before training there is nothing to judge
        health = state.examined(metrics, share, job.batch_source.epochs(state.position), job.known)
        last = {"train_loss": state.signs.evaluations[-1]["train"]}
    judged = {"best": kept, "health": health.word, "cause": health.cause, **numbers, **last}
    run.log("evaluation", step=state.step, seconds=round(state.seconds, 3), tokens=state.tokens, **judged)
    job.progress.say(f"step {state.step:,}: " + ", ".join(f"{key} {metric(value)}" for key, value in numbers.items()))
    if text is not None:
        run.log("sample", step=state.step, text=text)
        job.progress.say(text)
    said = f"{health.word}: {health.cause}" if health.cause else health.word
    if not first and said != state.signs.said:
        state.signs.said = said
        (job.progress.say if health.word == LEARNING else job.progress.warn)(str(health))
    job.progress.evaluated(share, cost)


def held_out_metrics(
    model: nn.Module, objective: Objective, batch_source: BatchSource, part: int = 1, stop: Stop | None = None
) -> tuple[dict[str, Any], Tensor]:
    """The metrics of every ``part``-th batch of the held-out examples, and what each unit came to, (N, 2).

    The units of all are in their own order, those of a part as they are read.  Raises StopRequested.
    """
    each: list[np.ndarray] = []
    read = itertools.islice(batch_source.validation(), 0, None, part)
    batches = on_device(read, next(model.parameters()).device)
    metrics = objective.evaluate(model, batches if stop is None else stop.between(batches), each)
    return metrics, torch.from_numpy(in_order(each, batch_source.validation_order() if part == 1 else None))


def _shows(job: Job, share: float) -> bool:
    """Whether the evaluation at this progress shows a sample: all do, or some where samples are slow."""
    number, whole = _due(job, share), job.plan.evaluating.evaluations
    samples = job.plan.evaluating.samples or whole
    return number == 0 or number * samples // whole > (number - 1) * samples // whole


def _note_checkpoints(job: Job, saver: Saver) -> None:
    """Record that there are checkpoints: if they are lost, the run must not start over by itself."""
    if saver.latest is not None and not job.run.facts.get("checkpoints"):
        job.run.update(checkpoints=True)


def _saved(job: Job, save: Callable[[], None]) -> bool:
    """Save the model.  Where that fails and training continues, the best weights are still in the checkpoints."""
    try:
        save()
        return True
    except SaveFailed as error:
        if job.options.run.on_save_error == "stop":
            raise
        job.progress.warn(f"{error}. Training continues (--on-save-error)")
        return False


def divide_and_clip(parameters: list[nn.Parameter], count: float, longest: float) -> float:
    """Divide the summed gradient by the number of targets, once, and clip its norm to ``longest``; returns the norm."""
    gradients = [_numbers(p) for p in parameters if p.grad is not None]
    sizes = [getattr(p, "unit", 1.0) for p in parameters if p.grad is not None]
    each = zip(torch._foreach_norm(gradients), sizes, strict=True)
    norms = [norm if unit == 1.0 else norm * unit for norm, unit in each]
    norm = whole(torch.linalg.vector_norm(torch.stack(norms))).item() / count
    scale = 1.0 / count
    if longest and norm > longest:
        scale *= longest / norm
    torch._foreach_mul_(gradients, scale)
    return norm


def _numbers(p: nn.Parameter) -> Tensor:
    """A gradient's entries; of a sparse one, the stored values."""
    if p.grad is None or not p.grad.is_sparse:
        return p.grad  # type: ignore[return-value]
    p.grad = p.grad.coalesce()
    return p.grad.values()


class Diverged(RunFailed):
    """The loss or its gradient was not finite several times in a row."""


class LossGuard:
    """Judges every step before it changes the weights."""

    def __init__(self, job: Job, state: State):
        self.job, self.state, self._said = job, state, 0

    def allows(self, loss: float, norm: float, positions: Sequence[Position]) -> bool:
        """Whether to apply a step with this loss, gradient norm and these batches.

        Raises Diverged when too many steps in a row were not finite.
        """
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._count_bad(loss, norm, positions)
            return False
        self.state.bad_steps = 0
        limit, skip = spike_limit(self.state.recent), self.job.plan.on_spike == "skip"
        self.state.recent = [*self.state.recent[1 - RECENT :], min(loss, limit)]
        self.state.signs.step(loss, norm, self.state.recent)
        if loss <= limit:
            return True
        self._note("spike", loss, norm, positions)
        if self._said < SAID:
            self._said += 1
            what = "skipped" if skip else "kept (--on-spike skip leaves such steps out)"
            self.job.progress.warn(
                f"step {self.state.step + 1:,}: loss {loss:.4g} is a spike (expected at most {limit:.4g}); "
                f"the step was {what}"
            )
        return not skip

    def _count_bad(self, loss: float, norm: float, positions: Sequence[Position]) -> None:
        """Record a step that changes no weight; too many in a row end the run."""
        self.state.bad_steps += 1
        self._note("bad step", loss, norm, positions)
        if self.state.bad_steps >= MOST_BAD_STEPS:
            raise Diverged(
                f"the loss or the gradient was not finite {MOST_BAD_STEPS} times in a row, at step "
                f"{self.state.step + 1} (loss {loss}, gradient {norm}); the best weights so far are saved. {ADVICE}"
            )

    def _note(self, event: str, loss: float, norm: float, positions: Sequence[Position]) -> None:
        examples = [number for position in positions for number in self.job.batch_source.examples(position)]
        self.job.run.log(event, step=self.state.step + 1, loss=loss, norm=norm, examples=examples[:NAMED])


def spike_limit(recent: Sequence[float]) -> float:
    """The loss above which a step is a spike; infinity while there are few recent losses."""
    if len(recent) < LEAST:
        return math.inf
    mean = statistics.fmean(recent)
    return mean + DEVIATIONS * max(statistics.pstdev(recent, mean), LEAST_DEVIATION * abs(mean))
