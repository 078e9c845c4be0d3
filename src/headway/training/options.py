"""The options of a training run, in groups, given by flat names."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

from headway.errors import InputError
from headway.io.quantities import parse_seconds, time_text
from headway.training.grouped import Grouped, entries
from headway.training.option_fields import DEFAULT_TIME, check_together, check_value, flag
from headway.training.option_groups import (
    MODELS,
    ArchitectureOptions,
    DataOptions,
    FineTuningOptions,
    OptimisationOptions,
    RunOptions,
    RuntimeOptions,
    TaskOptions,
)

__all__ = ["DEFAULT_TIME", "MODELS", "TrainOptions", "flag"]


@dataclass(frozen=True, init=False)
class TrainOptions(Grouped):
    """Everything a run depends on, except the data.  None means: decided by the data, the machine and the time.

    Made from the flat names of the options: ``TrainOptions(time="5m", d_model=64).run.time``.  Raises InputError for an
    invalid value, and for options that conflict.  An option that is named here is given, also with its default; None
    is not given.
    """

    data: DataOptions
    run: RunOptions
    architecture: ArchitectureOptions
    optimisation: OptimisationOptions
    fine_tuning: FineTuningOptions
    for_tasks: TaskOptions
    runtime: RuntimeOptions

    def __init__(self, **flat: Any):
        known = entries(TrainOptions)
        durations = {name for name in flat if name in known and known[name].metadata["duration"]}
        times = {name: time_text(flat[name], f"--{flag(name)}") for name in durations if flat[name] is not None}
        super().__init__(**{**flat, **times})
        object.__setattr__(self, "_named", frozenset(name for name, value in flat.items() if value is not None))
        values = {name: self.value(name) for name in known}
        for name, value in values.items():
            check_value(known[name], value)
        check_together(known, values, self.given(known))
        self._check_choices()

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """The options of a run from its headway.json; those with their defaults count as not given."""
        plain = {name: (entry.default, type(entry.default)) for name, entry in OPTIONS.items()}
        given = {name for name, value in record.items() if name in plain and (value, type(value)) != plain[name]}
        if record.get("frozen") or record.get("contrastive"):  # with which they cannot have been given
            given -= {name for name, value in FORMER.items() if record.get(name) == value}
        return cls(**{name: record[name] for name in given})

    @property
    def named(self) -> dict[str, Any]:
        """The options that were given and their values, also those given with their defaults."""
        names: frozenset[str] = vars(self)["_named"]
        return {name: self.value(name) for name in OPTIONS if name in names}

    @property
    def seed_of_split(self) -> int:
        """The seed that decides which rows are held out."""
        return self.run.seed if self.data.split_seed is None else self.data.split_seed

    def given(self, names: Collection[str]) -> list[str]:
        """Which of these options were given; a flag that is off asks for nothing."""
        return [name for name, value in self.named.items() if name in names and value is not False]

    def but(self, **changes: Any) -> Self:
        """A copy with some options given otherwise; None: not given."""
        return type(self)(**{**self.named, **changes})

    def _check_choices(self) -> None:
        """Raise InputError for values that conflict."""
        ours, kind = self.fine_tuning, self.architecture.model
        if ours.from_model is not None and kind not in (None, "encoder-decoder", "decoder"):
            raise InputError(f"--model {kind} is trained from scratch; leave out --from or --model.")
        if ours.frozen and not ours.contrastive and self.run.seeds > 1:
            raise InputError("--frozen is deterministic, so all --seeds would give the same classifier; leave one out.")
        if ours.lora is not None and self.optimisation.optimizer == "muon":
            raise InputError("--lora goes with --optimizer adam or adamw: Muon is for whole matrices.")


FORMER = {"warmup": 0.02}
"""Defaults of earlier versions: a record cannot tell whether they were given."""
OPTIONS = entries(TrainOptions)
"""Every option by its flat name."""
OF_THE_LOOP = tuple(name for name, entry in OPTIONS.items() if entry.metadata["loop"])
"""Options of training step by step: a linear classifier on a model's vectors has none of these."""
FREE = tuple(name for name, entry in OPTIONS.items() if entry.metadata["change"] == "free")
"""Options that do not affect the result: a resumed run may change them freely."""
CHANGEABLE = tuple(name for name, entry in OPTIONS.items() if entry.metadata["change"] == "allowed")
"""Options that a resumed run may change with ``--allow-changes``."""


def split_seed(options: dict[str, Any]) -> int:
    """The seed that decides which rows are held out, from a run's recorded options."""
    chosen = options.get("split_seed")
    return int(options.get("seed", 0) if chosen is None else chosen)


def time_limit(options: TrainOptions) -> float | None:
    """The seconds that the command may take; None where steps limit it."""
    bounds = options.run
    if bounds.more_time is not None:
        return parse_seconds(bounds.more_time, "--more-time")
    by_steps = bounds.steps is not None or bounds.more_steps is not None
    return None if by_steps else parse_seconds(bounds.time or DEFAULT_TIME)
