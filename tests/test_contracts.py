"""What users rely on by name: public names, verbs and their options, what other tools call these, routes and keys.

python tests/test_contracts.py      # write the record anew, when one of them is meant to change
"""

import inspect
import json
from pathlib import Path
from typing import Any

import click
import pytest

import headway
from headway.cli.common import NAMES
from headway.cli.main import VERBS
from headway.cli.main import headway as group
from headway.formats.registry import FORMATS
from headway.tasks.registry import NAMES as TASKS
from headway.tasks.registry import command, spec
from headway.training.option_fields import HINTS, RENAMED, kind_of
from headway.training.options import OPTIONS
from headway.training.store.facts import DATA, FACTS

RECORD = Path(__file__).with_suffix(".json")


def options_of(verb: str) -> dict[str, Any]:
    """Each option of a verb: whether it is a flag, its choices and its default."""
    one = group.get_command(click.Context(group), verb)
    assert one is not None
    found = {}
    for param in one.params:
        kind = "flag" if getattr(param, "is_flag", False) else getattr(param.type, "choices", param.type.name)
        default = param.default if isinstance(param.default, str | int | float) else None
        found[" ".join(param.opts)] = [kind if isinstance(kind, str) else list(kind), default]
    return found


def parameters(name: str) -> list[str]:
    """The parameters of a public function, with their defaults."""
    return [str(one).partition(":")[0] for one in inspect.signature(getattr(headway, name)).parameters.values()]


def contracts() -> dict[str, Any]:
    """All of it, as JSON."""
    return {
        "public": list(headway.__all__),
        "functions": {name: parameters(name) for name in headway.__all__ if inspect.isfunction(getattr(headway, name))},
        "options of headway.train": {
            name: [*kind_of(entry), entry.default, list(entry.metadata["choices"]), entry.metadata["change"]]
            for name, entry in OPTIONS.items()
        },
        "verbs": {verb: options_of(verb) for verb in VERBS},
        "names of other tools": {name: list(aliases) for name, aliases in NAMES.items()},
        "hints": HINTS,
        "former names": RENAMED,
        "tasks": {
            name: {
                "verb": spec(name).verb,
                "aliases": list(spec(name).aliases),
                "metrics": [metric.key for metric in spec(name).metrics],
                "answer": sorted(getattr(command(name).answers, "__annotations__", {})),
            }
            for name in TASKS
        },
        "headway.json": {"facts": sorted(FACTS), "data": sorted(DATA)},
        "exports": {name: list(target.precisions) for name, target in FORMATS.items()},
    }


def test_nothing_that_users_rely_on_has_changed():
    recorded, now = json.loads(RECORD.read_text(encoding="utf-8")), json.loads(json.dumps(contracts()))
    for part in recorded.keys() | now.keys():
        assert now[part] == recorded[part], f"{part}: python {Path(__file__).name} writes the record, if it is meant"


def test_routes_are_those_of_the_record():
    pytest.importorskip("fastapi")
    from headway.serving.app import ROUTES

    assert [f"{' '.join(methods)} {path}" for path, _, methods in ROUTES] == [
        *("GET /v1/models", "GET /v1/models/{name:path}", "POST /v1/completions", "POST /v1/chat/completions"),
        *("POST /v1/embeddings", "GET /openapi.json", "GET /metrics", "GET /health", "GET /ready", "POST /inside"),
        *("GET /training", "GET POST PUT DELETE PATCH OPTIONS /{verb}"),
    ]


def in_lines(value: Any, depth: int = 0) -> str:
    """JSON with a line for each entry that a difference should show alone."""
    if not isinstance(value, dict) or depth == 3:
        return json.dumps(value, ensure_ascii=False)
    entries = (f"{json.dumps(name)}: {in_lines(one, depth + 1)}" for name, one in value.items())
    return "{\n" + ",\n".join(" " * (depth + 1) + entry for entry in entries) + "\n" + " " * depth + "}"


if __name__ == "__main__":
    RECORD.write_text(in_lines(contracts()) + "\n", encoding="utf-8")
