"""What the tests of science are given: the check of resume without the seconds that its commands take to begin."""

from collections.abc import Callable
from pathlib import Path

import pytest
from faults_harness import Forker

from headway.workflows.verify import resume


@pytest.fixture
def forked(forker: Forker, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The commands of the check of resume are forked; called with a script, each begins with that."""
    scripts = [""]

    class Command:
        def __init__(self, words: list[str], folder: Path):
            environment = {"HEADWAY_CACHE": str(folder / "cache")}
            self.process = forker.start(*words, script=scripts[-1], environment=environment)

        @property
        def status(self) -> int | None:
            return self.process.poll()

        @property
        def said(self) -> str:
            return self.process.stderr.strip().splitlines()[-1]

        def wait(self) -> None:
            self.process.wait(60)

        def kill(self) -> None:
            if self.status is None:
                self.process.send_signal(9)
                self.process.wait(60)

    monkeypatch.setattr(resume, "Command", Command)
    return scripts.append
