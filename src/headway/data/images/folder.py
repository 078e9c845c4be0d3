"""Images with a class each: in a folder for each class, FOLDER/CLASS/image.png, or in one file of NumPy.

Such a file has ``images`` (N, H, W[, C]) and ``labels`` (N,), as ``numpy.savez`` writes them:

    np.savez("digits.npz", images=digits.images / 16, labels=digits.target)
"""

import contextlib
import hashlib
import math
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.images.image_table import ImageTable, advice, check_broken, check_classes, image_table, joined
from headway.data.images.preprocessing import ENDINGS, as_bytes, image_size
from headway.data.open.files import PARTS
from headway.errors import InputError
from headway.io.memory import total_bytes
from headway.io.regular_file import inside, open_regular, sha256_of

LEFT_OUT = ("thumbs.db", "desktop.ini", "__macosx")
"""What systems leave in folders, in lower case; so are hidden files, whose names begin with a dot."""
IMAGES, LABELS = "images", "labels"
MOST_BYTES = 1 << 33
"""Of an array, unpacked."""
TEXTS = (".txt", ".txt.gz", ".parquet")
"""What a folder to train a language model on holds."""


def are_images(inputs: Sequence[str | Path]) -> bool:
    """Whether any input is a folder with images in it by their names, at any depth, or arrays of images."""
    for path in map(Path, inputs):
        with contextlib.suppress(OSError):
            files = path.rglob("*") if path.is_dir() else ()
            if is_arrays(path) or any(is_image(file) and not _is_left_out(file, path) for file in files):
                return True
    return False


def is_image(path: Path) -> bool:
    """Whether a file is an image by its name."""
    return path.name.lower().endswith(ENDINGS)


def read_images(inputs: Sequence[str | Path], on_bad_row: str = "error") -> ImageTable:
    """Folders of images by class, and ``.npz`` files, as one table; the headers of all images are read.

    Raises InputError for anything that is not as it should be; an image that cannot be read is left out where
    ``on_bad_row`` is "skip", and they are at most 1 %.
    """
    paths = [Path(name) for name in inputs]
    if other := next((path for path in paths if not (is_arrays(path) or path.is_dir())), None):
        raise InputError(f"{other}: is neither a folder of images nor .npz; give inputs of one kind.")
    parts = [read_arrays(path) if is_arrays(path) else _read_folder(path, on_bad_row) for path in paths]
    if len({part.arrays is None for part in parts}) > 1:
        raise InputError(f"{inputs[0]} and others are folders and .npz; give inputs of one kind.")
    table = joined(parts, on_bad_row)
    check_classes(table.name, table.labels)
    return table


def images_in(folder: Path) -> list[Path]:
    """The images in a folder, at any depth, in the order of their paths; hidden ones are left out.

    Raises InputError for a folder without any, and for a link that leaves it.
    """
    images = sorted(path for path in folder.rglob("*") if is_image(path) and not _is_left_out(path, folder))
    if not images:
        raise InputError(f"{folder}: there is no image in this folder ({', '.join(ENDINGS)}).")
    return [inside(folder, str(path.relative_to(folder))) for path in images]


def _read_folder(folder: Path, on_bad_row: str) -> ImageTable:
    """One folder: its classes are the names of the folders in it."""
    whole, broken = hashlib.sha256(), list[str]()
    rows, sizes = list[tuple[str, str]](), list[tuple[int, int]]()
    _check_one_kind(folder)
    classes, others = _classes(folder)
    for label, names in classes.items():
        for name in names:
            path = inside(folder, f"{label}/{name}")
            try:
                with warnings.catch_warnings(action="ignore"), open_regular(path, "expected an image") as file:
                    digest = sha256_of(file)
                    whole.update(f"{len(label)} {label}/{name} {digest}\n".encode("utf-8", "surrogateescape"))
                    file.seek(0)
                    size = image_size(file, path)
            except InputError as error:
                if on_bad_row != "skip":
                    raise InputError(f"{error}{advice(1)}") from None
                broken.append(str(error))
                continue
            rows.append((str(path), label))
            sizes.append(size)
    check_broken(str(folder), broken, len(rows))
    notes = [f"{len(others):,} files that are not images are left out, such as {others[0]}"] if others else []
    return image_table(folder, rows, sizes, whole.hexdigest(), broken=broken, notes=notes)


def _classes(folder: Path) -> tuple[dict[str, list[str]], list[str]]:
    """The names of the images of each class, both in alphabetical order, and those of other files.

    Raises InputError, which names what was found, where the folder is laid out otherwise.
    """
    entries = _entries(folder)
    folders = [path for path in entries if path.is_dir()]
    others = [path.name for path in entries if not path.is_dir()]
    if len(parts := [path.name for path in folders if path.name.lower() in PARTS]) > 1:
        raise InputError(f"{folder}: {' and '.join(parts)} look like parts of the data; {_nested(folders)}.")
    if loose := [name for name in others if is_image(Path(name))]:
        raise InputError(
            f"{folder}: has images without a class, such as {loose[0]}; expected a folder for each class, such as "
            f"{folder.name}/cats/1.png."
        )
    classes: dict[str, list[str]] = {}
    for place in folders:
        inside(folder, place.name)
        deeper = _entries(place)
        if nested := next((path for path in deeper if path.is_dir()), None):
            raise InputError(f"{folder}: {place.name}/{nested.name} is a folder in a class; {_nested(folders)}.")
        names = [path.name for path in deeper if is_image(path)]
        rest = [f"{place.name}/{path.name}" for path in deeper if not is_image(path)]
        if not names:
            only = f", only others such as {rest[0]}" if rest else ""
            what = f"there is no image in {place.name}{only} ({', '.join(ENDINGS)} are read)"
            raise InputError(f"{folder}: {what}; remove that folder or fill it.")
        classes[place.name] = names
        others += rest
    return classes, others


