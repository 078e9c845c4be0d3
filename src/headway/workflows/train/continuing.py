"""Continue a run (``--more-time``, ``--more-steps``): from its kept weights, with a new cycle of the learning rate.

A warm restart (Loshchilov and Hutter 2017): the weights are those that the run keeps, optimisers and the average of the
weights begin without memory, the schedule begins again with its warm-up, and the position in the data, the log and the
kept weights stay.  Each time is noted in headway.json as one more entry of ``continued`` before its first step, and
checkpoints say which of them they belong to (``State.cycle``), so that a continued run that was killed resumes exactly.
"""

from typing import Any

from headway.errors import InputError
from headway.training.evaluation.comparison import gain
from headway.training.loop.state import Training
from headway.training.options import OPTIONS, TrainOptions
from headway.training.store.run_directory import RunDirectory

BOUNDS = ("more_time", "more_steps")


def as_continued(run: RunDirectory, earlier: dict[str, Any] | None, options: TrainOptions) -> tuple[TrainOptions, bool]:
    """The options with which a run goes on, and whether it is continued once more.

    What is not given is as the run has it.  A continued run that was stopped goes on with the bound that it had; it is
    continued once more when another one is asked for, or when it had ended.  Raises InputError where there is nothing
    to continue.
    """
    asked = {name: options.value(name) for name in BOUNDS}
    latest = (earlier or {}).get("continued", [])[-1:]
    stopped = latest[0] if latest and not (earlier or {}).get("finished") else None
    bound = None if stopped is None else {name: stopped.get(name) for name in BOUNDS}
    if not any(asked.values()):
        return (options if bound is None else options.but(**bound)), False
    flag = "--more-time" if asked["more_time"] else "--more-steps"
    if earlier is None:
        raise InputError(f"{flag} continues a run, and {run.path} holds none; name its directory with --out.")
    if "members" in earlier:
        first = run.path / earlier["members"][0]
        raise InputError(f"{flag} continues one run, and {run.path} holds several; continue each: --out {first}.")
    if earlier["plan"].get("frozen"):
        raise InputError(
            f"{flag} continues training, and the classifier in {run.path} was fitted without steps. Train the whole "
            "model in another directory, for example with --epochs 3."
        )
    return _merged(earlier, options).but(**asked), asked != bound


def _merged(earlier: dict[str, Any], options: TrainOptions) -> TrainOptions:
    """The options of an earlier run with those that are given now."""
    known = OPTIONS
    before = {name: value for name, value in earlier.get("options", {}).items() if name in known}
    given = {name: options.value(name) for name in options.given(known)}
    now = options.flat()
    if {"time", "steps"} & given.keys():
        before |= {"time": None, "steps": None}
    return TrainOptions(**{**before, **given, **{name: now[name] for name in ("allow_changes", *BOUNDS)}})


def entry(options: TrainOptions) -> dict[str, Any]:
    """What headway.json notes of a continuation."""
    return {name: options.value(name) for name in BOUNDS}


def went_on(state: dict[str, Any]) -> None:
    """Note in the plain state of a checkpoint that a run goes on here with other options."""
    metrics = state["best_metrics"]
    if metrics:
        state["before"] = {"step": state["best_step"], "cost": state["best_loss"], "val_loss": metrics["val_loss"]}
    state["since"] = state["step"]


def kept(now: Training, keep: str, metric: str | None) -> dict[str, Any]:
    """What headway.json says as ``kept``: the step whose weights the run ends with, and what came after it.

    ``last`` is the last evaluation, ``lowest`` the one with the lowest loss.  ``since`` is the step at which a run went
    on that had been trained before, 0 for one that began from a model of its own task, and None for all others;
    ``before`` is the loss there, ``gained`` whether a later step is kept, and ``gain`` by how much that is better in
    ``metric`` (95 % interval).
    """
    state = now.state
    evaluations = state.signs.evaluations
    last = {"step": int(evaluations[-1]["step"]), "val_loss": evaluations[-1]["loss"]} if evaluations else None
    lowest = state.signs.best
    found: dict[str, Any] = {
        "by": keep,
        "step": state.best_step,
        "val_loss": state.best_metrics.get("val_loss"),
        "last": last,
        "lowest": {"step": int(lowest["step"]), "val_loss": lowest["loss"]} if lowest else None,
        "since": None,
    }
    if state.before:
        gained = state.best_loss < state.before["cost"]
        found |= {"since": state.since, "before": state.before["val_loss"], "gained": gained, "gain": None}
        one, other = now.units.get("before"), now.units.get("best")
        if metric is not None and one is not None and other is not None:
            found["gain"] = gain(one.numpy(), other.numpy(), metric)
    return found
