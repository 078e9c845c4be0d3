"""Directories that appear complete or not at all, and files that are only put in place when they were checked."""

import contextlib
import glob
import shutil
from collections.abc import Iterator
from pathlib import Path

from headway.errors import InputError
from headway.io.atomic_write import flush, remove_left_behind, temporary


@contextlib.contextmanager
def staged_directory(out: Path) -> Iterator[Path]:
    """An empty directory next to ``out``; at the end it is removed, with the directories above it that it needed.

    What a command that was killed while it wrote ``out`` has left there is removed first.  Raises OSError.
    """
    remove_left_behind(out.parent, glob.escape(out.name))
    staged = temporary(out)
    needed = [folder for folder in out.parents if not folder.exists()]
    try:
        staged.mkdir(parents=True)
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        with contextlib.suppress(OSError):  # one that holds what was written is not empty
            for folder in needed:
                folder.rmdir()


@contextlib.contextmanager
def checked_files(directory: Path) -> Iterator[Path]:
    """A directory in which files of ``directory`` are written and checked; at the end they are put in place.

    If anything is raised, the files in ``directory`` stay as they were; an InputError names them by their places there.
    """
    with staged_directory(directory / "checked") as staged:
        try:
            yield staged
        except InputError as error:
            raise InputError(str(error).replace(str(staged), str(directory))) from error.__cause__
        for path in sorted(path for path in staged.rglob("*") if path.is_file()):
            place = directory / path.relative_to(staged)
            place.parent.mkdir(exist_ok=True)
            path.replace(place)
            flush(place.parent)


def put_in_place(staged: Path, out: Path) -> None:
    """Rename the new directory to ``out``; an existing one is moved away first, and back if that fails."""
    if not out.exists():
        staged.rename(out)
    else:
        old = staged.with_suffix(".old.tmp")
        out.rename(old)
        try:
            staged.rename(out)
        except BaseException:
            old.rename(out)
            raise
        shutil.rmtree(old, ignore_errors=True)
    flush(out.parent)
