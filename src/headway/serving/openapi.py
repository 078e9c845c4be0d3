"""The OpenAPI document of a server: every route, with the schemas that requests are checked by."""

from typing import Any

from headway import __version__
from headway.serving import inside
from headway.serving.models import Models, Served
from headway.serving.openai import chat, completions, embeddings
from headway.serving.schema import Schema
from headway.tasks import registry

ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}
NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}
USAGE: Schema = {
    "type": "object",
    "properties": {name: {"type": "integer"} for name in ("prompt_tokens", "total_tokens")},
    "required": ["prompt_tokens", "total_tokens"],
}
STATUS: Schema = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
WARNINGS: Schema = {
    "type": "array",
    "items": {"type": "string"},
    "description": "what a person should know about these answers, such as that one is cut off",
}
TYPED: Schema = {
    "type": "object",
    "properties": {
        **{"model": {"type": "string"}, "answers": {"type": "array"}},
        "warnings": WARNINGS,
    },
    "required": ["model", "answers"],
}
MODEL: Schema = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("id", "object", "owned_by", "task", "kind", "route")},
        **{name: {"type": "string"} for name in ("version", "precision", "engine")},
        **{"created": {"type": "integer"}, "labels": {"type": "array"}, "schema": {"type": "object"}},
    },
    "required": ["id", "object", "created", "owned_by", "task", "kind", "route", "labels", "schema"],
}
LISTED: Schema = {
    "type": "object",
    "properties": {"object": {"type": "string"}, "data": {"type": "array", "items": MODEL}},
    "required": ["object", "data"],
}
CHOICES: Schema = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("id", "object", "model")},
        **{"created": {"type": "integer"}, "choices": {"type": "array", "items": {"type": "object"}}, "usage": USAGE},
    },
    "required": ["id", "object", "created", "model", "choices", "usage"],
}
VECTORS: Schema = {
    "type": "object",
    "properties": {
        "object": {"type": "string"},
        "data": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"index": {"type": "integer"}, "embedding": {"anyOf": [{"type": "string"}, NUMBERS]}},
                "required": ["index", "embedding"],
            },
        },
        "model": {"type": "string"},
        "usage": USAGE,
        "warnings": WARNINGS,
    },
    "required": ["object", "data", "model", "usage"],
}
INSIDE: Schema = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("model", "task", "wiring", "axis")},
        **{name: {"type": "object"} for name in ("tokens", "heads", "attribution", "vectors", "positions")},
    },
    "required": ["model", "tokens", "heads", "attribution", "vectors", "positions"],
}
POINTS: Schema = {"type": "array", "items": {**NUMBERS, "minItems": 2, "maxItems": 2}}
SNAPSHOT: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "its path within the run directory"},
        "step": {"type": "integer"},
        "val_loss": {"type": ["number", "null"]},
        "bytes": {"type": "integer"},
        "kept": {"type": "boolean", "description": "whether the run answers with these weights"},
        "command": {"type": "string", "description": "what answers with it, in the folder that holds the run"},
    },
    "required": ["name", "step", "val_loss", "bytes", "kept", "command"],
}
RUN: Schema = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("model", "run", "part", "health", "verdict", "kept", "serve")},
        **{"here": {"type": "boolean", "description": "whether the commands are for the server's own folder"}},
        **{"begun": {"type": "boolean"}, "finished": {"type": "boolean"}, "last_step": {"type": ["integer", "null"]}},
        **{"steps": POINTS, "evaluations": POINTS, "samples": {"type": "array", "items": {"type": "object"}}},
        "snapshots": {"type": "array", "items": SNAPSHOT},
    },
    "required": ["model", "run", "finished", "verdict", "steps", "evaluations", "samples", "snapshots"],
}
REFUSALS = {
    **{"400": "wrong request", "401": "no key", "404": "no such model", "405": "no such method", "408": "slow body"},
    **{
        "413": "large body",
        "415": "no JSON",
        "429": "too much waits",
        "500": "failed",
        "503": "not now",
        "504": "late",
    },
}


