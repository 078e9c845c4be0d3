"""A route for each task's verb: inputs and options in, the records of ``headway predict --json`` out.

The routes are made from the commands of tasks, so that a task of another package is served like ours.
"""

import base64
import binascii
import io
from collections.abc import Sequence
from typing import Any

from headway.serving.answers import answer, unless_gone
from headway.serving.body import read_body
from headway.serving.errors import RequestError, invalid
from headway.serving.gate import ROUTE
from headway.serving.generation import Generation, check_fits
from headway.serving.in_thread import in_thread
from headway.serving.jobs import AT_ONCE, answered, parts
from headway.serving.models import Models, Served
from headway.serving.openai.ways import typed_ways
from headway.serving.options import given_options, request_schema
from headway.serving.state import State
from headway.tasks import registry
from headway.tasks.command import Command, Inputs

ANY_SCHEMA = {
    "type": "object",
    "properties": {"model": {"type": ["string", "null"], "default": None}},
    "required": [],
    "additionalProperties": True,
}
"""What is checked before the model, and so the schema of its route, is known."""


def verbs(models: Models) -> list[str]:
    """The verbs that have a route now: those of the models, and the one of every model."""
    return list(dict.fromkeys([*(served.verb for served in models), registry.ANY]))


async def typed(request: Any, state: State) -> Any:
    """Answer a request to ``/{verb}``."""
    verb = request.path_params["verb"]
    if verb not in verbs(state.models):
        raise RequestError(404, "there is no such route")
    if request.method != "POST":
        raise RequestError(405, f"/{verb} is for POST", headers={"allow": "POST"})
    request.scope[ROUTE] = f"/{verb}"
    body = await read_body(request, ANY_SCHEMA)
    served = state.models.find(body["model"], verb)
    body = await read_body(request, request_schema(served.command))
    if served.writes:
        found = await unless_gone(request, _written(served, body, state))
    else:
        found = await unless_gone(request, _answered(served, body, state))
    return answer({"model": served.name, "answers": found})


async def _written(served: Served, body: dict[str, Any], state: State) -> list[str]:
    """The continuation of each input."""
    prompts = await in_thread(lambda: [served.pipe.prompt(one) for one in body["inputs"]])
    longest = max(len(prompt.ids) for prompt in prompts)
    most = min(body["max_tokens"], max(1, served.context - longest))
    ways = typed_ways(body, check_fits(served, prompts, most, "inputs"))
    return (await Generation(served, prompts, ways, state.settings, state.metrics).whole()).texts


async def _answered(served: Served, body: dict[str, Any], state: State) -> list[Any]:
    """The answers of a pipeline, some inputs at a time."""
    values: Sequence[Any] = body["inputs"]
    work: list[Any] = list(parts(values))
    if served.spec.reads == "picture":
        values = await in_thread(lambda: [_picture(one, at) for at, one in enumerate(body["inputs"])])
        work = [values[at : at + AT_ONCE] for at in range(0, len(values), AT_ONCE)]
    use = _Use(served, given_options(served.command, body), values)
    size = sum(map(len, body["inputs"]))
    return list((await answered(served, use, [None, *work, ...], size, state, "inputs"))[-1])


class _Use:
    """A command with its inputs, in the worker's thread: None begins it, ``...`` gives all results.

    Requests with the same options are answered together (``serving.worker.Joinable``).
    """

    most = AT_ONCE

    def __init__(self, served: Served, options: dict[str, Any], values: Sequence[Any]):
        self.served, self.options, self.values = served, options, values
        self.kind = tuple(sorted((name, repr(value)) for name, value in options.items()))
        self.found: list[Any] = []
        self.use: Command | None = None

    def __call__(self, part: Any) -> Any:
        if part is None:
            return self._begin()
        return self._results() if part is ... else self.take(self.compute(part))

    def _begin(self) -> None:
        command = self.served.command
        command.check(self.options, None)
        pipe = command.takes(self.served.pipe, self.options)
        is_text = self.served.spec.reads == "text"
        names = self.values if is_text else [f"picture {at}" for at in range(1, len(self.values) + 1)]
        self.use = command(pipe, Inputs(self.served.name, names, several=True), self.options)
        for value in self.values if is_text else ():
            self.use.check_input(value)

    def compute(self, inputs: list[Any]) -> Sequence[Any]:
        """The answers to some inputs, of this request or of others with the same options."""
        assert self.use is not None
        found: Sequence[Any] = (
            self.use.pipe(list(inputs)) if self.served.spec.reads == "picture" else self.use.answer(inputs)
        )
        return found

    def take(self, answers: Sequence[Any]) -> None:
        """Keep the answers to a part of this request."""
        self.found.append(answers)

    def _results(self) -> list[Any]:
        """The results of all parts, as JSON values."""
        assert self.use is not None
        if not self.use.gathers:
            return [one for part in self.found for one in self.use.results(part)]
        import numpy as np

        everything: Any = np.concatenate(self.found)
        use, whole = self.use.gathered(everything)
        return use.results(whole[: len(self.values)])


def _picture(text: str, at: int) -> Any:
    """The pixels of a picture in base64.  Raises RequestError."""
    from headway.data.images.preprocessing import image_from_file

    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"inputs[{at}] is not base64", f"inputs[{at}]") from None
    return image_from_file(io.BytesIO(content), f"inputs[{at}]")
