"""The implementations behind ``Tokenizer``: the Rust library, and a copy in which no text spells a special token.

A tokenizer with patterns that are not known computes in a process of its own: on some text they may never end.
"""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import tokenizers
from tokenizers import models

from headway.errors import InputError
from headway.text.safe.process import ask
from headway.text.safe.tokenizer_files import parts_of
from headway.text.sentencepiece.backend import Pair, SentencePieceBackend

KINDS = {"WordPiece": "wordpiece", "WordLevel": "word", "Unigram": "unigram", "BPE": "bpe"}
"""The library's models, and what ``Tokenizer.kind`` calls them."""
SECONDS, BYTES_PER_SECOND = 2.0, 50_000
"""The time for a request: a fixed part, and that for its texts at a rate far below any useful tokenizer's."""


class RustBackend:
    """A tokenizer of the ``tokenizers`` library, without truncation, padding or random dropping of merges.

    ``specials`` are made special tokens if they are not yet.  Special tokens spelled in a text are text: where the
    model itself could produce one (Unigram has ``</s>`` as a piece; merges may lead to it), text is encoded by a copy
    in which the special tokens have secret names.  So are conversations, to tell their own special tokens from those
    that a message spells.
    """

    prefix: tuple[int, ...] = ()
    languages: Mapping[str, int] = MappingProxyType({})
    coded = False
    transformers_class = "PreTrainedTokenizerFast"
    _cut: tuple[int, tokenizers.Tokenizer] | None = None

    def __init__(self, tokenizer: tokenizers.Tokenizer, specials: Iterable[str] = ()) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        if isinstance(tokenizer.model, models.BPE):
            tokenizer.model.dropout = None  # the same text gives the same ids
        known = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
        tokenizer.add_special_tokens(sorted(set(specials) - known))
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer

    def encode(self, texts: list[str], *, special: bool, allow_special: bool) -> list[list[int]]:
        backend = self._reading_specials if allow_special else self._reading_text
        return [encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=special)]

    def encode_places(self, texts: list[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """(ids, the characters [start, end) that each is of) of every text, without special tokens."""
        encodings = self._reading_text.encode_batch(texts, add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]], longest: int | None) -> list[Pair]:
        """Each pair as one row, of at most ``longest`` ids."""
        rows = self._cutting(longest).encode_batch([(first, second) for first, second in pairs])
        return [Pair(encoding.ids, encoding.type_ids, encoding.offsets) for encoding in rows]

    def encode_parts(self, parts: Sequence[str | int]) -> tuple[list[int], list[int]]:
        """(the ids of texts and ids in order, the index of the part in which each begins)."""
        pieces = [part if isinstance(part, str) else self._secret_names[part] for part in parts]
        encoding = self._renamed.encode("".join(pieces), add_special_tokens=False)
        owners: list[int] = []
        owner, end = -1, 0
        for start, _ in encoding.offsets:
            while owner + 1 < len(pieces) and (start >= end or owner < 0):
                owner += 1
                end += len(pieces[owner])
            owners.append(owner)
        return encoding.ids, owners

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=skip_special)

    def words(self, text: str) -> list[str]:
        """The words of a text as the model receives them, within which it merges."""
        normalizer, splitter = self.tokenizer.normalizer, self.tokenizer.pre_tokenizer
        normal = text if normalizer is None else normalizer.normalize_str(text)
        return [normal] if splitter is None else [word for word, _ in splitter.pre_tokenize_str(normal)]

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return self.tokenizer.get_vocab(with_added_tokens=True)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self._special_tokens.values())

    @cached_property
    def kind(self) -> str:
        kind = KINDS.get(type(self.tokenizer.model).__name__, "other")
        if kind != "bpe" or {"ByteLevel", "ByteFallback"} & set(self.decoders):
            return kind
        whole = all(len(token) == 1 or number in self.special_ids for token, number in self.vocabulary.items())
        return "char" if whole else "bpe"

    @cached_property
    def decoders(self) -> list[str]:
        """The types of the decoder's parts, in order."""
        decoder = self.tokenizer.decoder
        spec = None if decoder is None else json.loads(decoder.__getstate__())
        return [str(part.get("type")) for part in parts_of(spec, "decoder")]

    def with_tokenizer(self, tokenizer: tokenizers.Tokenizer, specials: Iterable[str] = ()) -> "RustBackend":
        """The same for a changed copy of the tokenizer."""
        return RustBackend(tokenizer, specials)

    def with_prefix(self, prefix: tuple[int, ...]) -> "RustBackend":
        raise InputError("this tokenizer has no languages to choose from")

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": self.tokenizer.to_str(pretty=True).encode()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (RustBackend, self.tokenizer.to_str())

    @cached_property
    def _reading_specials(self) -> tokenizers.Tokenizer:
        """A copy that recognises special tokens in a text: switching a tokenizer's flag is not thread-safe."""
        return tokenizers.Tokenizer.from_str(self.tokenizer.to_str())

    @cached_property
    def _reading_text(self) -> tokenizers.Tokenizer:
        return self._renamed if self._may_spell_specials() else self.tokenizer

    def _cutting(self, longest: int | None) -> tokenizers.Tokenizer:
        """What reads texts, and cuts rows of more ids; a copy, since others read with it in other threads."""
        if longest is None:
            return self._reading_text
        known = self._cut
        if known is None or known[0] != longest:
            known = self._cut = longest, tokenizers.Tokenizer.from_str(self._reading_text.to_str())
            known[1].encode_special_tokens = self._reading_text.encode_special_tokens
            known[1].enable_truncation(longest)
        return known[1]

    @cached_property
    def _special_tokens(self) -> dict[str, int]:
        added = self.tokenizer.get_added_tokens_decoder()
        return {token.content: number for number, token in added.items() if token.special}

    @cached_property
    def _secret_names(self) -> dict[int, str]:
        secret = secrets.token_hex(8)  # never in the output: the same text still gives the same ids
        return {number: f"<{secret}:{number}>" for number in self.special_ids}

    @cached_property
    def _renamed(self) -> tokenizers.Tokenizer:
        names = {token: self._secret_names[number] for token, number in self._special_tokens.items()}
        return tokenizers.Tokenizer.from_str(json.dumps(rename(json.loads(self.tokenizer.to_str()), names)))

    def _may_spell_specials(self) -> bool:
        """Whether the model could produce a special token from plain characters."""
        model, specials = self.tokenizer.model, self._special_tokens.keys()
        if isinstance(model, models.Unigram):
            return not specials.isdisjoint(self.tokenizer.get_vocab(with_added_tokens=False))
        if isinstance(model, models.BPE):
            spec = json.loads(model.__getstate__())
            prefix = spec.get("continuing_subword_prefix") or ""
            made = {first + second.removeprefix(prefix) for first, second in spec["merges"]}
            single = {token for token in specials if len(token) == 1} if spec["vocab"] else set()
            whole = specials & spec["vocab"].keys() if spec.get("ignore_merges") else set()
            return not specials.isdisjoint(made) or bool(single | whole)
        for token in specials:  # models of whole words: tested by encoding
            for text in (token, f" {token}", f"a{token}b", f"a {token} b"):
                ids = set(self.tokenizer.encode(text, add_special_tokens=False).ids)
                if self._special_tokens[token] in ids:
                    return True
        return False


