"""The trials of a search, kept in SQLite by Optuna: what was tried, what came of it, and what to try next.

Optuna (Akiba et al. 2019) is an extra; ``tune`` installs it.
"""

import math
import random
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError, RunFailed
from headway.science.search import Space, Value

STUDY = "tune"
STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
BY_CHANCE = (4, 10)
"""A quarter of the trials, but at least and at most so many, are drawn evenly; the best of them guide later draws."""
JUDGED_FROM = 1 / 3
"""The share of a run before which it is not given up: rates that are still high hide what a trial will come to."""
LOCKED_FOR = 60.0
"""Seconds that a process waits for another one, which is writing."""
LEAST_FOR_IMPORTANCE = 8
"""Complete trials without which no importance is computed."""


@dataclass(frozen=True)
class Attempt:
    """One trial as it is recorded.

    ``state`` is complete, pruned, failed, or interrupted (its options are tried again by another).  ``value`` is what
    trials are compared by; of a pruned one that of its last evaluation.
    """

    number: int
    state: str
    value: float | None
    options: dict[str, Value]
    seconds: float | None
    metrics: dict[str, Any]
    problem: str | None = None
    preset: bool = False


def check_installed() -> None:
    """Raise InputError where Optuna is missing."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise InputError("headway tune needs Optuna: pip install 'headway[tune]'.") from None


@contextmanager
def written(path: Path) -> Iterator[None]:
    """While trials are read and written: raise RunFailed where their file cannot be."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError, sqlite3.Error) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise RunFailed(f"{path}: cannot be written ({reason}); run the same command again to resume.") from None


