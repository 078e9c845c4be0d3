"""Architectures side by side: the same split, tokenizer, budget, number of trials and of seeds for all.

All are trained with AdamW in float32, unless ``options`` name another optimizer or precision, or "auto" for each
model's own; a pretrained model keeps its recipe of fine-tuning.  A trial is a training with another learning rate; the
best one on the held-out part is trained with the other seeds, and counts as the first seed.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from headway.data.open.columns import COLUMNS, Detected
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.errors import InputError, RunFailed
from headway.io import quantities
from headway.io.atomic_write import write_json
from headway.io.quantities import duration, parse_seconds, size
from headway.nn.global_state import isolated
from headway.runtime.precision import FLOAT32
from headway.science.comparison import ONE_FOR_ALL, RATES, Candidate, Comparison, fitting, remember, with_text
from headway.science.long_texts import held_out_tokens, loss_by_length, reach_of, recall_by_distance
from headway.science.speeds import speeds, token_seconds
from headway.tasks.registry import recogniser, spec, task_named
from headway.training.evaluation.comparison import SCORES, better_over_seeds, over_seeds
from headway.training.evaluation.metric import VAL_LOSS, Metric
from headway.training.options import TrainOptions
from headway.training.progress import Progress
from headway.training.store.contents import read_log
from headway.training.store.facts import read_facts
from headway.workflows.command import trained, words_of
from headway.workflows.evaluate import given_for
from headway.workflows.input import read_input, validation_input
from headway.workflows.load import load
from headway.workflows.train.check import check_for_task

HELD_OUT = "the held-out part"
"""The default data to measure on."""
UNTRAINED = "not trained: the time ended before its first step"
SAMPLE = 64
"""Texts with which speed is measured."""
OF_MODEL = ("d_model", "n_layers", "n_heads", "vocab_size", "tied", "dropout")
OF_PLAN = ("batch_tokens", "evaluations", "precision", "products", "weight_decay")
"""What is recorded of each as its ``size``, of its model and of its plan."""


class Training(NamedTuple):
    """One training of a model, finished."""

    options: dict[str, Any]
    facts: dict[str, Any]
    path: Path
    peak: float | None
    """its memory in bytes, where that is known"""

    def value(self, metric: Metric) -> float | None:
        """What it measured on the held-out part; None without a step."""
        return self.facts["metrics"].get(metric.key) if self.has_learnt else None

    @property
    def seconds(self) -> float:
        """What all commands that trained it took."""
        return max(self.facts["seconds"], self.facts["training_seconds"])

    @property
    def has_learnt(self) -> bool:
        """Whether it took a step, or is fitted in closed form."""
        return bool(self.facts["steps"]) or self.facts["plan"]["frozen"]


@isolated()
def compare(comparison: Comparison, out: Path, progress: Progress) -> dict[str, Any]:
    """Train them all in ``out``, measure them, and write ``compare.json``; what that holds.

    An interrupted comparison with the same arguments is resumed.  A model that fails becomes a row with ``failed``.
    Raises InputError for mistakes in the input.
    """
    models = comparison.candidates
    if comparison.recall:
        comparison = with_text(comparison, out)
    chosen = TrainOptions(**{name: value for name, value in comparison.options.items() if name not in ONE_FOR_ALL})
    source, detected = read_input(comparison.inputs, chosen)
    models = [fitting(model, spec(detected.task)) for model in models]
    held_out = validation_input(comparison.validation, chosen, detected)
    _check(comparison, models, chosen, source, detected)
    remember(comparison, out)
    running = isinstance(source, Corpus) and recogniser(detected.task).running_text
    alike = comparison.evaluations if running else {"split_seed": comparison.seed}
    comparison = replace(comparison, options={**alike, **comparison.options})
    most, slower = duration(len(models) * parse_seconds(comparison.time)), ""
    if comparison.match == "tokens":
        slower = "; at equal tokens a slower model than the first takes longer"
    each = f"{len(models)} models with {comparison.time} each (--time to change)"
    progress.say(f"{each}: about {most}, plus measurements{slower}")
    inputs = task_named(detected.task).some_inputs(source, detected, SAMPLE)
    rows: list[dict[str, Any]] = []
    there: list[dict[str, Any]] = []
    plans: list[dict[str, Any]] = []
    for number, model in enumerate(models):
        what = f"{duration(comparison.share)} for each training"
        progress.say(f"{model.name} ({number + 1} of {len(models)}): {what}")
        try:
            first = there[0] if there else None
            row, plan = _row(comparison, model, out, detected.task, first, progress.say)
            if isinstance(source, Corpus) and spec(detected.task).writes:
                row |= _reading(comparison, source, held_out, out / row["run"], plan["length"])
            there.append(row)
            plans.append(plan)
        except RunFailed as error:
            row = {"model": model.name, "failed": str(error)}
            if not there and (comparison.match != "time" or comparison.vary is not None):
                what = f"{model.name}, which the others are matched to, failed"
                raise _untrained(comparison, [row], what) from None
            progress.warn(f"{model.name}: {error}")
        rows.append(row)
    if not there:
        raise _untrained(comparison, rows, f"no model could be trained; {rows[0]['model']}")
    _time(there, plans, out, inputs)
    metric = spec(detected.task).metric(there[0]["metric"])
    _test(there, metric)
    result: dict[str, Any] = {
        "task": detected.task,
        "metric": metric.key,
        "match": comparison.match,
        "vary": comparison.vary,
        "budget": comparison.time,
        "trials": comparison.trials,
        "seeds": comparison.seeds,
        "measured_on": comparison.test or HELD_OUT,
        "rows": rows,
    }
    result["advice"] = advice(result, better=-1 if metric.lower_is_better else 1)
    write_json(out / "compare.json", result)
    return result


def _row(
    comparison: Comparison,
    model: Candidate,
    out: Path,
    task: str,
    first: dict[str, Any] | None,
    say: Callable[[str], None],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All trainings of one model: their results, and the plan of the best."""
    place, base = out / "runs" / model.folder, comparison.options_of(model, first)

    def run(name: str, **options: Any) -> Training:
        words = words_of(comparison.inputs, {**base, **options})
        for path in comparison.validation:
            words += ["--validation", path]
        peak = trained(words, place / name, say)
        kept = place / f"{name}.memory"
        if not kept.exists():  # by the command that trained it; a command that finds it complete needs less
            kept.write_text("" if peak is None else f"{peak:.0f}")
        known = float(kept.read_text() or 0) or None
        return Training(options, read_facts(place / name) or {}, place / name, known)

    tried: list[Training] = []
    scores: list[float] = []
    names = spec(task).compared if first is None else [spec(task).metric(first["metric"])]
    for number in range(comparison.trials):
        if number == 0:
            tried.append(run("trial-0", seed=comparison.seed))
            plan, measured, rate = tried[0].facts["plan"], tried[0].facts["metrics"], ""
            metric = next((one for one in names if measured.get(one.key) is not None), names[0])
        elif plan["frozen"]:  # fitted in closed form, it has no learning rate
            break
        else:
            learning_rate = plan["learning_rate"] * RATES[number]
            tried.append(run(f"trial-{number}", seed=comparison.seed, learning_rate=learning_rate))
            rate = f"learning rate {learning_rate:g}, "
        value = tried[-1].value(metric)
        scores.append(-math.inf if value is None else metric.better(value, 0.0))
        figure = "not measured" if value is None else quantities.metric(value)
        say(f"{model.name}, trial {number + 1}: {rate}{metric.key} {figure}")
    best = tried[scores.index(max(scores))]
    seeds = [comparison.seed + number for number in range(1, comparison.seeds)]
    finished = [best, *(run(f"seed-{seed}", **{**best.options, "seed": seed}) for seed in seeds)]
    if not all(training.has_learnt for training in finished):
        raise RunFailed(UNTRAINED)
    facts, plan = best.facts, best.facts["plan"]
    metrics, each = zip(*(_measured(comparison, training.path) for training in finished), strict=True)
    values = [math.inf if one[metric.key] is None else one[metric.key] for one in metrics]
    peaks = [training.peak for training in (*tried, *finished) if training.peak is not None]
    row = {
        "model": model.name,
        "metric": metric.key,
        "mean": statistics.mean(values),
        "values": values,
        "metrics": list(metrics),
        "each": list(each),
        **{name: facts[name] for name in ("parameters", "trained_parameters")},
        "seconds": statistics.mean(one.seconds for one in finished),
        **{name: facts[name] for name in ("tokens", "steps")},
        "tokens_per_second": statistics.mean(one.facts["tokens_per_second"] for one in finished),
        "memory_mb": max(peaks) / 1e6 if peaks else None,
        "lengths": [],
        "curves": [read_log(one.path, "evaluation") for one in finished],
        "options": {name: value for name, value in best.options.items() if name != "seed"},
        "trials": [{"options": one.options, metric.key: one.facts["metrics"].get(metric.key)} for one in tried],
        "pretrained": "from_model" in model.options,
        "optimizer": None if plan["frozen"] else plan["optimizer"],
        "precision": plan["precision"],
        "size": {name: plan["model"].get(name) for name in OF_MODEL} | {name: plan[name] for name in OF_PLAN},
        "run": str(best.path.relative_to(out)),
    }
    return row, plan


