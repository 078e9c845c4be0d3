"""Architectures side by side: the same split, tokenizer, budget, number of trials and of seeds for all.

    time         each model has the same time, its trials and its seeds included
    parameters   each model has as many parameters as the first one, and the same time
    tokens       each model reads as many tokens as the first one does in its time

All are trained with AdamW in float32, unless ``options`` name another optimizer or precision, or "auto" for each
model's own; a pretrained model keeps its recipe of fine-tuning.  Models of running text are evaluated equally often on
the same windows of the held-out part.

``vary`` compares Transformers that differ in one part, with the sizes of the first one and equally many tokens, so at
equal compute.  ``recall`` uses a synthetic text instead of inputs.

A trial is a training with another learning rate; the best one on the held-out part is trained with the other seeds,
and counts as the first seed.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.open.detected import COLUMNS, Detected
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.errors import InputError, RunFailed
from headway.io import quantities
from headway.io.atomic_write import write_json
from headway.io.quantities import duration, parse_seconds
from headway.nn.global_state import isolated
from headway.nn.recurrent import CELLS
from headway.runtime.precision import FLOAT32
from headway.science.advice import HELD_OUT, advice
from headway.science.candidate import Candidate, curve, entrants, fitting, trained, words_of
from headway.science.contest import RATES, WRITERS, Contest, remember, varied, with_text
from headway.science.longer import held_out_tokens, loss_by_length
from headway.science.recall import recall_by_distance
from headway.science.speeds import speeds, token_seconds
from headway.tasks.registry import recogniser, spec, task_named
from headway.training.evaluation.comparison import SCORES, better_over_seeds, over_seeds
from headway.training.evaluation.metric import VAL_LOSS, Metric
from headway.training.monitor.progress import Progress
from headway.training.options import TrainOptions
from headway.training.store.facts import read_facts
from headway.workflows.evaluate import given_for
from headway.workflows.input import read_input, validation_input
from headway.workflows.load import load
from headway.workflows.train.check import check_for_task

ONE_FOR_ALL = {"optimizer": "adamw", "precision": "float32"}
"""What all models are trained with where nothing else is given: their presets' differ."""
OWN = "auto"
"""Given for one of these, each model has its preset's."""
EVALUATIONS = 10
"""Points of the learning curve of each model of running text."""
USUAL_LENGTH, FEWEST, MOST = 256, 8, 128
"""Each reads a window of so many tokens for each second of training, and so many windows at least and at most."""
UNTRAINED = "not trained: the time ended before its first step"
SAMPLE = 64
"""Texts with which speed is measured."""


@isolated()
def compare(contest: Contest, out: Path, progress: Progress) -> dict[str, Any]:
    """Train them all in ``out``, measure them, and write ``compare.json`` there; what that holds.

    An interrupted comparison with the same arguments is resumed.  A model that fails becomes a row with ``failed``.
    Raises InputError for mistakes in the input.
    """
    models = entrants(contest.models) if contest.vary is None else varied(contest.vary)
    if contest.recall:
        contest = with_text(contest, out)
    chosen = TrainOptions(**{name: value for name, value in contest.options.items() if name not in ONE_FOR_ALL})
    source, found = read_input(contest.inputs, chosen)
    models = [fitting(model, spec(found.task)) for model in models]
    held_out = validation_input(contest.validation, chosen, found)
    _check(contest, models, chosen, source, found)
    remember(contest, out)
    running = isinstance(source, Corpus) and recogniser(found.task).running_text
    alike = _evaluations(contest) if running else {"split_seed": contest.seed}
    contest = replace(contest, options={**alike, **contest.options})
    most = duration(len(models) * parse_seconds(contest.time))
    slower = "; at equal tokens a slower model than the first takes longer" if contest.match == "tokens" else ""
    each = f"{len(models)} models with {contest.time} each (--time to change)"
    progress.say(f"{each}: about {most}, plus measurements{slower}")
    inputs = task_named(found.task).some_inputs(source, found, SAMPLE)
    rows: list[dict[str, Any]] = []
    first: dict[str, Any] | None = None
    for number, model in enumerate(models):
        progress.say(f"{model.name} ({number + 1} of {len(models)}): {duration(contest.share)} for each training")
        try:
            row = _row(contest, model, out, found.task, first, progress.say)
            if isinstance(source, Corpus) and spec(found.task).writes:
                row |= _reading(contest, source, held_out, out / row["run"])
        except RunFailed as error:
            if first is None and (contest.match != "time" or contest.vary is not None):
                _check_trained(contest, [str(error)])
                raise RunFailed(f"{model.name}, which the others are matched to, failed: {error}") from None
            row = {"model": model.name, "failed": str(error)}
            progress.warn(f"{model.name}: {error}")
        rows.append(row)
        if first is None and "failed" not in row:
            first = row
    if first is None:
        _check_trained(contest, [row["failed"] for row in rows])
        raise RunFailed(f"no model could be trained; {rows[0]['model']}: {rows[0]['failed']}")
    _time(rows, out, inputs)
    there = [row for row in rows if "failed" not in row]
    metric = spec(found.task).metric(there[0]["metric"])
    _test(there, metric)
    result: dict[str, Any] = {
        "task": found.task,
        "metric": metric.key,
        "match": contest.match,
        "vary": contest.vary,
        "budget": contest.time,
        "trials": contest.trials,
        "seeds": contest.seeds,
        "measured_on": contest.test or HELD_OUT,
        "rows": rows,
    }
    result["advice"] = advice(result, better=-1 if metric.lower_is_better else 1)
    write_json(out / "compare.json", result)
    return result


