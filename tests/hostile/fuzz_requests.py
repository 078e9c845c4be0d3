"""Damage requests to a server at random: fuzz_requests.py [SECONDS] [SEED].

What is no JSON with one meaning, and every value that a field cannot have, must be refused with a status from 400 to
499; an answer with status 200 must have obeyed, or name in its ``warnings``, whatever was damaged.  No request may fail
inside the server, take WAITED seconds, or let its memory grow.  What goes wrong is printed with the seed of its case;
``fuzz_requests.py 0 SEED`` repeats that case alone.  Exit status 1 when there was any.
"""

import json
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from fuzz import VALUES, drive, some_bytes

sys.path += [str(Path(__file__).parents[1] / name) for name in ("serving", "doors")]
from served_models import Server, write_models

WAITED = 20.0
SETTLED, GROWTH = 300, 1.5
"""Requests after which the server's memory may grow by this factor."""
Check = Callable[[Any], bool]


def whole(least: float, most: float) -> Check:
    return lambda value: isinstance(value, int | float) and int(value) == value and least <= value <= most


def number(least: float, most: float) -> Check:
    return lambda value: isinstance(value, int | float) and least <= value <= most


def words(most: int, least: int = 0) -> Check:
    return lambda value: isinstance(value, str) and least <= len(value) <= most


def several(check: Check, most: int, least: int = 1) -> Check:
    return lambda value: isinstance(value, list) and least <= len(value) <= most and all(map(check, value))


def either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def yes_or_no(value: Any) -> bool:
    return isinstance(value, bool)


def one_of(*values: Any) -> Check:
    return lambda value: any(value == one and type(value) is type(one) for one in values)


def no_bool(check: Check) -> Check:
    return lambda value: not isinstance(value, bool) and check(value)


def fields(known: dict[str, Check], needed: tuple[str, ...] = ()) -> Check:
    def check(value: Any) -> bool:
        return isinstance(value, dict) and set(needed) <= set(value) and not wrong(value, known)

    return check


def wrong(value: dict[str, Any], known: dict[str, Check]) -> list[str]:
    """The fields that no value of theirs excuses."""
    given = {name: one for name, one in value.items() if one is not None}
    off = {name for name, one in given.items() if name in OFF and one == OFF[name]}
    return [name for name, one in given.items() if not (known[name](one) if name in known else name in off)]


def biases(value: Any) -> bool:
    bias = no_bool(number(-100, 100))
    return isinstance(value, dict) and all(key.isdecimal() and bias(one) for key, one in value.items())


