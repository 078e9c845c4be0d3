"""Tokens on disk: encoded once, then read by every later run over the same content."""

import contextlib
import errno
import hashlib
import json
import os
import re
import tempfile
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, TypeVar

import numpy as np

from headway.data.batches.tokens import Damaged, TokenFile, blocks, sealed, unsealed
from headway.data.open.files import cut_point
from headway.errors import InputError, RunFailed
from headway.io.atomic_write import why_not

VERSION = 2
"""Of the layout of the two files."""
CHECKED_AT_ONCE = 1 << 26
"""Bytes up to which all of a file is checked when it is opened, in about 0.05 s, so that it can be made again in time.
Of a larger file each block is checked when it is first read."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
"""The errors of a disk that is full or read-only."""
PIECE = 1 << 14
"""Characters encoded as one string, about; long strings are cut after a line."""
BATCH = 1 << 18
"""Characters passed to one call of `encode`, about."""


def cache_key(*parts: object) -> str:
    """A name for what depends on all the parts, by their `str`: 40 hexadecimal digits."""
    return key_of(parts)


def key_of(parts: Iterable[object]) -> str:
    """``cache_key`` of parts that come one by one."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = str(part).encode("utf-8", errors="surrogatepass")
        digest.update(f"{len(encoded)}:".encode() + encoded)
    return digest.hexdigest()[:40]


def tokenised(
    chunks: Iterable[tuple[str, bool]],
    encode: Callable[..., list[list[int]]],
    *,
    end_of_text: int | None,
    vocab_size: int,
    key: str,
    directory: Path,
    begin: Sequence[int] = (),
    begins_inside: bool = False,
) -> TokenFile:
    """The tokens of `chunks` (text, whether a document ends), read-only, uint16 or, above 65,536 ids, uint32.

    `key` names the content, the tokenizer and all that the tokens depend on; a complete file of that name is used again
    without reading `chunks`.  `encode(texts)` gives the ids of texts; `encode(texts, continued=True)` those of texts
    that go on within a document.  `end_of_text` goes between documents, and after the last where there are several.
    Where documents `begin` with ids of their own, each has both; one id that ends and begins a text is written once
    between two.  The first chunk may be of a document that `begins_inside` another part.  Memory stays bounded; files
    appear under their name only when complete, so writers at the same time do no harm.
    """
    if not re.fullmatch(r"[\w-]{1,100}", key):
        raise ValueError(f"key is {key!r}, expected letters, digits, - and _")
    cached = CachedTokens(directory, key, vocab_size, {"end_of_text": end_of_text})
    if (kept := cached.opened()) is not None:
        return kept[0]

    def parts() -> Iterator[bytes]:
        empty = True
        for ids in _ids(chunks, encode, end_of_text, list(begin), begins_inside):
            empty = empty and not ids
            yield cached.packed(ids)
        if empty:
            raise InputError("there is no text to train on: it has no tokens.")

    return cached.written(parts())


@dataclass(frozen=True)
class CachedTokens:
    """A file of token ids and the record of it, which says what the ids depend on."""

    directory: Path
    key: str
    vocab_size: int
    more: dict[str, Any]
    """what else they depend on"""

    @property
    def dtype(self) -> np.dtype:
        """uint16 or, above 65,536 ids, uint32."""
        return np.dtype("<u2" if self.vocab_size <= 65536 else "<u4")

    @property
    def facts(self) -> dict[str, Any]:
        """What must be recorded of a file that is used again."""
        about = {"version": VERSION, "key": self.key, "dtype": self.dtype.str, "vocab_size": self.vocab_size}
        return {**about, **self.more}

    def path(self, ending: str) -> Path:
        """The file of that ending: "tokens", and "json" for the record."""
        return self.directory / f"{self.key}.{ending}"

    def packed(self, ids: list[int]) -> bytes:
        """Ids as bytes; ValueError when one is outside the vocabulary."""
        array = np.asarray(ids, dtype=np.int64)
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < self.vocab_size:
            raise ValueError(f"token ids from {array.min()} to {array.max()}, but the vocabulary has {self.vocab_size}")
        return array.astype(self.dtype).tobytes()

    def opened(self) -> tuple[TokenFile, dict[str, Any]] | None:
        """The file that was written earlier, and what is recorded beside its facts.

        None when there is none, and, with a warning, when it is of something else or has changed.
        """
        path, facts = self.path("tokens"), self.facts
        if (record := recorded(path, self.path("json"))) is None:
            return None
        written, sums = record
        beside = {name: written.pop(name) for name in [*written] if name not in facts}
        count, each = beside.pop("count", None), self.dtype.itemsize
        try:
            if written == facts and isinstance(count, int) and path.stat().st_size == count * each:
                tokens = TokenFile(path, self.dtype, count, sums)
                if count * each <= CHECKED_AT_ONCE:
                    tokens.check()
                return tokens, beside
        except OSError:
            return None
        except Damaged:
            tokens.close()
        warn_of_damage(path)
        return None

    def written(self, parts: Iterable[bytes], beside: Mapping[str, Any] = MappingProxyType({})) -> TokenFile:
        """Write the file, which appears when it is complete, and then the record, with what is ``beside`` then."""
        self.directory.mkdir(parents=True, exist_ok=True)
        size, sums = written_bytes(self.path("tokens"), parts)
        count = size // self.dtype.itemsize
        with replacing(self.path("json")) as file:
            file.write(sealed({**self.facts, **beside, "count": count}, sums))
        return TokenFile(self.path("tokens"), self.dtype, count, sums)