def document(models: Models) -> dict[str, Any]:
    """The document for the models that are served now."""
    writers = [one.name for one in models if one.writes]
    embedders = [one.name for one in models if one.kind == "vectors"]
    readers = [one.name for one in models if one.spec.reads == "text"]
    stream: dict[str, Any] = {"text/event-stream": {"schema": {}}}
    paths: dict[str, Any] = {
        "/v1/models": {"get": _operation("The models", LISTED)},
        "/v1/models/{name}": {"get": {**_operation("A model", MODEL), "parameters": [_name("name")]}},
        "/v1/completions": {"post": _posted("Continue texts", _named(completions.SCHEMA, writers), CHOICES, stream)},
        "/v1/chat/completions": {
            "post": _posted("Reply to a conversation", _named(chat.SCHEMA, writers), CHOICES, stream)
        },
        "/v1/embeddings": {"post": _posted("Texts as vectors", _named(embeddings.SCHEMA, embedders), VECTORS)},
        "/inside": {
            "post": _posted("What happens inside a model that reads a text", _named(inside.SCHEMA, readers), INSIDE)
        },
        "/training": {"get": {**_operation("The run that a model comes from", RUN), "parameters": [_query("model")]}},
        "/health": {"get": _operation("Whether the server lives", STATUS)},
        "/ready": {"get": _operation("Whether it can answer", STATUS)},
        "/metrics": {"get": _other("What was counted, for Prometheus", "text/plain")},
        "/openapi.json": {"get": _operation("This document", {"type": "object"})},
        "/": {"get": _other("The playground", "text/html")},
        "/playground/{name}": {"get": {**_other("A file of it", "*/*"), "parameters": [_name("name")]}},
    }
    for verb, some in _by_verb(models).items():
        schemas = [_named(served.request_schema(), names) for served, names in some]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        paths.setdefault(f"/{verb}", {"post": _posted(some[0][0].spec.help, schema, TYPED)})
    any_task: Schema = {
        "type": "object",
        "properties": {"model": {"type": ["string", "null"]}, "inputs": {"type": "array", "minItems": 1}},
        "required": ["inputs"],
    }
    any_task = _named(any_task, [one.name for one in models])
    paths.setdefault(f"/{registry.ANY}", {"post": _posted("Use any of the models", any_task, TYPED)})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headway", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


def _by_verb(models: Models) -> dict[str, list[tuple[Served, list[str]]]]:
    """For each verb a model of each task that has it, with the names of all models of that task."""
    found: dict[str, dict[str, tuple[Served, list[str]]]] = {}
    for served in models:
        found.setdefault(served.verb, {}).setdefault(served.task, (served, []))[1].append(served.name)
    return {verb: list(tasks.values()) for verb, tasks in found.items()}


def _named(schema: Schema, names: list[str]) -> Schema:
    """A request's schema with the names of the models that the route has now; others are no error of form but a 404."""
    if not names:
        return schema
    model = schema["properties"]["model"]
    known: list[str | None] = [*names, *([None] if "null" in model["type"] else [])]
    return {**schema, "properties": {**schema["properties"], "model": {**model, "enum": known}}}


def _name(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _query(name: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}


def _operation(summary: str, schema: Schema, more: dict[str, Any] | None = None) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}, **(more or {})}
    refusals = {
        status: {"description": words, "content": {"application/json": {"schema": ERROR}}}
        for status, words in REFUSALS.items()
    }
    return {"summary": summary, "responses": {"200": {"description": "the answer", "content": content}, **refusals}}


def _other(summary: str, kind: str) -> dict[str, Any]:
    operation = _operation(summary, {})
    operation["responses"]["200"]["content"] = {kind: {"schema": {}}}
    return operation


def _posted(summary: str, schema: Schema, found: Schema, more: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {**_operation(summary, found, more), "requestBody": body}
