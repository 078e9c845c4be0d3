"""A search over the options of training that ends with the best model saved.

Every trial is a run of its own in ``out/trials``, with its share of the time, the same held-out part and seed.  The
first is the preset; a Tree-structured Parzen Estimator (Bergstra et al. 2011) draws the others, and the median rule
(Golovin et al. 2017) gives up those that are behind.  Processes that are given the same search share it: each holds a
lock for its trial, by which the others see that it lives.
"""

import contextlib
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import InputError, RunFailed
from headway.io import quantities
from headway.io.file_lock import locked
from headway.io.quantities import counted, duration, parse_seconds
from headway.nn.global_state import isolated
from headway.science.runner import Within
from headway.science.search import ENDING, Search, check_options, check_same, decide, time_of_each
from headway.science.trials import Attempt, Trial, Trials, check_installed, written
from headway.tasks.registry import spec
from headway.training.evaluation.intervals import of_shares
from headway.training.hardware.memory import out_of_memory
from headway.training.loop.trainer import Interrupted
from headway.training.options import FREE, TrainOptions
from headway.training.progress import NoProgress, Progress
from headway.training.store.facts import read_facts
from headway.training.store.run_directory import RunDirectory, copy_run
from headway.workflows.train.check import fingerprints, read_checked, recorded
from headway.workflows.train.outcome import result
from headway.workflows.train.run import run_training
from headway.workflows.train.setup import TrainingSession, prepare

DEFAULT_TIME, DEFAULT_TRIALS = "30m", 20
RECORD = "tune.db"
"""The file of the trials."""
LOCK = "tune.lock"
"""The file by which processes take turns."""


class Hopeless(Exception):
    """A trial is worse than the others and is pruned."""