def written_bytes(path: Path, parts: Iterable[bytes]) -> tuple[int, np.ndarray]:
    """Write a file, which appears when complete: its size in bytes, and the checksums of its blocks."""
    count, sums = 0, list[int]()
    with replacing(path) as file:
        for block in blocks(parts):
            file.write(block)
            sums.append(zlib.crc32(block))
            count += len(block)
    return count, np.array(sums, dtype="<u4")


Part = TypeVar("Part")


def held_if_small(
    parts: Iterable[Part], size: Callable[[Part], int], most: int
) -> tuple[list[Part], Iterator[Part] | None]:
    """All parts, if their sizes come to ``most`` at most; else none, and what gives them one by one."""
    rest, held, total = iter(parts), deque[Part](), 0
    for part in rest:
        held.append(part)
        if (total := total + size(part)) > most:
            return [], chain((held.popleft() for _ in range(len(held))), rest)  # which lets go of each
    return [*held], None


def recorded(path: Path, facts_path: Path) -> tuple[dict[str, Any], np.ndarray] | None:
    """What is recorded of a file of the cache, and the checksums of its blocks.

    None when there is no record, when it is of another version, or when it is damaged, with a warning.
    """
    if not path.is_file() or not facts_path.is_file():  # a pipe would be waited for
        return None
    try:
        record = json.loads(facts_path.read_bytes())
        if record.get("version") == 1:  # it has no checksums
            return None
        facts, sums = unsealed(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        warn_of_damage(path)
        return None
    return (facts, sums) if facts.get("version") == VERSION else None


def warn_of_damage(path: Path) -> None:
    """Warn that a damaged cache file is deleted."""
    warnings.warn(f"{path}: this cache file is damaged; it is deleted and rebuilt", stacklevel=2)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears at `path` at once, and only when everything in it is on the disk.

    Raises RunFailed where the disk is full.
    """
    name = None
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException as error:
        if name is not None:
            Path(name).unlink(missing_ok=True)
        if isinstance(error, IsADirectoryError):
            raise InputError(
                f"{path}: this is a folder where the cache needs a file; remove it, or name another cache folder "
                "with the environment variable HEADWAY_CACHE."
            ) from None
        if isinstance(error, OSError) and error.errno in FULL:
            raise RunFailed(
                f"{path}: the cache cannot be written {why_not(path, error)}. Free some space, or name a folder on "
                "another disk with the environment variable HEADWAY_CACHE."
            ) from None
        raise


def _ids(
    chunks: Iterable[tuple[str, bool]],
    encode: Callable[..., list[list[int]]],
    end_of_text: int | None,
    begin: list[int],
    begins_inside: bool,
) -> Iterator[list[int]]:
    """Token ids in order, with the ids that begin and end a document where they belong."""
    documents, ended = 0, False  # whether a document has ended and its mark is still to be written
    end = [] if end_of_text is None else [end_of_text]
    for batch in _batches(chunks, begins_inside):
        first = iter(encode([text for text, _, continued in batch if text and not continued]))
        later = [text for text, _, continued in batch if text and continued]
        rest = iter(encode(later, continued=True) if later else [])
        for text, ends, continued in batch:
            if text:
                if ended and begin != end:
                    yield end
                if not continued:
                    yield begin
                ended = False
                yield next(rest if continued else first)
            if ends:
                ended = True
                documents += 1
    if ended and (documents > 1 or begin):
        yield end


def _batches(chunks: Iterable[tuple[str, bool]], continued: bool) -> Iterator[list[tuple[str, bool, bool]]]:
    """Pieces of chunks, together about `BATCH` characters: (text, whether a document ends, whether it had begun)."""
    batch, size = list[tuple[str, bool, bool]](), 0
    for text, ends in chunks:
        for piece, last in cut(text):
            batch.append((piece, ends and last, continued))
            continued = (continued or bool(piece)) and not (ends and last)
            size += len(piece) + 16
            if size >= BATCH:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def cut(text: str) -> Iterator[tuple[str, bool]]:
    """A text in pieces of at most `PIECE` characters, and whether each is the last."""
    start = 0
    while len(text) - start > PIECE:
        end = start + cut_point(text[start : start + PIECE])
        yield text[start:end], False
        start = end
    yield text[start:], True
