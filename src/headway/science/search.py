"""The decisions at the start of a search, and the record by which it resumes."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError, shown
from headway.io import quantities
from headway.io.quantities import parse_seconds
from headway.science.search_space import Space, plain_space, read_space, search_space
from headway.text.tokenizer import Tokenizer
from headway.training.monitor.progress import NoProgress, Progress
from headway.training.option_fields import flag
from headway.training.options import TrainOptions
from headway.workflows.train.setup import Prepared

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

    def plain(self) -> dict[str, Any]:
        return {**vars(self), "space": plain_space(self.space)}

    @classmethod
    def read(cls, plain: dict[str, Any]) -> "Search":
        return cls(**{**plain, "space": read_space(plain["space"])})

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
    decided: Callable[[TrainOptions, Progress], Prepared],
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
