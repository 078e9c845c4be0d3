"""Copy what answering needs of a model's directory: not its checkpoints, snapshots, report, or files of the user's."""

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from headway.errors import InputError
from headway.hub.export_record import RECORD
from headway.io.regular_file import inside, open_regular
from headway.io.strict_json import read_object
from headway.training.store.facts import ENDINGS, PART
from headway.training.store.log import LOG
from headway.training.store.sizes import ADAPTED

PIECE = 1 << 20
"""Bytes that are copied at once."""


def copy_model(directory: Path, to: Path, exports: Collection[Path] = ()) -> int:
    """Copy a model, with these of its exports, and return the bytes that were copied.

    Everybody may read the copies: the user of a container is another one.  Raises InputError for a file that leads out
    of the directory or is no regular one, and OSError.
    """
    return sum(_copy(inside(directory, name), to / name) for name in _names(directory, exports))


def _names(directory: Path, exports: Collection[Path]) -> Iterator[str]:
    yield from (name for name in _in(directory) if name.endswith(ENDINGS) or name == LOG)
    for folder in sorted(directory.iterdir()):
        if folder.is_dir() and _is_needed(folder, bool(exports)):
            yield from (f"{folder.name}/{name}" for name in _in(folder) if name.endswith(ENDINGS))
    for place in exports:
        files = read_object(place / RECORD).get("files")
        if not isinstance(files, dict):
            raise InputError(f"{place / RECORD}: is damaged.")
        yield from (f"{place.relative_to(directory).as_posix()}/{name}" for name in (*files, RECORD))


def _is_needed(folder: Path, exported: bool) -> bool:
    """Whether a folder is a module of a sentence encoder, or a model such as a member of an ensemble.

    The model of ``--adapt`` answers nothing, but an export is known by the fingerprint of all models in the run.
    """
    if PART.fullmatch(folder.name):
        return True
    return (folder / "config.json").is_file() and (exported or folder.name != ADAPTED)


def _in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _copy(source: Path, to: Path) -> int:
    for folder in reversed([one for one in to.parents if not one.exists()]):
        folder.mkdir()
        folder.chmod(0o755)
    with open_regular(source) as file, to.open("wb") as copy:
        shutil.copyfileobj(file, copy, PIECE)
    to.chmod(0o644)
    return to.stat().st_size
