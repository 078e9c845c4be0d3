"""The training loop: one flat function, in one order.

evaluate when due -> save when due -> rate -> batches -> gradient -> clip -> judge -> step -> log
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from headway.data.batches.batch_source import BatchSource, Position
from headway.data.batches.batching import on_device
from headway.io.quantities import metric, parse_seconds
from headway.training.distributed.ranks import Ranks
from headway.training.distributed.sharding import whole
from headway.training.evaluation.comparison import in_order
from headway.training.hardware.memory import out_of_memory
from headway.training.loop.prefetch import Prefetch, together
from headway.training.loop.randomness import random_state, set_random_state
from headway.training.loop.schedule import Budget, Load, accumulation, factor
from headway.training.loop.state import State, Training, WeightAverage
from headway.training.loop.stop import Stop, StopRequested
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.monitor.health import LEARNING, DataProfile, Health, RunStatistics
from headway.training.monitor.loss_guard import ADVICE, Diverged, LossGuard
from headway.training.monitor.progress import Progress
from headway.training.objective import Objective
from headway.training.optim.optimizers import optimizers, set_rate
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.store.checkpoint import SaveFailed
from headway.training.store.run_directory import RunDirectory
from headway.training.store.saver import Saver, SharedSaver

Saved = tuple[dict[str, Tensor], dict[str, Any]]
"""Tensors and plain values of a checkpoint."""


class Interrupted(Exception):
    """The user stopped the run, and it was saved."""


@dataclass
class Job:
    """One training run: what is trained, on what, how, and where it is kept."""

    model: nn.Module
    objective: Objective
    batch_source: BatchSource
    plan: Plan
    options: TrainOptions
    run: RunDirectory
    ranks: Ranks
    """the processes that train it together"""
    cycle: int
    """how often the run was continued: the budget is the latest one; 0 for a run that never was"""
    keep_best: Callable[[], None]
    """saves the model as it is now"""
    snapshot: Callable[[int], None]
    """saves a snapshot of an evaluation's model, by its step"""
    sample: Callable[[], str] | None
    """shows a sample of the model's output"""
    known: DataProfile = field(default_factory=DataProfile)
    """the data profile by which the run is judged"""
    min_units: int = 0
    """with fewer held-out units, weights are kept only where they are clearly better than the kept ones"""
    saved: bool = field(default=False, init=False)
    """whether this command wrote the weights that are kept"""


def train(job: Job, budget: Budget, progress: Progress, saved: Saved | None) -> Training:
    """Train until the budget is used up; the best weights are kept.  Raises Interrupted or a RunFailed."""
    plan, batch_source, ranks = job.plan, job.batch_source, job.ranks
    now = _started(job, saved)
    state = now.state
    parameters = [p for p in job.model.parameters() if p.requires_grad]
    watch = LossGuard(state, batch_source, job.run, progress, skip=plan.on_spike == "skip")
    spread = any(isinstance(p, DTensor) for p in parameters)
    path, warn, bounds = job.run.checkpoints, progress.warn, job.options.run
    save_every = parse_seconds(bounds.save_every, "--save-every")
    saver = SharedSaver(path, warn, ranks) if spread else Saver(path, warn, bounds.on_save_error)
    state.evaluations = min(state.evaluations, int(_share(job, budget, state) * plan.evaluating.evaluations + 1e-9))
    began, last_save, shown = time.monotonic() - state.seconds, time.monotonic(), 0.0
    with (
        out_of_memory(lambda: f"at step {state.step + 1}", plan),
        ranks.named(),
        saver,
        Stop(ranks) as stop,
        ThreadParallel(plan.hardware.shares) as shares,
        Prefetch(batch_source, ranks, job.options.runtime.workers) as batches,
    ):
        while True:
            share, save_due, stopping = ranks.all_reduce_max(
                _share(job, budget, state) if ranks.first else 0.0,
                ranks.first and time.monotonic() - last_save > save_every,
                stop.asked,
            )
            due = int(share * plan.evaluating.evaluations + 1e-9)
            if due > state.evaluations or state.measure_first:
                load, part = Load(), plan.evaluating.validation_part
                try:
                    _evaluate(job, now, share, stop, progress)
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
            found = _gradient(job, now, share, stop, shares, batches)
            if found is None:
                continue
            total, count, positions = found
            loss_sum, targets = ranks.all_reduce_sum(total.item(), count)
            state.position = together(state.position, ranks)
            if not spread:
                ranks.add_gradients(parameters)
            norm = divide_and_clip(parameters, targets / ranks.count if spread else targets, plan.clip)
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
                _show_step(job, state, share, _share(job, budget, state), progress)
            if state.step % plan.log_every == 0 or state.step == 1:
                values = {"loss": state.train_loss, "learning_rate": plan.learning_rate * rate, "norm": norm}
                job.run.log("step", step=state.step, seconds=round(state.seconds, 3), tokens=state.tokens, **values)
    _check_end(job, now, saver, progress)
    return now


def _started(job: Job, saved: Saved | None) -> Training:
    """The state of training at its first step, or as a checkpoint saved it."""
    average = WeightAverage(job.model, job.plan.average) if job.plan.average else None
    plan = job.plan
    chosen = optimizers(
        job.model,
        plan.optimizer,
        plan.learning_rate,
        plan.weight_decay,
        muon=plan.muon,
        layer_decay=plan.fine_tuning.layer_decay,
        by_rows=plan.fine_tuning.base is not None and job.ranks.count == 1,  # the large tables of a pretrained model
        precision=plan.precision,
    )
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
    parameters = [p for p in job.model.parameters() if p.requires_grad]
    before, random = (state.position, state.tokens), random_state(device)
    positions: list[Position] = []
    total, count = torch.zeros((), device=device), 0.0
    try:
        for _ in range(accumulation(share, plan.accumulate, plan.grow_batch)):
            positions.append(state.position)
            with stop.waiting():
                part, tokens, state.position = batches.next(state.position)
            state.tokens += tokens
            if part is not None:
                part = part.to(device)
                loss, n = shares.add_gradient(job.model, job.objective, part, plan.precision, parameters)
                total, count = total + loss, count + n
    except StopRequested:
        state.position, state.tokens = before
        set_random_state(device, random)
        return None
    return total, count, positions


