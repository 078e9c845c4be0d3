"""All that an exact resume needs: the counters, the tensors that a checkpoint holds, and the random states.

``Training.keep_if_best`` chooses the best weights of a run, evaluation by evaluation.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from headway.data.batches.batch_source import Position
from headway.data.stream.batch_source import position_of
from headway.errors import InputError
from headway.models.own import OwnConfig, check_answer, kept_answer
from headway.training.evaluation.comparison import clearly_lower
from headway.training.health import DataProfile, Health, RunStatistics, judge
from headway.training.ranks import Ranks
from headway.training.sharding import like

CPU, GPU = "random", "random.gpu"


@dataclass
class State:
    """The counters of a run."""

    step: int = 0
    position: Position = field(default_factory=Position)
    tokens: int = 0
    seconds: float = 0.0
    evaluations: int = 0
    best_loss: float = math.inf
    best_step: int = 0
    best_metrics: dict[str, Any] = field(default_factory=dict)
    """step, cost and metrics of the weights that are kept"""
    lowest: float = math.inf
    """the lowest cost of any evaluation; differs from ``best_loss`` where the last weights are kept"""
    start: dict[str, Any] = field(default_factory=dict)
    """metrics of the base model before the first step, where they were measured"""
    before: dict[str, Any] = field(default_factory=dict)
    """step, cost and val_loss of the trained weights from which the run was last continued; empty where it was not"""
    cycle: int = 0
    """how often the run was continued"""
    since: int = 0
    """the step at which it was last continued, and the seconds it had taken until then"""
    since_seconds: float = 0.0
    measure_first: bool = False
    """whether to evaluate the weights before the next step"""
    stale: int = 0
    bad_steps: int = 0
    train_loss: float = math.nan
    recent: list[float] = field(default_factory=list)
    """losses of the latest steps, by which a spike is recognised"""
    signs: RunStatistics = field(default_factory=RunStatistics)
    """the statistics by which the run is judged"""

    def examined(self, metrics: dict[str, Any], share: float, passes: float, known: DataProfile) -> Health:
        """How the run is doing after an evaluation with these metrics."""
        self.signs.evaluated(metrics, step=self.step, share=share, passes=passes, recent=self.recent)
        return judge(self.signs, known)

    def plain(self) -> dict[str, Any]:
        values = asdict(self)
        return {**values, **{k: str(v) for k, v in values.items() if isinstance(v, float) and not math.isfinite(v)}}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> "State":
        values = dict(plain)
        values.setdefault("lowest", values["best_loss"])
        for name in ("best_loss", "lowest", "train_loss", "seconds"):
            values[name] = float(values[name])
        values["position"] = position_of(plain["position"])
        values["signs"] = RunStatistics(**plain.get("signs", {}))
        return cls(**values)


class WeightAverage:
    """average ← decay × average + (1 - decay) × trained weights after every step (Polyak; the exponential kind).

    Early on, the decay is smaller - (1 + n) / (10 + n) after n steps - so that the first weights lose their influence.
    """

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.values = {name: p.detach().clone() for name, p in self.parameters.items()}
        """the averaged weights"""
        self.steps = 0

    @torch.no_grad()
    def update(self) -> None:
        """Add the model's weights to the average."""
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_(list(self.values.values()), [p.detach() for p in self.parameters.values()], 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Swap the model's weights and the average: before and after an evaluation."""
        for name, p in self.parameters.items():
            mine = p.detach().clone()
            p.copy_(self.values[name])
            self.values[name] = mine


@dataclass
class Training:
    """What changes in the course of a run: the model, its optimisers, and the counters."""

    model: nn.Module
    optimizers: list[Optimizer]
    average: WeightAverage | None
    ranks: Ranks = field(default_factory=Ranks)
    best: dict[str, Tensor] = field(default_factory=dict)
    """the trained weights of the best evaluation so far, by name"""
    units: dict[str, Tensor] = field(default_factory=dict)
    """what each held-out unit came to (``Objective.evaluate``) with the kept weights ("best"), before training
    ("start") and before the run was continued ("before")"""
    state: State = field(default_factory=State)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors and the plain values of a checkpoint; all ranks take part."""
        learning = trained(self.model)
        tensors: dict[str, Tensor] = {f"model.{name}": kept(p, p.detach()) for name, p in learning.items()}
        tensors |= optimizer_tensors(self.model, self.optimizers)
        tensors |= {f"best.{name}": value for name, value in self.best.items()}
        tensors |= {f"units.{name}": value for name, value in self.units.items()}
        if self.average is not None:
            tensors |= {f"average.{name}": kept(learning[name], value) for name, value in self.average.values.items()}
        tensors |= random_states(self.device, self.ranks)
        plain = {**self.state.plain(), "average_steps": self.average.steps if self.average is not None else 0}
        own = isinstance(getattr(self.model, "config", None), OwnConfig)
        return tensors, {**plain, "answer": kept_answer(self.model) if own else None}

    def restore(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Restore everything as it was saved.  Raises InputError where other parameters were trained."""
        plain, learning = dict(plain), trained(self.model)
        other = {name.removeprefix("model.") for name in tensors if name.startswith("model.")} ^ set(learning)
        if other:
            raise InputError(
                f"the checkpoint has a model of another shape (only one of the two has {min(other)}): an earlier "
                "version started this run. Its saved model can be used; use another --out to start over."
            )
        for name, p in learning.items():
            put_back(p, tensors[f"model.{name}"])
        self.best, self.units = (
            {name.removeprefix(part): value for name, value in tensors.items() if name.startswith(part)}
            for part in ("best.", "units.")
        )
        check_answer(self.model, plain.pop("answer", None), "its checkpoint")
        restore_optimizers(self.model, self.optimizers, tensors)
        steps = plain.pop("average_steps")
        if self.average is not None:
            for name, value in self.average.values.items():
                put_back(learning[name], tensors[f"average.{name}"], value)
            self.average.steps = steps
        set_random_states(self.device, tensors, self.ranks)
        self.state = State.of(plain)

    def restart(self, cycle: int) -> None:
        """Continue from the kept weights, with fresh optimisers and a fresh average."""
        for name, p in trained(self.model).items() if self.best else ():
            put_back(p, self.best[name])
        for optimizer in self.optimizers:
            optimizer.state.clear()
        if self.average is not None:
            self.average = WeightAverage(self.model, self.average.decay)
        state = self.state
        state.cycle, state.since, state.since_seconds = cycle, state.step, state.seconds
        state.evaluations, state.stale, state.recent, state.measure_first = 0, 0, [], True

    def keep_if_best(
        self,
        cost: float,
        metrics: dict[str, Any],
        units: Tensor,
        *,
        last: bool,
        careful: bool = False,
        whole: tuple[dict[str, Any], Tensor] | None = None,
    ) -> bool:
        """Record an evaluation, and keep its weights if they are the best so far or the ``last``; whether they were.

        ``whole`` are the metrics and units of all held-out examples, where the others are of a part and training has
        not begun.  ``careful`` asks for more than the lowest loss: it must be clearly lower than the loss of the kept
        weights (``comparison.clearly_lower``).  Weights with a loss that is not finite are never kept.
        """
        state = self.state
        improved, known = cost < state.lowest, bool(self.best)
        state.lowest = min(cost, state.lowest)
        state.stale = 0 if improved or state.measure_first else state.stale + 1
        if state.measure_first:
            first, each = whole or (metrics, units)
            state.before = {"step": state.best_step, "cost": cost, "val_loss": first["val_loss"]}
            self.units["before"] = each
            if not state.cycle:
                state.start = {name: value for name, value in first.items() if isinstance(value, float)}
                self.units["start"] = each
        better = cost < state.best_loss
        if better and careful and "best" in self.units and not state.measure_first:
            better = clearly_lower(units.numpy(), self.units["best"].numpy())
        if not (better or (last and math.isfinite(cost))):
            return False
        if not (state.measure_first and state.cycle and known):  # else they are of the step that is already kept
            state.best_step = state.step
        state.best_loss, state.best_metrics, self.units["best"] = cost, metrics, units
        self.keep_best()
        return True

    def keep_best(self) -> None:
        """Keep a copy of the weights as they are now."""
        self.best = {name: kept(p, p.detach()).clone() for name, p in trained(self.model).items()}


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name: a checkpoint holds no others.

    A task's own model may itself change those that have no gradient, and an ``own_module`` (``headway.fit``) has its
    buffers too.
    """
    everything = getattr(model, "own_module", False)
    own = everything or isinstance(getattr(model, "config", None), OwnConfig)
    learning: dict[str, Any] = {name: p for name, p in model.named_parameters() if own or p.requires_grad}
    return learning | dict(model.named_buffers()) if everything else learning


def kept(p: Tensor, value: Tensor) -> Tensor:
    """What a checkpoint keeps of a parameter's tensor: only the ``trained_rows``, where it has them."""
    rows = getattr(p, "trained_rows", None)
    return value if rows is None or value.shape != p.shape else value.detach()[rows]


@torch.no_grad()
def put_back(p: Tensor, value: Tensor, place: Tensor | None = None) -> None:
    """Restore a parameter, or another tensor that belongs to it, from what ``kept`` returned."""
    rows, place = getattr(p, "trained_rows", None), p if place is None else place
    if hasattr(place, "device_mesh"):  # sharded over ranks
        value = like(place, value)
    if rows is None or value.shape == p.shape:
        place.copy_(value)
    else:
        place[rows] = value.to(place.device)


def optimizer_tensors(model: nn.Module, chosen: list[Optimizer]) -> dict[str, Tensor]:
    """The state of the optimisers as tensors by name: "optimizer.<n>.<parameter>.<what>"."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        f"optimizer.{n}.{names[id(p)]}.{what}": kept(p, value)
        for n, optimizer in enumerate(chosen)
        for p, entry in optimizer.state.items()
        for what, value in entry.items()
    }


def restore_optimizers(model: nn.Module, chosen: list[Optimizer], tensors: dict[str, Tensor]) -> None:
    """Restore what ``optimizer_tensors`` returned.  Raises KeyError when a parameter is not known."""
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            n, rest = key.removeprefix("optimizer.").split(".", 1)
            name, what = rest.rsplit(".", 1)
            p, optimizer = parameters[name], chosen[int(n)]
            if optimizer.defaults.get("fused"):
                value = value.to(p.device)  # the count of steps too: torch's fused optimisers read it on the GPU
            if value.dim():  # where only some rows of a table are trained, the moments of the others are zero
                whole = torch.zeros_like(p, dtype=value.dtype)
                put_back(p, value, whole)
                value = whole
            optimizer.state[p][what] = value


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's generator, and of the device's where it has one, by name."""
    found = {CPU: torch.get_rng_state()}
    if device.type == "cuda":
        found[GPU] = torch.cuda.get_rng_state(device)
    return found


def random_states(device: torch.device, ranks: Ranks) -> dict[str, Tensor]:
    """``random_state`` of every rank: the first rank's by its names, those of rank n with n appended."""
    states = enumerate(ranks.gathered(random_state(device)))
    return {_of_rank(name, rank): value for rank, state in states for name, value in state.items()}


def set_random_states(device: torch.device, tensors: dict[str, Tensor], ranks: Ranks) -> None:
    """Restore this rank's part of what ``random_states`` returned; nothing where the run had fewer ranks before."""
    state = {name: tensors[_of_rank(name, ranks.rank)] for name in (CPU, GPU) if _of_rank(name, ranks.rank) in tensors}
    if CPU in state:
        set_random_state(device, state)


def _of_rank(name: str, rank: int) -> str:
    return f"{name}.{rank}" if rank else name


def set_random_state(device: torch.device, state: dict[str, Tensor]) -> None:
    """Restore what ``random_state`` returned.  The state of another kind of device is ignored."""
    torch.set_rng_state(state[CPU])
    if device.type == "cuda" and GPU in state:
        torch.cuda.set_rng_state(state[GPU], device)


@contextmanager
def as_before(model: nn.Module) -> Iterator[torch.device]:
    """After a trial on the model's device: the random state and the mode as before it, and no gradients."""
    device, training = next(model.parameters()).device, model.training
    random = random_state(device)
    try:
        yield device
    finally:
        model.zero_grad()
        model.train(training)
        set_random_state(device, random)
