"""``POST /v1/embeddings``: texts, or their ids as they are given, as vectors."""

import base64
from math import isfinite
from typing import Any

from headway.serving.body import OPEN, STRING, array, one_of, optional, read_body, record, string
from headway.serving.capture_warnings import capture_warnings, of_part
from headway.serving.generation import answered, characters, parts
from headway.serving.models import Served
from headway.serving.openai.completions import ID
from headway.serving.openai.fields import unread, unsupported
from headway.serving.responses import answer_in_pieces, failed, in_thread, invalid, unless_gone
from headway.serving.state import USED, State

MOST = 2048
"""Inputs of a request, as with OpenAI."""
TEXT, IDS = string(1, 1 << 16), array(ID, 1, 1 << 16)
SCHEMA = OPEN | record(
    "model",
    "input",
    model=STRING,
    input={"anyOf": [TEXT, array(TEXT, 1, MOST), IDS, array(IDS, 1, MOST)]},
    encoding_format=optional(one_of("float", "base64"), "float"),
)


async def embeddings(request: Any, state: State) -> Any:
    """The vectors of the inputs of a request."""
    body = await read_body(request, SCHEMA, strict=state.settings.strict)
    served = state.find(request, body["model"])
    if served.spec.answers != "vectors":
        raise invalid(f"{served.name} gives no vectors: use /{served.verb}", "model")
    unsupported(body)
    given = body["input"]
    given = [given] if isinstance(given, str) or isinstance(given[0], int) else given
    with served.places.held():
        count = await unless_gone(request, in_thread(_count, served, given))
    said, first = unread(body, SCHEMA), 0

    def answer(part: list[Any]) -> Any:
        nonlocal first
        with capture_warnings() as warned:
            found = served.pipe(part) if isinstance(part[0], str) else served.pipe.of_ids(part)
        said.extend(of_part(warned, "input", slice(first, first + len(part)), len(given)))
        first += len(part)
        return found

    work = answered(served, answer, parts(given), sum(map(characters, given)), state, "input")
    rows = [row for part in await unless_gone(request, work) for row in part]
    if not all(isfinite(value) for row in rows for value in row.tolist()):
        raise failed("the model gave values that are no numbers")
    if body["encoding_format"] == "base64":
        shown: list[Any] = [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    else:
        shown = [row.tolist() for row in rows]
    data = [{"object": "embedding", "index": at, "embedding": one} for at, one in enumerate(shown)]
    state.metrics.prompt_tokens.labels(served.name).inc(count)
    usage = {"prompt_tokens": count, "total_tokens": count}
    request.scope[USED]["usage"] = lambda: usage
    told = {"warnings": said} if said else {}
    return await answer_in_pieces({"object": "list", "data": data, "model": served.name, "usage": usage, **told})


def _count(served: Served, given: list[Any]) -> int:
    """How many tokens of the inputs are read.  Raises RequestError for ids that the model cannot read."""
    if isinstance(given[0], str):
        given = served.pipe.tokenizer.encode_batch(given, special=True)
    elif not hasattr(served.pipe, "of_ids"):
        raise invalid(f"{served.name} reads no ids of tokens: send texts", "input")
    elif (largest := max(map(max, given))) >= (size := served.pipe.model.config.vocab_size):
        raise invalid(f"input: {largest} is no id of a token; ids are 0 to {size - 1:,}", "input")
    return sum(min(len(ids), served.context) for ids in given)
