"""The weights of a model directory, opened safely and written: one safetensors file, or several with an index.

    with open_weights(directory) as weights:        # names to tensors, each read when it is accessed
        weights.shape(name), weights[name], weights.weight(name)

A safetensors file is 8 bytes with the header's length, a JSON header with each tensor's type, shape and position, and
the tensors' bytes without gaps, as the documentation of safetensors specifies.  All headers are checked before anything
else is read, so shapes can be compared with a model's before a tensor is made.  Nothing is memory-mapped: a mapped file
that is truncated would crash the program.  Files stay open, so one that is replaced meanwhile is read as it was.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, BinaryIO, NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor

from headway.errors import InputError, shown
from headway.hub.safe.pickle_import import convert
from headway.io.atomic_write import write_whole
from headway.io.memory import check_fits
from headway.io.regular_file import inside, open_regular, other_kind
from headway.io.strict_json import parse_object, read_object

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


FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"
PICKLES = (".bin", ".pt", ".pth")
NO_WEIGHTS = ("training_args", "optimizer", "scheduler", "rng_state")
"""The beginnings of names of pickles without weights."""
MAX_SHARDS = 200
"""All shards are open while weights are read."""
SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)\..*", re.IGNORECASE)
"""Device names in Windows, with any ending."""
FLOATS = tuple(word for word, dtype in DTYPES.items() if dtype.is_floating_point)
"""The types of weights; other types are those of masks and position ids."""
CHECK_MEMORY_FROM = 2**28
"""Bytes of one tensor from which free memory is checked before reading it."""


class Weights(Mapping[str, Tensor]):
    """A mapping of names to tensors, each read from its file when it is accessed, in its stored type.

    Close it, or use it in ``with``, when everything is read; tensors already read stay valid.
    """

    def __init__(self, places: Sequence[tuple[Path, Path]], source: Path, weight_map: Mapping[str, str] | None = None):
        """Open files, each with the path that messages name; with the ``weight_map`` of an index, if there is one.

        ``source`` is the file that lists the tensors: the only one, or the index.  Raises InputError.
        """
        self.source = source
        self._entries: dict[str, Entry] = {}
        with ExitStack() as files:
            problems = []
            for place, path in places:
                file = files.enter_context(open_regular(place, "expected the model's weights"))
                entries = read_header(file, path)
                self._entries |= entries
                if weight_map:
                    problems += _differences(path.name, set(entries), weight_map)
            if problems:
                more = f" and {len(problems) - 10} more" if len(problems) > 10 else ""
                listed = "; ".join(sorted(problems)[:10])
                raise InputError(f"{source}: weight_map does not fit the files: {listed}{more}")
            self._files = files.pop_all()

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape, without reading it."""
        return self._entries[name].shape

    def check_weight(self, name: str) -> None:
        """Raise InputError for a tensor of a type that no weight has, without reading it."""
        entry = self._entries[name]
        if entry.type not in FLOATS:
            raise InputError(
                f"{entry.path}: {name}: dtype: found {entry.type}, expected one of {', '.join(FLOATS)}; get the "
                "model's weights in one of these; quantised weights are not supported"
            )

    def weight(self, name: str) -> Tensor:
        """A weight in float32.  Raises InputError for one that is not finite, and for a file that was truncated."""
        self.check_weight(name)
        tensor = self[name].float()
        # a sum is fast, and finite only if every number is; it may also overflow, so the numbers are then checked
        if not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise InputError(
                f"{self._entries[name].path}: {name}: contains NaN or infinity, so that no output of the model would "
                "mean anything; get the file again, or retrain the model"
            )
        return tensor

    def close(self) -> None:
        self._files.close()

    def __getitem__(self, name: str) -> Tensor:
        """A tensor in its stored type.

        Raises KeyError for an unknown name, and InputError for a file that changed since it was opened, and for bytes
        of a bool that are neither 0 nor 1.
        """
        entry = self._entries[name]
        size = entry.end - entry.start
        if size >= CHECK_MEMORY_FROM:
            check_fits(size, f"{entry.path}: {name}")
        content = torch.empty(size, dtype=torch.uint8)
        read_into(entry.file, content.numpy().data, entry.start, entry.path)
        if entry.type == "BOOL" and size and (most := int(content.max())) > 1:
            raise InputError(
                f"{entry.path}: cannot be read as safetensors: {name}: found a byte {most} in a tensor of bools, "
                "expected 0 or 1"
            )
        return content.view(DTYPES[entry.type]).reshape(entry.shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __enter__(self) -> "Weights":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_weights(directory: str | Path, *, allow_pickle: bool = False) -> Weights:
    """The weights in a directory: ``model.safetensors``, or the shards of ``model.safetensors.index.json``.

    Without them, ``allow_pickle`` converts ``pytorch_model.bin`` (or its shards, or the only ``.pt`` file) by
    ``headway.hub.safe.pickle_import``; otherwise the directory is refused.  A file may be a symbolic link where
    ``headway.io.regular_file.inside`` allows it: the cache of the Hugging Face hub consists of links.

    Raises InputError naming the file for anything that is missing, damaged, or contradictory.
    """
    directory = Path(directory)
    single, index = directory / FILE, directory / INDEX
    if _exists(single):
        return open_file(directory, FILE)
    if _exists(index):
        weight_map = _weight_map(directory, INDEX, ".safetensors")
        shards = [inside(directory, shard) for shard in sorted(set(weight_map.values()))]
        return Weights([(shard, shard) for shard in shards], index, weight_map)
    pickles = _pickles(directory)
    if not pickles:
        raise InputError(f"{single}: no such file; expected the model's weights")
    if not allow_pickle:
        raise InputError(
            f"{single}: no such file, but {pickles[0].name} is there: a Python pickle, which can run code. "
            "If you trust its author, `headway export DIRECTORY --to hf --allow-pickle --out NEW` reads its tensors "
            "in a process with restricted resources and writes safetensors; better, get the model's safetensors file"
        )
    return _open_pickles(directory, pickles)


def save_weights(path: Path, weights: dict[str, Tensor]) -> None:
    """Write a safetensors file, whole or not at all."""
    write_whole(path, lambda file: save_file(weights, file, metadata={"format": "pt"}))


def open_file(directory: Path, name: str) -> Weights:
    """The weights in one safetensors file of a directory.  Raises InputError as ``open_weights`` does."""
    path = inside(directory, name)
    return Weights([(path, path)], directory / name)


def _differences(shard: str, names: set[str], weight_map: Mapping[str, str]) -> list[str]:
    """Where an index lists other tensors for a shard than it holds."""
    problems = [f"{shard} lacks {name}" for name, place in weight_map.items() if place == shard and name not in names]
    for name in names:
        if (listed := weight_map.get(name)) != shard:
            where = f"places in {listed}" if listed else "lacks"
            problems.append(f"{shard} holds {name}, which the index {where}")
    return problems


def _weight_map(directory: Path, name: str, ending: str) -> dict[str, str]:
    """The ``weight_map`` of an index: names of tensors to names of files in the same directory."""
    index = inside(directory, name)
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InputError(f"{index}: weight_map: found {shown(weight_map)}, expected an object of tensors and files")
    if len(weight_map) > MAX_TENSORS:
        raise InputError(f"{index}: weight_map: found {len(weight_map)} tensors, expected at most {MAX_TENSORS}")
    for tensor, shard in weight_map.items():
        if len(tensor) > 256 or not NAME.fullmatch(tensor):
            raise InputError(f"{index}: weight_map: found a tensor named {shown(tensor)}, expected words between dots")
        if not isinstance(shard, str) or not _is_basename(shard) or not shard.endswith(ending):
            raise InputError(
                f"{index}: weight_map[{tensor!r}]: found {shown(shard)}, "
                f"expected the bare name of a {ending} file in the same folder"
            )
    if len(shards := set(weight_map.values())) > MAX_SHARDS:
        raise InputError(f"{index}: weight_map: found {len(shards)} files, expected at most {MAX_SHARDS}")
    if len({shard.casefold() for shard in shards}) < len(shards):
        raise InputError(f"{index}: weight_map: found files whose names differ in case alone, expected one spelling")
    return weight_map


def _is_basename(name: str) -> bool:
    """Whether a name is a bare file name on every system: no folder, no drive, no stream."""
    plain = len(name) <= 255 and SHARD.fullmatch(name) is not None and not DEVICE.fullmatch(name)
    return plain and PurePosixPath(name).name == name and PureWindowsPath(name).name == name


def _pickles(directory: Path) -> list[Path]:
    """The pickle files with weights: those of the index, or the usual one, or all there are."""
    for name in (PICKLE, PICKLE_INDEX):
        if _exists(directory / name):
            return [directory / name]
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix in PICKLES)
    except OSError:
        return []
    return [path for path in paths if not path.name.startswith(NO_WEIGHTS)]


def _open_pickles(directory: Path, pickles: list[Path]) -> Weights:
    """Convert pickles and open the results; the temporary files are deleted before this returns."""
    if len(pickles) > 1:
        listed = ", ".join(path.name for path in pickles[:5])
        raise InputError(f"{directory}: found {listed}, expected one file of weights")
    (source,) = pickles
    weight_map = _weight_map(directory, PICKLE_INDEX, ".bin") if source.name == PICKLE_INDEX else {}
    originals = [inside(directory, name) for name in sorted(set(weight_map.values())) or [source.name]]
    with tempfile.TemporaryDirectory(prefix="headway-", ignore_cleanup_errors=True) as folder:
        converted = [Path(folder) / f"{number}.safetensors" for number in range(len(originals))]
        convert(originals, converted)
        return Weights(list(zip(converted, originals, strict=True)), source, weight_map)


def _exists(path: Path) -> bool:
    """Whether there is an entry of that name, including a broken link."""
    try:
        return path.is_symlink() or path.exists()
    except (OSError, ValueError):
        return False
