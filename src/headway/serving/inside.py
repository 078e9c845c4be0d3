"""``POST /inside``: what happens inside a served model when it reads a text, for the playground's "Look inside"."""

from typing import Any

from headway.errors import InputError
from headway.serving.body import BOOLEAN, CLOSED, STRING, array, integer, one_of, optional, read_body, record, string
from headway.serving.generation import answered
from headway.serving.models import Served
from headway.serving.responses import answer_in_pieces, invalid, unless_gone
from headway.serving.state import State

LONGEST_TEXT = 4000
"""Characters."""
MOST_TOKENS = 256
MAPS = 1_500_000
"""Characters of all maps together."""
HEAD = record(kind=one_of("self", "encoder", "decoder", "cross"), layer=integer(0, 1000), head=integer(0, 1000))
SCHEMA = CLOSED | record(
    "text",
    model=optional(STRING),
    text=string(1, LONGEST_TEXT),
    target=optional(string(most=LONGEST_TEXT)),
    at=optional(integer(0, MOST_TOKENS)),
    off={**array(HEAD | CLOSED, most=256), "default": []},
    maps={**BOOLEAN, "default": True},
)
"""``maps`` false leaves the maps out, which a page has already when it only asks for another token or other heads."""


async def inside(request: Any, state: State) -> Any:
    """Answer a request to ``/inside``."""
    body = await read_body(request, SCHEMA)
    served = state.find(request, body["model"])
    if served.spec.reads != "text":
        raise invalid(f"{served.name} reads pictures; look inside a model that reads text", "model")
    looked = answered(served, lambda _: look(served, body), [None], len(body["text"]), state, "text")
    return await answer_in_pieces((await unless_gone(request, looked))[0])


def look(served: Served, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request whose body was checked.  Raises InputError."""
    from headway.reports.explorer import explorer_data
    from headway.workflows.inside import inside_details, look_inside

    pipe = served.pipe
    if (count := len(pipe.tokenizer.encode(body["text"]))) > MOST_TOKENS:
        raise InputError(f"the text has {count:,} tokens; at most {MOST_TOKENS} are shown. Shorten it.")
    found = look_inside(pipe, body["text"], body["target"])
    off = [(one["kind"], int(one["layer"]), int(one["head"])) for one in body["off"]]
    return {
        **{"model": served.name, "task": served.spec.name, "wiring": found.wiring, "target": found.target},
        "tokens": found.tokens,
        "heads": {key: list(kind.maps.shape[:2]) for key, kind in found.kinds.items()},
        "explorer": explorer_data(found, MAPS) if body["maps"] else None,
        **inside_details(pipe, found, body["at"], off),
    }
