"""One tokenizer for every kind of model: strings to ids and back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from headway.errors import InputError
from headway.io.atomic_write import checked_files
from headway.text.backend import Backend, RustBackend
from headway.text.directory import PROBES, load, write
from headway.text.rust_errors import check_unicode, guarded
from headway.text.sentencepiece.backend import Pair
from headway.text.special_tokens import frame
from headway.text.stream_decoder import StreamDecoder, byte_alphabet
from headway.text.translation import TARGET_CODE, language

NO_LIMIT = 10**9
"""A ``model_max_length`` above this means "none"."""
TEXTS_AT_ONCE = 4096
"""The number of texts encoded together."""


def _id_of(role: str, about: str) -> Any:
    """A property: the id of the token of this role, or None."""

    def read(tokenizer: "Tokenizer") -> int | None:
        token = tokenizer._names.get(role)
        return None if token is None else tokenizer._backend.vocabulary.get(token)

    return property(read, doc=about)


class Tokenizer:
    """Strings to ids and back, for every family of models.

    Made by ``train_tokenizer`` or ``Tokenizer.load``.  It never truncates, pads or cleans up spaces, and is
    thread-safe. ``names`` maps roles to special tokens ("eos_token", "pad_token", ...), as in
    ``tokenizer_config.json``.

    ``target``: the tokenizer of the target texts of an encoder-decoder; itself, unless source and target differ.
    ``trained_on_characters``: the number of characters it was trained on here, None when loaded; ``sampled``: whether
    there was more text than that.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer | Backend,
        names: dict[str, str],
        config: dict[str, Any] | None = None,
        *,
        target: "Tokenizer | None" = None,
        trained_on_characters: int | None = None,
        sampled: bool = False,
    ) -> None:
        if isinstance(backend, tokenizers.Tokenizer):
            backend = RustBackend(backend, names.values())
        self._backend = backend
        self._names = dict(names)
        self._config = dict(config or {})
        self._target = target
        self.trained_on_characters = trained_on_characters
        self.sampled = sampled

    @classmethod
    def load(cls, directory: str | Path, *, rows: int | None = None) -> "Tokenizer":
        """The tokenizer of a Hugging Face directory; see ``headway.text.directory`` for the files.

        ``rows``: the number of rows of the model's embeddings; every id must be below it.  Raises InputError naming the
        file, the field, what was found and what was expected.
        """
        backend, target, names, config = load(Path(directory), rows)
        return cls(backend, names, config, target=None if target is None else cls(target, names, config))

    def save(
        self,
        directory: str | Path,
        *,
        max_length: int | None = None,
        segments: bool = False,
        padding_side: str | None = None,
    ) -> None:
        """Write ``tokenizer.json`` and ``tokenizer_config.json``; ``transformers.AutoTokenizer`` reads them.

        The tokenizers of Marian and M2M-100 have no ``tokenizer.json``: the files they were loaded from are written
        unchanged, which is what their classes in transformers read.  ``max_length``: the model's context in tokens
        (default: as loaded). ``segments``: the model takes ``token_type_ids``, so that other programs pass them.
        ``padding_side``: "left" or "right", where other programs pad a batch (default: as loaded); with it, a tokenizer
        without a padding token pads with the token that ends a text.

        The files get their names when they were loaded again and gave the same tokens and ids.  Raises InputError for
        what ``load`` refuses, and OSError.
        """
        entries = self._names, self._config, max_length or self.max_length
        with checked_files(Path(directory)) as staged:
            write(staged, self._backend, *entries, segments=segments, padding_side=padding_side)
            again = Tokenizer.load(staged)
            ids, found = ([one.encode_batch(PROBES, special=known) for known in (True, False)] for one in (self, again))
            if again.tokens != self.tokens or ids != found:
                raise InputError(f"{staged}: the tokenizer would be another one when it is loaded again; name another.")

    def to_json(self) -> str:
        """The text of ``tokenizer.json``.  Raises InputError for a tokenizer that has none."""
        if "tokenizer.json" not in (files := self._backend.files()):
            raise InputError(f"a tokenizer made of {', '.join(files)} has no tokenizer.json")
        return files["tokenizer.json"].decode()

    @property
    def fingerprint(self) -> str:
        """A name for what decides the ids of texts, on both sides."""
        digest = sha256()
        for backend in (self._backend, self.target._backend):
            digest.update(repr((sorted(backend.files().items()), backend.prefix)).encode())
        return digest.hexdigest()

    @cached_property
    def vocab_size(self) -> int:
        """The number of rows of embeddings needed: one more than the largest id, added tokens included."""
        return 1 + max(self._backend.vocabulary.values())

    @cached_property
    def tokens(self) -> list[str]:
        """The tokens by id, as the vocabulary writes them; "" for an id without a token."""
        tokens = [""] * self.vocab_size
        for token, number in self._backend.vocabulary.items():
            tokens[number] = token
        return tokens

    @property
    def kind(self) -> str:
        """ "bpe", "wordpiece", "word", "char", "unigram", "sentencepiece" or "other"."""
        return self._backend.kind

    @property
    def role(self) -> str:
        """ "encoder" for a tokenizer that has a [CLS] token, else "decoder"."""
        return "decoder" if self.cls is None else "encoder"

    begin_of_text: int | None = _id_of("bos_token", "The id of the token that starts a text.")
    end_of_text: int | None = _id_of("eos_token", "The id of the token that ends a text.")
    pad: int | None = _id_of("pad_token", "The id that pads a batch; masks tell it from text.")
    unknown: int | None = _id_of("unk_token", "The id of unknown text.")
    cls: int | None = _id_of("cls_token", "The id of [CLS].")
    sep: int | None = _id_of("sep_token", "The id of [SEP].")
    mask: int | None = _id_of("mask_token", "The id of [MASK].")

    @property
    def special_ids(self) -> frozenset[int]:
        """The ids of special tokens."""
        return self._backend.special_ids

    @cached_property
    def silent_ids(self) -> frozenset[int]:
        """The ids that say nothing of a text: special tokens, the unknown one, and tokens of white space alone."""
        blank = [n for n, token in enumerate(self.tokens) if token and not token.strip("▁ĠĊĉč \n\t\r")]
        unknown = () if self.unknown is None else (self.unknown,)
        return self.special_ids.union(unknown, (number for number in blank if not self.decode([number]).strip()))

    @property
    def target(self) -> "Tokenizer":
        """The tokenizer of the target side; this one, unless source and target differ."""
        return self if self._target is None else self._target

    @property
    def target_start(self) -> list[int]:
        """The ids with which every translation into the chosen language begins, after the decoder's start token."""
        return [] if self._target is None else list(self._target._backend.prefix)

    @property
    def languages(self) -> dict[str, int]:
        """The languages to choose from: the id of each language's token, by code; empty for most models."""
        return dict(self._backend.languages)

    @property
    def lacks_target_language(self) -> bool:
        """Whether targets begin with their language, and none was chosen."""
        return bool(self._backend.languages) and not self._backend.coded and not self.target_start

    def with_languages(self, *, source: str | None = None, target: str | None = None) -> "Tokenizer":
        """The same tokenizer for another pair of languages; a language not given stays as it is.

        M2M-100 puts the source language before the source and the target language before the target.  A Marian model
        with several target languages puts the target language before the source.  Raises InputError for a language it
        lacks.
        """
        backend, other, config = self._backend, self.target._backend, dict(self._config)
        if backend.coded:
            if source is not None:
                raise InputError(f"source language: found {source[:20]!r}, expected none: this model takes none")
            if target is not None:
                backend = backend.with_prefix((language(self.languages, target, "target"),))
                config[TARGET_CODE] = target
        else:
            if source is not None:
                backend = backend.with_prefix((language(self.languages, source, "source"),))
                config["src_lang"] = source
            if target is not None:
                other = other.with_prefix((language(self.languages, target, "target"),))
                config["tgt_lang"] = target
        return Tokenizer(backend, self._names, config, target=Tokenizer(other, self._names, config))

    @property
    def max_length(self) -> int | None:
        """The model's context in tokens according to its directory, or None."""
        length = self._config.get("model_max_length")
        return length if type(length) is int and 0 < length <= NO_LIMIT else None

    @property
    def chat_template(self) -> str | None:
        """The chat template of the loaded directory, not rendered, or None."""
        template = self._config.get("chat_template")
        return template if isinstance(template, str) else None

    @property
    def special_tokens(self) -> dict[str, str]:
        """The special tokens by role, as in ``tokenizer_config.json``: "eos_token", "pad_token", ..."""
        return dict(self._names)

    def with_template(self, template: str, names: dict[str, str], specials: Iterable[str]) -> "Tokenizer":
        """The same tokenizer with a chat template, other roles and more special tokens.  Raises InputError."""
        backend = self._copy()
        backend.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
        made = self.with_backend(backend)
        made._names |= names
        made._config["chat_template"] = template
        return made

    @property
    def backend(self) -> Backend:
        """The implementation."""
        return self._backend

    def with_backend(self, backend: tokenizers.Tokenizer) -> "Tokenizer":
        """A tokenizer with the same names and settings but a changed copy of the Rust library's tokenizer."""
        own = self._backend
        made = own.with_tokenizer(backend, self._names.values()) if isinstance(own, RustBackend) else backend
        return Tokenizer(made, self._names, self._config)

    def without_frame(self) -> "Tokenizer":
        """The same tokenizer with nothing put around a text by ``special``."""
        backend = self._copy()
        backend.post_processor = frame(None, None, backend)
        made = self.with_backend(backend)
        for entry in ("add_bos_token", "add_eos_token"):
            made._config.pop(entry, None)
        return made

    def _copy(self) -> tokenizers.Tokenizer:
        """A copy of the Rust library's tokenizer.  Raises InputError where there is none."""
        own = self._backend
        return tokenizers.Tokenizer.from_str(own.tokenizer.to_str() if isinstance(own, RustBackend) else self.to_json())

    def encode(self, text: str, *, special: bool = False, allow_special: bool = False) -> list[int]:
        """The ids of a text.

        ``special`` adds the special tokens around a text ([CLS] and [SEP] for an encoder).  A special token spelled in
        the text is text, unless ``allow_special``.  Raises InputError.
        """
        check_unicode(text)
        what = "this text cannot be encoded"
        return guarded(lambda: self._backend.encode([text], special=special, allow_special=allow_special), what)[0]

    def encode_batch(self, texts: Sequence[str], *, special: bool = False, continued: bool = False) -> list[list[int]]:
        """The ids of each text, in order; multithreaded.  Raises InputError with the index of the bad text.

        ``continued``: each text follows a line of the same document, so that no blank space is put before it, as
        SentencePiece does before every text.
        """
        if not continued or not self.marks_beginnings:
            return list(self.encode_each(texts, special=special))
        line = len(self.encode("\n"))
        return [ids[line:] for ids in self.encode_each([f"\n{text}" for text in texts], special=special)]

    @cached_property
    def marks_beginnings(self) -> bool:
        """Whether a line has other ids after a line than alone."""
        whole, first, line = self.encode("a\na"), self.encode("a\n"), len(self.encode("\n"))
        return whole != first + self.encode("a") and whole == first + self.encode("\na")[line:]

    @cached_property
    def composes(self) -> bool:
        """Whether a letter with an accent after it has the ids of the letter with an accent (NFC)."""
        return self.encode("e\u0301") == self.encode("\u00e9")

    def encode_each(self, texts: Iterable[str], *, special: bool = False) -> Iterator[list[int]]:
        """The same as an iterator, some texts at a time: the library uses a kilobyte per text while it encodes."""
        for start, part in _parts(texts):
            yield from self._encode_part(part, start, special)

    def _encode_part(self, texts: list[str], start: int, special: bool) -> list[list[int]]:
        """The ids of each text; ``start`` is the index of the first among all texts."""
        try:
            return guarded(lambda: self._backend.encode(texts, special=special, allow_special=False), "")
        except InputError:
            encode = partial(self._backend.encode, special=special, allow_special=False)
            rows = enumerate(texts, start)
            return [guarded(partial(encode, [text]), f"text {row} cannot be encoded")[0] for row, text in rows]

    def encode_places(self, texts: Iterable[str]) -> Iterator[tuple[list[int], list[tuple[int, int]]]]:
        """(ids, the characters [start, end) of the text that each is of) of every text, without special tokens.

        A token may begin with the blank space before a word.  Raises InputError naming the text that fails, from 0.
        """
        for _, part in _parts(texts):
            yield from guarded(partial(self._backend.encode_places, part), "these texts cannot be encoded")

    def encode_pair(self, first: str, second: str, longest: int | None = None) -> Pair:
        """Two texts as one row (``encode_pairs``).  Raises InputError."""
        return next(self.encode_pairs([(first, second)], longest))

    def encode_pairs(self, pairs: Iterable[tuple[str, str]], longest: int | None = None) -> Iterator[Pair]:
        """Two texts as one row of ids, with the special tokens around them, for each pair.

        Of a pair with more than ``longest`` ids the longer text loses its end.  Raises InputError.
        """
        rest = iter(pairs)
        while part := list(islice(rest, TEXTS_AT_ONCE)):
            for text in chain.from_iterable(part):
                check_unicode(text)
            yield from guarded(partial(self._backend.encode_pairs, part, longest), "these pairs cannot be encoded")

    def encode_parts(self, parts: Sequence[str | int]) -> tuple[list[int], list[int]]:
        """(ids, owners) of texts and special ids in order: a text is never read as a special token, an id always is.

        ``owners`` has, for each id, the index of the part in which it begins: adjacent texts are read as one, so a
        token may reach into the next.  Raises InputError.
        """
        unknown = [part for part in parts if not isinstance(part, str) and part not in self.special_ids]
        if unknown:
            raise InputError(f"special id: found {unknown[0]}, expected the id of a special token")
        for part in parts:
            check_unicode(part)
        return guarded(lambda: self._backend.encode_parts(parts), "these texts cannot be encoded")

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of ids, without special tokens unless ``skip_special`` is false.  Raises InputError."""
        numbers = [int(number) for number in ids]
        what = "these ids cannot be decoded"
        return guarded(lambda: self._backend.decode(numbers, skip_special=skip_special), what)

    def without_token(self, rows: int) -> frozenset[int]:
        """The ids below ``rows`` that have no token: holes, and rows with which a model's table is padded."""
        return self._holes.union(range(self.vocab_size, rows))

    @cached_property
    def _holes(self) -> frozenset[int]:
        return frozenset(number for number, token in enumerate(self.tokens) if not token)

    def stream(self, after: Sequence[int] = (), *, skip_special: bool = True) -> StreamDecoder:
        """A decoder for ids that come one by one, and that continue the ids ``after``."""
        decoders = self._backend.decoders
        return StreamDecoder(
            lambda ids: self.decode(ids, skip_special=skip_special),
            self.tokens,
            self.special_ids if skip_special else frozenset(),
            after,
            byte_values=byte_alphabet() if decoders == ["ByteLevel"] else None,
            byte_fallback="ByteFallback" in decoders,
            partial="ByteLevel" in decoders,
        )

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        return f"Tokenizer(kind={self.kind!r}, role={self.role!r}, vocab_size={self.vocab_size})"

    def __reduce__(self) -> tuple[Callable[..., "Tokenizer"], tuple[Any, ...]]:
        rest: dict[str, Any] = {"trained_on_characters": self.trained_on_characters, "sampled": self.sampled}
        return partial(Tokenizer, target=self._target, **rest), (self._backend, self._names, self._config)


def _parts(texts: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
    """Some texts at a time, checked, each part with the index of its first text."""
    start, rest = 0, iter(texts)
    while part := list(islice(rest, TEXTS_AT_ONCE)):
        for row, text in enumerate(part, start):
            check_unicode(text, row if start or len(part) > 1 else None)
        yield start, part
        start += len(part)
