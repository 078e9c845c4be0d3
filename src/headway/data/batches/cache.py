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
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
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
    dtype = np.dtype("<u2" if vocab_size <= 65536 else "<u4")
    tokens_path, facts_path = directory / f"{key}.tokens", directory / f"{key}.json"
    facts = {"version": VERSION, "key": key, "dtype": dtype.str, "vocab_size": vocab_size, "end_of_text": end_of_text}
    if (kept := opened(tokens_path, facts_path, facts, dtype)) is not None:
        return kept[0]
    directory.mkdir(parents=True, exist_ok=True)

    def parts() -> Iterator[bytes]:
        empty = True
        for ids in _ids(chunks, encode, end_of_text, list(begin), begins_inside):
            empty = empty and not ids
            yield packed(ids, vocab_size, dtype)
        if empty:
            raise InputError("there is no text to train on: it has no tokens.")

    return written(tokens_path, facts_path, facts, dtype, parts())


def opened(
    tokens_path: Path, facts_path: Path, facts: dict[str, Any], dtype: np.dtype
) -> tuple[TokenFile, dict[str, Any]] | None:
    """A file of tokens that was written earlier, and what is recorded beside it.

    None when there is none, and, with a warning, when it is of something else or has changed.
    """
    record = recorded(tokens_path, facts_path)
    if record is None:
        return None
    found, sums = record
    more = {name: found.pop(name) for name in [*found] if name not in facts}
    count = more.pop("count", None)
    try:
        if found == facts and isinstance(count, int) and tokens_path.stat().st_size == count * dtype.itemsize:
            tokens = TokenFile(tokens_path, dtype, count, sums)
            if count * dtype.itemsize <= CHECKED_AT_ONCE:
                tokens.check()
            return tokens, more
    except OSError:
        return None
    except Damaged:
        tokens.close()
    warn_of_damage(tokens_path)
    return None


def written(
    tokens_path: Path, facts_path: Path, facts: dict[str, Any], dtype: np.dtype, parts: Iterable[bytes]
) -> TokenFile:
    """Write a file of tokens, which appears when it is complete, and then the record of it."""
    count, sums = written_bytes(tokens_path, parts)
    count //= dtype.itemsize
    with replacing(facts_path) as file:
        file.write(sealed({**facts, "count": count}, sums))
    return TokenFile(tokens_path, dtype, count, sums)


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
        found, sums = unsealed(record)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        warn_of_damage(path)
        return None
    return (found, sums) if found.get("version") == VERSION else None


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


def packed(ids: list[int], vocab_size: int, dtype: np.dtype) -> bytes:
    """Ids as bytes; ValueError when one is outside the vocabulary."""
    array = np.asarray(ids, dtype=np.int64)
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < vocab_size:
        raise ValueError(f"token ids from {array.min()} to {array.max()}, but the vocabulary has {vocab_size}")
    return array.astype(dtype).tobytes()
