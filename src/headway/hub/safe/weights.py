"""The weights of a model directory, opened safely and written: one safetensors file, or several with an index.

    with open_weights(directory) as weights:        # names to tensors, each read when it is accessed
        weights.shape(name), weights[name], weights.weight(name)

All headers are checked before anything else is read, so shapes can be compared with a model's before a tensor is made.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path, PurePosixPath, PureWindowsPath

from safetensors.torch import save_file
from torch import Tensor

from headway.errors import InputError, shown
from headway.hub.safe.pickle_import import convert
from headway.hub.safe.safetensors_file import MAX_TENSORS, NAME, SafetensorsFile
from headway.io.atomic_write import write_whole
from headway.io.regular_file import inside
from headway.io.strict_json import read_object

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
PICKLE_INDEX = "pytorch_model.bin.index.json"
PICKLES = (".bin", ".pt", ".pth")
MAX_SHARDS = 200
"""All shards are open while weights are read."""
SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)\..*", re.IGNORECASE)
"""Device names in Windows, with any ending."""


class Weights(Mapping[str, Tensor]):
    """A mapping of names to tensors, each read from its file when it is accessed, in its stored type.

    Close it, or use it in ``with``, when everything is read; tensors already read stay valid.
    """

    def __init__(self, files: list[SafetensorsFile], source: Path):
        self._files = files
        self.source = source
        """the file that lists the tensors: the only one, or the index"""
        self._home = {name: file for file in files for name in file.entries}

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape, without reading it."""
        return self._home[name].entries[name].shape

    def check_weight(self, name: str) -> None:
        """Raise InputError for a tensor of a type that no weight has, without reading it."""
        self._home[name].check_weight(name)

    def weight(self, name: str) -> Tensor:
        """A weight in float32.  Raises InputError for one that is not finite, and for a file that was truncated."""
        return self._home[name].weight(name)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def __getitem__(self, name: str) -> Tensor:
        return self._home[name].read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._home

    def __iter__(self) -> Iterator[str]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)

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
        return _open_shards(directory, _weight_map(directory, INDEX, ".safetensors"))
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
    return Weights([SafetensorsFile(inside(directory, name))], directory / name)


def _open_shards(directory: Path, weight_map: dict[str, str]) -> Weights:
    """The shards of an index, after checking that each holds exactly the tensors that the index lists for it."""
    places = [(inside(directory, shard), None) for shard in sorted(set(weight_map.values()))]
    return _opened(places, directory / INDEX, weight_map)


def _opened(places: Sequence[tuple[Path, Path | None]], source: Path, weight_map: dict[str, str]) -> Weights:
    """The weights in files, each with the one that it was made from, if any; checked by an index, if there is one."""
    with ExitStack() as opened:
        files = []
        for place, original in places:
            files.append(SafetensorsFile(place, original))
            opened.callback(files[-1].close)
        if weight_map:
            _check_map({file.path.name: set(file.entries) for file in files}, weight_map, source)
        opened.pop_all()
    return Weights(files, source)


def _check_map(held: dict[str, set[str]], weight_map: dict[str, str], index: Path) -> None:
    """Raise InputError unless every shard holds exactly the tensors that the index lists for it."""
    problems = [f"{shard} lacks {name}" for name, shard in weight_map.items() if name not in held[shard]]
    for shard, names in held.items():
        for name in names:
            if (listed := weight_map.get(name)) != shard:
                where = f"places in {listed}" if listed else "lacks"
                problems.append(f"{shard} holds {name}, which the index {where}")
    if problems:
        more = f" and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise InputError(f"{index}: weight_map does not fit the files: " + "; ".join(sorted(problems)[:10]) + more)


def _weight_map(directory: Path, name: str, ending: str) -> dict[str, str]:
    """The ``weight_map`` of an index: names of tensors to names of files in the same directory."""
    index = inside(directory, name)
    found = read_object(index).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise InputError(f"{index}: weight_map: found {shown(found)}, expected an object of tensors and files")
    if len(found) > MAX_TENSORS:
        raise InputError(f"{index}: weight_map: found {len(found)} tensors, expected at most {MAX_TENSORS}")
    for tensor, shard in found.items():
        if len(tensor) > 256 or not NAME.fullmatch(tensor):
            raise InputError(f"{index}: weight_map: found a tensor named {shown(tensor)}, expected words between dots")
        if not isinstance(shard, str) or not _is_basename(shard) or not shard.endswith(ending):
            raise InputError(
                f"{index}: weight_map[{tensor!r}]: found {shown(shard)}, "
                f"expected the bare name of a {ending} file in the same folder"
            )
    if len(shards := set(found.values())) > MAX_SHARDS:
        raise InputError(f"{index}: weight_map: found {len(shards)} files, expected at most {MAX_SHARDS}")
    if len({shard.casefold() for shard in shards}) < len(shards):
        raise InputError(f"{index}: weight_map: found files whose names differ in case alone, expected one spelling")
    return found


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
        found = sorted(path for path in directory.iterdir() if path.suffix in PICKLES)
    except OSError:
        return []
    return [
        path for path in found if not path.name.startswith(("training_args", "optimizer", "scheduler", "rng_state"))
    ]


def _open_pickles(directory: Path, pickles: list[Path]) -> Weights:
    """Convert pickles and open the results; the temporary files are deleted before this returns."""
    if pickles[0].name == PICKLE_INDEX:
        weight_map = _weight_map(directory, PICKLE_INDEX, ".bin")
        names = sorted(set(weight_map.values()))
    elif len(pickles) > 1:
        raise InputError(
            f"{directory}: found {', '.join(path.name for path in pickles[:5])}, expected one file of weights"
        )
    else:
        weight_map, names = {}, [pickles[0].name]
    sources = [inside(directory, name) for name in names]
    with tempfile.TemporaryDirectory(prefix="headway-", ignore_cleanup_errors=True) as folder:
        targets = [Path(folder) / f"{number}.safetensors" for number in range(len(sources))]
        convert(sources, targets)
        return _opened(list(zip(targets, sources, strict=True)), pickles[0], weight_map)


def _exists(path: Path) -> bool:
    """Whether there is an entry of that name, including a broken link."""
    try:
        return path.is_symlink() or path.exists()
    except (OSError, ValueError):
        return False
