"""The search of ``tune``: what is decided at its start, the record by which it resumes, and what is searched.

An option that the user gave is not searched, nor one that changes what the loss counts: trials are compared by it.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError, shown
from headway.io import quantities
from headway.io.quantities import parse_seconds
from headway.nn.baselines import CELLS
from headway.tasks.registry import spec
from headway.text.tokenizer import Tokenizer
from headway.training.option_fields import flag
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.progress import NoProgress, Progress
from headway.training.sizing.architecture import baseline_kind
from headway.workflows.train.setup import TrainingSession

ENDING = 10.0
"""Seconds kept for the importance of the options, the plots and the report."""
FOR_TRIALS = 0.95
"""The share of the rest that the trials may take; what is left is for the time between them."""
LEAST_SECONDS = 10.0
"""A trial that is shorter says nothing."""
NOT_SEARCHED = {
    "seeds": "tune first, then train the best options with --seeds",
    "adapt": "train with --task masked_lm first, then tune with --from that run",
    "frozen": "a linear classifier has nothing to search",
    "contrastive": "a linear classifier has nothing to search",
    "shard": "trials are trained by one process",
    "allow_changes": "all trials of a search must be equal",
    "more_time": "raise --trials and --time to extend a search",
    "more_steps": "raise --trials to extend a search",
}
"""Options of training that a search does not take, and what to do."""

Value = int | float | str


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``log``: a doubling counts the same everywhere."""

    preset: float
    """what the preset decides"""
    low: float
    high: float
    log: bool = False
    whole: bool = False

    def suggest(self, trial: Any, name: str) -> Value:
        """A value for a trial, drawn by the methods of ``optuna.Trial``."""
        draw, number = (trial.suggest_int, int) if self.whole else (trial.suggest_float, float)
        value: Value = draw(name, number(self.low), number(self.high), log=self.log)
        return value


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    preset: Value
    values: tuple[Value, ...]

    def suggest(self, trial: Any, name: str) -> Value:
        value: Value = trial.suggest_categorical(name, list(self.values))
        return value


Space = dict[str, Range | Choice]
"""By the name of the option."""


@dataclass(frozen=True)
class Search:
    """A search with nothing left to decide but what its trials try; it is kept with them."""

    asked: dict[str, Any]
    """the options of the user, and fingerprints of the data"""
    pinned: dict[str, Any]
    """options that all trials share: their time, and what the preset measures"""
    space: Space
    preset: dict[str, Any]
    """the preset's values of what is searched; none where it fits a linear classifier"""
    measure: str
    """what trials are compared by: val_loss, or the error of a classifier that begins from a pretrained model"""
    held_out: str
    """what they are compared on, in words"""
    every: int = 1
    """of a long text, every n-th window of it (Plan.validation_every)"""

    @classmethod
    def read(cls, plain: dict[str, Any]) -> "Search":
        """Of what ``asdict`` makes of a search, from JSON."""
        space = {
            name: Choice(one["preset"], tuple(one["values"])) if "values" in one else Range(**one)
            for name, one in plain["space"].items()
        }
        return cls(**{**plain, "space": space})

    @property
    def seconds(self) -> float | None:
        """How long a trial takes at most; None where it is bounded by steps."""
        return None if self.pinned["time"] is None else parse_seconds(self.pinned["time"])


MOST_TRIALS = 10_000


def check_options(options: TrainOptions, trials: int) -> None:
    """Raise InputError for what no search can be made with."""
    if not 2 <= trials <= MOST_TRIALS:
        raise InputError(
            f"--trials is {shown(trials)}; it must be from 2 to {MOST_TRIALS:,}; the first trial is the preset."
        )
    for name in options.given(list(NOT_SEARCHED)):
        raise InputError(f"--{flag(name)} is not for tune: {NOT_SEARCHED[name]}.")


def check_same(search: Search, asked: dict[str, Any], out: Path) -> None:
    """Raise InputError if a search would resume with other options or data; --trials and --time may differ."""
    was, now = search.asked["options"], asked["options"]
    other = [name for name in now if name in was and was[name] != now[name]]
    if other:
        said = ", ".join(f"--{flag(name)} {'not given' if was[name] is None else was[name]}" for name in other)
        raise InputError(
            f"{out}: holds a search with other options: {said}. Give the same to resume it (--trials and --time "
            "may differ), or name another directory with --out."
        )
    if search.asked["data"] != asked["data"]:
        raise InputError(f"{out}: holds a search on other data; name another directory with --out.")


def time_of_each(whole: str, trials: int, started: float, progress: Progress) -> str:
    """The time of each of ``trials`` in a command of the time ``whole`` that began at ``started``.

    Where that is too little for all, they are fewer.  Raises InputError when it is not enough for two.
    """
    used = time.monotonic() - started
    left = FOR_TRIALS * (parse_seconds(whole) - used - ENDING)
    fit = min(trials, math.floor(left / LEAST_SECONDS))
    if fit < 2:
        needed = math.ceil(2 * LEAST_SECONDS / FOR_TRIALS + ENDING + used)
        raise InputError(
            f"--time {whole} is not enough for a search: two trials of {LEAST_SECONDS:g} s and their overhead "
            f"take about {needed} s. Give more, or --steps for each trial."
        )
    if fit < trials:
        progress.warn(
            f"in {whole} each of {trials} trials would have {max(0.0, left / trials):.1f} s; they will have "
            f"{left / fit:.1f} s, and about {fit} of them fit (more --time for all)"
        )
    return f"{left / fit:.3f}s"


