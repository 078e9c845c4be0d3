"""The end of a run: the last measurements, the verdict, and the results in headway.json and ``--json``."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from headway.io.quantities import metric
from headway.tasks.data_profile import data_profile
from headway.tasks.registry import known, spec
from headway.tasks.task import SHOWN, FinalMetrics
from headway.training.evaluation.comparison import BEFORE, better_over_seeds, is_number, judged, value_of
from headway.training.evaluation.metric import REPORTED, Metric
from headway.training.health import LEARNING, DataProfile
from headway.training.loop.state import State, Training
from headway.training.loop.trainer import held_out_metrics
from headway.training.store.run_directory import RunDirectory, clock
from headway.workflows.train.setup import TrainingSession


def known_signs(session: TrainingSession) -> DataProfile:
    """The entries that explain the course of the run."""
    data, plan = session.data, session.plan
    known = data_profile(data.baselines, session.batch_source, data.processor, learning_rate=plan.learning_rate)
    return replace(known, pretrained=plan.fine_tuning.base is not None and not data.new_head)


def measured(run: RunDirectory, final: FinalMetrics | None) -> dict[str, Any]:
    """The final metrics; entries that only the report shows go to headway.json."""
    metrics = {} if final is None else final.measure()
    if (shown := metrics.pop(SHOWN, None)) is not None:
        run.update(shown=shown)
    return metrics


def finish_fitted(session: TrainingSession, final: FinalMetrics | None) -> None:
    """Evaluate and save a model that was fitted without a loop."""
    data, run, progress = session.data, session.run, session.progress
    metrics, units = held_out_metrics(session.model, session.objective, session.batch_source)
    numbers = {key: value for key, value in metrics.items() if isinstance(value, float)}
    run.log("start", time=clock())
    health = State().examined(metrics, 1.0, 0.0, known_signs(session))
    said = {"health": health.word, "cause": health.cause}
    run.log("evaluation", step=0, seconds=round(session.seconds, 3), tokens=0, best=True, **said, **numbers)
    progress.say("fitted: " + ", ".join(f"{key} {metric(value)}" for key, value in numbers.items()))
    if health.word != LEARNING:
        progress.warn(str(health))
    progress.evaluated(1.0, session.objective.cost(metrics))
    metrics |= measured(run, final)
    run.update(fitted=data.fitted)
    run.save_model(session.model, data.processor, data.labels)
    state = State(best_metrics=metrics, seconds=session.seconds)
    now = Training(session.model, [], None, units={"best": units}, state=state)
    finish(session, now, data.baseline_units(session.plan))


def finish(session: TrainingSession, now: Training, of_baselines: dict[str, np.ndarray]) -> None:
    """Record the run's results and verdict."""
    state, data, run, used = now.state, session.data, session.run, session.seconds
    run.log("end", step=state.step, seconds=round(state.seconds, 3), time=clock())
    baselines, units = list(data.baselines), {name: value.numpy() for name, value in now.units.items()}
    if state.start:
        baselines.append({"name": BEFORE, **state.start})
        of_baselines = {**of_baselines, BEFORE: units["start"]} if "start" in units else of_baselines
    facts, counts = run.facts["data"], run.facts["data"].get("rows", {})
    if data.used is not None and data.parts is not None:
        counts["trained"], facts["train"] = data.used, f"{data.used:,} of {data.facts['train']}"
    said = spec(run.facts["task"])
    measured = said.headline, state.best_metrics, baselines
    verdict = judged(*measured, units=units.get("best"), of_baselines=of_baselines, unit=data.unit)
    verdict |= {"of": counts["held_out"]} if "held_out" in counts else {}
    metric = None if verdict["metric"] is None else said.metric(verdict["metric"])
    run.update(
        finished=True,
        precision=None,  # what was measured of other weights
        engines=None,
        baselines=baselines,
        verdict=verdict,
        kept=kept(now, session.options.run.keep, metric) if now.optimizers else None,
        metrics=state.best_metrics,
        best_step=state.best_step,
        steps=state.step,
        tokens=state.tokens,
        train_loss=state.train_loss if math.isfinite(state.train_loss) else None,
        training_seconds=state.seconds,
        tokens_per_second=state.tokens / max(state.seconds, 1e-9),
        seconds=used,
    )


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


def result(run: RunDirectory) -> dict[str, Any]:
    """The command's result: the keys of its JSON object, None for metrics that do not apply."""
    facts = run.facts
    metrics = facts.get("metrics", {})
    columns = {  # by label column its task and its metrics, without those of each class
        name: {key: value for key, value in column.items() if not isinstance(value, dict | list)}
        for name, column in metrics.get("columns", {}).items()
    }
    return {
        "task": facts["task"],
        "seconds": facts.get("seconds"),
        "out": str(run.path),
        "parameters": facts["parameters"],
        "steps": facts.get("steps"),
        "tokens": facts.get("tokens"),
        "train_loss": facts.get("train_loss"),
        **{metric.key: metrics.get(metric.key) for metric in REPORTED},
        **{one.key: metrics[one.key] for one in known(facts["task"]).metrics if is_number(metrics.get(one.key))},
        "tokens_per_second": facts.get("tokens_per_second"),
        "baselines": facts["baselines"],
        **({"columns": columns} if columns else {}),
    }