TEXT = words(1 << 16)
SAMPLING: dict[str, Check] = {
    **{"temperature": number(0, 2), "top_p": number(0, 1), "min_p": number(0, 1), "n": whole(1, 8)},
    **{"seed": whole(-(2**63), 2**63 - 1), "stop": either(words(64, 1), several(words(64, 1), 4, 0))},
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), number(-2, 2)),
    **{"top_k": whole(-1, 2**30), "repetition_penalty": number(0.01, 100), "max_tokens": whole(1, 2**31)},
}
SAMPLING = {name: no_bool(check) for name, check in SAMPLING.items()}
HARMLESS = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls")
OPENAI: dict[str, Check] = {
    **SAMPLING,
    **{"logit_bias": biases, "stream": yes_or_no, "model": one_of("text", "chat")},
    "stream_options": fields({"include_usage": yes_or_no, "include_obfuscation": yes_or_no}),
    **dict.fromkeys(HARMLESS, lambda _: True),
}
IDS = several(no_bool(whole(0, 319)), 1 << 16)
MESSAGE = fields(
    {
        "role": one_of("system", "developer", "user", "assistant"),
        "content": either(TEXT, several(fields({"type": one_of("text"), "text": TEXT}, ("type", "text")), 64)),
        "name": words(64),
    },
    ("role", "content"),
)
TYPED = {"inputs": several(TEXT, 256)}
WRITING: dict[str, Check] = {
    **{"temperature": number(0, 10**9), "top_p": number(0, 1), "min_p": number(0, 1), "max_tokens": whole(1, 1 << 16)},
    **{"top_k": whole(-1, 10**9), "seed": whole(0, 2**63 - 1), "repetition_penalty": number(1e-9, 10**9)},
}
WRITING = {name: no_bool(check) for name, check in WRITING.items()} | {"stop": several(words(1000, 1), 4, 0)}
ROUTES: dict[str, tuple[dict[str, Any], dict[str, Check], tuple[str, ...]]] = {
    "/v1/completions": (
        {"model": "text", "prompt": "the cat", "max_tokens": 4, "temperature": 0, "seed": 1, "stop": ["x"]},
        {
            **OPENAI,
            "prompt": either(TEXT, several(TEXT, 64), IDS, several(IDS, 64)),
            **{"logprobs": no_bool(whole(0, 5)), "echo": yes_or_no, "best_of": no_bool(whole(1, 8))},
        },
        ("model", "prompt"),
    ),
    "/v1/chat/completions": (
        {"model": "chat", "messages": [{"role": "user", "content": "the cat"}], "max_tokens": 4, "temperature": 0.0},
        {
            **{**OPENAI, "messages": several(MESSAGE, 256), "logprobs": yes_or_no},
            **{"top_logprobs": no_bool(whole(0, 20)), "max_completion_tokens": no_bool(whole(1, 2**31))},
        },
        ("model", "messages"),
    ),
    "/v1/embeddings": (
        {"model": "vectors", "input": ["the cat", "a mat"], "encoding_format": "float"},
        {
            "model": one_of("vectors"),
            "input": either(words(1 << 16, 1), several(words(1 << 16, 1), 2048), IDS, several(IDS, 2048)),
            "encoding_format": one_of("float", "base64"),
            **dict.fromkeys(HARMLESS, lambda _: True),
        },
        ("model", "input"),
    ),
    "/classify": ({"inputs": ["the cat", "a mat"]}, {**TYPED, "model": one_of("labels")}, ("inputs",)),
    "/fill": (
        {"inputs": ["the [MASK] sat"], "k": 2},
        {**TYPED, "model": one_of("fill"), "k": no_bool(whole(1, 100))},
        ("inputs",),
    ),
    "/generate": (
        {"model": "text", "inputs": ["the cat"], "max_tokens": 4, "temperature": 0.5, "seed": 3, "stop": ["x"]},
        {**TYPED, **WRITING, "model": one_of("text", "chat")},
        ("inputs",),
    ),
    "/translate": (
        {"inputs": ["the cat"], "beam": 2, "length_penalty": 1.0, "scores": False},
        {
            **{**TYPED, "model": one_of("marian"), "scores": yes_or_no, "alignment": yes_or_no},
            **{"length_penalty": no_bool(number(-10, 10)), **dict.fromkeys(("beam", "n_best"), no_bool(whole(1, 16)))},
        },
        ("inputs",),
    ),
}
"""By route: a request, what its fields may be, and which it needs."""
OFF: dict[str, Any] = {
    **{"grammar": "", "suffix": "", "min_tokens": 0, "top_a": 0, "ignore_eos": False, "do_sample": True},
    **{"tools": [], "functions": [], "modalities": ["text"], "response_format": {"type": "text"}},
}
"""Fields that change an answer unless they have this value."""
UNKNOWN = (
    *(
        "guided_json",
        "grammar",
        "min_tokens",
        "temprature",
        "Temperature",
        "ignore_eos",
        "tools",
        "suffix",
        "dimensions",
    ),
    *(
        "response_format",
        "functions",
        "max_length",
        "top_a",
        "do_sample",
        "no_such_field",
        "logit_bias",
        "echo",
        "dimensions",
    ),
)


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key stands there twice")
    return dict(pairs)


def refuse(word: str) -> Any:
    raise ValueError(word)


