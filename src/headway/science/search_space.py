"""What ``tune`` searches: options of training, each in a range around what the preset decides.

    option            from scratch                       from a model
    learning_rate     an eighth to eight times, log      a fifth to five times, log
    weight_decay      -                                  0 to 0.1
    d_model           half to twice, by 32s              -
    layers            half to twice                      -
    dropout           0 to 0.5                           0 to 0.3
    batch_tokens      a quarter to four times            half to twice
    epochs            half to three times, log           half to twice, log  (where the preset bounds them)
    layer_decay       -                                  0.7 to 1

    of those that a task searches (``TaskSpec.searched``): label_smoothing 0 to 0.2, token_dropout 0 to 0.3, r_drop 0, 1
    or 4; from scratch the tokenizer too

An option that the user gave is not searched.  Neither is one that changes what the loss counts, such as --length or
--vocab of a text, or the share of masked tokens: trials are compared by their loss on the same held-out targets.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

from headway.nn.recurrent import CELLS
from headway.tasks.registry import spec
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.architecture import baseline_kind

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
        draw, kind = (trial.suggest_int, int) if self.whole else (trial.suggest_float, float)
        found: Value = draw(name, kind(self.low), kind(self.high), log=self.log)
        return found

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    preset: Value
    values: tuple[Value, ...]

    def suggest(self, trial: Any, name: str) -> Value:
        found: Value = trial.suggest_categorical(name, list(self.values))
        return found

    def plain(self) -> dict[str, Any]:
        return {"preset": self.preset, "values": list(self.values)}


Space = dict[str, Range | Choice]
"""By the name of the option."""


def plain_space(space: Space) -> dict[str, dict[str, Any]]:
    return {name: one.plain() for name, one in space.items()}


def read_space(plain: dict[str, dict[str, Any]]) -> Space:
    return {
        name: Choice(one["preset"], tuple(one["values"])) if "values" in one else Range(**one)
        for name, one in plain.items()
    }


def search_space(task: str, options: TrainOptions, plan: Plan, *, tokenizer: str | None = None) -> Space:
    """What is searched for a task, around the ``plan`` that the preset makes of the user's ``options``.

    ``tokenizer`` is the kind that the preset takes.
    """
    space = _fine_tuning(options, plan) if plan.fine_tuning.base is not None else _from_scratch(options, plan)
    own: Space = {
        "label_smoothing": _share(plan.objective.label_smoothing, 0.2),
        "token_dropout": _share(plan.objective.token_dropout, 0.3),
        "r_drop": Choice(plan.objective.r_drop, tuple(sorted({0.0, 1.0, 4.0, plan.objective.r_drop}))),
    }
    if plan.fine_tuning.base is None and tokenizer is not None and options.data.vocab is None:
        own["tokenizer"] = Choice(tokenizer, tuple(dict.fromkeys((tokenizer, "word", "bpe"))))
    searched = spec(task).searched
    space |= {name: one for name, one in own.items() if name in searched}
    return {name: one for name, one in space.items() if options.value(name) is None}


def _from_scratch(options: TrainOptions, plan: Plan) -> Space:
    config = plan.config
    space: Space = {"learning_rate": _around(plan.learning_rate, 8.0, most=10.0)}
    if options.architecture.preset is None:
        space["d_model"] = Choice(config.d_model, _widths(config.d_model, options.architecture.heads))
        if baseline_kind(options) in (None, *CELLS):
            depth = config.n_layers
            space["layers"] = Range(depth, max(1, depth // 2), 2 * depth, whole=True)
    space["dropout"] = _share(config.dropout, 0.5)
    space["batch_tokens"] = _batches(plan, (0.25, 0.5, 1.0, 2.0, 4.0))
    return space | _epochs(plan, 3)


def _fine_tuning(options: TrainOptions, plan: Plan) -> Space:
    space: Space = {"learning_rate": _around(plan.learning_rate, 5.0, most=10.0)}
    if plan.fine_tuning.lora is None:
        space["layer_decay"] = Range(plan.fine_tuning.layer_decay, min(0.7, plan.fine_tuning.layer_decay), 1.0)
    space["weight_decay"] = _share(plan.weight_decay, 0.1)
    space["dropout"] = _share(plan.config.dropout, 0.3)
    space["batch_tokens"] = _batches(plan, (0.5, 1.0, 2.0))
    return space | _epochs(plan, 2)


def _epochs(plan: Plan, most: int) -> Space:
    """Half to ``most`` times the epochs, where the preset bounds them."""
    if plan.epochs is None:
        return {}
    return {"epochs": Range(plan.epochs, max(1, plan.epochs // 2), most * plan.epochs, log=True, whole=True)}


def _around(value: float, factor: float, *, most: float = math.inf) -> Range:
    """Up to ``factor`` times less or more, by ratio."""
    return Range(value, value / factor, min(most, value * factor), log=True)


def _share(value: float, high: float) -> Range:
    """From 0 to ``high``, or to the preset's value where that is more."""
    return Range(value, 0.0, max(high, value))


def _widths(width: int, heads: int | None) -> tuple[int, ...]:
    """Half to twice the width, in multiples of 32 that the heads divide (by an even number, for rotary positions)."""
    each = 2 * (heads or 1)
    near = {max(32, round(width * factor / 32) * 32) for factor in (0.5, 0.75, 1.0, 1.5, 2.0)}
    return tuple(sorted({width, *(one for one in near if one % each == 0)}))


def _batches(plan: Plan, factors: tuple[float, ...]) -> Choice:
    """Tokens of a batch; at least one whole sequence."""
    near = {round(plan.batch_tokens * factor) for factor in factors}
    return Choice(plan.batch_tokens, tuple(sorted({plan.batch_tokens, *(n for n in near if n >= plan.length)})))
