"""A tokenizer with patterns that are not known, in a process of its own: on some text they may never end."""

import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import tokenizers

from headway.errors import InputError
from headway.text.backend import RustBackend
from headway.text.safe.process import ask

SECONDS, BYTES_PER_SECOND = 2.0, 50_000
"""The time for a request: a fixed part, and that for its texts at a rate far below any useful tokenizer's."""


class IsolatedBackend(RustBackend):
    """``RustBackend`` for a ``tokenizer.json`` that is not ``safe.known.is_known``.

    The tokenizer here lacks the parts that read a text, ``parts`` by their names in the file ``path``; another process
    has them, with limited time and memory.
    """

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, specials: Iterable[str], parts: dict[str, Any], path: str
    ) -> None:
        super().__init__(tokenizer, specials)
        self.parts, self.path = parts, path

    def with_tokenizer(self, tokenizer: tokenizers.Tokenizer, specials: Iterable[str] = ()) -> "IsolatedBackend":
        return IsolatedBackend(tokenizer, specials, self.parts, self.path)

    def encode(self, texts: list[str], *, special: bool, allow_special: bool) -> list[list[int]]:
        found: list[list[int]] = self._ask("encode", texts, special=special, allow_special=allow_special)
        return found

    def encode_places(self, texts: list[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        return [(ids, [(start, end) for start, end in places]) for ids, places in self._ask("encode_places", texts)]

    def encode_pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        ids, types = self._ask("encode_pair", first, second)
        return ids, types

    def encode_parts(self, parts: Sequence[str | int]) -> tuple[list[int], list[int]]:
        ids, owners = self._ask("encode_parts", list(parts))
        return ids, owners

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        return str(self._ask("decode", ids, skip_special=skip_special))

    def words(self, text: str) -> list[str]:
        found: list[str] = self._ask("words", text)
        return found

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": json.dumps(self._spec, indent=2, ensure_ascii=False).encode()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.tokenizer.to_str(), self.parts, self.path)

    @cached_property
    def _spec(self) -> dict[str, Any]:
        return {**json.loads(self.tokenizer.to_str()), **self.parts}

    @cached_property
    def _hello(self) -> str:
        return json.dumps({"tokenizer": json.dumps(self._spec), "path": self.path})

    def _ask(self, method: str, *given: Any, **named: Any) -> Any:
        n_bytes = len(json.dumps(given))
        seconds = SECONDS + n_bytes / BYTES_PER_SECOND
        request = {"method": method, "given": given, "named": named, "seconds": seconds, "n_bytes": n_bytes}
        answer = ask(self._hello, json.dumps(request), seconds)
        if (error := answer.get("error")) is not None:
            named_by = "" if error.startswith(self.path) else f"{self.path}: this tokenizer "
            raise InputError(f"{named_by}{error}; use the tokenizer that was published with the model")
        return answer["found"]


def _restore(text: str, parts: dict[str, Any], path: str) -> IsolatedBackend:
    return IsolatedBackend(tokenizers.Tokenizer.from_str(text), (), parts, path)
