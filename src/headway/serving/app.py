"""The application of a server: its routes, and the gate in front of them.

models = Models(settings)
models.load("runs/reviews")
app = create_app(models, settings)
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from headway.errors import InputError
from headway.serving.answers import answer, refusal
from headway.serving.errors import RequestError, invalid
from headway.serving.failures import handle_errors
from headway.serving.gate import ROUTE, Gate
from headway.serving.inside import inside
from headway.serving.models import Models
from headway.serving.openai.chat import chat
from headway.serving.openai.completions import completions
from headway.serving.openai.embeddings import embeddings
from headway.serving.openapi import document
from headway.serving.playground_files import FRONT, page
from headway.serving.settings import Settings
from headway.serving.state import State
from headway.serving.training import training
from headway.serving.typed import typed

NEEDED = "serving needs fastapi, uvicorn and prometheus-client: pip install 'headway[serve]'."
Work = Callable[[Any, State], Awaitable[Any]]


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
    state.metrics.watch(
        lambda: [
            ({"model": one.name, **one.loaded_as}, now := one.worker.running, max(0, one.places.taken - now))
            for one in models
        ]
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        models.start(asyncio.get_running_loop())
        yield
        await asyncio.to_thread(models.stop)

    app = FastAPI(title="Headway", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.headway = state
    app.router.redirect_slashes = False
    app.add_middleware(Gate, state=state)  # type: ignore[arg-type]
    handle_errors(app)
    _handle_fields(app)
    Routes(app, state).add()
    return app


class Routes:
    """The routes that every server has."""

    def __init__(self, app: Any, state: State):
        self.app, self.state = app, state

    def add(self) -> None:
        """Add them to the application."""
        state = self.state

        async def listed(_request: Any) -> Any:
            data = await asyncio.to_thread(lambda: [served.described() for served in state.models])
            return answer({"object": "list", "data": data})

        async def one_model(request: Any) -> Any:
            return answer(await asyncio.to_thread(state.models.find(request.path_params["name"]).described))

        async def openapi(_request: Any) -> Any:
            return answer(document(state.models))

        async def front(_request: Any) -> Any:
            return page(FRONT)

        async def file(request: Any) -> Any:
            return page(request.path_params["name"])

        async def metrics(_request: Any) -> Any:
            return answer(state.metrics.text(), "text/plain; version=0.0.4")

        async def run(request: Any) -> Any:
            return await training(request, state)

        async def by_verb(request: Any) -> Any:
            request.scope[ROUTE] = "other"  # until it is known to be a verb
            return await typed(request, state)

        add = self._add
        add("/v1/models", listed)
        add("/v1/models/{name:path}", one_model)
        self._posted("/v1/completions", completions)
        self._posted("/v1/chat/completions", chat)
        self._posted("/v1/embeddings", embeddings)
        add("/openapi.json", openapi)
        add("/metrics", metrics)
        add("/health", self.health)
        add("/ready", self.ready)
        add("/", front)
        add("/playground/{name}", file)
        self._posted("/inside", inside)
        add("/training", run)
        add("/{verb}", by_verb, "GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS")  # all verbs: models come and go

    def _add(self, path: str, handler: Any, *methods: str) -> None:
        async def named(request: Any) -> Any:
            request.scope.setdefault(ROUTE, path)
            return await handler(request)

        self.app.router.add_route(path, named, methods=list(methods or ("GET",)))

    def _posted(self, path: str, work: Work) -> None:
        async def handler(request: Any) -> Any:
            return await work(request, self.state)

        self._add(path, handler, "POST")

    async def health(self, _request: Any) -> Any:
        """Whether the server lives: this loop, and a sign of life from each worker."""
        now, limit = time.monotonic(), self.state.settings.stuck_seconds
        stuck = [one.name for one in self.state.models if now - one.worker.beat > limit]
        if stuck:
            raise RequestError(503, f"the worker of {', '.join(stuck)} has given no sign for {limit:g} seconds")
        return answer({"status": "ok", "seconds": round(now - self.state.started, 3)})

    async def ready(self, _request: Any) -> Any:
        """Whether it can answer: models are loaded, the last self-test passed, and it is not stopping."""
        models = list(self.state.models)
        why = "the server is stopping" if self.state.draining else "" if models else "no model is loaded"
        why = why or next((f"{one.name} has failed" for one in models if one.worker.fatal or not one.sound), "")
        if why:
            raise RequestError(503, why, "not_ready", headers={"retry-after": "5"})
        return answer({"status": "ready", "models": [one.name for one in models]})


def _handle_fields(app: Any) -> None:
    """What FastAPI itself refuses, as every other error."""
    from fastapi.exceptions import RequestValidationError

    async def of_fields(_request: Any, error: Any) -> Any:
        first = error.errors()[0]
        return refusal(invalid(str(first.get("msg", "wrong")), ".".join(map(str, first.get("loc", ())[1:])) or None))

    app.add_exception_handler(RequestValidationError, of_fields)
