"""An own module in the training loop: ``headway.fit`` trains any ``torch.nn.Module``, ``headway.compare`` several."""

import hashlib
import json
import math
import time as clocks
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.own_data import batches_of, digest
from headway.errors import InputError, shown
from headway.hub.safe.weights import FILE as WEIGHTS
from headway.io.atomic_write import write_json, write_whole
from headway.models.device import device_of
from headway.nn.global_state import isolated
from headway.training.evaluation.comparison import better_over_seeds, over_seeds
from headway.training.evaluation.metric import VAL_LOSS
from headway.training.hardware.measure import SAVED_IN_A_SECOND
from headway.training.health import DataProfile
from headway.training.loop.schedule import Budget, Load, StepBudget, TimeBudget
from headway.training.loop.state import as_before, put_back, trained
from headway.training.loop.trainer import Interrupted, held_out_metrics, train
from headway.training.objective import Objective
from headway.training.options import TrainOptions, by_our_names
from headway.training.plan import Plan
from headway.training.progress import shown_to
from headway.training.store.checkpoint import copied, saving
from headway.training.store.run_directory import RunDirectory, clock, machine, versions
from headway.workflows.train.check import changes, recorded
from headway.workflows.train.outcome import kept
from headway.workflows.train.run import resume_point
from headway.workflows.train.setup import TrainingSession

Loss = Callable[[Any, Tensor], Tensor]
"""The mean loss of a batch, a scalar, from the model's output and the targets."""
TASK = "own_module"
"""What headway.json names as the task of these runs."""
TAKEN = (
    *("time", "steps", "epochs", "seed", "keep", "patience", "evaluations", "on_spike", "on_save_error", "save_every"),
    *("log_every", "learning_rate", "batch_size", "accumulate", "grow_batch", "optimizer", "weight_decay", "schedule"),
    *("warmup", "max_grad_norm", "average", "length", "device", "precision"),
)
"""The options of ``headway.train`` that have a meaning for any module."""
USUAL = {"learning_rate": 1e-3, "batch_size": 32, "optimizer": "adamw", "weight_decay": 0.1, "schedule": "cosine"}
USUAL |= {"warmup": 0.02, "average": 0.0, "length": 128, "evaluations": 10, "precision": "float32"}


