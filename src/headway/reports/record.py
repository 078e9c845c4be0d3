"""The record of a run, read from its directory, any part of which may be missing."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.io.strict_json import read_text
from headway.reports.wording import mapping, number
from headway.tasks.registry import known
from headway.training.store.contents import MOST_FACTS, Sizes, read_log, sizes

Point = tuple[float, float]
"""A place on a chart: step and value."""

NOT_METRICS = frozenset({"event", "step", "seconds", "tokens", "health", "cause", "train_loss"})
"""The other keys of an evaluation's line."""

WROTE = "expected the file that training wrote"

LIFE = frozenset({"start", "resume", "interrupted", "end"})


@dataclass(frozen=True)
class Record:
    """One run: ``info`` is ``headway.json``; the other fields are ``log.jsonl``, each sorted by step."""

    info: dict[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    last_event: str = ""
    sizes: Sizes | None = None
    """the disk space of the run, if it was measured"""

    @property
    def task(self) -> str:
        """The task's name, or an empty string."""
        task = self.info.get("task")
        return task if isinstance(task, str) else ""

    @property
    def called(self) -> str:
        """What the model is called: "Transformer", "bag of words" ..."""
        return known(self.task).called_as(mapping(mapping(self.info.get("plan")).get("model")))

    @property
    def best(self) -> dict[str, Any]:
        """The evaluation whose weights were kept: the last one marked ``best``, else the one with the lowest loss."""
        marked = [line for line in self.evaluations if line.get("best") is True]
        if marked:
            return marked[-1]
        losses = [line for line in self.evaluations if number(line.get("val_loss")) is not None]
        return min(losses, key=lambda line: line["val_loss"], default={})

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of ``headway.json``; missing ones are taken from the best evaluation of the log."""
        logged = {key: value for key, value in self.best.items() if key not in NOT_METRICS}
        return {**logged, **mapping(self.info.get("metrics"))}

    @property
    def health(self) -> str:
        """The problem with the run found at the last evaluation, with its cause; empty if there is none."""
        last = self.evaluations[-1] if self.evaluations else {}
        word, cause = last.get("health"), last.get("cause")
        return f"{word}: {cause}" if isinstance(word, str) and isinstance(cause, str) and cause else ""

    @property
    def baselines(self) -> list[dict[str, Any]]:
        lines = self.info.get("baselines")
        return [line for line in lines if isinstance(line, dict)] if isinstance(lines, list) else []

    @property
    def finished(self) -> bool:
        if self.last_event in {"interrupted", "end"}:
            return self.last_event == "end"
        return number(self.info.get("steps")) is not None

    @property
    def last_step(self) -> int | None:
        """The last step known."""
        known = [number(line["step"]) for line in (*self.steps[-1:], *self.evaluations[-1:])]
        known.append(number(self.info.get("steps")))
        return max((int(step) for step in known if step is not None), default=None)

    def total(self, key: str) -> float | None:
        """``seconds`` or ``tokens`` of the whole run: from ``headway.json``, else from the last logged step."""
        whole = number(self.info.get(key))
        return whole if whole is not None or not self.steps else number(self.steps[-1].get(key))


def read_record(run: Path) -> Record:
    """Read ``headway.json`` and ``log.jsonl`` of ``run``; either may be missing.

    Incomplete lines of the log are skipped; of two lines for one step the later one counts.
    Raises InputError if ``run`` holds neither file, or if ``headway.json`` is not a JSON object.
    """
    info_path, log_path = run / "headway.json", run / "log.jsonl"
    if not info_path.is_file() and not log_path.is_file():
        raise InputError(f"{run}: found neither headway.json nor log.jsonl; expected a directory that training wrote")
    info: Any = {}
    if info_path.is_file():
        try:
            info = json.loads(read_text(info_path, max_bytes=MOST_FACTS, advice=WROTE))
        except InputError:
            raise
        except (ValueError, RecursionError) as error:
            why = error if isinstance(error, ValueError) else "nested too deeply"
            raise InputError(f"{info_path}: not valid JSON ({why}); {WROTE}") from None
        if not isinstance(info, dict):
            raise InputError(f"{info_path}: found a JSON {type(info).__name__}; expected an object")
    by_step: dict[str, dict[float, dict[str, Any]]] = {"step": {}, "evaluation": {}, "sample": {}}
    last_event = ""
    for line in read_log(run):
        event, step = line.get("event"), number(line.get("step"))
        if isinstance(event, str) and event in by_step and step is not None:
            by_step[event][step] = line
        elif isinstance(event, str) and event in LIFE:
            last_event = event
    steps, evaluations, samples = ([lines[step] for step in sorted(lines)] for lines in by_step.values())
    return Record(info, steps, evaluations, samples, last_event, sizes(run))


def series(lines: list[dict[str, Any]], key: str) -> list[Point]:
    """The finite values of ``key`` against the step."""
    pairs = ((number(line["step"]), number(line.get(key))) for line in lines)
    return [(step, value) for step, value in pairs if step is not None and value is not None]


def not_numbers(lines: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The lines that hold ``key`` with a value that is not a finite number, as when a loss overflows."""
    return [line for line in lines if key in line and number(line[key]) is None]