def meaning(content: bytes) -> Any:
    """What a body says; ``...`` where it is no JSON with one meaning."""
    try:
        found = json.loads(content.decode("utf-8"), object_pairs_hook=without_duplicates, parse_constant=refuse)
        json.dumps(found, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return ...
    return found


def some_body(body: dict[str, Any], choose: random.Random) -> bytes:
    """A body with another value, another key, one more or one less, or with other bytes."""
    found = json.loads(json.dumps(body))
    place = found
    while isinstance(place, dict) and choose.random() < 0.3:  # one of what is inside
        inside = [one for value in place.values() for one in (value if isinstance(value, list) else [value])]
        place = choose.choice([one for one in inside if isinstance(one, dict)] or [place])
    key, kind = choose.choice(list(place)), choose.randrange(6)
    if kind == 0:
        place[key] = choose.choice(VALUES)
    elif kind == 1:
        place[choose.choice(UNKNOWN)] = choose.choice(VALUES)
    elif kind == 2:
        at = choose.randrange(len(key))
        place[key[:at] + key[at + 1 :]] = place.pop(key)
    elif kind == 3:
        del place[key]
    elif kind == 4 and isinstance(place[key], list):
        place[key].append(choose.choice(VALUES))
    else:
        return some_bytes(json.dumps(found).encode(), choose)
    return json.dumps(found).encode()


def told(answer: httpx.Response) -> str:
    """What an answer warns of."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return answer.text
    return json.dumps(answer.json().get("warnings", []))


class Requests:
    """A server with a model of each kind."""

    def __init__(self, folder: Path):
        self.models = write_models(folder)
        self.server = Server(*(self.models[name] for name in sorted(self.models) if name != "pictures"), "--quiet")
        threading.Thread(target=self.server.process.stderr.read, daemon=True).start()  # a full pipe would stop it
        self.client = httpx.Client(base_url=self.server.address, timeout=WAITED)
        self.done = self.memory = 0

    def case(self, case: int) -> tuple[str, str | None]:
        """(what happened, what should not have): its number decides everything."""
        choose = random.Random(case)
        if choose.random() < 0.05:
            self._broken_connection(choose)
        route = choose.choice(list(ROUTES))
        body, known, needed = ROUTES[route]
        content = some_body(body, choose)
        began = time.monotonic()
        try:
            answer = self.client.post(route, content=content, headers={"content-type": "application/json"})
        except httpx.HTTPError as error:
            alive = self.server.process.poll()
            return "failed", f"case {case}: {route}: {content[:2000]!r}: {error!r}; server {alive}"
        problem = self._problem(answer, meaning(content), known, needed)
        if (seconds := time.monotonic() - began) > WAITED / 2:
            problem = f"took {seconds:.1f} s"
        problem = problem or self._memory()
        if problem is not None:
            problem = f"case {case}: {route}: {content[:2000]!r}: {answer.status_code}: {problem}: {answer.text[:500]}"
        return ("answered" if answer.status_code == 200 else "refused"), problem

    @staticmethod
    def _problem(answer: httpx.Response, asked: Any, known: dict[str, Check], needed: tuple[str, ...]) -> str | None:
        if answer.status_code != 200:
            if not 400 <= answer.status_code < 500:
                return "this is no refusal"
            return None if answer.json()["error"]["message"] else "the error says nothing"
        if not isinstance(asked, dict):
            return "this is no JSON object with one meaning"
        if missing := [name for name in needed if name not in asked]:
            return f"{missing[0]} is missing"
        said = told(answer)
        ignored = [name for name in wrong(asked, known) if json.dumps(name)[1:-1][:60] not in said]
        return f"ignored {ignored[0]!r}" if ignored else None

    def _broken_connection(self, choose: random.Random) -> None:
        """A request of which only a part comes."""
        content = b"POST /classify HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 40\r\n\r\n{"
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=WAITED) as connection:
            connection.sendall(some_bytes(content, choose))

    def _memory(self) -> str | None:
        """What is wrong with the server's memory."""
        self.done += 1
        if self.done % 100 and self.done > SETTLED:
            return None
        status = Path(f"/proc/{self.server.process.pid}/statm").read_text()
        pages = int(status.split()[1])
        if self.done <= SETTLED:
            self.memory = max(self.memory, pages)
        return f"memory grew from {self.memory} to {pages} pages" if pages > GROWTH * self.memory else None


def main(seconds: float = 3600.0, first: int | None = None) -> int:
    """Fuzz for that long."""
    with tempfile.TemporaryDirectory() as folder:
        requests = Requests(Path(folder))
        try:
            return drive(requests.case, seconds, first)
        finally:
            requests.server.stop()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
