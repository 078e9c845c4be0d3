"""Reading ``log.jsonl`` without trusting that all of it is there: a kill may leave half a line."""

import json
from pathlib import Path
from typing import Any

LOG = "log.jsonl"


def read_log(run: Path, event: str | None = None) -> list[dict[str, Any]]:
    """The lines of a run's log in order, those of one ``event`` if it is named; nothing where there is no log."""
    if not (run / LOG).is_file():
        return []
    found = []
    with (run / LOG).open("rb") as file:
        for raw in file:
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict) and event in (None, line.get("event")):
                found.append(line)
    return found