def _time(rows: list[dict[str, Any]], plans: list[dict[str, Any]], out: Path, inputs: list[Any]) -> None:
    """How fast each answers and trains, measured in turn, into its row."""
    pipes: list[Any] = [load(out / row["run"], device="cpu", precision="float32") for row in rows]
    models = [getattr(pipe.model, "members", [pipe.model])[0] for pipe in pipes]
    for row, speed, lengths in zip(rows, speeds(pipes, inputs), token_seconds(models, plans), strict=True):
        row |= {**speed, "lengths": lengths}


def _reading(comparison: Comparison, source: Corpus, held_out: Any, run: Path, length: int) -> dict[str, Any]:
    """What a language model does at lengths that it was not trained at, and how far back it remembers."""
    pipe: Any = load(run, device="cpu", precision="float32")
    tokens = held_out_tokens(source, held_out if isinstance(held_out, Corpus) else None, pipe.tokenizer)
    reach = reach_of(pipe.model)
    measured = {"longer": loss_by_length(pipe.model, tokens, length, reach)}
    if comparison.recall:
        measured["recall"] = recall_by_distance(pipe.model, pipe.tokenizer, reach, comparison.seed)
    return measured


def _untrained(comparison: Comparison, rows: Sequence[dict[str, Any]], what: str) -> Exception:
    """The error of a comparison of which these models failed; of the input for too short a time."""
    if {row["failed"] for row in rows} == {UNTRAINED}:
        return InputError(f"--time {comparison.time} ended before a first step: give more time, and another --out.")
    return RunFailed(f"{what}: {rows[0]['failed']}")


