"""Continue a run (``--more-time``, ``--more-steps``): from its kept weights, with a new cycle of the learning rate.

A warm restart (Loshchilov and Hutter 2017): training starts from the weights that the run kept; the optimizers, the
weight average and the schedule, with its warm-up, start over; the position in the data, the log and the kept weights
stay.  Before its first step each continuation is recorded in headway.json as an entry of ``continued``, and each
checkpoint names its continuation (``State.cycle``), so that a continued run that was killed resumes exactly.
"""

from typing import Any

from headway.errors import InputError
from headway.training.evaluation.comparison import better_over_seeds, value_of
from headway.training.evaluation.metric import Metric
from headway.training.loop.budget import Budget, StepBudget, TimeBudget
from headway.training.loop.state import Training
from headway.training.monitor.progress import Progress
from headway.training.option_fields import flag
from headway.training.options import FREE, TrainOptions
from headway.training.store.run_directory import RunDirectory
from headway.workflows.train.resume import same

BOUNDS = ("more_time", "more_steps")
OF_THE_WHOLE = ("time", "steps", "epochs")
"""Bounds of a whole run, which a continuation does not have."""


def as_continued(run: RunDirectory, earlier: dict[str, Any] | None, options: TrainOptions) -> tuple[TrainOptions, bool]:
    """The options of a run that goes on, and whether this starts another continuation.

    In a continuation and with ``--allow-changes``, options that are not given keep their values.  A continued run that
    was stopped resumes with its own bound; another continuation starts if the bound differs or if the run had ended.
    Raises InputError if there is nothing to continue.
    """
    asked = {name: options.value(name) for name in BOUNDS}
    latest = (earlier or {}).get("continued", [])[-1:]
    stopped = latest[0] if latest and not (earlier or {}).get("finished") else None
    bound = None if stopped is None else {name: stopped.get(name) for name in BOUNDS}
    if not any(asked.values()):
        if options.run.allow_changes and earlier is not None and "members" not in earlier:
            kept = {name: value for name, value in earlier.get("options", {}).items() if name not in FREE}
            options = _merged({"options": kept}, options)  # the others say how this command runs
        return (options if bound is None else options.but(**bound)), False
    more = "--more-time" if asked["more_time"] else "--more-steps"
    if earlier is None:
        raise InputError(f"{more} continues a run, but {run.path} holds none; name its directory with --out.")
    if "members" in earlier:
        first = run.path / earlier["members"][0]
        raise InputError(
            f"{more} continues one run, but {run.path} holds several; continue each of them: --out {first}."
        )
    if earlier["plan"].get("frozen"):
        raise InputError(
            f"{more} continues training, but the classifier in {run.path} was fitted without steps. Train the whole "
            "model in another directory, for example with --epochs 3."
        )
    before = earlier.get("options", {})
    for name in options.given(OF_THE_WHOLE):
        if not same(name, before.get(name), options.value(name)):
            raise InputError(f"{more} bounds the continuation, --{flag(name)} a whole run; leave out --{flag(name)}.")
    return _merged(earlier, options).but(**asked), asked != bound


def _merged(earlier: dict[str, Any], options: TrainOptions) -> TrainOptions:
    """The options of an earlier run, updated by those given now."""
    before, given = TrainOptions.of_record(earlier.get("options", {})), options.named
    if {"time", "steps"} & given.keys():
        before = before.but(time=None, steps=None)
    return before.but(**{**given, **{name: options.value(name) for name in ("allow_changes", *BOUNDS)}})


def entry(options: TrainOptions) -> dict[str, Any]:
    """The entry of a continuation in headway.json."""
    return {name: options.value(name) for name in BOUNDS}


def begin_cycle(
    run: RunDirectory, cycle: int, options: TrainOptions, state: dict[str, Any], progress: Progress
) -> tuple[int, float]:
    """The step at which the budget begins and the seconds already spent, from the state of a checkpoint."""
    spent = float(state.get("seconds", 0.0))
    if not cycle or not state:
        return 0, spent
    if state.get("cycle", 0) == cycle:
        return state["since"], spent - state["since_seconds"]
    step, from_step = state["step"], state["best_step"]
    bound = options.run.more_time or f"{options.run.more_steps:,} steps"
    progress.say(
        f"{run.path}: continuing for {bound} from the weights of step {from_step:,}; the learning rate restarts"
    )
    run.log("continued", step=step, **entry(options))
    return step, 0.0


def budget_of(
    options: TrainOptions, limit: float | None, started: float, since: int, spent: float, after: dict[str, float]
) -> Budget:
    """The bounds of the run, from step ``since`` on; ``after`` are the seconds needed after training, and for what."""
    if limit is None:
        return StepBudget(options.run.more_steps or options.run.steps or 1, since)
    budget = TimeBudget(limit, started, spent)
    budget.begin(spent)
    budget.keep(**after)
    return budget


def went_on(state: dict[str, Any], part: int) -> None:
    """Record in the plain state of a checkpoint that the run continues here with other options.

    Where evaluations read one of every ``part`` batches, the loss there is none of all, with which the last compares.
    """
    metrics = state["best_metrics"]
    if metrics and part == 1:
        state["before"] = {"step": state["best_step"], "cost": state["best_loss"], "val_loss": metrics["val_loss"]}
    state["since"] = state["step"]


def kept(now: Training, keep: str, metric: Metric | None) -> dict[str, Any]:
    """The entry ``kept`` of headway.json: the step whose weights the run keeps, and what came after it.

    ``val_loss`` is on all that is held out, ``evaluated_loss`` on what each evaluation reads, which may be a part.
    ``last`` is the last evaluation, ``lowest`` the one with the lowest loss.  ``since`` is the step from which an
    earlier run was continued, 0 for a run that began from a model of its own task, and None for all others; ``before``
    is the loss there, ``gained`` whether a later step is kept, and ``gain`` by how much that step is better in
    ``metric`` (95 % interval), and ``gain_of`` that metric's key and its value before and after.
    """
    state = now.state
    evaluations = state.signs.evaluations
    last = {"step": int(evaluations[-1]["step"]), "val_loss": evaluations[-1]["loss"]} if evaluations else None
    lowest = state.signs.best
    known = [one["loss"] for one in (*evaluations, *filter(None, [lowest])) if one["step"] == state.best_step]
    found: dict[str, Any] = {
        "by": keep,
        "step": state.best_step,
        "val_loss": state.best_metrics.get("val_loss"),
        "evaluated_loss": known[0] if known else None,
        "last": last,
        "lowest": {"step": int(lowest["step"]), "val_loss": lowest["loss"]} if lowest else None,
        "since": None,
    }
    if state.before:
        gained = state.best_loss < state.before["cost"]
        found |= {"since": state.since, "before": state.before["val_loss"], "gained": gained, "gain": None}
        one, other = now.units.get("before"), now.units.get("best")
        if metric is not None and one is not None and other is not None:
            found["gain"] = better_over_seeds(metric.units, [other.numpy()], [one.numpy()])
            found["gain_of"] = [metric.key, *(value_of(metric, units.numpy()) for units in (one, other))]
    return found
