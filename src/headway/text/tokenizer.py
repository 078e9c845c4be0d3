"""One tokenizer for every kind of model: strings to ids and back."""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

import tokenizers
from tokenizers import models

from headway.errors import InputError
from headway.storage import write_json, write_whole
from headway.text.files import check_tokenizer, read_object
from headway.text.special import NAMES, find_names, read_config
from headway.text.stream import StreamDecoder, byte_alphabet

Result = TypeVar("Result")

NO_LIMIT = 10**9
"""A ``model_max_length`` above this stands for "none"."""

KEPT = ("chat_template", "model_input_names")
"""Entries of a loaded ``tokenizer_config.json`` that are written back as they were."""

PROBES = (
    "",
    "Hello, world! It's 12:30.",
    "Ünïcödé, 日本語, ไทย, عربي, 👩‍👩‍👧 \ufffd",
    "\t tabs\nand  lines\r\n\n",
    "a" * 48 + "!",
    " " * 48 + "0" * 48,
)


class Tokenizer:
    """Strings to ids and back, over a Rust tokenizer of the ``tokenizers`` library.

    Made by ``train_tokenizer`` or ``Tokenizer.load``.  It never truncates, pads or cleans up spaces, and may be used
    from several threads.  ``names`` says which token is which ("eos_token", "pad_token", ...), as in
    ``tokenizer_config.json``.

    ``trained_on_characters``: how much text it was trained on here, None when loaded; ``sampled``: whether there was
    more text than was read.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        names: dict[str, str],
        config: dict[str, Any] | None = None,
        *,
        trained_on_characters: int | None = None,
        sampled: bool = False,
    ) -> None:
        backend.no_truncation()
        backend.no_padding()
        added = backend.get_added_tokens_decoder().values()
        known = {token.content for token in added if token.special}
        backend.add_special_tokens(sorted(set(names.values()) - known))
        backend.encode_special_tokens = True  # special tokens inside data are text
        self._backend = backend
        self._names = dict(names)
        self._config = dict(config or {})
        self.trained_on_characters = trained_on_characters
        self.sampled = sampled

    @classmethod
    def load(cls, directory: str | Path, *, rows: int | None = None) -> "Tokenizer":
        """The tokenizer of a Hugging Face directory: ``tokenizer.json`` and, if there, ``tokenizer_config.json``.

        ``rows``: how many rows of embeddings the model has; every id must be below it.  Raises InputError naming the
        file, the field, what was found and what was expected.
        """
        folder = Path(directory)
        path = folder / "tokenizer.json"
        spec, text = read_object(path)
        check_tokenizer(spec, path, rows)
        backend = guarded(lambda: tokenizers.Tokenizer.from_str(text), f"{path}: cannot be loaded")
        for row in spec.get("added_tokens") or []:
            if backend.token_to_id(row["content"]) != row["id"]:
                raise InputError(
                    f"{path}: added_tokens, id of {row['content']!r}: found {row['id']}, expected "
                    f"{backend.token_to_id(row['content'])}: added ids follow those of model.vocab without a gap"
                )
        if isinstance(backend.model, models.BPE):
            backend.model.dropout = None  # the same text gives the same ids
        config = read_config(folder)
        tokenizer = cls(backend, find_names(config, backend, folder), config)
        tokenizer._probe(path)
        return tokenizer

    def save(self, directory: str | Path, *, max_length: int | None = None, segments: bool = False) -> None:
        """Write ``tokenizer.json`` and ``tokenizer_config.json``; ``transformers.AutoTokenizer`` reads them.

        ``max_length``: the model's context in tokens (default: as loaded).  ``segments``: the model takes
        ``token_type_ids``, so that other programs send them.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        inputs = ["input_ids", *(["token_type_ids"] if segments else []), "attention_mask"]
        config = {
            "model_input_names": inputs,
            **{key: self._config[key] for key in KEPT if key in self._config},
            **{name: self._names[name] for name in NAMES if name in self._names},
            "model_max_length": max_length or self.max_length or 10**30,
            "clean_up_tokenization_spaces": False,
            "tokenizer_class": "PreTrainedTokenizerFast",
        }
        text = self.to_json()
        write_whole(folder / "tokenizer.json", lambda beside: beside.write_text(text, encoding="utf-8"))
        write_json(folder / "tokenizer_config.json", config)

    def to_json(self) -> str:
        """The text of ``tokenizer.json``."""
        return self._backend.to_str(pretty=True)

    @cached_property
    def vocab_size(self) -> int:
        """The rows of embeddings this tokenizer needs: one more than its largest id, added tokens included."""
        return 1 + max(self._backend.get_vocab(with_added_tokens=True).values())

    @cached_property
    def tokens(self) -> list[str]:
        """The tokens by id, as the vocabulary writes them; "" for an id that no token has."""
        return [self._backend.id_to_token(number) or "" for number in range(self.vocab_size)]

    @cached_property
    def kind(self) -> str:
        """ "bpe", "wordpiece", "word", "char" or "other"."""
        model = self._backend.model
        if isinstance(model, models.WordPiece):
            return "wordpiece"
        if isinstance(model, models.WordLevel):
            return "word"
        if not isinstance(model, models.BPE):
            return "other"
        if "ByteLevel" in self._decoders or "ByteFallback" in self._decoders:
            return "bpe"
        special = self.special_ids
        whole = all(len(token) == 1 for number, token in enumerate(self.tokens) if token and number not in special)
        return "char" if whole else "bpe"

    @property
    def role(self) -> str:
        """ "encoder" for a tokenizer that has a [CLS] token, else "decoder"."""
        return "decoder" if self.cls is None else "encoder"

    @property
    def begin_of_text(self) -> int | None:
        """The id of the token that starts a text."""
        return self._named("bos_token")

    @property
    def end_of_text(self) -> int | None:
        """The id of the token that ends a text."""
        return self._named("eos_token")

    @property
    def pad(self) -> int | None:
        """The id that fills a batch; masks tell it from text."""
        return self._named("pad_token")

    @property
    def unknown(self) -> int | None:
        """The id of what the vocabulary lacks."""
        return self._named("unk_token")

    @property
    def cls(self) -> int | None:
        """The id of [CLS]."""
        return self._named("cls_token")

    @property
    def sep(self) -> int | None:
        """The id of [SEP]."""
        return self._named("sep_token")

    @property
    def mask(self) -> int | None:
        """The id of [MASK]."""
        return self._named("mask_token")

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids that are no text."""
        added = self._backend.get_added_tokens_decoder()
        return frozenset(number for number, token in added.items() if token.special)

    @property
    def max_length(self) -> int | None:
        """The model's context in tokens as its directory states it, or None."""
        found = self._config.get("model_max_length")
        return found if type(found) is int and 0 < found <= NO_LIMIT else None

    @property
    def chat_template(self) -> str | None:
        """The chat template of the loaded directory, unrendered, or None."""
        found = self._config.get("chat_template")
        return found if isinstance(found, str) else None

    def encode(self, text: str, *, special: bool = False, allow_special: bool = False) -> list[int]:
        """The ids of a text.

        ``special`` adds what the model wants around a text ([CLS] and [SEP] for an encoder).  A text that spells a
        special token is text, unless ``allow_special``.  Raises InputError.
        """
        backend = self._reading_specials if allow_special else self._backend
        return guarded(lambda: _encode(backend, [text], special), "this text cannot be encoded")[0]

    def encode_batch(self, texts: Sequence[str], *, special: bool = False) -> list[list[int]]:
        """The ids of each text, in order; on several threads.  Raises InputError naming the text that fails."""
        texts = list(texts)
        try:
            return guarded(lambda: _encode(self._backend, texts, special), "")
        except InputError:
            return [self._encode_row(text, row, special) for row, text in enumerate(texts, start=1)]

    def encode_pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """(ids, type ids) of two texts with the special tokens around them; types are 0, then 1.  Raises InputError."""
        encoded = guarded(lambda: self._backend.encode(first, second), "this pair of texts cannot be encoded")
        return encoded.ids, encoded.type_ids

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids; special tokens give none unless ``skip_special`` is false.  Raises InputError."""
        numbers = [int(number) for number in ids]
        return guarded(
            lambda: self._backend.decode(numbers, skip_special_tokens=skip_special), "these ids cannot be decoded"
        )

    def stream(self, *, skip_special: bool = True) -> StreamDecoder:
        """A decoder for ids that come one by one."""
        plain = self._decoders == ["ByteLevel"]
        return StreamDecoder(
            lambda ids: self.decode(ids, skip_special=skip_special),
            self.tokens,
            self.special_ids if skip_special else frozenset(),
            byte_values=byte_alphabet() if plain else None,
            byte_fallback="ByteFallback" in self._decoders,
            partial="ByteLevel" in self._decoders,
        )

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, role={self.role!r}, vocab_size={self.vocab_size})"

    def __reduce__(self) -> tuple[Callable[..., "Tokenizer"], tuple[Any, ...]]:
        return _restore, (self.to_json(), self._names, self._config, self.trained_on_characters, self.sampled)

    def _encode_row(self, text: str, row: int, special: bool) -> list[int]:
        return guarded(lambda: _encode(self._backend, [text], special), f"text {row} cannot be encoded")[0]

    def _named(self, name: str) -> int | None:
        token = self._names.get(name)
        return None if token is None else self._backend.token_to_id(token)

    @cached_property
    def _reading_specials(self) -> tokenizers.Tokenizer:
        """A second backend, in which special tokens inside a text count: a switch on one would not be thread-safe."""
        return tokenizers.Tokenizer.from_str(self._backend.to_str())

    @cached_property
    def _decoders(self) -> list[str]:
        """The types of the decoder's parts, in order."""
        decoder = self._backend.decoder
        spec = json.loads(decoder.__getstate__()) if decoder is not None else {}
        parts = spec.get("decoders", [spec]) if spec else []
        return [str(part.get("type")) for part in parts]

    def _probe(self, path: Path) -> None:
        """Encode and decode a few texts, so that a bad file fails when it is loaded and not when it is used."""
        for text, special in itertools.product(PROBES, (False, True)):
            what = f"{path}: loads, but cannot encode and decode {text[:24]!r}; expected any text to work"
            ids = guarded(partial(_encode, self._backend, [text], special), what)[0]
            guarded(partial(self._backend.decode, ids), what)
            if ids and max(ids) >= self.vocab_size:
                raise InputError(f"{path}: found the id {max(ids)} in use, expected ids below {self.vocab_size}")


def guarded(work: Callable[[], Result], what: str) -> Result:
    """The result of a call into the Rust library, its errors turned into InputError.

    A panic there arrives as a ``PanicException``, which is no ``Exception``; interrupts and the like pass through.
    """
    try:
        return work()
    except (MemoryError, InputError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError(f"{what} ({reason})") from None


def _encode(backend: tokenizers.Tokenizer, texts: list[str], special: bool) -> list[list[int]]:
    return [encoding.ids for encoding in backend.encode_batch_fast(texts, add_special_tokens=special)]


def _restore(
    text: str, names: dict[str, str], config: dict[str, Any], trained_on_characters: int | None, sampled: bool
) -> Tokenizer:
    return Tokenizer(
        tokenizers.Tokenizer.from_str(text),
        names,
        config,
        trained_on_characters=trained_on_characters,
        sampled=sampled,
    )