def _check(
    comparison: Comparison, models: Sequence[Candidate], chosen: TrainOptions, source: Any, detected: Detected
) -> None:
    """Raise InputError for what would stop a model or the end of the comparison, before anything is trained."""
    TrainOptions(seed=comparison.seed)  # named as the user named it, not as the split's
    for model in models:
        options = {**comparison.options_of(model, None), "seed": comparison.seed}
        check_for_task(TrainOptions(**options), detected.task)
    if (needs := task_named(detected.task).metric_needs()) is not None:
        raise InputError(needs)
    if comparison.test:
        columns = {name: getattr(detected, name) for name in COLUMNS} if isinstance(source, Table) else {}
        read_input([comparison.test], chosen.but(task=detected.task, **columns), chat=detected.chat)


def _measured(comparison: Comparison, path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """The metrics that count, and the result of each unit, (N, 2): on the test file, or on all of the held-out part."""
    pipe = load(path, precision=FLOAT32)
    data = given_for(path, pipe, [comparison.test] if comparison.test else [], whole=True)
    measured = task_named(pipe.task).evaluate(pipe, data)
    each = np.concatenate(data.each or [np.empty((0, 2))])
    numbers = {name: value for name, value in measured.items() if isinstance(value, int | float)}
    return {**numbers, "intervals": measured["intervals"]} if "intervals" in measured else numbers, each


def _test(rows: list[dict[str, Any]], metric: Metric) -> None:
    """Give each row its ``interval``, and by how much it is ``behind`` the best one, with the ``behind_interval``.

    Both are over other held-out units and, where there are several, other seeds; models are compared on the same units.
    None where there is no such interval.
    """
    best, kind = max(rows, key=lambda row: metric.better(row["mean"], 0.0)), metric.units or "loss"
    for row in rows:
        if not metric.units:  # bits per byte are a loss in another unit
            scales = [value / one[VAL_LOSS.key] for value, one in zip(row["values"], row["metrics"], strict=True)]
            row["each"] = [units * [scale, 1] for units, scale in zip(row["each"], scales, strict=True)]
        own = row["metrics"][0].get("intervals", {}) if len(row["values"]) == 1 else {}
        row["interval"] = over_seeds(kind, row["each"]) if kind in SCORES else own.get("interval")
    for row in rows:  # with other tokens, units have another order or length
        (a, *_), (b, *_) = row["each"], best["each"]
        alike = kind == "class" or row["size"]["vocab_size"] == best["size"]["vocab_size"]
        same = len(a) == len(b) and (kind == "quotient" or np.array_equal(a[:, 1], b[:, 1]))
        paired = row is not best and alike and same
        row["behind"] = metric.better(best["mean"], row["mean"])
        row["behind_interval"] = better_over_seeds(kind, best["each"], row["each"]) if paired else None
    for row in rows:
        del row["each"]


def advice(result: dict[str, Any], *, better: int) -> list[str]:
    """Sentences about the rows of a comparison; ``better`` is 1 where more of the metric is better, else -1."""
    rows = sorted((row for row in result["rows"] if "failed" not in row), key=lambda row: -better * row["mean"])
    said = [f"{row['model']} is left out: {row['failed']}." for row in result["rows"] if "failed" in row]
    if not rows:
        return said
    best, metric = rows[0], result["metric"].replace("_", " ")
    equals = [row for row in rows[1:] if row["behind_interval"] is not None and row["behind_interval"][0] <= 0]
    untested = [row for row in rows[1:] if row["behind_interval"] is None]
    if not equals and not untested:
        second = f", better than {_behind(rows[1])}" if rows[1:] else ""
        said.append(f"Take {best['model']}: its {metric} is the best, {_figure(best)}{second}.")
    else:
        said.append(f"{best['model']} has the best {metric}, {_figure(best)}.")
    if untested:
        names = ", ".join(row["model"] for row in untested)
        said.append(f"{names}: there is no paired test of {metric} against {best['model']}, so neither is advised.")
    if equals:
        names = "; ".join(map(_behind, equals))
        said.append(f"On the same held-out data these may be as good, since the interval includes 0: {names}.")
        fastest = max([best, *equals], key=lambda row: row["throughput"])
        smallest = min([best, *equals], key=lambda row: row["parameters"])
        said.append(
            f"Of these {1 + len(equals)}, {fastest['model']} is the fastest ({fastest['throughput']:,.0f} per second), "
            f"{smallest['model']} is the smallest ({smallest['parameters']:,} parameters)."
        )
    quickest = max(rows, key=lambda row: row["throughput"])
    if quickest is not best and quickest["throughput"] > 2 * best["throughput"]:
        said.append(
            f"If speed matters more: {quickest['model']} answers {quickest['throughput'] / best['throughput']:.1f} "
            f"times as many, and its {metric} is {quickest['mean']:.4g}."
        )
    known = [row for row in rows if row["memory_mb"] is not None]
    least = min(known, key=lambda row: row["memory_mb"], default=best)
    if best in known and least["memory_mb"] < 0.5 * best["memory_mb"]:
        said.append(
            f"Training {best['model']} took {size(1e6 * best['memory_mb'])} at its peak, {least['model']} "
            f"{size(1e6 * least['memory_mb'])}."
        )
    said += [*_lengths(rows), *_long_texts(rows)]
    if result["metric"] == "val_loss" and len({row["size"]["vocab_size"] for row in rows}) > 1:
        said.append("Their vocabularies differ, so their losses cannot be compared.")
    said += _recipes(rows)
    if result["seeds"] == 1:
        said.append("One seed each: the intervals are over held-out data alone, another seed may differ; see --seeds.")
    if result["seeds"] == 2:
        said.append("Two seeds have no interval, since they hardly show how much seeds differ; give --seeds 3 or 1.")
    if result["trials"] > 1 and result["measured_on"] == HELD_OUT:
        said.append(f"Trials were chosen by {HELD_OUT}, where the best one's value is a little too good; see --test.")
    if result["trials"] == 1:
        said.append("Learning rates are the presets', not searched for; see --trials.")
    return said


def _figure(row: dict[str, Any]) -> str:
    ends = row["interval"]
    return f"{row['mean']:.4g}" + (f", 95 % interval {ends[0]:.4g} to {ends[1]:.4g}" if ends else "")


def _behind(row: dict[str, Any]) -> str:
    """A model, its figure, and by how much it is worse than the best."""
    low, high = row["behind_interval"]
    return f"{row['model']} ({row['mean']:.4g}, behind by {row['behind']:.3g}, 95 % interval {low:.3g} to {high:.3g})"


def _recipes(rows: list[dict[str, Any]]) -> list[str]:
    """With which optimizer and precision the models were trained: a difference of these is none of architectures."""
    kinds: dict[str, list[str]] = {}
    for row in rows:
        kinds.setdefault(f"{row['optimizer'] or 'closed form'} in {row['precision']}", []).append(row["model"])
    each = "; ".join(f"{how} ({', '.join(names)})" for how, names in kinds.items())
    own = [row["model"] for row in rows if row["pretrained"]]
    return [f"Trained with {each}.", *(f"{name} keeps its recipe of fine-tuning." for name in own)]


def _lengths(rows: list[dict[str, Any]]) -> list[str]:
    """How the time per token grows from the shortest to the longest sequences that all models were timed on."""
    timed = {
        row["model"]: {at["length"]: at["microseconds"] for at in row["lengths"]} for row in rows if row["lengths"]
    }
    shared = sorted(set.intersection(*map(set, timed.values()))) if timed else []
    if len(shared) < 2:
        return []
    short, long = shared[0], shared[-1]
    grown = ", ".join(f"{name} {times[long] / times[short]:.1f} times" for name, times in timed.items())
    return [f"Time per token in sequences of {long} tokens against {short}, with equal tokens per batch: {grown}."]


def _long_texts(rows: list[dict[str, Any]]) -> list[str]:
    """Which models can read windows longer than in training, and how far back each remembers."""
    longer, recall = [], []
    for row in rows:
        first, *_, last = row.get("longer") or [{"loss": None}, {"loss": None}]
        if first["loss"] is not None:
            changed = "cannot" if last["loss"] is None else f"{last['loss'] / first['loss'] - 1:+.1%} loss"
            longer.append(f"{row['model']} {changed}")
        if points := row.get("recall"):
            near, far = (f"{point['accuracy']:.0%} at {point['distance']}" for point in (points[0], points[-1]))
            recall.append(f"{row['model']} {near} tokens and {far}")
    said = [f"Read in windows four times as long as in training: {', '.join(longer)}."] if longer else []
    return said + ([f"Recall: {', '.join(recall)}."] if recall else [])
