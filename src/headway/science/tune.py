"""A search over the options of training that ends with the best model saved.

    found = tune(["reviews.csv"], TrainOptions(time="30m"), trials=20, out=Path("runs/tuned"))
    found["best"]                       # trial, value, options

Every trial is a run of its own in ``out/trials``, with its share of the time (or with ``--steps``), the same held-out
part and the same seed.  The first is the preset; a Tree-structured Parzen Estimator (Bergstra et al. 2011) draws the
others, and the median rule (Golovin et al. 2017) gives up those that are behind.  Trials are compared by what a run
keeps its best weights by.  The best one's model is copied to ``out``, as it is: nothing is trained again.

Several processes that are given the same search share it: each makes trials until there are enough, and holds a lock
for each, by which the others see that it lives.
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
from headway.science.trials import Attempt, Trial, Trials, check_installed
from headway.tasks.registry import spec
from headway.training.evaluation.intervals import of_shares
from headway.training.hardware.memory import out_of_memory
from headway.training.loop.trainer import Interrupted
from headway.training.monitor.progress import NoProgress, Progress
from headway.training.options import FREE, TrainOptions
from headway.training.store.facts import read_facts
from headway.training.store.run_directory import RunDirectory, copy_run
from headway.workflows.train.check import read_checked
from headway.workflows.train.outcome import result
from headway.workflows.train.resume import fingerprints, recorded
from headway.workflows.train.run import run_training
from headway.workflows.train.setup import Prepared, TrainingSession, prepare

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
        with tuning.run.locked(shared=True):
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

    def _begin(self) -> None:
        """The search that is kept, or one that is decided now; nothing that was read stays in memory."""
        self.progress.phase("reading")
        data = read_checked(self.given["inputs"], self.options.but(time=self.whole), self.given["validation"])
        with self._alone():
            self._decide(data)

    def _alone(self) -> AbstractContextManager[bool]:
        """While this is open, no other process begins a trial or saves a model."""
        return locked(self.run.path / LOCK, wait=True)

    def _lock(self, number: int) -> Path:
        return self.run.path / "trials" / f"{number:03}.lock"

    def _is_lost(self, number: int) -> bool:
        """Whether the process that made a trial is gone."""
        with contextlib.suppress(BlockingIOError), locked(self._lock(number)):
            return True
        return False

    def _decide(self, data: Any) -> None:
        options, path = self.options.but(time=self.whole), self.run.path / RECORD
        theirs = {name: value for name, value in recorded(options).items() if name not in ("time", *FREE)}
        asked = {"options": theirs, "data": fingerprints(data[0], data[2])}
        before = Trials(path, options.run.seed).facts.get("search") if path.exists() else None

        def decided(options: TrainOptions, progress: Progress) -> Prepared:
            source, found, held_out = data
            return prepare(TrainingSession(options, source, found, held_out, progress))

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
        known = self.record.facts
        if others := len(self.record.running()):
            self.progress.say(f"{counted(others, 'other process')} work{'s' * (others == 1)} on this search too")
        else:
            earlier = known.get("seconds", sum(one.seconds or 0.0 for one in self.record.attempts()))
            self.record.note(began=time.time() - (time.monotonic() - self.started), earlier=earlier)
            known = self.record.facts
        self.began, self.earlier = known["began"], known["earlier"]
        """when the first of the processes began, and the seconds that the search took before"""

    @property
    def seconds(self) -> float:
        """How long the search has taken."""
        return float(self.earlier + time.time() - self.began)

    def _try_again(self) -> None:
        for number in self.record.try_again(self._is_lost):
            self._lock(number).unlink(missing_ok=True)
            self.progress.say(f"trial {number} was interrupted; its options are tried again")

    def finish(self) -> dict[str, Any]:
        """Make the trials that are missing.  Raises RunFailed when none gives a model."""
        self._begin()
        before = len(self.record.settled())
        self._make_all()
        made = len(self.record.settled()) - before
        with self._alone():
            self._save_best(finished=True)
        best = self.record.best()
        if best is None:
            problems = [one.problem for one in self.record.attempts() if one.problem]
            last = f" The last: {problems[-1]}" if problems else ""
            raise RunFailed(f"{self.run.path}: none of {len(self.record.settled())} trials gave a model.{last}")
        left = self._seconds_left()
        if made and left is not None and left > (self.search.seconds or 0.0):
            self.progress.say(f"{duration(left)} of the time are left; raise --trials to continue the search")
        if not made:
            self.progress.say(
                f"{self.run.path}: this search is complete. Raise --trials and --time to extend it, or use another "
                "--out to start over."
            )
        return self._result(best)

    def _make_all(self) -> None:
        """Make trials until there are as many as planned, or the time is over; wait for those of other processes."""
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
                    return

    def _next(self, own: contextlib.ExitStack) -> Trial | None:
        """Another trial, which ``own`` keeps locked; None where enough have begun, or the time is over."""
        self._try_again()
        self.record.first(self.search.preset)
        done, running = len(self.record.settled()), self.record.running()
        if done + len(running) >= self.planned:
            return None
        left = self._seconds_left()
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

    def _seconds_left(self) -> float | None:
        """What is left for trials."""
        if self.whole is None:
            return None
        return parse_seconds(self.whole) - self.seconds - ENDING

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
            trial.prune(seconds=time.monotonic() - began)
        except Interrupted:
            self.record.try_again(lambda number: number == trial.number)
            raise
        except (RunFailed, InputError) as error:
            trial.fail(str(error), seconds=time.monotonic() - began)
        else:
            known, every = run.facts["metrics"], run.facts["plan"].get("validation_every", 1)
            if every != self.search.every:  # a model that is slower or faster to evaluate
                what = f"every {every} windows of the held-out text, not every {self.search.every}"
                self.progress.warn(f"trial {trial.number} was measured on one of {what}: its value is less sure")
            names = [metric.key for metric in spec(run.facts["task"]).metrics]
            metrics = {name: known[name] for name in names if known.get(name) is not None}
            trial.complete(watching.least, metrics=metrics, seconds=time.monotonic() - began)
        finally:
            shutil.rmtree(place / "checkpoints", ignore_errors=True)  # a trial is not gone on with

    def _say(self, number: int) -> None:
        one = next(one for one in self.record.attempts() if one.number == number)
        done, best = len(self.record.settled()), self.record.best()
        what = "the preset" if one.preset else in_words(one.options, digits=3)
        if one.state == "complete":
            figures = {self.search.measure: one.value}  # what trials are compared by first
            figures |= {name: one.metrics.get(name) for name in ("accuracy", "val_loss")}
            said = ", ".join(f"{name} {quantities.metric(v)}" for name, v in figures.items() if v is not None)
        else:
            said = "pruned, worse than the others" if one.state == "pruned" else f"failed: {one.problem}"
        left = self._seconds_left()
        after = f", {duration(max(0.0, left))} left" if left is not None else ""
        so_far = ""
        if best is not None and best.value is not None:
            value = f"{self.search.measure} {quantities.metric(best.value)}"
            so_far = f" (best: trial {best.number}, {value}{after})"
        self.progress.say(f"{done} of {self.planned}, trial {one.number}: {what}: {said}{so_far}")

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
        self.copied = names
        facts = read_facts(place) or {}
        tuning = {
            **{"trial": best.number, "value": best.value, "measure": self.search.measure, "options": best.options},
            **{"held_out": self.search.held_out, "trials": len(self.record.settled()), "planned": self.planned},
            **{"space": self.record.facts["search"]["space"], "finished": finished, "files": names},
        }
        self.run.facts = {}
        self.run.update(**facts, tuning=tuning)

    def _result(self, best: Attempt) -> dict[str, Any]:
        attempts = self.record.attempts()
        complete = [one for one in attempts if one.state == "complete"]
        complete.sort(key=lambda one: one.value or 0.0)
        second = next((one for one in complete if one.number != best.number), None)
        preset = next((one for one in complete if one.preset), None)
        accuracy, rows = best.metrics.get("accuracy"), _rows(self.run.facts)
        options = TrainOptions.of_record(self.run.facts["options"])
        return {
            **result(self.run),
            "seconds": self.seconds,
            "measure": self.search.measure,
            "best": {"trial": best.number, "value": best.value, "options": best.options},
            "options": options.named,
            "preset": None if preset is None else {"trial": preset.number, "value": preset.value},
            "noise": {
                "held_out": self.search.held_out,
                "second": None if second is None else _second(second, accuracy, rows),
                "accuracy_error": math.sqrt(accuracy * (1 - accuracy) / rows) if accuracy and rows else None,
            },
            "importance": self.record.importance(list(self.search.space)),
            "space": self.record.facts["search"]["space"],
            "trials": [asdict(one) for one in attempts],
        }


def _second(second: Attempt, accuracy: float | None, rows: int | None) -> dict[str, Any]:
    """The next best trial, its accuracy, and the interval of how much more often the best is right."""
    other = second.metrics.get("accuracy")
    known = accuracy is not None and other is not None and rows
    apart = list(of_shares(float(accuracy), rows, float(other), rows)) if known else None  # type: ignore[arg-type]
    return {"trial": second.number, "value": second.value, "accuracy": other, "interval": apart}


def _rows(facts: dict[str, Any]) -> int | None:
    """How many rows a classifier was measured on; the accuracy of a tagger is of words, which come in sentences."""
    classes = facts.get("metrics", {}).get("per_class")
    classes = classes if spec(facts["task"]).compared[0].key == "accuracy" else None
    return sum(line["support"] for line in classes.values()) if classes else None


def in_words(options: Mapping[str, Any], digits: int = 4) -> str:
    """Options in short form."""
    shown = {name: f"{value:.{digits}g}" if isinstance(value, float) else value for name, value in options.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
