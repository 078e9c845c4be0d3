"""Images in one file of NumPy: ``images`` (N, H, W[, C]) and ``labels`` (N,), as ``numpy.savez`` writes them.

    np.savez("digits.npz", images=digits.images / 16, labels=digits.target)

Letters: N images, H height, W width, C channels.
"""

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.images.image_table import ImageTable, image_table
from headway.data.images.preprocessing import as_bytes
from headway.errors import InputError
from headway.io.digest import sha256_of
from headway.io.memory import total_bytes
from headway.io.regular_file import open_regular

IMAGES, LABELS = "images", "labels"
MOST_BYTES = 1 << 33
"""Of an array, unpacked."""


def is_arrays(path: Path) -> bool:
    """Whether a path is called like such a file."""
    return path.name.lower().endswith(".npz") and not path.is_dir()


def read_arrays(path: Path) -> ImageTable:
    """The images of a file, checked strictly; nothing in it is run (no pickle).  Raises InputError."""
    with open_regular(path, "expected a .npz file") as file:
        digest = sha256_of(file)
        file.seek(0)
        images, labels = _arrays(path, file)
    try:
        images = as_bytes(_checked(images))
    except ValueError as error:
        raise InputError(f"{path}: {IMAGES} has {error}.") from None
    names = _labels(path, labels, len(images))
    rows = [(f"{path}[{number}]", name) for number, name in enumerate(names)]
    size = (images.shape[1], images.shape[2])
    return image_table(path, rows, [size] * len(images), digest, arrays=list(images), n_bytes=images.nbytes)


def _arrays(path: Path, file: Any) -> tuple[np.ndarray, np.ndarray]:
    """The two arrays, as they are in the file."""
    try:
        with zipfile.ZipFile(file) as archive:
            sizes = {entry.filename.removesuffix(".npy"): entry.file_size for entry in archive.infolist()}
        if not {IMAGES, LABELS} <= set(sizes):
            found = ", ".join(sorted(sizes)[:8]) or "nothing"
            raise InputError(
                f"{path}: holds {found}; expected {IMAGES} (N, H, W) or (N, H, W, 3), uint8 or float from 0 to 1, and "
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


def _checked(images: np.ndarray) -> np.ndarray:
    """Raise ValueError, which says what was found, unless the shape is that of images."""
    good = images.ndim == 3 or (images.ndim == 4 and images.shape[3] in (1, 3))
    if not good or 0 in images.shape:
        raise ValueError(f"shape {list(images.shape)}, expected [N, H, W], [N, H, W, 1] or [N, H, W, 3]")
    return images


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
