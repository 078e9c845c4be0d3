"""The training loop: one flat function, in one order.

evaluate when due -> rate -> batches -> gradient -> clip -> step -> log
"""

import math
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.feed import Feed
from headway.data.windows import Position
from headway.tasks.task import Task
from headway.training.average import WeightAverage
from headway.training.budget import Budget
from headway.training.checkpoint import (
    kept,
    optimizer_tensors,
    put_back,
    restore_optimizers,
    save_checkpoint,
    trained,
)
from headway.training.optim import optimizers, set_rate
from headway.training.plan import Plan
from headway.training.progress import Silent
from headway.training.run_directory import RunDirectory
from headway.training.schedule import accumulation, factor
from headway.training.shares import Shares

SAVE_EVERY = 60.0
"""Seconds between checkpoints."""
MOST_BAD_STEPS = 3
"""Steps in a row with a gradient that is not finite, before training stops."""
ADVICE = "Try a smaller --learning-rate or --precision float32, in another directory (--out)."


class Interrupted(Exception):
    """Stopped by the user, and saved."""


class Diverged(Exception):
    """The gradient was not finite several times in a row."""


@dataclass
class State:
    """All that an exact resume needs, beside the tensors."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    evaluations: int = 0
    best_loss: float = math.inf
    best_step: int = 0
    best_metrics: dict[str, Any] = field(default_factory=dict)
    stale: int = 0
    bad_steps: int = 0
    train_loss: float = math.nan

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        values = asdict(self)
        return {**values, **{k: str(v) for k, v in values.items() if isinstance(v, float) and not math.isfinite(v)}}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "State":
        """Back from JSON."""
        values = dict(plain)
        for name in ("best_loss", "train_loss", "seconds"):
            values[name] = float(values[name])
        values["position"] = Position(**plain["position"])
        return cls(**values)


@dataclass
class Job:
    """One training run: what is trained, on what, how, and where it is kept."""

    model: nn.Module
    task: Task
    feed: Feed
    plan: Plan
    run: RunDirectory
    keep_best: Callable[[], None]
    """saves the model as it is now"""
    sample: Callable[[], str] | None = None
    """shows what the model can do now"""
    best: dict[str, Tensor] = field(default_factory=dict)
    """the trained weights of the best evaluation so far, by name"""


def train(job: Job, budget: Budget, progress: Silent, saved: tuple[dict[str, Tensor], dict[str, Any]] | None) -> State:
    """Train until the budget is used up; ``job.best`` holds the best weights.  Raises Interrupted or Diverged."""
    model, plan, state = job.model, job.plan, State()
    device = next(model.parameters()).device
    chosen = _optimizers(model, plan)
    average = WeightAverage(model, plan.average) if plan.average else None
    if saved is not None:
        state = _restore(saved, job, chosen, average)
    parameters = [p for p in model.parameters() if p.requires_grad]
    began, last_save, shown = time.monotonic() - state.seconds, time.monotonic(), 0.0
    with Stop() as stop, Shares(plan.shares) as shares:
        while True:
            share = _share(job, budget, state)
            if int(share * plan.evaluations + 1e-9) > state.evaluations or share >= 1.0:
                state.evaluations = int(share * plan.evaluations + 1e-9)
                _evaluate(job, state, average, progress)
                if plan.patience and state.stale >= plan.patience:
                    break
            state.seconds = time.monotonic() - began
            if share >= 1.0:
                _save(job, state, chosen, average)
                break
            if stop.asked or time.monotonic() - last_save > SAVE_EVERY:
                _save(job, state, chosen, average)
                last_save = time.monotonic()
                if stop.asked:
                    raise Interrupted
            rate = factor(share, plan.schedule, plan.warmup)
            set_rate(chosen, rate)
            total, count = torch.zeros((), device=device), 0
            for _ in range(accumulation(share, plan.accumulate, plan.grow_batch)):
                batch, state.position = job.feed.next(state.position)
                batch = batch.to(device)
                loss, n = shares.add_gradient(model, job.task, batch, plan.precision, parameters)
                total, count = total + loss, count + n
                state.tokens += batch.tokens
            norm = _divide_and_clip(parameters, count, plan.clip)
            if math.isfinite(norm):
                for optimizer in chosen:
                    optimizer.step()
                if average is not None:
                    average.update()
            _count_bad_steps(state, norm, total.item() / count, job.run)
            for p in parameters:
                p.grad = None
            state.step += 1
            state.seconds = time.monotonic() - began
            state.train_loss = total.item() / count
            if state.seconds - shown >= 0.5 or state.step % plan.log_every == 0:
                shown = state.seconds
                left = state.seconds * (1 / max(_share(job, budget, state), 1e-9) - 1)
                progress.step(share, state.step, state.train_loss, left, state.tokens / max(state.seconds, 1e-9))
            if state.step % plan.log_every == 0 or state.step == 1:
                job.run.log(
                    "step",
                    step=state.step,
                    seconds=round(state.seconds, 3),
                    tokens=state.tokens,
                    loss=state.train_loss,
                    learning_rate=plan.learning_rate * rate,
                    norm=norm,
                )
    if not job.best:
        raise Diverged(f"the validation loss was never a finite number, last at step {state.step}. {ADVICE}")
    return state


def _optimizers(model: nn.Module, plan: Plan) -> list[torch.optim.Optimizer]:
    """The optimisers that the plan wants; the large tables of a pretrained model are trained row by row."""
    return optimizers(
        model,
        plan.optimizer,
        plan.learning_rate,
        plan.weight_decay,
        layer_decay=plan.layer_decay,
        by_rows=plan.base is not None,
        precision=plan.precision,
        muon_rate=plan.muon_rate,
    )


def _share(job: Job, budget: Budget, state: State) -> float:
    """The part of the run that is done: of its time or steps, or of its passes over the data if that is more."""
    share = budget.share(state.step)
    return max(share, min(1.0, job.feed.epochs(state.position) / job.plan.epochs)) if job.plan.epochs else share


def _evaluate(job: Job, state: State, average: WeightAverage | None, progress: Silent) -> None:
    """Evaluate in float32 and, when it is the best so far, keep the weights."""
    random = torch.get_rng_state()
    if average is not None:
        average.swap()
    job.model.eval()
    metrics = job.task.evaluate(job.model, job.feed.validation())
    cost = job.task.cost(metrics)
    better = cost < state.best_loss
    if better:
        state.best_loss, state.best_step, state.best_metrics, state.stale = cost, state.step, metrics, 0
        job.best = {name: kept(p, p.detach()).clone() for name, p in trained(job.model).items()}
        job.keep_best()
    else:
        state.stale += 1
    numbers = {key: value for key, value in metrics.items() if isinstance(value, float)}
    job.run.log(
        "evaluation", step=state.step, seconds=round(state.seconds, 3), tokens=state.tokens, best=better, **numbers
    )
    progress.say(f"step {state.step:,}: " + ", ".join(f"{key} {value:.4f}" for key, value in numbers.items()))
    if job.sample is not None:
        text = job.sample()
        job.run.log("sample", step=state.step, text=text)
        progress.say(text)
    job.model.train()
    if average is not None:
        average.swap()
    torch.set_rng_state(random)


def _divide_and_clip(parameters: list[nn.Parameter], count: int, longest: float) -> float:
    """Divide the summed gradient by the number of targets, once, and shorten it to ``longest``; returns its length."""
    gradients = [_numbers(p) for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))).item() / count
    scale = 1.0 / count
    if longest and norm > longest:
        scale *= longest / norm
    torch._foreach_mul_(gradients, scale)
    return norm


def _numbers(p: nn.Parameter) -> Tensor:
    """A gradient's entries; of a sparse one, those that it holds."""
    if p.grad is None or not p.grad.is_sparse:
        return p.grad  # type: ignore[return-value]
    p.grad = p.grad.coalesce()
    return p.grad.values()