class Trials:
    """The trials in ``path``, a file of SQLite, which is made where there is none; the smallest value is the best.

    The draw of each trial follows from ``seed``, its place and the trials before it alone, so that a search which was
    killed goes on as one that was left alone.  Raises InputError without Optuna, and for a file that is not its own;
    errors of a file that can no longer be read or written are those of SQLite (``written``).
    """

    def __init__(self, path: Path, seed: int):
        check_installed()
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna: Any = optuna
        self.seed = seed
        where = path.resolve()

        def connect() -> sqlite3.Connection:
            return sqlite3.connect(where, timeout=LOCKED_FOR, check_same_thread=False)

        try:
            storage = optuna.storages.RDBStorage(f"sqlite:///{STUDY}.db", engine_kwargs={"creator": connect})
            self._study: Any = optuna.create_study(storage=storage, study_name=STUDY, load_if_exists=True)
        except Exception as error:  # of sqlite3, SQLAlchemy, Alembic or Optuna
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InputError(f"{path}: cannot be used ({reason}); name another directory with --out.") from None

    @property
    def facts(self) -> dict[str, Any]:
        """What was noted of the search as a whole."""
        return dict(self._study.user_attrs)

    def note(self, **facts: Any) -> None:
        for name, value in facts.items():
            self._study.set_user_attr(name, value)

    def _all(self) -> tuple[list[Any], set[int]]:
        """All trials, and the numbers of those whose options are tried again by another."""
        trials = self._study.get_trials(deepcopy=False)
        return trials, {trial.user_attrs["again"] for trial in trials if "again" in trial.user_attrs}

    def running(self) -> list[int]:
        """The numbers of the trials that have begun and are not over."""
        return [trial.number for trial in self._all()[0] if trial.state.name == "RUNNING"]

    def attempts(self) -> list[Attempt]:
        """Every trial that is over, in order."""
        trials, again = self._all()
        attempts = []
        for trial in (trial for trial in trials if trial.state.is_finished()):
            attrs, state = trial.user_attrs, "interrupted" if trial.number in again else STATES[trial.state.name]
            value = trial.value if state in ("complete", "pruned") else None
            more = attrs.get("seconds"), attrs.get("metrics", {}), attrs.get("problem"), "preset" in attrs
            attempts.append(Attempt(trial.number, state, value, trial.params, *more))
        return attempts

    def settled(self) -> list[Attempt]:
        """The trials that are over and are not tried again."""
        return [attempt for attempt in self.attempts() if attempt.state != "interrupted"]

    def best(self) -> Attempt | None:
        """The complete trial with the smallest value, of equal ones the first."""
        complete = [attempt for attempt in self.attempts() if attempt.state == "complete"]
        return min(complete, key=lambda attempt: attempt.value, default=None)  # type: ignore[arg-type, return-value]

    def try_again(self, lost: Callable[[int], bool]) -> list[int]:
        """Mark unfinished trials that are lost as failed and queue their options again; returns their numbers."""
        trials, again = self._all()
        begun = [trial for trial in trials if trial.state.name == "RUNNING" and lost(trial.number)]
        for trial in begun:
            if trial.number not in again:
                known = {name: value for name, value in trial.user_attrs.items() if name == "preset"}
                tried = {**trial.params, **known.get("preset", {})}
                self._study.enqueue_trial(tried, user_attrs={**known, "again": trial.number})
            self._study.tell(trial.number, state=self._optuna.trial.TrialState.FAIL)
        return [trial.number for trial in begun]

    def first(self, options: Mapping[str, Value]) -> None:
        """Let the first trial be the preset, whose values of the options these are; nothing where there are trials."""
        if not self._all()[0]:
            self._study.enqueue_trial(dict(options), user_attrs={"preset": dict(options)})

    def next(self, space: Space, *, evaluations: int, planned: int) -> "Trial":
        """Begin another trial, of ``planned``, that will be evaluated so often.

        Those that other processes have begun count as bad, so that not all try the same.
        """
        samplers, pruners = self._optuna.samplers, self._optuna.pruners
        least, most = BY_CHANCE
        by_chance = min(most, max(least, planned // 4))
        others = len(self.running())
        drawn = random.Random(f"{self.seed} {len(self.settled()) + others}").getrandbits(31)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls the option experimental
            liar = {"constant_liar": True} if others else {}
            self._study.sampler = samplers.TPESampler(seed=drawn, n_startup_trials=by_chance, **liar)
        warm_up = math.ceil(JUDGED_FROM * evaluations)
        self._study.pruner = pruners.MedianPruner(n_startup_trials=least, n_warmup_steps=warm_up)
        return Trial(self._study, space, evaluations)

    def importance(self, names: Sequence[str]) -> dict[str, float] | None:
        """The share of each option in how values differ (fANOVA, Hutter et al. 2014), most first; None for few trials.

        These are estimates from few trials; they add up to 1.
        """
        values = [trial.value for trial in self._all()[0] if trial.state.name == "COMPLETE"]
        if len(values) < LEAST_FOR_IMPORTANCE or len(set(values)) < 2 or not names:
            return None
        importance = self._optuna.importance
        evaluator = importance.FanovaImportanceEvaluator(seed=self.seed % (1 << 32))
        try:
            shares = importance.get_param_importances(self._study, evaluator=evaluator, params=list(names))
        except (ValueError, RuntimeError):  # options that never differed
            return None
        return {name: float(share) for name, share in shares.items()}


class Trial:
    """A trial that begins.  ``options`` are what it tries; of the preset none need be given."""

    def __init__(self, study: Any, space: Space, evaluations: int):
        self._study, self._trial = study, study.ask()
        self.number: int = self._trial.number
        self.preset = "preset" in self._trial.user_attrs
        names = self._trial.user_attrs.get("preset", space)
        self.options = {name: space[name].suggest(self._trial, name) for name in names}
        self.evaluations, self._reported = evaluations, 0

    def hopeless(self, share: float, value: float) -> bool:
        """Whether a run that gave ``value`` at this share of it is worse than half of those before it."""
        at = round(share * self.evaluations)
        if at <= self._reported or not math.isfinite(value):
            return False
        self._reported = at
        self._trial.report(value, at)
        return share < 1 and bool(self._trial.should_prune())

    def end(self, state: str, value: float | None = None, **facts: Any) -> None:
        """Record that it is complete, with its value, or pruned, or failed; and facts of it."""
        from optuna.trial import TrialState

        for name, fact in facts.items():
            self._trial.set_user_attr(name, fact)
        self._study.tell(self._trial, value, {"pruned": TrialState.PRUNED, "failed": TrialState.FAIL}.get(state))
