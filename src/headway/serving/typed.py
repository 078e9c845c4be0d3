"""A route for each task's verb: inputs and options in, the records of ``headway predict --json`` out.

The routes are made from the commands of tasks, so that a task of another package is served like ours.
"""

import base64
import binascii
import io
from collections.abc import Sequence
from typing import Any

from headway.errors import InputError
from headway.serving.body import STRING, given_options, optional, read_body
from headway.serving.capture_warnings import capture_warnings, of_part
from headway.serving.gate import ROUTE
from headway.serving.generation import AT_ONCE, Generation, answered, characters, parts
from headway.serving.models import Served
from headway.serving.openai.fields import typed_options
from headway.serving.responses import RequestError, answer_in_pieces, in_thread, invalid, unless_gone
from headway.serving.state import USED, State
from headway.tasks import registry
from headway.tasks.command import Inputs
from headway.tasks.inputs import Prompt

MOST_VALUES = 1_000_000
"""Values that the answers to one request may have, as ``Command.size`` counts them."""
MOST_PIXELS, MOST_PIXELS_IN_ALL = 1 << 25, 1 << 27
"""Pixels of a picture, and of those of a request."""
ANY_SCHEMA = {"type": "object", "properties": {"model": optional(STRING)}}
"""What is checked before the model, and so the schema of its route, is known."""


async def typed(request: Any, state: State) -> Any:
    """Answer a request to ``/{verb}``."""
    verb, request.scope[ROUTE] = request.path_params["verb"], "other"  # until it is known to be one
    if verb not in (registry.ANY, *(served.verb for served in state.models)):
        raise RequestError(404, "there is no such route")
    if request.method != "POST":
        raise RequestError(405, f"/{verb} is for POST", headers={"allow": "POST"})
    request.scope[ROUTE] = f"/{verb}"
    body = await read_body(request, ANY_SCHEMA)
    served = state.find(request, body["model"], verb)
    body = await read_body(request, served.request_schema())
    if served.writes:
        answers, said = await unless_gone(request, _written(served, body, state, request.scope[USED]))
    else:
        answers, said = await unless_gone(request, _answered(served, body, state))
    told = {"warnings": said} if said else {}
    return await answer_in_pieces({"model": served.name, "answers": answers, **told})


async def _written(
    served: Served, body: dict[str, Any], state: State, used: dict[str, Any]
) -> tuple[list[Any], list[str]]:
    """The continuation of each input by itself, however long the others are, and what is warned of.

    ``used`` is told how tokens are counted.
    """
    said: list[str] = []

    def prompts() -> list[Prompt]:
        found = []
        for number, text in enumerate(body["inputs"]):
            with capture_warnings() as of_input:
                found.append(served.pipe.checked_prompt(text))
            said.extend(one if len(body["inputs"]) == 1 else f"inputs[{number}]: {one}" for one in of_input)
        return found

    with served.places.held(len(body["inputs"])):
        given = await in_thread(prompts)
    generation = Generation(served, given, typed_options(body), state)
    used["usage"] = generation.usage
    texts = await generation.whole()
    return [one.text for one in texts], said


async def _answered(served: Served, body: dict[str, Any], state: State) -> tuple[list[Any], list[str]]:
    """The answers of a pipeline, some inputs at a time, and what it warns about."""
    values: Sequence[Any] = body["inputs"]
    work: list[Any] = list(parts(values))
    if served.spec.reads == "picture":
        values = await in_thread(_pictures, body["inputs"])
        work = [values[at : at + AT_ONCE] for at in range(0, len(values), AT_ONCE)]
    use = _Use(served, given_options(served.command, body), values)
    size = sum(map(characters, body["inputs"]))
    return (await answered(served, use, [None, *work, ...], size, state, "inputs"))[-1], use.warnings


class _Use:
    """A command with its inputs, in the worker's thread: None begins it, ``...`` gives all results.

    Requests with the same options are answered together (``serving.worker``).
    """

    most = AT_ONCE

    def __init__(self, served: Served, options: dict[str, Any], values: Sequence[Any]):
        self.served, self.options, self.values = served, options, values
        self.kind = tuple(sorted((name, repr(value)) for name, value in options.items()))
        self.found: list[Any] = []
        self.warnings: list[str] = []
        self.use: Any = None
        """the command"""

    def __call__(self, part: Any) -> Any:
        if part is None:
            return self._begin()
        if part is ...:
            return self._results()
        with capture_warnings() as said:
            answers = self._compute(part)
        first = sum(map(len, self.found))
        self.warnings += of_part(said, "inputs", slice(first, first + len(part)), len(self.values))
        return self.take(answers)

    def _begin(self) -> None:
        command = self.served.command
        command.check(self.options, None)
        pipe = command.takes(self.served.pipe, self.options)
        is_text = self.served.spec.reads == "text"
        names = self.values if is_text else [f"picture {at}" for at in range(1, len(self.values) + 1)]
        self.use = command(pipe, Inputs(self.served.name, names, several=True), self.options)
        texts = self.values if is_text else ()
        if (size := sum(map(self.use.size, texts))) > MOST_VALUES:
            raise InputError(
                f"the answers to these inputs would have some {size:,} values, and a request may ask for "
                f"{MOST_VALUES:,}: send fewer or shorter inputs at a time."
            )
        for value in texts:
            self.use.check_input(value)

    def compute(self, inputs: list[Any]) -> Sequence[Any]:
        """The answers to inputs of several requests with the same options.

        Raises RuntimeError where it is warned of some: of which is known when each request is answered alone.
        """
        with capture_warnings(refuse=True):
            return self._compute(inputs)

    def _compute(self, inputs: list[Any]) -> Any:
        if self.served.spec.reads == "picture":
            inputs = [self._unpacked(content, number) for number, content in enumerate(inputs, 1)]
            return self.use.pipe(inputs)
        return self.use.answer(inputs)

    def _unpacked(self, content: bytes, number: int) -> Any:
        """The pixels of a picture, made as small as the model reads it before the next one is unpacked."""
        from headway.data.images.preprocessing import image_from_file

        self.served.worker.between()
        pixels = image_from_file(io.BytesIO(content), f"picture {number}")
        fit = getattr(self.served.pipe, "pixels", None)
        return pixels if fit is None else fit(pixels, number)

    def take(self, answers: Sequence[Any]) -> None:
        """Keep the answers to a part of this request."""
        self.found.append(answers)

    def _results(self) -> list[Any]:
        """The results of all parts, as JSON values."""
        if not self.use.gathers:
            return [one for part in self.found for one in self.use.results(part)]
        import numpy as np

        use, whole = self.use.gathered(np.concatenate(self.found))
        return list(use.results(whole[: len(self.values)]))


def _pictures(texts: Sequence[str]) -> list[bytes]:
    """The contents of pictures in base64, of which only the headers are read yet.

    Raises InputError, and RequestError that names the input.
    """
    from headway.data.images.preprocessing import pixels_by_header

    found, in_all = [], 0
    for at, text in enumerate(texts):
        try:
            content = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise invalid(f"inputs[{at}] is not base64", f"inputs[{at}]") from None
        pixels = pixels_by_header(io.BytesIO(content), f"inputs[{at}]")
        in_all += pixels
        if pixels > MOST_PIXELS or in_all > MOST_PIXELS_IN_ALL:
            raise invalid(
                f"inputs[{at}] has {pixels:,} pixels; at most {MOST_PIXELS:,} are read of a picture, and "
                f"{MOST_PIXELS_IN_ALL:,} in a request",
                f"inputs[{at}]",
            )
        found.append(content)
    return found