def _count_bad_steps(state: State, norm: float, loss: float, run: RunDirectory) -> None:
    """Note a step whose gradient is not finite: it changes no weight, and too many in a row end the run."""
    if math.isfinite(norm):
        state.bad_steps = 0
        return
    state.bad_steps += 1
    run.log("bad step", step=state.step, loss=loss, norm=norm)
    if state.bad_steps >= MOST_BAD_STEPS:
        raise Diverged(
            f"the gradient was not finite {MOST_BAD_STEPS} times in a row, at step {state.step} (loss {loss}); "
            f"the best weights so far are kept. {ADVICE}"
        )


def _save(job: Job, state: State, chosen: list[torch.optim.Optimizer], average: WeightAverage | None) -> None:
    learning = trained(job.model)
    tensors: dict[str, Tensor] = {f"model.{name}": kept(p, p.detach()) for name, p in learning.items()}
    tensors |= optimizer_tensors(job.model, chosen)
    tensors |= {f"best.{name}": value for name, value in job.best.items()}
    if average is not None:
        tensors |= {f"average.{name}": kept(learning[name], value) for name, value in average.state().items()}
    tensors["random"] = torch.get_rng_state()
    plain = {**state.plain(), "average_steps": average.steps if average is not None else 0}
    save_checkpoint(job.run.checkpoints, state.step, tensors, plain)


def _restore(
    saved: tuple[dict[str, Tensor], dict[str, Any]],
    job: Job,
    chosen: list[torch.optim.Optimizer],
    average: WeightAverage | None,
) -> State:
    tensors, plain = saved[0], dict(saved[1])
    learning = trained(job.model)
    for name, p in learning.items():
        put_back(p, tensors[f"model.{name}"])
    job.best = {name.removeprefix("best."): value for name, value in tensors.items() if name.startswith("best.")}
    restore_optimizers(job.model, chosen, tensors)
    steps = plain.pop("average_steps")
    if average is not None:
        for name, p in learning.items():
            put_back(p, tensors[f"average.{name}"], average.values[name])
        average.steps = steps
    torch.set_rng_state(tensors["random"])
    return State.of(plain)


class Stop:
    """While it is entered, the first Ctrl-C or SIGTERM only asks to stop; the second ends the program at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stop":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked:
            for known, handler in self._before.items():
                signal.signal(known, handler)
            raise KeyboardInterrupt
        self.asked = True
