"""The header of a safetensors file, checked in full before use.

The format is 8 bytes with the header's length, a JSON header with each tensor's type, shape and position, and the
tensors' bytes without gaps, as the documentation of safetensors specifies.
"""

import os
import re
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch

from headway.errors import InputError, shown
from headway.io.regular_file import other_kind
from headway.io.strict_json import parse_object

MAX_HEADER = 10 * 2**20
MAX_TENSORS = 100_000
MAX_RANK = 8
MAX_SIZE = 2**40
"""The largest size of one dimension."""
NAME = re.compile(r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*")
"""The allowed names of tensors: words between dots."""
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class Entry(NamedTuple):
    """A tensor in the header: its type, its shape, and its position, counted from the start of the file.

    ``file`` is open, and ``path`` is what messages call it.
    """

    file: BinaryIO
    path: Path
    type: str
    shape: tuple[int, ...]
    start: int
    end: int


def read_header(file: BinaryIO, path: Path) -> dict[str, Entry]:
    """The tensors of an open file by name.

    Raises InputError naming ``path`` for anything the format forbids, and for more than 100,000 tensors, 8 dimensions,
    or 10 MiB of header, more than any model has.
    """
    where = f"{path}: cannot be read as safetensors"
    size = os.fstat(file.fileno()).st_size
    head = bytearray(min(size, 256))
    read_into(file, memoryview(head), 0, path)
    if size == 0:
        raise InputError(f"{where}: found an empty file; the download went wrong, get the file again")
    length = int.from_bytes(head[:8], "little")
    ours = head[8:9] == b"{" and length <= size - 8  # the length 0x0580 alone would look like a pickle
    if not ours and (kind := other_kind(bytes(head))):
        raise InputError(f"{where}: found {kind[0]}" + (f"; {kind[1]}" if kind[1] else ""))
    if size < 8 or length > size - 8:
        raise InputError(
            f"{where}: header length: found {length} in a file of {size} bytes; it is truncated or of another kind"
        )
    if length > MAX_HEADER:
        raise InputError(f"{where}: header length: found {length} bytes, expected at most {MAX_HEADER}")
    content = bytearray(length)
    read_into(file, memoryview(content), 8, path)
    if not content.startswith(b"{"):
        raise InputError(f"{where}: header: begins with {bytes(content[:8])!r}, expected a brace")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: header: not UTF-8 at byte {error.start}") from None
    del content
    header = parse_object(text, f"{where}: header", MAX_HEADER, "get the file again")
    about = header.pop("__metadata__", {})
    if not isinstance(about, dict | None) or not all(isinstance(value, str) for value in (about or {}).values()):
        raise InputError(f"{where}: __metadata__: expected an object of texts")
    if len(header) > MAX_TENSORS:
        raise InputError(f"{where}: found {len(header)} tensors, expected at most {MAX_TENSORS}")
    begin = place = 8 + length
    entries = {name: Entry(file, path, *_checked(name, entry, begin, where)) for name, entry in header.items()}
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != place:
            raise InputError(
                f"{where}: {name}: data_offsets begin at {entry.start - begin}, expected {place - begin}: "
                "no gap and no overlap"
            )
        place = entry.end
    if place != size:
        more = "more follow" if size > place else "the file was cut short; get it again"
        raise InputError(f"{where}: found {size - begin} bytes of tensors, expected {place - begin}: {more}")
    return entries


def _checked(name: str, entry: Any, begin: int, where: str) -> tuple[str, tuple[int, ...], int, int]:
    """The type, shape and position of a tensor whose entry in the header is valid by itself."""
    if len(name) > 256 or not NAME.fullmatch(name):
        raise InputError(f"{where}: found a tensor named {name[:64]!r}, expected letters, digits and _ between dots")
    where = f"{where}: {name}"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise InputError(f"{where}: found {shown(entry)}, expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise InputError(f"{where}: dtype: found {shown(dtype)}, expected one of {', '.join(DTYPES)}")
    sizes = isinstance(shape, list) and all(type(size) is int and 0 <= size <= MAX_SIZE for size in shape)
    if not sizes or len(shape) > MAX_RANK:
        raise InputError(
            f"{where}: shape: found {shown(shape)}, expected at most {MAX_RANK} sizes from 0 to {MAX_SIZE}"
        )
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(offset) is int for offset in offsets):
        raise InputError(f"{where}: data_offsets: found {shown(offsets)}, expected two numbers")
    if prod(max(size, 1) for size in shape) > 2**62:
        raise InputError(f"{where}: shape: found {shown(shape)}, expected fewer than 2^62 numbers")
    (start, end), count = offsets, prod(shape) * DTYPES[dtype].itemsize
    if start < 0 or end - start != count:
        raise InputError(f"{where}: data_offsets: found {shown(offsets)}, expected {count} bytes for {dtype} {shape}")
    return dtype, tuple(shape), begin + start, begin + end


def read_into(file: BinaryIO, view: memoryview, start: int, path: Path) -> None:
    """Fill a buffer from a position of a file.  Raises InputError naming ``path`` for one that was cut short."""
    try:
        file.seek(start)
        while view:
            count = file.readinto(view)  # type: ignore[attr-defined]
            if not count:
                raise InputError(f"{path}: ends early: it was cut short while it was read; read it again")
            view = view[count:]
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