def _check_one_kind(folder: Path) -> None:
    """Raise InputError for a folder that could be one of texts as well."""
    seen = sorted(path.relative_to(folder) for path in folder.rglob("*") if not _is_left_out(path, folder))
    if text := next((path for path in seen if path.name.lower().endswith(TEXTS)), None):
        both = f"texts ({text}) and images ({next(filter(is_image, seen))})"
        raise InputError(f"{folder}: holds {both}; keep one kind in a folder, or name the files.")


def _nested(folders: Sequence[Path]) -> str:
    """What to do about folders in folders."""
    parts = [path for path in folders if path.name.lower() in PARTS]
    train = next((path for path in parts if path.name.lower().startswith("train")), None)
    if train is not None:
        other = next((path for path in parts if path != train), None)
        return f"train on {train}" + (f" and name the rest: --validation {other}" if other else "")
    return "classes are the folders directly in the one that is named, with images and no folders in them"


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, in alphabetical order, without hidden files."""
    try:
        return sorted(path for path in folder.iterdir() if not _is_left_out(path, folder))
    except OSError as error:
        raise InputError(f"{folder}: this folder cannot be read ({error.strerror}).") from None


def _is_left_out(path: Path, folder: Path) -> bool:
    """Whether a file or a folder that it is in is hidden, or what a system leaves behind."""
    return any(part.startswith(".") or part.lower() in LEFT_OUT for part in path.relative_to(folder).parts)


def is_arrays(path: Path) -> bool:
    """Whether a path is called like such a file."""
    return path.name.lower().endswith(".npz") and not path.is_dir()


def read_arrays(path: Path) -> ImageTable:
    """The images of a file, checked strictly; nothing in it is run (no pickle).  Raises InputError."""
    with open_regular(path, "expected a .npz file") as file:
        digest = sha256_of(file)
        file.seek(0)
        images, labels = _arrays(path, file)
    if 0 in images.shape or not (images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3))):
        shapes = "expected [N, H, W], [N, H, W, 1] or [N, H, W, 3]"
        raise InputError(f"{path}: {IMAGES} has shape {list(images.shape)}, {shapes}.")
    try:
        images = as_bytes(images)
    except ValueError as error:
        raise InputError(f"{path}: {IMAGES} has {error}.") from None
    names = _labels(path, labels, len(images))
    rows = [(f"{path}[{number}]", name) for number, name in enumerate(names)]
    size = (images.shape[1], images.shape[2])
    return image_table(path, rows, [size] * len(images), digest, arrays=list(images))


def _arrays(path: Path, file: Any) -> tuple[np.ndarray, np.ndarray]:
    """The two arrays, as they are in the file."""
    try:
        with zipfile.ZipFile(file) as archive:
            sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.infolist()}
        if not {IMAGES, LABELS} <= set(sizes):
            names = ", ".join(sorted(sizes)[:8]) or "nothing"
            raise InputError(
                f"{path}: holds {names}; expected {IMAGES} (N, H, W) or (N, H, W, 3), uint8 or float from 0 to 1, and "
                f"{LABELS} (N,)."
            )
        for name in (IMAGES, LABELS):
            if sizes[name] > min(MOST_BYTES, 0.5 * (total_bytes() or math.inf)):
                raise InputError(f"{path}: {name} unpacks to {sizes[name]:,} bytes, more than fits in memory.")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return arrays[IMAGES], arrays[LABELS]
    except InputError:
        raise
    except (OSError, ValueError, EOFError, MemoryError, KeyError, NotImplementedError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if "pickle" in reason.lower():
            reason = "an array of Python objects is in it, which could run code; save numbers or texts"
        raise InputError(f"{path}: cannot be read as arrays of NumPy ({reason}).") from None
    except (zipfile.BadZipFile, zlib.error, SyntaxError) as error:
        raise InputError(f"{path}: is not an .npz file, or is damaged ({error}).") from None


def _labels(path: Path, labels: np.ndarray, count: int) -> list[str]:
    """The classes as texts."""
    if labels.shape != (count,):
        raise InputError(f"{path}: {LABELS} has shape {list(labels.shape)}, expected [{count}], one for each image.")
    if labels.dtype.kind not in "iuUSb":
        raise InputError(f"{path}: {LABELS} are of type {labels.dtype}; expected whole numbers or texts.")
    try:
        names = [(one.decode() if isinstance(one, bytes) else str(one)).strip() for one in labels.tolist()]
    except UnicodeDecodeError:
        raise InputError(f"{path}: {LABELS} hold bytes that are not UTF-8; save them as texts.") from None
    if missing := [number for number, name in enumerate(names) if not name]:
        raise InputError(f"{path}: {LABELS}[{missing[0]}] is empty ({len(missing):,} in all).")
    return names
