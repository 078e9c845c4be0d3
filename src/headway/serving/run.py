"""Run a server until it is told to stop: what is being answered is finished first."""

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

from headway.errors import InputError, RunFailed
from headway.serving.app import create_app
from headway.serving.capture_warnings import install
from headway.serving.models import Models
from headway.serving.protocol import end_stalled, server_config
from headway.serving.settings import Settings
from headway.serving.state import State

LOOK = 0.05
"""Seconds between two looks at what is still being answered."""
AFTER = 3.0
"""Seconds for what was ended to tell its clients so."""
LAST = 6.0
"""Seconds after which the process ends, whatever its threads still compute."""


def serve(models: Models, settings: Settings, said: Callable[[str], None], reload: Callable[[], None]) -> int:
    """Serve some models until SIGTERM or Ctrl-C, and return the exit status: 0, or 1 after a fatal error.

    The first signal lets answers be finished, for at most ``drain_seconds``; the second ends them.  ``said`` is told
    the address once it listens, ``reload`` is called on SIGHUP.  Raises InputError for an address that is taken.
    """
    install()
    logging.basicConfig(handlers=[JsonLines()])
    warnings.filterwarnings("ignore", module=r"PIL\.")  # what Pillow warns of, a request is told
    app = create_app(models, settings)
    files, (soft, hard) = settings.connections + 64, resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < files:  # as many as there are connections, where the system allows it
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, hard), hard))
    place: dict[str, Any] = {"host": settings.host, "port": settings.port}
    config = server_config(app, settings, **place, timeout_graceful_shutdown=int(AFTER), lifespan="on")
    server = draining_server(config, app.state.headway, said)
    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():

        def load_again(_number: int, _frame: Any) -> None:
            threading.Thread(target=reload, daemon=True, name="headway-reload").start()

        signal.signal(signal.SIGHUP, load_again)
    try:
        server.run()
    except SystemExit:
        raise InputError(
            f"--host {settings.host} --port {settings.port}: cannot listen there; is another server running? Name "
            "another port with --port."
        ) from None
    fatal = [one for one in models if one.worker.fatal]
    if fatal:
        raise RunFailed(f"the model {fatal[0].name} cannot go on: {fatal[0].worker.fatal}")
    return 0


class JsonLines(logging.Handler):
    """What libraries log, each as one line in the form of the lines about requests."""

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, OSError):  # a port that is taken, which ``run_server`` says
            return
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), "from": record.name}
        print(json.dumps({**line, "message": self.format(record)}), file=sys.stderr, flush=True)


def draining_server(config: Any, state: State, said: Callable[[str], None]) -> Any:
    """A server of uvicorn that finishes what it answers; ``said`` is told the address once it listens."""
    import uvicorn

    class Server(uvicorn.Server):
        """A server that answers what it has begun before it stops, and refuses what is new."""

        signals = 0
        stop_at = 0.0

        def handle_exit(self, sig: int, frame: Any) -> None:
            self.signals += 1
            self.stop_at = time.monotonic() + (state.settings.drain_seconds if self.signals == 1 else 0.0)

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                listens = self.servers[0].sockets[0].getsockname()
                said(f"http://{f'[{listens[0]}]' if ':' in listens[0] else listens[0]}:{listens[1]}")

        async def on_tick(self, counter: int) -> bool:
            end_stalled(self.server_state.connections, counter)
            if any(one.worker.fatal for one in state.models) and not self.stop_at:
                self.stop_at = time.monotonic() + state.settings.drain_seconds
            if self.stop_at and not state.draining:
                state.draining = True
                for served in state.models:
                    served.places.closed = "the server is stopping"
            if state.draining and (not state.active or time.monotonic() >= self.stop_at):
                await self._end()
                return True
            return await super().on_tick(counter)

        async def _end(self) -> None:
            """End what is still being answered, and wait until its clients know.

            What cannot be told to end, such as a long part of a pipeline, ends with the process.
            """
            status = int(any(one.worker.fatal for one in state.models))
            last = threading.Timer(LAST, os._exit, [status])
            last.daemon = True
            last.start()
            if state.active:
                for served in state.models:
                    served.worker.abort()
                until = time.monotonic() + AFTER
                while state.active and time.monotonic() < until:
                    await asyncio.sleep(LOOK)
            self.should_exit = True

    return Server(config)
