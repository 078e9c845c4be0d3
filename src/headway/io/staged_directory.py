"""Directories that appear complete or not at all."""

import contextlib
import glob
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from headway.io.atomic_write import flush


@contextlib.contextmanager
def staged_directory(out: Path) -> Iterator[Path]:
    """An empty directory next to ``out``; at the end it is removed, with the directories above it that it needed.

    What a command that was killed while it wrote ``out`` has left there is removed first.  Raises OSError.
    """
    for left in out.parent.glob(f".{glob.escape(out.name)}.*.tmp"):
        number = re.fullmatch(r"\.(\d+)(\.old)?\.tmp", left.name.removeprefix(f".{out.name}"))
        if number is not None and not _runs(int(number[1])):
            shutil.rmtree(left, ignore_errors=True)
    staged = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    needed = [folder for folder in out.parents if not folder.exists()]
    try:
        staged.mkdir(parents=True)
        yield staged
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        with contextlib.suppress(OSError):  # one that holds what was written is not empty
            for folder in needed:
                folder.rmdir()


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


def _runs(process: int) -> bool:
    """Whether another process of this id runs, as far as the system tells."""
    if process == os.getpid():
        return False
    try:
        if os.name == "posix":
            os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
