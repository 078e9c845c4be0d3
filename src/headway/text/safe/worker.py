"""The process that uses what a stranger wrote: lines of JSON in, lines of JSON out.

This file is run as a script.  The first line is {"tokenizer", "path"}, the text of a ``tokenizer.json`` and where it
was, after which each line calls a method of ``RustBackend``: {"method", "given", "named", "seconds", "n_bytes"}.  Or it
is {}, after which each line is a conversation to render (``headway.text.safe.chat_renderer``).
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[3]))

from headway.text.rust_errors import guarded
from headway.text.safe.process import START_SECONDS

ROOM, OF_A_BYTE, MOST_ROOM = 2**28, 2**13, 2**32
"""Bytes of memory that a call may take in addition: for any, for each byte of its texts, and at most."""
TEMPLATE_ROOM = 80 * 2**20
"""Bytes of memory that a template may take in addition."""
MOST_ANSWER, ANSWER_OF_A_BYTE = 2**22, 64
"""Bytes of an answer: for any request, and in addition for each byte of it."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program that asks decides what an interruption ends
    use: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    for line in sys.stdin.buffer:
        answer = {}
        try:
            if use is None:
                use = _begin(**json.loads(line))
            else:
                answer = use(json.loads(line))
        except MemoryError:
            answer = {"error": "needs too much memory"}
        except Exception as error:
            answer = {"error": (str(error).splitlines() or [""])[0][:300] or type(error).__name__}
        text = json.dumps(answer)
        if len(text) > MOST_ANSWER + ANSWER_OF_A_BYTE * len(line):
            text = json.dumps({"error": "makes too much of this text"})
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


def _begin(tokenizer: str | None = None, path: str = "") -> Callable[[dict[str, Any]], dict[str, Any]]:
    if tokenizer is None:
        from headway.text.safe.chat_renderer import render, renderer

        compiled = renderer()
        _limit(START_SECONDS, TEMPLATE_ROOM)

        def rendered(request: dict[str, Any]) -> dict[str, Any]:
            _limit(request["seconds"])
            return render(compiled, request)

        return rendered
    import tokenizers

    from headway.text.backend import RustBackend

    _limit(START_SECONDS, ROOM + OF_A_BYTE * len(tokenizer))
    made = guarded(lambda: tokenizers.Tokenizer.from_str(tokenizer), f"{path}: cannot be loaded")
    backend = RustBackend(made)

    def call(request: dict[str, Any]) -> dict[str, Any]:
        _limit(request["seconds"], ROOM + OF_A_BYTE * request["n_bytes"])
        method = getattr(backend, request["method"])
        found = guarded(lambda: method(*request["given"], **request["named"]), "cannot be used on this text")
        return {"found": found}

    return call


def _limit(seconds: float, memory: int = 0) -> None:
    """Limit the processor time and the additional memory of what comes next; the parent limits the time that passes."""
    try:
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        end = int(used.ru_utime + used.ru_stime + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (end, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        if memory:
            with open("/proc/self/statm") as file:  # noqa: PTH123
                taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            most, hard = taken + min(MOST_ROOM, memory), resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    except (ImportError, OSError, ValueError):
        pass  # other systems rely on the limit of time


if __name__ == "__main__":
    main()
