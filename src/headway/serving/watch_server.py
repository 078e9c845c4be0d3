"""The process that serves the page of ``headway train --watch``, beside the training and without any part in it.

python -P -m headway.serving.watch_server DIRECTORY PARENT      its standard input is the socket that it listens on
"""

import asyncio
import contextlib
import math
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from headway.serving.protocol import end_stalled, server_config
from headway.serving.responses import RequestError, answer, in_thread, invalid, unless_gone
from headway.serving.routes import GET, add_routes
from headway.serving.settings import Settings
from headway.serving.state import State
from headway.serving.training import run_so_far
from headway.training.store.contents import ADAPTED, MEMBER

LONGEST_WAIT = 30.0
"""Seconds."""
SHARE = 0.05
"""Of a processor that reading the run may take, however many pages ask and however long its log is."""
LONGEST_KEPT = 30.0
"""Seconds for which what was read is shown at most."""
MOST_PARTS = 1000
"""Runs inside the run that are looked at."""
RECENT = 10.0
"""A page that asked within so many seconds is still open."""
LAST = 0.3
"""Seconds in which an open page that is just between two questions asks the last one."""
AFTER = 1.5
"""Seconds that the last answers may take."""
NICER = 10
"""Training comes first: how much this process yields to it."""


class Watched:
    """A run that trains; what was read of it is kept until it may be read again."""

    def __init__(self, directory: Path):
        self.directory, self.name = directory, directory.name
        self._lock = threading.Lock()
        self._told: dict[str, Any] = {}
        self._fresh_until = 0.0

    def told(self, *, now: bool = False) -> dict[str, Any]:
        """What the run directory tells, read again ``now`` or where enough time has passed."""
        with self._lock:
            began = time.monotonic()
            if now or began >= self._fresh_until:
                self._told = run_so_far(self.directory, self._part())
                ended = time.monotonic()
                self._fresh_until = ended + min(LONGEST_KEPT, (ended - began) / SHARE)
            return self._told

    def _part(self) -> str:
        """The run inside the run that is being trained: of ``--adapt`` or ``--seeds``; else nothing."""
        newest, found = _written(self.directory), ""
        with contextlib.suppress(OSError):
            for _, one in zip(range(MOST_PARTS), self.directory.iterdir(), strict=False):
                is_run = (one.name == ADAPTED or MEMBER.fullmatch(one.name)) and not one.is_symlink()
                if is_run and (when := _written(one)) > newest:
                    newest, found = when, one.name
        return found


def _written(run: Path) -> int:
    """When the log or the facts of a run were last written, in nanoseconds; 0 where there are none."""
    times = [0]
    for name in ("log.jsonl", "headway.json"):
        with contextlib.suppress(OSError):
            times.append((run / name).stat().st_mtime_ns)
    return max(times)


class WatchApp:
    """What the ASGI ``application`` asks and tells: the playground with its Training tab alone.

    ``ending`` is set when the training has ended: a page that asks with ``wait`` is answered then, or after so long.
    """

    def __init__(self, directory: Path, settings: Settings):
        from starlette.applications import Starlette

        self.run, self.state, self.ending = Watched(directory), State(settings), asyncio.Event()
        self.asked_at = -math.inf
        """when a page last asked"""
        self.application = Starlette()
        routes = {"/v1/models": self._models, "/training": self._training, "/health": self._health}
        add_routes(self.application, self.state, ((path, handler, GET) for path, handler in routes.items()))

    async def _models(self, _request: Any, _state: State) -> Any:
        """The list of models: the run has none of their routes, so that the page shows one tab."""
        model = {"id": self.run.name, "object": "model", "owned_by": "headway", "training": True, "watched": True}
        return answer({"object": "list", "data": [model]})

    async def _health(self, _request: Any, state: State) -> Any:
        return answer({"status": "ok", "seconds": round(time.monotonic() - state.started, 3)})

    async def _training(self, request: Any, _state: State) -> Any:
        name = request.query_params.get("model", self.run.name)
        if name != self.run.name:
            raise RequestError(404, f"there is no run {name[:80]!r}; there is {self.run.name}", "model_not_found")
        wait = request.query_params.get("wait", "0")
        if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3})?", wait) or float(wait) > LONGEST_WAIT:
            raise invalid(f"wait must be a number of seconds from 0 to {LONGEST_WAIT:g}", "wait")
        if float(wait) and not self.ending.is_set():
            self.asked_at = time.monotonic()
            with contextlib.suppress(TimeoutError):
                await unless_gone(request, asyncio.wait_for(self.ending.wait(), float(wait)))
        self.asked_at = time.monotonic()
        ended = self.ending.is_set()
        told = await in_thread(lambda: self.run.told(now=ended))
        return answer({"model": self.run.name, **told, "ended": ended})


def main(directory: str, parent: int, listening: socket.socket) -> None:
    """Serve the page of a run directory on a listening socket until SIGTERM, or the process ``parent`` ends."""
    import uvicorn

    settings = Settings(port=listening.getsockname()[1], connections=64)
    app = WatchApp(Path(directory), settings)

    class Server(uvicorn.Server):
        """A server that tells open pages of the end before it leaves."""

        ended_at = 0.0

        def handle_exit(self, sig: int, frame: Any) -> None:
            self._end()

        def _end(self) -> None:
            if not self.ended_at:
                self.ended_at = time.monotonic()
                app.ending.set()

        async def on_tick(self, counter: int) -> bool:
            end_stalled(self.server_state.connections, counter)
            if os.getppid() != parent:
                self._end()
            if self.ended_at:
                now = time.monotonic()
                is_open = self.ended_at - app.asked_at < RECENT
                is_over = not app.state.active and (not is_open or now > self.ended_at + LAST)
                if is_over or now > self.ended_at + AFTER:
                    return True
            return await super().on_tick(counter)

    how: dict[str, Any] = {"log_level": "critical", "timeout_graceful_shutdown": 1, "lifespan": "off"}
    config = server_config(app.application, settings, **how)
    Server(config).run(sockets=[listening])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICER)
    main(sys.argv[1], int(sys.argv[2]), socket.socket(fileno=0))