def _row(
    contest: Contest, model: Candidate, out: Path, task: str, first: dict[str, Any] | None, say: Callable[[str], None]
) -> dict[str, Any]:
    """All trainings of one model, and their results."""
    place, base = out / "runs" / model.folder, _options(contest, model, first)
    peaks: list[float] = []

    def run(name: str, options: dict[str, Any]) -> tuple[dict[str, Any], Path]:
        words = words_of(contest.inputs, {**base, **options})
        for path in contest.validation:
            words += ["--validation", path]
        peak = trained(words, place / name, say)
        facts = read_facts(place / name) or {}
        kept = place / f"{name}.memory"
        if not kept.exists():  # by the command that trained it; a command that finds it complete needs less
            kept.write_text("" if peak is None else f"{peak:.0f}")
        peaks.extend(float(text) for text in [kept.read_text()] if text)
        return facts, place / name

    tried: list[tuple[float, dict[str, Any], dict[str, Any], Path]] = []
    rate: float | None = None
    metric = spec(task).compared[0] if first is None else spec(task).metric(first["metric"])
    for number, factor in enumerate(RATES[: contest.trials]):
        options: dict[str, Any] = {"seed": contest.seed}
        if number:
            if rate is None:
                break  # fitted in closed form: there is no learning rate
            options["learning_rate"] = rate * factor
        facts, path = run(f"trial-{number}", options)
        if number == 0 and not facts["plan"]["frozen"]:
            rate = facts["plan"]["learning_rate"]
        if first is None and number == 0:
            names = spec(task).compared
            metric = next((one for one in names if facts["metrics"].get(one.key) is not None), names[0])
        value = facts["metrics"].get(metric.key) if _is_trained(facts) else None
        tried.append((-math.inf if value is None else metric.better(value, 0.0), options, facts, path))
        tried_rate = f"learning rate {options['learning_rate']:g}, " if number else ""
        figure = "not measured" if value is None else quantities.metric(value)
        say(f"{model.name}, trial {number + 1}: {tried_rate}{metric.key} {figure}")
    _, options, facts, path = max(tried, key=lambda one: one[0])
    finished = [(facts, path)]
    for number in range(1, contest.seeds):
        finished.append(run(f"seed-{contest.seed + number}", {**options, "seed": contest.seed + number}))
    if not all(_is_trained(facts) for facts, _ in finished):
        raise RunFailed(UNTRAINED)
    metrics, each = zip(*(_measured(contest, path) for _, path in finished), strict=True)
    values = [math.inf if one[metric.key] is None else one[metric.key] for one in metrics]
    return {
        "model": model.name,
        "metric": metric.key,
        "mean": statistics.mean(values),
        "values": values,
        "metrics": list(metrics),
        "each": list(each),
        "parameters": facts["parameters"],
        "trained_parameters": facts["trained_parameters"],
        "seconds": statistics.mean(max(one["seconds"], one["training_seconds"]) for one, _ in finished),
        "tokens": facts["tokens"],
        "steps": facts["steps"],
        "tokens_per_second": statistics.mean(one["tokens_per_second"] for one, _ in finished),
        "memory_mb": max(peaks) / 1e6 if peaks else None,
        "lengths": [],
        "curves": [curve(path) for _, path in finished],
        "options": {name: value for name, value in options.items() if name != "seed"},
        "trials": [{"options": o, metric.key: f["metrics"].get(metric.key)} for _, o, f, _ in tried],
        "pretrained": "from_model" in model.options,
        "optimizer": None if facts["plan"]["frozen"] else facts["plan"]["optimizer"],
        "precision": facts["plan"]["precision"],
        "size": _size(facts),
        "run": str(path.relative_to(out)),
    }


