"""Files and directories written whole or not at all, and files that are only put in place when they were checked."""

import contextlib
import errno
import glob
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.io.quantities import size

TEMPORARY = re.compile(r"\..+\.(\d+)(\.old)?\.tmp")
"""The name of what is being written or given up, with the number of the process."""


def new_mode() -> int:
    """The permissions of a new file under the user's umask.

    Read from /proc where the system has it: reading the umask by setting it would change it for other threads
    meanwhile.
    """
    try:
        with Path("/proc/self/status").open(encoding="utf-8") as file:
            mask = next(int(line.split()[1], 8) for line in file if line.startswith("Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o077)
        os.umask(mask)
    return 0o666 & ~mask


def why_not(place: Path, error: Exception, needed: int = 0) -> str:
    """Why ``place`` cannot be written, with the bytes ``needed`` (where known) and the bytes that are free."""
    reason = getattr(error, "strerror", None) or str(error)
    sizes = [f"it needs {size(needed)}"] if needed else []
    if getattr(error, "errno", None) == errno.EFBIG:
        sizes.append("files there may not be that large (see ulimit -f, or the file system's limit)")
    with contextlib.suppress(OSError, StopIteration):
        folder = next(folder for folder in place.parents if folder.exists())
        sizes.append(f"{size(shutil.disk_usage(folder).free)} are free there")
    return f"({reason}); {', and '.join(sizes)}"


def temporary(path: Path) -> Path:
    """Where this process writes a file or a directory before it gets its name, ``path``."""
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def remove_left_behind(folder: Path, name: str = "*") -> None:
    """Remove what other processes, which have ended, were writing in a folder as ``name``, and what this one gave up.

    A file of another name, and a link, is not ours and stays.  Raises OSError.
    """
    for path in folder.glob(f".{name}.*.tmp"):
        written = TEMPORARY.fullmatch(path.name)
        if written is None or path.is_symlink() or _runs(int(written[1])):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


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


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a temporary file next to ``path``, flush it to disk, then rename it to ``path``.

    A reader of ``path`` sees either the old file or the new one, never half of one; an error leaves the old file
    untouched.
    """
    new = temporary(path)
    try:
        write(new)
        new.chmod(new_mode())
        flush(new)
        new.replace(path)
        flush(path.parent)
    except OSError as error:
        if error.errno is not None:
            error.filename = error.filename or str(path)  # the error of a full disk names no file
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            new.unlink()


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON, atomically.  Raises ValueError for NaN and infinity."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda new: new.write_text(text, encoding="utf-8"))


def append_line(path: Path, line: str) -> None:
    """Append a line to a file; a line that a killed program left unfinished is ended first."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())


def flush(path: Path) -> None:
    """Make the operating system write a file or a directory to disk now (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
