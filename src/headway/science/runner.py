"""What the trials of ``compare``, ``tune`` and ``scale`` share: progress, and the record by which they resume."""

import json
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.training.progress import Progress

CALLED = {"fingerprint": "text"}
"""What a person calls an entry of a record, where that is another word."""


class Within(Progress):
    """Progress of one trial among many: its steps and its warnings, not what it decided."""

    def __init__(self, outer: Progress, name: str):
        self.outer, self.name = outer, name

    def say(self, text: str) -> None:
        """Nothing: the runner says what there is to say."""

    def warn(self, text: str) -> None:
        self.outer.warn(f"{self.name}: {text}")

    def step(self, share: float, step: int, loss: float, seconds_left: float | None, tokens_per_second: float) -> None:
        self.outer.step(share, step, loss, seconds_left, tokens_per_second)

    def close(self) -> None:
        self.outer.close()


def kept(path: Path, what: str) -> dict[str, Any] | None:
    """What an earlier command recorded in a file of its directory, or None.

    Raises InputError for a record that cannot be read, and for a directory of other files; ``what`` is made there.
    """
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        check_free(path.parent, what)
        return None
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); name another directory with --out.") from None


def check_free(out: Path, what: str) -> None:
    """Raise InputError where results would come to stand among other files, or over them."""
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out}: this directory holds other files and no {what}; name a new one with --out.")


def check_same(out: Path, what: str, before: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise InputError where something else is asked than what was recorded; ``what`` ends in "other" or "another"."""
    if others := sorted(CALLED.get(name, name) for name, value in asked.items() if before.get(name) != value):
        raise InputError(
            f"{out}: holds a {what} {', '.join(others)}; give the same to resume it, or use another --out."
        )