def _time(rows: list[dict[str, Any]], out: Path, inputs: list[Any]) -> None:
    """How fast each answers and trains, measured in turn, into its row."""
    there = [row for row in rows if "failed" not in row]
    pipes: list[Any] = [load(out / row["run"], device="cpu", precision="float32") for row in there]
    for row, found in zip(there, speeds(pipes, inputs), strict=True):
        row |= found
    models = [getattr(pipe.model, "members", [pipe.model])[0] for pipe in pipes]
    stacked = [  # the Transformers of texts, whose sequences may be of any length
        number for number, model in enumerate(models)
        if hasattr(model, "stack") and getattr(model, "patches", None) is None
    ]  # fmt: skip
    plans = [(read_facts(out / there[number]["run"]) or {})["plan"] for number in stacked]
    stacks, reaches = [models[number].stack for number in stacked], [_reach(models[number]) for number in stacked]
    for number, lengths in zip(stacked, token_seconds(stacks, plans, reaches), strict=True):
        there[number]["lengths"] = lengths


def _reading(contest: Contest, source: Corpus, held_out: Any, run: Path) -> dict[str, Any]:
    """What a language model does at lengths that it was not trained at, and how far back it remembers."""
    pipe: Any = load(run, device="cpu", precision="float32")
    facts = read_facts(run) or {}
    tokens = held_out_tokens(source, held_out if isinstance(held_out, Corpus) else None, pipe.tokenizer)
    reach = _reach(pipe.model)
    found = {"longer": loss_by_length(pipe.model, tokens, facts["plan"]["length"], reach)}
    if contest.recall:
        found["recall"] = recall_by_distance(pipe.model, pipe.tokenizer, reach, contest.seed)
    return found


def _options(contest: Contest, model: Candidate, first: dict[str, Any] | None) -> dict[str, Any]:
    """What every training of a model has: its budget, the split, and what makes it like the first one."""
    usual = ONE_FOR_ALL if contest.vary is None else {}  # variants of one preset all have its own
    own = {**usual, **contest.options, **model.options}
    own = {name: value for name, value in own.items() if name not in ONE_FOR_ALL or value != OWN}
    if runs := [name for name in contest.models if Path(name).is_dir()]:
        own["known_to"] = ",".join(runs)  # all hold out the same rows, which none has seen
    own["time"] = f"{contest.share:.3f}s"
    if "from_model" in model.options:
        own = {name: value for name, value in own.items() if name not in ("tokenizer", "optimizer")}  # it has its own
    if model.name in ("cnn", "bow") and own.get("optimizer") == "muon":
        del own["optimizer"]  # which trains the matrices of layers
    if first is None:
        return own
    size = first["size"]
    own.setdefault("products", size["products"])  # else each would time them for itself
    if contest.vary is not None:
        same = {"d_model": size["d_model"], "layers": size["n_layers"], "heads": size["n_heads"]}
        own |= {**same, **{name: size[name] for name in ("dropout", "weight_decay", "precision")}}
        own |= {"evaluations": size["evaluations"], **model.options}  # of which the best weights are kept
    if contest.match == "tokens":
        if not first["steps"]:
            raise RunFailed("the first model is fitted in closed form, so there is no number of tokens to match")
        own |= {"time": None, "steps": first["steps"], "batch_tokens": size["batch_tokens"]}
        own |= {name: size[name] for name in ("dropout", "evaluations") if "from_model" not in model.options}
    if contest.match == "parameters":
        own["match_parameters"] = first["parameters"]
    elif contest.vary is None and model.name in CELLS and first["model"] in WRITERS and "d_model" not in own:
        own["match_parameters"] = first["parameters"]  # not as many as the machine's speed just then would give it
    return own


