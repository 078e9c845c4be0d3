"""The process that runs a tokenizer whose patterns are not known: lines of JSON in, lines of JSON out.

This file is run as a script.  The first line is {"tokenizer", "path"}: the text of a ``tokenizer.json``, and where it
was.  Each other line calls a method of ``RustBackend``: {"method", "given", "named", "seconds", "n_bytes"}.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

import tokenizers  # noqa: E402

from headway.errors import InputError  # noqa: E402
from headway.text.backend import RustBackend  # noqa: E402
from headway.text.rust_errors import guarded  # noqa: E402
from headway.text.safe.process import START_SECONDS  # noqa: E402
from headway.text.safe.regex import check_patterns  # noqa: E402

ROOM, OF_A_BYTE, MOST_ROOM = 2**28, 2**13, 2**32
"""Bytes of memory that a request may take in addition: for any, for each byte of its texts, and at most."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program that asks decides what an interruption ends
    backend: RustBackend | None = None
    for line in sys.stdin.buffer:
        found: Any = None
        try:
            request = json.loads(line)
            if backend is None:
                backend = _begin(**request)
            else:
                found = _call(backend, **request)
            answer = {"found": found}
        except InputError as error:
            answer = {"error": str(error)}
        except MemoryError:
            answer = {"error": "needs too much memory"}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


def _begin(tokenizer: str, path: str) -> RustBackend:
    _limit(START_SECONDS, len(tokenizer))
    made = guarded(lambda: tokenizers.Tokenizer.from_str(tokenizer), f"{path}: cannot be loaded")
    check_patterns(made, json.loads(tokenizer), Path(path))
    return RustBackend(made)


def _call(
    backend: RustBackend, method: str, given: list[Any], named: dict[str, Any], seconds: float, n_bytes: int
) -> Any:
    _limit(seconds, n_bytes)
    return guarded(lambda: getattr(backend, method)(*given, **named), "cannot be used on this text")


def _limit(seconds: float, n_bytes: int) -> None:
    """Limit the processor time and the additional memory of what comes next; the parent limits the time that passes."""
    try:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        end = int(used.ru_utime + used.ru_stime + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        with open("/proc/self/statm") as file:  # noqa: PTH123
            taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        most, hard = taken + min(MOST_ROOM, ROOM + OF_A_BYTE * n_bytes), resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    except (ImportError, OSError, ValueError):
        pass  # other systems rely on the limit of time


if __name__ == "__main__":
    main()
