"""Processes that run what strangers wrote, templates and tokenizers; one that takes too long is ended.

Each runs ``worker.py``, which reads lines of JSON, answers with lines of JSON, and limits its own memory.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, cast

START_SECONDS = 30.0
MOST = 8
"""Processes that are kept; of more, the one that was used least recently is ended."""
NOT_STARTED = "its process cannot be started"


class _Worker:
    """One process; a thread reads its answers, so that waiting for them can time out."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
        )
        self._requests = cast(IO[bytes], self._process.stdin)
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def ask(self, request: str, seconds: float) -> dict[str, Any] | None:
        """The answer; None when there is none in time, after which the process is gone."""
        try:
            self._requests.write(request.encode() + b"\n")
            self._requests.flush()
            line = self._answers.get(timeout=seconds)
        except (queue.Empty, OSError):
            line = b""
        except BaseException:  # interrupted half-way: an answer may still come, and would be taken for another's
            self.close()
            raise
        if not line:
            self.close()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._answers.put(line)
        self._answers.put(b"")


_workers: dict[str, _Worker] = {}
_locks: dict[str, threading.Lock] = {}


def ask(hello: str, request: str, seconds: float) -> dict[str, Any]:
    """The answer to a request, or {"error": ...}, of the process that was first sent ``hello``.

    Both are JSON.  The process is started when first needed, and answers one request at a time.
    """
    with _locks.setdefault(hello, threading.Lock()):
        worker = _workers.pop(hello, None)
        if worker is None or worker.owner != os.getpid():
            worker = _Worker()
            if (begun := worker.ask(hello, START_SECONDS)) is None:
                return {"error": NOT_STARTED}
            if "error" in begun:
                worker.close()
                return begun
        answer = worker.ask(request, seconds)
        if answer is None:
            return {"error": f"takes more than {seconds:.3g} seconds, or more memory than there is for it"}
        _workers[hello] = worker
        for old in list(_workers)[:-MOST]:
            _locks.pop(old, None)
            if (idle := _workers.pop(old, None)) is not None:
                idle.close()
        return answer


def _forget() -> None:
    """A forked child has no use for its parent's processes, nor for a lock that another thread held."""
    _workers.clear()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