@isolated()
def tune(
    inputs: Sequence[str | Path],
    options: TrainOptions,
    *,
    trials: int = DEFAULT_TRIALS,
    out: Path,
    validation: Sequence[str | Path] = (),
    started: float | None = None,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """Search, or resume the search in ``out``; returns what ``headway tune --json`` prints.

    ``options.time`` bounds the whole search, ``options.steps`` each trial.  Raises InputError, RunFailed when no trial
    gives a model, and Interrupted after Ctrl-C: the same call resumes.
    """
    started, progress = started if started is not None else time.monotonic(), progress or NoProgress()
    check_options(options, trials)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("tune is for one process; start it without torchrun.")
    whole = None if options.run.steps is not None else options.run.time or DEFAULT_TIME
    if whole is not None:
        progress.say(f"up to {trials} trials in {whole} together (--trials, --time to change)")
    check_installed()
    given: dict[str, Any] = {"inputs": inputs, "validation": validation, "command": command}
    tuning = _Tuning(RunDirectory(out), options, whole, trials, started, progress, given)
    tuning.check_place()
    tuning.run.create(record=RECORD)
    try:
        with tuning.run.locked(shared=True), written(out / RECORD):
            return tuning.finish()
    except InputError:
        if not (out / RECORD).exists():
            (out / LOCK).unlink(missing_ok=True)
        tuning.run.discard()  # if it was made for this and is empty
        raise


class _Watching(Within):
    """Shows the steps of a trial, what looks wrong in the first one, and gives a trial up that is behind."""

    def __init__(self, progress: Progress, trial: Trial):
        super().__init__(progress, f"trial {trial.number}")
        self.trial, self.least = trial, math.inf
        """the trial, and its best evaluation so far"""

    def warn(self, text: str) -> None:
        if self.trial.preset:
            self.outer.warn(text)

    def evaluated(self, share: float, cost: float) -> None:
        self.least = min(self.least, cost)
        if self.trial.hopeless(share, self.least):
            raise Hopeless


@dataclass
class _Tuning:
    """A search that goes on: which trials are made, one after the other, and what comes of all."""

    run: RunDirectory
    options: TrainOptions
    whole: str | None
    """time for the whole search; None where trials are bounded by steps"""
    planned: int
    started: float
    progress: Progress
    given: dict[str, Any]
    """what every trial is trained on"""
    copied: list[str] = field(default_factory=list)
    """names of the files of the best trial so far"""

    def check_place(self) -> None:
        """Note the files that an earlier search copied there.  Raises InputError for a directory of something else."""
        before, record = self.run.read(), self.run.path / RECORD
        if before is not None and "tuning" not in before:
            raise InputError(f"{self.run.path}: holds another run; name another directory with --out.")
        if not record.exists() and (before is not None or (self.run.path / "trials").exists()):
            raise InputError(
                f"{record}: this file is missing, so the search cannot resume; restore it or use another --out."
            )
        if record.exists() and before is None:
            self.run.facts = {"tuning": {}}  # it was killed before its first model was whole
        self.copied = list(self.run.facts.get("tuning", {}).get("files", []))

    def _alone(self) -> AbstractContextManager[bool]:
        """While this is open, no other process begins a trial or saves a model."""
        return locked(self.run.path / LOCK, wait=True)

    def _lock(self, number: int) -> Path:
        return self.run.path / "trials" / f"{number:03}.lock"

    def _try_again(self) -> None:
        """Queue the options of trials again whose processes are gone."""

        def is_lost(number: int) -> bool:
            with contextlib.suppress(BlockingIOError), locked(self._lock(number)):
                return True
            return False

        for number in self.record.try_again(is_lost):
            self._lock(number).unlink(missing_ok=True)
            self.progress.say(f"trial {number} was interrupted; its options are tried again")

    def _begin(self, data: tuple[Any, Any, Any]) -> None:
        """The search that is kept, or one that is decided now for these data."""
        options, path = self.options.but(time=self.whole), self.run.path / RECORD
        theirs = {name: value for name, value in recorded(options).items() if name not in ("time", *FREE)}
        asked = {"options": theirs, "data": fingerprints(data[0], data[2])}

        def decided(options: TrainOptions, progress: Progress) -> TrainingSession:
            session = TrainingSession(options=options, progress=progress)
            session.source, session.found, session.held_out = data
            return prepare(session)

        before = Trials(path, options.run.seed).facts.get("search") if path.exists() else None
        if before is not None:
            self.search = Search.read(before)
            check_same(self.search, asked, self.run.path)
        else:
            each = self.whole and time_of_each(self.whole, self.planned, self.started, self.progress)
            self.search = decide(decided, options.but(time=each), asked, self.progress)
        self.record = Trials(path, options.run.seed)
        self.record.note(search=asdict(self.search))
        (self.run.path / "trials").mkdir(exist_ok=True)
        self._try_again()
        if others := len(self.record.running()):
            self.progress.say(f"{counted(others, 'other process')} work{'s' * (others == 1)} on this search too")
        else:
            taken = sum(attempt.seconds or 0.0 for attempt in self.record.attempts())
            earlier = self.record.facts.get("seconds", taken)
            self.record.note(began=time.time() - (time.monotonic() - self.started), earlier=earlier)
        self.began, self.earlier = (self.record.facts[name] for name in ("began", "earlier"))
        """when the first of the processes began, and the seconds that the search took before"""

    @property
    def seconds(self) -> float:
        """How long the search has taken."""
        return float(self.earlier + time.time() - self.began)

    @property
    def seconds_left(self) -> float | None:
        """What is left for trials."""
        return None if self.whole is None else parse_seconds(self.whole) - self.seconds - ENDING

    def finish(self) -> dict[str, Any]:
        """Make the trials that are missing, and wait for those of other processes; what ``tune`` returns.

        Raises RunFailed when none gives a model.
        """
        self.progress.phase("reading")
        data = read_checked(self.given["inputs"], self.options.but(time=self.whole), self.given["validation"])
        with self._alone():
            self._begin(data)
        del data  # nothing that was read stays in memory
        before = len(self.record.settled())
        while True:
            with contextlib.ExitStack() as own:
                with self._alone():
                    trial = self._next(own)
                if trial is not None:
                    self._make(trial)
                    with self._alone():
                        self._save_best(finished=False)
                        self._say(trial.number)
                elif self.record.running():
                    time.sleep(1.0)
                else:
                    break
        settled, left = self.record.settled(), self.seconds_left
        with self._alone():
            self._save_best(finished=True)
        best = self.record.best()
        if best is None:
            problems = [attempt.problem for attempt in settled if attempt.problem]
            last = f" The last: {problems[-1]}" if problems else ""
            raise RunFailed(f"{self.run.path}: none of {len(settled)} trials gave a model.{last}")
        if len(settled) == before:
            self.progress.say(
                f"{self.run.path}: this search is complete. Raise --trials and --time to extend it, or use another "
                "--out to start over."
            )
        elif left is not None and left > (self.search.seconds or 0.0):
            self.progress.say(f"{duration(left)} of the time are left; raise --trials to continue the search")
        return self._result(best)

    def _next(self, own: contextlib.ExitStack) -> Trial | None:
        """Another trial, which ``own`` keeps locked; None where enough have begun, or the time is over."""
        self._try_again()
        self.record.first(self.search.preset)
        done, running, left = len(self.record.settled()), self.record.running(), self.seconds_left
        if done + len(running) >= self.planned:
            return None
        if left is not None and (self.search.seconds or 0.0) > left + ENDING / 2:
            if not running:
                self.progress.warn(
                    f"the time is over after {done} of {self.planned} trials; raise --time to continue the search"
                )
            return None
        evaluations = int(self.search.pinned["evaluations"])
        trial = self.record.next(self.search.space, evaluations=evaluations, planned=self.planned)
        own.callback(self._lock(trial.number).unlink, missing_ok=True)
        own.enter_context(locked(self._lock(trial.number)))
        return trial

    def _make(self, trial: Trial) -> None:
        """Train one trial and record what came of it.  Raises Interrupted."""
        place = self.run.path / "trials" / f"{trial.number:03}"
        watching, began = _Watching(self.progress, trial), time.monotonic()
        try:
            pinned = self.search.pinned if trial.options else {"time": self.search.pinned["time"]}
            chosen = self.options.but(**{**pinned, **trial.options})
            with out_of_memory("before training or after it"):
                run = run_training(options=chosen, out=place, progress=watching, **self.given)
        except Hopeless:
            RunDirectory(place).log("pruned")
            trial.end("pruned", seconds=time.monotonic() - began)
        except Interrupted:
            self.record.try_again(lambda number: number == trial.number)
            raise
        except (RunFailed, InputError) as error:
            trial.end("failed", seconds=time.monotonic() - began, problem=str(error))
        else:
            known, every = run.facts["metrics"], run.facts["plan"].get("validation_every", 1)
            if every != self.search.every:  # a model that is slower or faster to evaluate
                what = f"every {every} windows of the held-out text, not every {self.search.every}"
                self.progress.warn(f"trial {trial.number} was measured on one of {what}: its value is less sure")
            names = [metric.key for metric in spec(run.facts["task"]).metrics]
            metrics = {name: known[name] for name in names if known.get(name) is not None}
            trial.end("complete", watching.least, metrics=metrics, seconds=time.monotonic() - began)
        finally:
            shutil.rmtree(place / "checkpoints", ignore_errors=True)  # trials are never resumed

    def _say(self, number: int) -> None:
        """What came of a trial, and the best so far."""
        attempts = {attempt.number: attempt for attempt in self.record.attempts()}
        done, best, trial = len(self.record.settled()), self.record.best(), attempts[number]
        what = "the preset" if trial.preset else in_words(trial.options, digits=3)
        outcome = "pruned, worse than the others" if trial.state == "pruned" else f"failed: {trial.problem}"
        if trial.state == "complete":
            figures = {self.search.measure: trial.value}  # what trials are compared by first
            figures |= {name: trial.metrics.get(name) for name in ("accuracy", "val_loss")}
            outcome = ", ".join(f"{name} {quantities.metric(v)}" for name, v in figures.items() if v is not None)
        if best is not None and best.value is not None:
            left = "" if self.seconds_left is None else f", {duration(max(0.0, self.seconds_left))} left"
            value = f"{self.search.measure} {quantities.metric(best.value)}"
            outcome += f" (best: trial {best.number}, {value}{left})"
        self.progress.say(f"{done} of {self.planned}, trial {number}: {what}: {outcome}")

    def _save_best(self, *, finished: bool) -> None:
        """Make ``out`` the directory of the best trial's model."""
        self.record.note(seconds=self.seconds)
        known = (read_facts(self.run.path) or {}).get("tuning", {})
        self.copied = known.get("files", self.copied)
        if (best := self.record.best()) is None or (not finished and best.number == known.get("trial")):
            return
        place = self.run.path / "trials" / f"{best.number:03}"
        names = copy_run(place, self.run.path)
        for old in (self.run.path / name for name in set(self.copied) - set(names)):
            if old.is_dir():
                shutil.rmtree(old)
            else:
                old.unlink(missing_ok=True)
        self.copied, self.run.facts = names, {}
        tuning = {
            **{"trial": best.number, "value": best.value, "measure": self.search.measure, "options": best.options},
            **{"held_out": self.search.held_out, "trials": len(self.record.settled()), "planned": self.planned},
            **{"space": self.record.facts["search"]["space"], "finished": finished, "files": names},
        }
        self.run.update(**(read_facts(place) or {}), tuning=tuning)

    def _result(self, best: Attempt) -> dict[str, Any]:
        """The best trial, how sure that is, and all trials."""
        attempts, facts = self.record.attempts(), self.run.facts
        complete = sorted((one for one in attempts if one.state == "complete"), key=lambda one: one.value or 0.0)
        preset = next((one for one in complete if one.preset), None)
        accuracy, rows, second = best.metrics.get("accuracy"), None, None
        classes = facts.get("metrics", {}).get("per_class")
        if classes and spec(facts["task"]).compared[0].key == "accuracy":  # not of words, which come in sentences
            rows = sum(entry["support"] for entry in classes.values())
        if (other := next((one for one in complete if one.number != best.number), None)) is not None:
            theirs, apart = other.metrics.get("accuracy"), None
            if accuracy is not None and theirs is not None and rows:
                apart = list(of_shares(float(accuracy), rows, float(theirs), rows))
            second = {"trial": other.number, "value": other.value, "accuracy": theirs, "interval": apart}
        return {
            **result(self.run),
            "seconds": self.seconds,
            "measure": self.search.measure,
            "best": {"trial": best.number, "value": best.value, "options": best.options},
            "options": TrainOptions.of_record(facts["options"]).named,
            "preset": None if preset is None else {"trial": preset.number, "value": preset.value},
            "noise": {
                "held_out": self.search.held_out,
                "second": second,
                "accuracy_error": math.sqrt(accuracy * (1 - accuracy) / rows) if accuracy and rows else None,
            },
            "importance": self.record.importance(list(self.search.space)),
            "space": self.record.facts["search"]["space"],
            "trials": [asdict(one) for one in attempts],
        }


def in_words(options: Mapping[str, Any], digits: int = 4) -> str:
    """Options in short form."""
    shown = {name: f"{value:.{digits}g}" if isinstance(value, float) else value for name, value in options.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
