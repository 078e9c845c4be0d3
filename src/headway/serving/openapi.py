"""The OpenAPI document of a server: every route, with the schemas that requests are checked by."""

from typing import Any

from headway import __version__
from headway.serving import inside
from headway.serving.body import BOOLEAN, INTEGER, NUMBER, STRING, Schema, answer_schema, array, record, string
from headway.serving.models import Models, Served
from headway.serving.openai import chat, completions, embeddings
from headway.tasks import registry

OBJECT, LIST = {"type": "object"}, {"type": "array"}
TEXT_OR_NULL = {"type": ["string", "null"]}
NUMBERS = array(NUMBER)
ERROR = record(error=record(message=STRING, type=STRING, param=TEXT_OR_NULL, code=TEXT_OR_NULL))
USAGE = record(prompt_tokens=INTEGER, total_tokens=INTEGER)
STATUS = record(status=STRING)
WARNINGS = {
    **array(STRING),
    "description": "what a person should know about these answers, such as that one is cut off",
}
MODEL = record(
    *("id", "object", "created", "owned_by", "task", "kind", "route", "labels", "schema", "answer"),
    **dict.fromkeys(("id", "object", "owned_by", "task", "kind", "route", "version", "precision", "engine"), STRING),
    **{"created": INTEGER, "labels": LIST, "schema": OBJECT, "answer": OBJECT},
)
LISTED = record(object=STRING, data=array(MODEL))
CHOICES = record(id=STRING, object=STRING, created=INTEGER, model=STRING, choices=array(OBJECT), usage=USAGE)
VECTORS = record(
    *("object", "data", "model", "usage"),
    object=STRING,
    data=array(record(index=INTEGER, embedding={"anyOf": [STRING, NUMBERS]})),
    **{"model": STRING, "usage": USAGE, "warnings": WARNINGS},
)
INSIDE = record(
    *("model", "tokens", "heads", "attribution", "vectors", "positions"),
    **dict.fromkeys(("model", "task", "wiring", "axis"), STRING),
    **dict.fromkeys(("tokens", "heads", "attribution", "vectors", "positions"), OBJECT),
)
POINTS = array(array(NUMBER, 2, 2))
SNAPSHOT = record(
    name={**STRING, "description": "its path within the run directory"},
    step=INTEGER,
    val_loss={"type": ["number", "null"]},
    bytes=INTEGER,
    kept={**BOOLEAN, "description": "whether the run answers with these weights"},
    command={**STRING, "description": "what answers with it, in the folder that holds the run"},
)
RUN = record(
    *("model", "run", "finished", "verdict", "steps", "evaluations", "samples", "snapshots"),
    **dict.fromkeys(("model", "run", "part", "health", "verdict", "kept", "serve"), STRING),
    here={**BOOLEAN, "description": "whether the commands are for the server's own folder"},
    begun=BOOLEAN,
    finished=BOOLEAN,
    last_step={"type": ["integer", "null"]},
    **{"steps": POINTS, "evaluations": POINTS, "samples": array(OBJECT), "snapshots": array(SNAPSHOT)},
)
JSON = "application/json"
REFUSALS = {
    **{400: "wrong request", 401: "no key", 404: "no such model", 405: "no such method", 408: "slow body"},
    **{413: "large body", 415: "no JSON", 429: "too much waits", 500: "failed", 503: "not now", 504: "late"},
}
NAME = {"name": "name", "in": "path", "required": True, "schema": string(1)}
ONE_MODEL = {"name": "model", "in": "query", "required": False, "schema": STRING}


