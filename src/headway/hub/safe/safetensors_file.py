"""One safetensors file: its header is checked in full before use, and its tensors are read one at a time.

The format is 8 bytes with the header's length, a JSON header with each tensor's type, shape and position, and the
tensors' bytes without gaps, as the documentation of safetensors specifies.  Nothing is memory-mapped: a mapped file
that is truncated would crash the program.  The file stays open, so a file replaced meanwhile is read as it was.
"""

import os
import re
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headway.errors import InputError, shown
from headway.io.memory import check_fits
from headway.io.regular_file import open_regular, other_kind
from headway.io.strict_json import parse_object

MAX_HEADER = 10 * 2**20
MAX_TENSORS = 100_000
MAX_RANK = 8
MAX_SIZE = 2**40
"""The largest size of one dimension."""
CHECK_MEMORY_FROM = 2**28
"""Bytes of one tensor from which free memory is checked before reading it."""
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
FLOATS = tuple(word for word, dtype in DTYPES.items() if dtype.is_floating_point)
"""The types of weights; other types are those of masks and position ids."""


class Entry(NamedTuple):
    """A tensor in the header: its type, its shape, and its position, counted from the start of the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


class SafetensorsFile:
    """An open safetensors file with a valid header, ``entries`` by name; each tensor is read when it is asked for.

    Opening raises InputError for anything the format forbids, and for more than 100,000 tensors, 8 dimensions, or 10
    MiB of header, more than any model has.
    """

    def __init__(self, path: Path, source: Path | None = None):
        """Open a file; messages name ``source``, if given, as the file that it was made from."""
        self.path = source or path
        self._file = open_regular(path, "expected the model's weights")
        try:
            self.entries = self._read_header()
        except BaseException:
            self.close()
            raise

    def read(self, name: str) -> Tensor:
        """A tensor in its stored type.  Raises KeyError for an unknown name, and InputError for a file that changed
        since it was opened, and for bytes of a bool that are neither 0 nor 1."""
        entry = self.entries[name]
        size = entry.end - entry.start
        if size >= CHECK_MEMORY_FROM:
            check_fits(size, f"{self.path}: {name}")
        content = torch.empty(size, dtype=torch.uint8)
        self._read_into(content.numpy().data, entry.start)
        if entry.dtype == torch.bool and size and int(content.max()) > 1:
            raise self._wrong(f"{name}: found a byte {int(content.max())} in a tensor of bools, expected 0 or 1")
        return content.view(entry.dtype).reshape(entry.shape)

    def check_weight(self, name: str) -> None:
        """Raise InputError for a tensor of integers according to its header, which no weight is."""
        dtype = self.entries[name].dtype
        if not dtype.is_floating_point:
            found = next(word for word, known in DTYPES.items() if known == dtype)
            raise InputError(
                f"{self.path}: {name}: dtype: found {found}, expected one of {', '.join(FLOATS)}; get the model's "
                "weights in one of these; quantised weights are not supported"
            )

    def weight(self, name: str) -> Tensor:
        """A weight in float32.  Raises InputError as ``read`` does, and if it is not finite."""
        self.check_weight(name)
        tensor = self.read(name).float()
        # a sum is fast, and finite only if every number is; it may also overflow, so the numbers are then checked
        if not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise InputError(
                f"{self.path}: {name}: contains NaN or infinity, so that no output of the model would mean "
                "anything; get the file again, or retrain the model"
            )
        return tensor

    def close(self) -> None:
        """Close the file; tensors already read stay valid."""
        self._file.close()

    def _read_into(self, view: memoryview, start: int) -> None:
        try:
            self._file.seek(start)
            while view:
                count = self._file.readinto(view)  # type: ignore[attr-defined]
                if not count:
                    raise InputError(f"{self.path}: ends early: it was cut short while it was read; read it again")
                view = view[count:]
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from None

    def _read_header(self) -> dict[str, Entry]:
        size = os.fstat(self._file.fileno()).st_size
        head = bytearray(min(size, 256))
        self._read_into(memoryview(head), 0)
        if size == 0:
            raise self._wrong("found an empty file; the download went wrong, get the file again")
        length = int.from_bytes(head[:8], "little")
        ours = head[8:9] == b"{" and length <= size - 8  # the length 0x0580 alone would look like a pickle
        if not ours and (kind := other_kind(bytes(head))):
            raise self._wrong(f"found {kind[0]}" + (f"; {kind[1]}" if kind[1] else ""))
        if size < 8 or length > size - 8:
            raise self._wrong(
                f"header length: found {length} in a file of {size} bytes; the file is truncated or of another kind"
            )
        if length > MAX_HEADER:
            raise self._wrong(f"header length: found {length} bytes, expected at most {MAX_HEADER}")
        header = bytearray(length)
        self._read_into(memoryview(header), 8)
        if not header.startswith(b"{"):
            raise self._wrong(f"header: begins with {bytes(header[:8])!r}, expected a brace")
        try:
            text = header.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._wrong(f"header: not UTF-8 at byte {error.start}") from None
        del header
        found = parse_object(
            text, f"{self.path}: cannot be read as safetensors: header", MAX_HEADER, "get the file again"
        )
        return self._entries(found, 8 + length, size)

    def _entries(self, header: dict[str, Any], begin: int, size: int) -> dict[str, Entry]:
        about = header.pop("__metadata__", None)
        texts = isinstance(about, dict) and all(isinstance(value, str) for value in about.values())
        if about is not None and not texts:
            raise self._wrong("__metadata__: expected an object of texts")
        if len(header) > MAX_TENSORS:
            raise self._wrong(f"found {len(header)} tensors, expected at most {MAX_TENSORS}")
        entries = {name: self._entry(name, entry, begin) for name, entry in header.items()}
        place = begin
        for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
            if entry.start != place:
                found, wanted = entry.start - begin, place - begin
                raise self._wrong(f"{name}: data_offsets begin at {found}, expected {wanted}: no gap and no overlap")
            place = entry.end
        if place != size:
            more = "more follow" if size > place else "the file was cut short; get it again"
            raise self._wrong(f"found {size - begin} bytes of tensors, expected {place - begin}: {more}")
        return entries

    def _entry(self, name: str, entry: Any, begin: int) -> Entry:
        if len(name) > 256 or not NAME.fullmatch(name):
            raise self._wrong(f"found a tensor named {name[:64]!r}, expected letters, digits and _ between dots")
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise self._wrong(f"{name}: found {shown(entry)}, expected dtype, shape and data_offsets")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise self._wrong(f"{name}: dtype: found {shown(dtype)}, expected one of {', '.join(DTYPES)}")
        if not isinstance(shape, list) or len(shape) > MAX_RANK or not all(_is_size(one) for one in shape):
            raise self._wrong(
                f"{name}: shape: found {shown(shape)}, expected at most {MAX_RANK} sizes from 0 to {MAX_SIZE}"
            )
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(one) is int for one in offsets):
            raise self._wrong(f"{name}: data_offsets: found {shown(offsets)}, expected two numbers")
        start, end = offsets
        if prod(max(one, 1) for one in shape) > 2**62:
            raise self._wrong(f"{name}: shape: found {shown(shape)}, expected fewer than 2^62 numbers")
        count = prod(shape) * DTYPES[dtype].itemsize
        if start < 0 or end - start != count:
            raise self._wrong(
                f"{name}: data_offsets: found {shown(offsets)}, expected {count} bytes for {dtype} {shape}"
            )
        return Entry(DTYPES[dtype], tuple(shape), begin + start, begin + end)

    def _wrong(self, what: str) -> InputError:
        return InputError(f"{self.path}: cannot be read as safetensors: {what}")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_SIZE
