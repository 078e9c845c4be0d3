"""The application of a server, its routes and the gate in front of them; and running it until it is told to stop."""

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
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headway.errors import InputError, RunFailed
from headway.serving.capture_warnings import install
from headway.serving.inside import inside
from headway.serving.models import Models
from headway.serving.openai.chat import chat
from headway.serving.openai.completions import completions
from headway.serving.openai.embeddings import embeddings
from headway.serving.openapi import document
from headway.serving.protocol import end_stalled, server_config
from headway.serving.responses import RequestError, answer
from headway.serving.routes import GET, Handler, add_routes
from headway.serving.settings import Settings
from headway.serving.state import State
from headway.serving.training import training
from headway.serving.typed import typed

NEEDED = "serving needs fastapi, uvicorn and prometheus-client: pip install 'headway[serve]'."


def create_app(models: Models, settings: Settings) -> Any:
    """The FastAPI application that serves some models.

    What all routes share is ``app.state.headway``.  Raises InputError where the packages of the extra ``serve`` are
    missing.
    """
    try:
        import prometheus_client  # noqa: F401
        from fastapi import FastAPI
    except ImportError:
        raise InputError(NEEDED) from None
    state = State(settings, models)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        models.start(asyncio.get_running_loop())
        yield
        await asyncio.to_thread(models.stop)

    app = FastAPI(title="Headway", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.headway = state
    add_routes(app, state, ROUTES)
    return app


async def _models(_request: Any, state: State) -> Any:
    data = await asyncio.to_thread(lambda: [served.described() for served in state.models])
    return answer({"object": "list", "data": data})


async def _model(request: Any, state: State) -> Any:
    return answer(await asyncio.to_thread(state.models.find(request.path_params["name"]).described))


async def _openapi(_request: Any, state: State) -> Any:
    return answer(document(state.models))


async def _metrics(_request: Any, state: State) -> Any:
    return answer(state.metrics.text(state.models), "text/plain; version=0.0.4")


async def _health(_request: Any, state: State) -> Any:
    """Whether the server lives: this loop, and a sign of life from each worker."""
    now, limit = time.monotonic(), state.settings.stuck_seconds
    stuck = [one.name for one in state.models if now - one.worker.beat > limit]
    if stuck:
        raise RequestError(503, f"the worker of {', '.join(stuck)} has given no sign for {limit:g} seconds")
    return answer({"status": "ok", "seconds": round(now - state.started, 3)})


async def _ready(_request: Any, state: State) -> Any:
    """Whether it can answer: models are loaded, the last self-test passed, and it is not stopping."""
    models = list(state.models)
    why = "the server is stopping" if state.draining else "" if models else "no model is loaded"
    why = why or next((f"{one.name} has failed" for one in models if one.worker.fatal or not one.sound), "")
    if why:
        raise RequestError(503, why, "not_ready", headers={"retry-after": "5"})
    return answer({"status": "ready", "models": [one.name for one in models]})


POST = ("POST",)
ROUTES: tuple[tuple[str, Handler, Sequence[str]], ...] = (
    ("/v1/models", _models, GET),
    ("/v1/models/{name:path}", _model, GET),
    ("/v1/completions", completions, POST),
    ("/v1/chat/completions", chat, POST),
    ("/v1/embeddings", embeddings, POST),
    ("/openapi.json", _openapi, GET),
    ("/metrics", _metrics, GET),
    ("/health", _health, GET),
    ("/ready", _ready, GET),
    ("/inside", inside, POST),
    ("/training", training, GET),
    ("/{verb}", typed, ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")),  # all verbs: models come and go
)
"""The routes that a server has beside those of the playground."""


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