def _show_step(job: Job, state: State, share: float, now: float, progress: Progress) -> None:
    """Show a step; the time that is left is reckoned with the progress ``now``, behind it."""
    used = state.seconds - (state.since_seconds if job.cycle else 0.0)
    left = used * (1 / max(now, 1e-9) - 1)
    progress.step(share, state.step, state.train_loss, left, state.tokens / max(state.seconds, 1e-9))


def _check_end(job: Job, now: Training, saver: Saver, progress: Progress) -> None:
    """Wait for the last checkpoint.  Raises Diverged if no evaluation gave a finite loss."""
    saver.wait()
    _note_checkpoints(job, saver)
    if job.ranks.first and saver.latest != now.state.step:
        last = "there is none" if saver.latest is None else f"the newest is from step {saver.latest:,}"
        progress.warn(f"the last checkpoint could not be saved; {last}, and more --steps would resume from it")
    if not now.best:
        raise Diverged(f"the validation loss was never finite, last at step {now.state.step}. {ADVICE}")


def _share(job: Job, budget: Budget, state: State) -> float:
    """The progress of the run: by its time or steps, or by its epochs if that is more."""
    share = budget.share(state.step)
    if job.cycle or not job.plan.epochs:
        return share
    return max(share, min(1.0, job.batch_source.epochs(state.position) / job.plan.epochs))


def _gains_nothing(job: Job, state: State) -> bool:
    """Whether at least two evaluations, over the plan's patience, have brought no improvement."""
    plan = job.plan
    if plan.evaluating.patience and state.stale >= plan.evaluating.patience:
        return True
    since = job.batch_source.epochs(state.position) * (1 - state.best_step / max(1, state.step))
    return bool(plan.evaluating.patience_passes) and state.stale >= 2 and since >= plan.evaluating.patience_passes


def _evaluate(job: Job, now: Training, share: float, stop: Stop, progress: Progress) -> None:
    """Evaluate in float32, and keep the weights if they are the best.  Raises StopRequested, with nothing changed."""
    state, random = now.state, random_state(now.device)
    if now.average is not None:
        now.average.swap()
    job.model.eval()
    held_out, part = (job.model, job.objective, job.batch_source), job.plan.evaluating.validation_part
    try:
        with out_of_memory(f"at the evaluation after step {state.step}"):
            metrics, units = held_out_metrics(*held_out, part, stop)
            whole = held_out_metrics(*held_out, 1, stop) if part > 1 and state.measure_first else None
            text = job.sample() if job.sample is not None and _shows(job.plan, share) else None
        stop.poll()
        cost = job.objective.cost(metrics)
        careful = len(units) < job.min_units
        kept = now.note(cost, metrics, units, last=job.options.run.keep == "last", careful=careful, whole=whole)
        if kept:
            job.saved = _saved(job, job.keep_best, progress)
        if job.options.run.snapshots:
            _saved(job, partial(job.snapshot, state.step), progress)
    finally:
        job.model.train()
        if now.average is not None:
            now.average.swap()
        set_random_state(now.device, random)
    numbers = {key: value for key, value in metrics.items() if isinstance(value, float)}
    first, state.measure_first = state.measure_first, False
    health = Health()
    if not first:  # before training there is nothing to judge
        health = state.examined(metrics, share, job.batch_source.epochs(state.position), job.known)
    judged = {"best": kept, "health": health.word, "cause": health.cause, **numbers}
    if not first:
        judged["train_loss"] = state.signs.evaluations[-1]["train"]
    job.run.log("evaluation", step=state.step, seconds=round(state.seconds, 3), tokens=state.tokens, **judged)
    progress.say(f"step {state.step:,}: " + ", ".join(f"{key} {metric(value)}" for key, value in numbers.items()))
    if text is not None:
        job.run.log("sample", step=state.step, text=text)
        progress.say(text)
    if not first:
        _tell(health, state.signs, progress)
    progress.evaluated(share, cost)


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


def _shows(plan: Plan, share: float) -> bool:
    """Whether the evaluation at this progress shows a sample: all do, or some where samples are slow."""
    whole = plan.evaluating.evaluations
    number, samples = int(share * whole + 1e-9), plan.evaluating.samples or whole
    return number == 0 or number * samples // whole > (number - 1) * samples // whole


def _tell(health: Health, signs: RunStatistics, progress: Progress) -> None:
    """Show the verdict on the run when it changes."""
    said = f"{health.word}: {health.cause}" if health.cause else health.word
    if said != signs.said:
        signs.said = said
        (progress.say if health.word == LEARNING else progress.warn)(str(health))


def _note_checkpoints(job: Job, saver: Saver) -> None:
    """Record that there are checkpoints: if they are lost, the run must not start over by itself."""
    if saver.latest is not None and not job.run.facts.get("checkpoints"):
        job.run.update(checkpoints=True)


def _saved(job: Job, save: Callable[[], None], progress: Progress) -> bool:
    """Save the model.  Where that fails and training continues, the best weights are still in the checkpoints."""
    try:
        save()
        return True
    except SaveFailed as error:
        if job.options.run.on_save_error == "stop":
            raise
        progress.warn(f"{error}. Training continues (--on-save-error)")
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