@isolated()
def fit(
    model: nn.Module,
    data: Any,
    *,
    loss: Loss | None = None,
    validation: Any = None,
    out: str | Path = "runs/own_module",
    quiet: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Train a module in place; it ends in eval mode with the best weights.  Returns the results as a dict.

    ``data`` is a tuple of arrays of one length N, the model's inputs and last the targets; a ``torch.utils.data.
    Dataset`` with a length whose items are such tuples; or integer ids (N,), of which the model reads windows (B, T)
    and predicts each next one.  ``validation`` is of the same kind; without it a tenth is held out.  ``loss(output,
    targets)`` is the mean over a batch; without it the cross-entropy of logits (B, ..., C) and classes (B, ...).

    ``options`` are those of ``headway.train`` that concern the loop: ``time="5m"`` or ``steps=100``, ``batch_size``,
    ``learning_rate``, ``length`` (T), ``seed`` and so on.  ``out`` becomes a run directory with log.jsonl, checkpoints
    and model.safetensors (``model.state_dict()``); the same call resumes it.  Raises InputError for input that cannot
    be used and RunFailed where training cannot go on.
    """
    return _fit(model, data, loss, validation, Path(out), quiet, options)[0]


@isolated()
def compare(
    models: Mapping[str, Callable[[], nn.Module]],
    data: Any,
    *,
    seeds: int = 1,
    seed: int = 0,
    out: str | Path = "runs/comparison",
    **given: Any,
) -> dict[str, Any]:
    """Train several modules alike and compare their validation loss: what ``compare.json`` in ``out`` holds.

    ``models`` has functions that make each module, by name; every one is made, trained and evaluated with the same
    seeds on the same batches.  ``given`` is as for ``fit``: with ``steps`` all read the same data, with ``time`` each
    trains as long.  A row has ``mean`` and ``values`` of the loss over seeds, its 95 % ``interval``, how far it is
    ``behind`` the best, and the ``behind_interval`` (over held-out batches; None where it cannot be told).
    """
    if len(models) < 2 or seeds < 1:
        raise InputError("headway.compare: expected two models or more, and seeds of 1 or more.")
    rows: list[dict[str, Any]] = []
    of_units: dict[str, list[np.ndarray]] = {}
    for name, make in models.items():
        if Path(name).name != name or isinstance(make, nn.Module) or not callable(make):
            raise InputError(
                f"models: {shown(name)}: expected a plain name and a function that makes its module, such as a class."
            )
        facts, units = [], of_units.setdefault(name, [])
        for number in range(seed, seed + seeds):
            torch.manual_seed(number)
            how = {**given, "seed": number}
            loss, validation, quiet = (how.pop(key, None) for key in ("loss", "validation", "quiet"))
            place = Path(out) / name / f"seed-{number}"
            finished, each = _fit(make(), data, loss, validation, place, bool(quiet), how)
            facts.append(finished)
            units.append(each)
        values = [one["val_loss"] for one in facts]
        row: dict[str, Any] = {
            "model": name,
            "mean": float(np.mean(values)),
            "values": values,
            "interval": over_seeds("loss", units),
        }
        same = {key: facts[0][key] for key in ("parameters", "steps", "tokens", "tokens_per_second", "seconds")}
        rows.append({**row, **same})
    best = min(rows, key=lambda row: row["mean"])
    for row in rows:
        paired = None if row is best else better_over_seeds("loss", of_units[best["model"]], of_units[row["model"]])
        row |= {"behind": row["mean"] - best["mean"], "behind_interval": paired}
    result = {"metric": VAL_LOSS.key, "seeds": seeds, "rows": rows}
    write_json(Path(out) / "compare.json", result)
    return result


class OwnLoss(Objective):
    """The loss of an own module, as the training loop takes it."""

    by_rows = False

    def __init__(self, of_batch: Loss | None):
        self.of_batch = of_batch or cross_entropy

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, float]:
        """The mean loss of a batch times its number of targets, and that number."""
        count = float(batch.targets.numel() if batch.kind is TargetKind.TOKEN else len(batch))
        return self.of_batch(model(*batch.inputs.values()), batch.targets) * count, count

    @torch.no_grad()
    def evaluate(
        self, model: nn.Module, batches: Iterable[Batch], each: list[np.ndarray] | None = None
    ) -> dict[str, Any]:
        """The mean of the loss over all targets; a unit is a batch, since a loss need not be a sum over rows."""
        results = [(float(total), count) for total, count in (self.loss(model, batch) for batch in batches)]
        units = np.array(results, dtype=np.float64)  # (N, 2)
        if each is not None:
            each.append(units)
        return {VAL_LOSS.key: float(units[:, 0].sum() / units[:, 1].sum())}


def cross_entropy(output: Tensor, targets: Tensor) -> Tensor:
    """The mean of -ln p of the classes: logits (B, ..., C) and classes (B, ...) -> ().  Raises ValueError."""
    if targets.is_floating_point() or output.shape[:-1] != targets.shape:
        raise ValueError(
            f"without loss=, logits (B, ..., C) and whole numbers (B, ...) are expected, not output "
            f"{tuple(output.shape)} and targets {tuple(targets.shape)} of {targets.dtype}"
        )
    return nn.functional.cross_entropy(output.flatten(0, -2), targets.flatten())


def _fit(
    model: nn.Module, data: Any, loss: Loss | None, validation: Any, out: Path, quiet: bool, given: Mapping[str, Any]
) -> tuple[dict[str, Any], np.ndarray]:
    """What ``fit`` returns, and the result of each held-out batch, (N, 2)."""
    started = clocks.monotonic()
    named = by_our_names(given)
    if others := sorted(name for name in named if name not in TAKEN or (name, named[name]) == ("optimizer", "muon")):
        raise InputError(f"{', '.join(others)}: not an option of an own module; it takes {', '.join(TAKEN)}.")
    session = TrainingSession(options=TrainOptions(**named), progress=shown_to(quiet), started=started)
    run = session.run = RunDirectory(out)
    session.model, session.objective, plan = _own(model), OwnLoss(loss), _plan(session.options)
    session.plan, session.batch_source = (
        plan,
        batches_of(data, validation, length=plan.length, batch_size=int(plan.batch_size or 1), seed=plan.seed),
    )
    facts = {"fingerprint": digest(data, validation), "model": _shape_of(model), "warnings": []}
    if (earlier := run.read()) is not None:
        _check_earlier(run, earlier, facts)
        changes(earlier, session.options, run)
    model.to(device_of(session.options.runtime.device))
    _try(session)
    if earlier is not None and earlier.get("finished"):
        model.load_state_dict(load_file(out / WEIGHTS))
        return _result(run), held_out_metrics(model.eval(), session.objective, session.batch_source)[1].numpy()
    run.create(TASK)
    run.warn = session.progress.warn
    with run.locked():
        if earlier is None:
            count = sum(p.numel() for p in model.parameters())
            learning = sum(p.numel() for p in model.parameters() if p.requires_grad)
            run.update(headway=versions()["headway"], task=TASK, options=recorded(session.options), plan=plan.flat())
            run.update(data=facts, parameters=count, trained_parameters=learning, baselines=[], decisions=[])
            run.update(machine=machine(session.device), versions=versions(), started=clock(), finished=False)
        return _train(session, model)


def _train(session: TrainingSession, model: nn.Module) -> tuple[dict[str, Any], np.ndarray]:
    """The training loop, from the newest checkpoint if there is one, and its results."""
    run, saved = session.run, resume_point(session)
    budget: Budget = StepBudget(session.options.run.steps or 1)
    if session.limit is not None:
        spent, load = 0.0 if saved is None else float(saved[1]["seconds"]), Load()
        saves = 16 * sum(p.numel() for p in model.parameters()) / SAVED_IN_A_SECOND
        evaluation = 1.25 * session.batch_seconds * session.batch_source.validation_batches()
        after = {"saving": saves, "evaluation": evaluation, "ending": load.ending}
        budget = TimeBudget(session.limit, session.started, spent, after)

    def save() -> None:
        with saving(run.path / WEIGHTS):
            write_whole(run.path / WEIGHTS, partial(save_file, copied(model.state_dict())))

    session.keep_best, session.known = save, DataProfile(learning_rate=session.plan.learning_rate)
    session.model.train()
    try:
        now = train(session, budget, saved)
    except Interrupted:
        run.log("interrupted", time=clock())
        raise KeyboardInterrupt(f"stopped and saved in {run.path}; the same call resumes it") from None
    finally:
        session.progress.close()
    for name, p in trained(model).items():
        put_back(p, now.best[name])
    model.eval()
    if not session.saved:
        save()
    state = now.state
    run.log("end", step=state.step, seconds=round(state.seconds, 3), time=clock())
    run.update(
        finished=True,
        kept=kept(now, session.options.run.keep, VAL_LOSS),
        metrics=state.best_metrics,
        best_step=state.best_step,
        steps=state.step,
        tokens=state.tokens,
        train_loss=state.train_loss if math.isfinite(state.train_loss) else None,
        training_seconds=state.seconds,
        tokens_per_second=state.tokens / max(state.seconds, 1e-9),
        seconds=session.seconds,
    )
    return _result(run), now.units["best"].numpy()


def _result(run: RunDirectory) -> dict[str, Any]:
    names = ("seconds", "parameters", "steps", "best_step", "tokens", "train_loss", "tokens_per_second")
    return {"out": str(run.path), **{name: run.facts[name] for name in names}, **run.facts["metrics"]}


def _own(model: Any) -> nn.Module:
    """The module, whose checkpoints keep buffers too.  Raises InputError where there is nothing to train."""
    if not isinstance(model, nn.Module):
        raise InputError(f"model is {shown(model)}, expected a torch.nn.Module.")
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError(f"model: {type(model).__name__} has no parameters to train (requires_grad).")
    model.own_module = True  # type: ignore[assignment]
    return model


def _plan(options: TrainOptions) -> Plan:
    """The plan of a run, from its options and USUAL."""
    values = {name: options.value(name) for name in TAKEN if name not in ("time", "steps", "device", "save_every")}
    values |= {name: value for name, value in USUAL.items() if values[name] is None}
    batch_tokens = values["batch_size"] * values["length"]
    others = {name: value for name, value in values.items() if name not in ("keep", "on_save_error")}
    return Plan(model={}, batch_tokens=batch_tokens, token_dropout=0.0, label_smoothing=0.0, **others)


def _shape_of(model: nn.Module) -> str:
    """The SHA-256 of the names and shapes of a module's state."""
    shapes = {name: list(value.shape) for name, value in model.state_dict().items()}
    return hashlib.sha256(json.dumps(shapes, sort_keys=True).encode()).hexdigest()


def _check_earlier(run: RunDirectory, earlier: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Raise InputError where ``out`` holds a run of something else."""
    before = earlier["data"]
    if earlier["task"] != TASK or before.get("model") != facts["model"]:
        raise InputError(f"{run.path}: holds a run of another model; use another out=.")
    if before["fingerprint"] != facts["fingerprint"]:
        raise InputError(f"{run.path}: was trained on other data; give the same to resume it, or use another out=.")


def _try(session: TrainingSession) -> None:
    """Raise InputError where the model or the loss cannot use a batch; training is not affected."""
    model, (batch, held_out) = session.model, session.batch_source.longest()
    what = ", ".join(f"{part.dtype} {tuple(part.shape)}" for part in batch.inputs.values())
    with as_before(model) as device:
        model.eval()
        for part in (batch, held_out):
            began = clocks.monotonic()
            try:
                part = part.to(device)
                value = session.objective.of_batch(model(*part.inputs.values()), part.targets)  # type: ignore[attr-defined]
            except torch.OutOfMemoryError:
                raise
            except Exception as error:
                said = f"the model or the loss cannot use a batch of {what} and targets {tuple(batch.targets.shape)}"
                raise InputError(f"{said}: {type(error).__name__}: {error}") from error
            if not isinstance(value, Tensor) or value.ndim:
                found = tuple(value.shape) if isinstance(value, Tensor) else shown(value)
                raise InputError(f"loss: must return a scalar tensor, the mean over the batch, not {found}.")
            if not value.requires_grad:
                raise InputError("loss: does not depend on the parameters that are trained.")
            if not math.isfinite(value.item()):
                raise InputError(f"loss: is {value.item()} before the first step; check the data and the model.")
            session.batch_seconds = clocks.monotonic() - began
