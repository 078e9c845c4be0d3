"""What the tests of science are given: commands, and the trainings of a comparison, without the seconds to begin."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults_harness import Forker

import headway
from headway.science import compare as comparing
from headway.workflows.verify import resume


@pytest.fixture
def forked(forker: Forker, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The commands of the check of resume are forked; called with a script, each begins with that."""
    scripts = [""]

    class Command:
        def __init__(self, words: list[str], errors: Path, *, alone: bool, **environment: str):
            self.process = forker.start(*words, script=scripts[-1], environment=environment)

        @property
        def status(self) -> int | None:
            return self.process.poll()

        @property
        def said(self) -> str:
            return self.process.stderr.strip().splitlines()[-1]

        def wait(self, limit: float) -> None:
            self.process.wait(60)

        def kill(self) -> None:
            if self.status is None:
                self.process.send_signal(9)
                self.process.wait(60)

    monkeypatch.setattr(resume, "Command", Command)
    return scripts.append


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The trainings of a comparison in this process, in few steps; with what options."""
    asked: list[dict[str, Any]] = []

    def run(words: list[str], place: Path, say: Callable[[str], None]) -> float:
        path, options = words[1], dict(zip(words[2::2], words[3::2], strict=True))
        given = {name.removeprefix("--").replace("-", "_"): value for name, value in options.items()}
        asked.append(dict(given))
        kinds: dict[str, type] = {
            **dict.fromkeys(("seed", "split_seed", "steps", "batch_tokens", "match_parameters", "d_model"), int),
            **dict.fromkeys(("layers", "heads", "evaluations", "validation_windows", "length"), int),
            **dict.fromkeys(("learning_rate", "dropout", "weight_decay"), float),
        }
        given = {name: kinds.get(name, str)(value) for name, value in given.items()}
        width = {} if {"match_parameters", "from"} & set(given) else {"d_model": 16}
        given = {**width, "steps": 4, "batch_tokens": 128, **given}
        given.pop("time", None)
        headway.train(path, out=place, threads=1, quiet=True, **{"evaluations": 2, "precision": "float32", **given})
        return 123e6

    monkeypatch.setattr(comparing, "trained", run)
    few = {"SECONDS": 0.0, "ROUNDS": 1, "WRITTEN": 3, "LENGTHS": (8, 16), "TOKENS": 32}
    for name, value in few.items():
        monkeypatch.setattr(f"headway.science.speeds.{name}", value)
    return asked
