"""A pytest plugin that writes each message for the user which the tests provoke to the file $HEADWAY_MESSAGES."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headway.errors import InputError


def _record(message: str) -> None:
    with Path(os.environ["HEADWAY_MESSAGES"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(message) + "\n")


def pytest_configure() -> None:
    """From now on every InputError, and what commands print to standard error, is written down."""
    init, run = InputError.__init__, subprocess.run

    def recorded(self: InputError, message: object = "") -> None:
        init(self, message)
        _record(str(self))

    def ran(*words: Any, **options: Any) -> Any:
        done = run(*words, **options)
        if isinstance(done.stderr, str):
            for line in done.stderr.splitlines():
                if line.startswith("headway: "):
                    _record(line)
        return done

    InputError.__init__, subprocess.run = recorded, ran  # type: ignore[method-assign]


def pytest_warning_recorded(warning_message: Any) -> None:
    """And every warning of Headway."""
    if issubclass(warning_message.category, UserWarning):
        _record(str(warning_message.message))


pytest_warning_recorded = pytest.hookimpl(pytest_warning_recorded)
