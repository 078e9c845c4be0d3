"""The parent's side of the process that renders chat templates; it ends the process when a template takes too long."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, cast

from headway.errors import InputError

START_SECONDS = 60.0
RENDER_SECONDS = 2.0
"""A hundred times what the slowest known template needs."""

WORKER = Path(__file__).with_name("worker.py")


class _Worker:
    """One process; a thread reads its answers, so that waiting for them can time out."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._requests = cast(IO[bytes], self._process.stdin)
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        started = {"template": "", "messages": [], "special": {}, "add_generation_prompt": False}
        if self.ask(started, START_SECONDS) is None:
            raise InputError("chat template: cannot be rendered: jinja2 cannot be loaded; install jinja2 3.1 or later")

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """The answer; None when there is none in time, after which the process is gone."""
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.close()
            return None
        except OSError:
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


_worker: _Worker | None = None
_lock = threading.Lock()


def ask(request: dict[str, Any], seconds: float = RENDER_SECONDS) -> dict[str, Any]:
    """The answer of the process: {"text", "spans"} or {"error"}; started when first needed, one request at a time."""
    global _worker
    with _lock:
        if _worker is None or _worker.owner != os.getpid():
            _worker = _Worker()
        answer = _worker.ask(request, seconds)
        if answer is None:
            _worker = None
            return {"error": f"takes more than {seconds:g} seconds, or more memory than there is for it"}
        return answer


def _forget() -> None:
    """A forked child has no use for its parent's process, nor for a lock that another thread held."""
    global _worker, _lock
    _worker, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
