"""The application of a server: its routes, and the gate in front of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headway.errors import InputError
from headway.serving.inside import inside
from headway.serving.models import Models
from headway.serving.openai.chat import chat
from headway.serving.openai.completions import completions
from headway.serving.openai.embeddings import embeddings
from headway.serving.openapi import document
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