def decide(
    decided: Callable[[TrainOptions, Progress], TrainingSession],
    options: TrainOptions,
    asked: dict[str, Any],
    progress: Progress,
) -> Search:
    """What is searched and what all trials share, around what the preset makes of ``options``, as ``decided`` tells.

    Raises InputError where nothing is left to search.
    """
    centre = first = decided(options, progress)
    if first.plan.fine_tuning.frozen:  # a linear classifier; the search also covers training of the whole model
        centre = decided(options.but(learning_rate=first.plan.learning_rate), NoProgress())
        options = options.but(learning_rate=None)
    reader = centre.data.processor
    tokenizer = reader.kind if isinstance(reader, Tokenizer) else None
    space = search_space(centre.task, options, centre.plan, tokenizer=tokenizer)
    if not space:
        raise InputError("every option that could be searched was given; leave one of them out.")
    for decision in first.plan.decisions:
        progress.say(f"preset: {decision['what']}: {decision['value']} - {decision['why']}")
    size = 4 * sum(p.numel() for p in centre.model.parameters())
    progress.say(f"each trial keeps its model, about {quantities.size(size)}")
    progress.say(f"searched: {', '.join(f'--{flag(name)}' for name in space)}")
    return Search(
        asked=asked,
        pinned={
            "time": options.run.time,
            "precision": centre.plan.precision,
            "evaluations": centre.plan.evaluating.evaluations,
        },
        space=space,
        preset={} if first.plan.fine_tuning.frozen else {name: one.preset for name, one in space.items()},
        measure="error" if getattr(centre.objective, "by_accuracy", False) else "val_loss",
        held_out=str(centre.data.facts["validation"]),
        every=centre.plan.evaluating.validation_every,
    )


def search_space(task: str, options: TrainOptions, plan: Plan, *, tokenizer: str | None = None) -> Space:
    """What is searched for a task, around the ``plan`` that the preset makes of the user's ``options``.

    ``tokenizer`` is the kind that the preset takes.
    """
    config, tuning, objective = plan.config, plan.fine_tuning, plan.objective
    base, sized = tuning.base is not None, options.architecture.preset is None
    decay, rate, factor = tuning.layer_decay, plan.learning_rate, 5.0 if base else 8.0
    stacked = baseline_kind(options) in (None, *CELLS)
    drops = tuple(sorted({0.0, 1.0, 4.0, objective.r_drop}))
    space: dict[str, Range | Choice | bool] = {  # False: not here
        "learning_rate": Range(rate, rate / factor, min(10.0, rate * factor), log=True),
        "layer_decay": base and tuning.lora is None and Range(decay, min(0.7, decay), 1.0),
        "weight_decay": base and _share(plan.weight_decay, 0.1),
        "d_model": not base and sized and _widths(config.d_model, options.architecture.heads),
        "layers": not base and sized and stacked and _times(config.n_layers, 2, log=False),
        "dropout": _share(config.dropout, 0.3 if base else 0.5),
        "batch_tokens": _batches(plan, (0.5, 1.0, 2.0) if base else (0.25, 0.5, 1.0, 2.0, 4.0)),
        "epochs": plan.epochs is not None and _times(plan.epochs, 2 if base else 3, log=True),
    }
    own: dict[str, Range | Choice | bool] = {  # which a task may name
        "label_smoothing": _share(objective.label_smoothing, 0.2),
        "token_dropout": _share(objective.token_dropout, 0.3),
        "r_drop": Choice(objective.r_drop, drops),
        "tokenizer": not base
        and tokenizer is not None
        and options.data.vocab is None
        and Choice(tokenizer, tuple(dict.fromkeys((tokenizer, "word", "bpe")))),
    }
    space |= {name: values for name, values in own.items() if name in spec(task).searched}
    free = {name: values for name, values in space.items() if options.value(name) is None}
    return {name: values for name, values in free.items() if not isinstance(values, bool)}


def _times(value: int, most: int, *, log: bool) -> Range:
    """Half to ``most`` times a whole number."""
    return Range(value, max(1, value // 2), most * value, log=log, whole=True)


def _share(value: float, high: float) -> Range:
    """From 0 to ``high``, or to the preset's value where that is more."""
    return Range(value, 0.0, max(high, value))


def _widths(width: int, heads: int | None) -> Choice:
    """Half to twice the width, in multiples of 32 that the heads divide (by an even number, for rotary positions)."""
    each = 2 * (heads or 1)
    near = {max(32, round(width * factor / 32) * 32) for factor in (0.5, 0.75, 1.0, 1.5, 2.0)}
    return Choice(width, tuple(sorted({width, *(one for one in near if one % each == 0)})))


def _batches(plan: Plan, factors: tuple[float, ...]) -> Choice:
    """Tokens of a batch; at least one whole sequence."""
    near = {round(plan.batch_tokens * factor) for factor in factors}
    return Choice(plan.batch_tokens, tuple(sorted({plan.batch_tokens, *(n for n in near if n >= plan.length)})))