def document(models: Models) -> dict[str, Any]:
    """The document for the models that are served now."""
    writers = [one.name for one in models if one.writes]
    embedders = [one.name for one in models if one.spec.answers == "vectors"]
    readers = [one.name for one in models if one.spec.reads == "text"]
    read_inside = "What happens inside a model that reads a text"
    paths = {
        "/v1/models": _get("The models", LISTED),
        "/v1/models/{name}": _get("A model", MODEL, NAME),
        "/v1/completions": _post("Continue texts", _named(completions.SCHEMA, writers), CHOICES, streams=True),
        "/v1/chat/completions": _post("Reply to a conversation", _named(chat.SCHEMA, writers), CHOICES, streams=True),
        "/v1/embeddings": _post("Texts as vectors", _named(embeddings.SCHEMA, embedders), VECTORS),
        "/inside": _post(read_inside, _named(inside.SCHEMA, readers), INSIDE),
        "/training": _get("The run that a model comes from", RUN, ONE_MODEL),
        "/health": _get("Whether the server lives", STATUS),
        "/ready": _get("Whether it can answer", STATUS),
        "/metrics": _get("What was counted, for Prometheus", {}, kind="text/plain"),
        "/openapi.json": _get("This document", OBJECT),
        "/": _get("The playground", {}, kind="text/html"),
        "/playground/{name}": _get("A file of it", {}, NAME, kind="*/*"),
    }
    for verb, some in _by_verb(models).items():
        schemas = [_named(served.request_schema(), names) for served, names in some]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        answers = [answer_schema(served.command.answers) for served, _ in some]
        paths.setdefault(f"/{verb}", _post(some[0][0].spec.help, schema, _typed(*answers)))
    any_task = record("inputs", model=TEXT_OR_NULL, inputs={**LIST, "minItems": 1})
    any_task = _named(any_task, [one.name for one in models])
    paths.setdefault(f"/{registry.ANY}", _post("Use any of the models", any_task, _typed()))
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway", "version": __version__},
        **({"servers": [{"url": models.settings.prefix}]} if models.settings.prefix else {}),
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


def _typed(*answers: Schema) -> Schema:
    """What a typed route answers."""
    each = array(answers[0] if len(answers) == 1 else {"anyOf": [*answers]}) if answers else LIST
    return record("model", "answers", model=STRING, answers=each, warnings=WARNINGS)


def _by_verb(models: Models) -> dict[str, list[tuple[Served, list[str]]]]:
    """For each verb a model of each task that has it, with the names of all models of that task.

    The verb of any model is left out.
    """
    found: dict[str, dict[str, tuple[Served, list[str]]]] = {}
    for served in (one for one in models if one.verb != registry.ANY):
        found.setdefault(served.verb, {}).setdefault(served.spec.name, (served, []))[1].append(served.name)
    return {verb: list(tasks.values()) for verb, tasks in found.items()}


def _named(schema: Schema, names: list[str]) -> Schema:
    """A request's schema with the names of the models that the route has now; others are no error of form but a 404."""
    if not names:
        return schema
    model = schema["properties"]["model"]
    known: list[str | None] = [*names, *([None] if "null" in model["type"] else [])]
    return {**schema, "properties": {**schema["properties"], "model": {**model, "enum": known}}}


def _get(summary: str, found: Schema, *parameters: Schema, kind: str = JSON) -> dict[str, Any]:
    operation = _operation(summary, {kind: {"schema": found}})
    return {"get": {**operation, "parameters": [*parameters]} if parameters else operation}


def _post(summary: str, body: Schema, found: Schema, *, streams: bool = False) -> dict[str, Any]:
    events: Schema = {"text/event-stream": {"schema": {}}} if streams else {}
    operation = _operation(summary, {JSON: {"schema": found}, **events})
    return {"post": {**operation, "requestBody": {"required": True, "content": {JSON: {"schema": body}}}}}


def _operation(summary: str, content: dict[str, Any]) -> dict[str, Any]:
    error = {JSON: {"schema": ERROR}}
    refusals = {str(status): {"description": words, "content": error} for status, words in REFUSALS.items()}
    return {"summary": summary, "responses": {"200": {"description": "the answer", "content": content}, **refusals}}