def _evaluations(contest: Contest) -> dict[str, int]:
    """How often and on how much of the held-out text every training is evaluated: by sizes, not by a model's speed."""
    longer = max(1.0, (contest.options.get("length") or 0) / USUAL_LENGTH)
    return {"evaluations": EVALUATIONS, "validation_windows": int(max(FEWEST, min(MOST, contest.share) / longer))}


def _is_trained(facts: dict[str, Any]) -> bool:
    """Whether a run took a step, or is fitted in closed form."""
    return bool(facts["steps"]) or facts["plan"]["frozen"]


def _check_trained(contest: Contest, reasons: Sequence[str]) -> None:
    """Raise InputError where the time was too short for all of these models."""
    if set(reasons) == {UNTRAINED}:
        raise InputError(f"--time {contest.time} ended before a first step: give more time, and another --out.")


def _check(contest: Contest, models: Sequence[Candidate], chosen: TrainOptions, source: Any, found: Detected) -> None:
    """Raise InputError for what would stop a model or the end of the comparison, before anything is trained."""
    TrainOptions(seed=contest.seed)  # named as the user named it, not as the split's
    for model in models:
        check_for_task(TrainOptions(**{**_options(contest, model, None), "seed": contest.seed}), found.task)
    if (needs := task_named(found.task).metric_needs()) is not None:
        raise InputError(needs)
    if contest.test:
        columns = {name: getattr(found, name) for name in COLUMNS} if isinstance(source, Table) else {}
        read_input([contest.test], chosen.but(task=found.task, **columns), chat=found.chat)


def _size(facts: dict[str, Any]) -> dict[str, Any]:
    plan = facts["plan"]
    model = plan["model"]
    found = {name: model.get(name) for name in ("d_model", "n_layers", "n_heads", "vocab_size", "tied", "dropout")}
    kept = ("batch_tokens", "evaluations", "precision", "products", "weight_decay")
    return {**found, **{name: plan[name] for name in kept}}


def _measured(contest: Contest, path: Path) -> tuple[dict[str, Any], np.ndarray]:
    """The metrics that count, and the result of each unit, (N, 2): on the test file, or on all of the held-out part."""
    pipe = load(path, precision=FLOAT32)
    data = given_for(path, pipe, [contest.test] if contest.test else [], whole=True)
    measured = task_named(pipe.task).evaluate(pipe, data)
    each = np.concatenate(data.each or [np.empty((0, 2))])
    kept = {name: value for name, value in measured.items() if isinstance(value, int | float) or name == "intervals"}
    return kept, each


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
    for row in rows:
        paired = row is not best and _are_paired(kind, row, best)
        row["behind"] = metric.better(best["mean"], row["mean"])
        row["behind_interval"] = better_over_seeds(kind, best["each"], row["each"]) if paired else None
    for row in rows:
        del row["each"]


def _are_paired(kind: str, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two models were measured on the same units; with other tokens, these have another order or length."""
    (a, *_), (b, *_) = one["each"], other["each"]
    alike = kind == "class" or one["size"]["vocab_size"] == other["size"]["vocab_size"]
    return alike and len(a) == len(b) and (kind == "quotient" or np.array_equal(a[:, 1], b[:, 1]))


def _reach(model: Any) -> int:
    """How long a sequence may be: learned positions end."""
    position = getattr(model.config, "position", None)
    return model.config.max_length if getattr(position, "kind", "") == "learned" else 1 << 20