Backend = RustBackend | SentencePieceBackend
"""Strings to ids and back: what ``Tokenizer`` needs of its implementation.

``prefix``: ids of languages that are put before a text with ``special``.  ``languages``: ids by code.  ``coded``: the
target language is named before the source, not before the target.  ``transformers_class`` can read ``files``.
"""


def rename(spec: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """A parsed ``tokenizer.json`` with tokens renamed, and without the merges that would produce one of them."""
    model = spec["model"]
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        model["vocab"] = [[names.get(token, token), score] for token, score in vocabulary]
    else:
        model["vocab"] = {names.get(token, token): number for token, number in vocabulary.items()}
    if "merges" in model:
        prefix = model.get("continuing_subword_prefix") or ""
        model["merges"] = [
            [first, second]
            for first, second in model["merges"]
            if names.keys().isdisjoint((first, second, first + second.removeprefix(prefix)))
        ]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    for row in spec.get("added_tokens") or []:
        row["content"] = names.get(row["content"], row["content"])
    return spec


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
        ids: list[list[int]] = self._ask("encode", texts, special=special, allow_special=allow_special)
        return ids

    def encode_places(self, texts: list[str]) -> list[tuple[list[int], list[tuple[int, int]]]]:
        return [(ids, [(start, end) for start, end in places]) for ids, places in self._ask("encode_places", texts)]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]], longest: int | None) -> list[Pair]:
        rows = self._ask("encode_pairs", [*pairs], longest)
        return [Pair(ids, segments, [(start, end) for start, end in places]) for ids, segments, places in rows]

    def encode_parts(self, parts: Sequence[str | int]) -> tuple[list[int], list[int]]:
        ids, owners = self._ask("encode_parts", list(parts))
        return ids, owners

    def decode(self, ids: list[int], *, skip_special: bool) -> str:
        return str(self._ask("decode", ids, skip_special=skip_special))

    def words(self, text: str) -> list[str]:
        words: list[str] = self._ask("words", text)
        return words

    def files(self) -> dict[str, bytes]:
        return {"tokenizer.json": json.dumps(self._spec, indent=2, ensure_ascii=False).encode()}

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (IsolatedBackend, self.tokenizer.to_str(), self.parts, self.path)

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


def _restore(kind: type[RustBackend], text: str, *others: Any) -> RustBackend:
    return kind(tokenizers.Tokenizer.from_str(text), (), *others)
