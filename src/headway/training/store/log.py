"""Reading ``log.jsonl`` without trusting it: a kill may leave half a line, and anyone may write anything."""

import json
import os
from pathlib import Path
from typing import Any

LOG = "log.jsonl"
MOST_BYTES = 64 * 2**20
"""Only this many bytes at the end of a longer log are read: some 400,000 lines."""
LONGEST_LINE = 2**20


def read_log(run: Path, event: str | None = None) -> list[dict[str, Any]]:
    """The lines of a run's log in order, those of one ``event`` if it is named; nothing where there is no log."""
    if not (run / LOG).is_file():
        return []
    found = []
    with (run / LOG).open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MOST_BYTES))
        left, begun = MOST_BYTES, size > MOST_BYTES  # in the middle of a line
        while left > 0 and (raw := file.readline(LONGEST_LINE)):
            left -= len(raw)
            whole, begun = not begun and (raw.endswith(b"\n") or len(raw) < LONGEST_LINE), not raw.endswith(b"\n")
            if not whole:
                continue
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                continue
            if isinstance(line, dict) and event in (None, line.get("event")):
                found.append(line)
    return found
