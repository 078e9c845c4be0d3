"""A table of images with a class each; only their headers are read.

Letters: H height, W width.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from headway.data.open.files import fingerprint_of
from headway.data.records.label_typing import composed
from headway.data.records.rows import SKIP_ROWS, SKIP_SHARE, held
from headway.data.records.table import Table
from headway.errors import InputError

IMAGE, LABEL = "picture", "label"
"""The columns of a table of images, by the names that runs are recorded with."""
AUGMENT = ("none", "usual", "flip")
"""How images are augmented: not at all; shifted, rotated, scaled and relit differently in each epoch; and half of
them mirrored as well (``data.images.batch_source``)."""


@dataclass
class ImageTable(Table):
    """A table with a row for each image: where it is, and its class.  Of ``.npz`` files, the images are held."""

    sizes: list[tuple[int, int]] = field(default_factory=list)
    """height and width of each"""
    arrays: list[Any] | None = None
    """of each its bytes, an array (H, W) or (H, W, 1 or 3) uint8, where they are in memory already"""
    on_bad_row: str = "error"
    broken: list[str] = field(default_factory=list)
    """a line for each image that was left out"""
    notes: list[str] = field(default_factory=list)
    """other messages"""

    @property
    def labels(self) -> list[str]:
        """The class of each."""
        return self.column(LABEL)

    @property
    def median_size(self) -> tuple[int, int]:
        """Height and width, each the median of all."""
        heights, widths = zip(*self.sizes, strict=True)
        return int(statistics.median(heights)), int(statistics.median(widths))


def advice(n_broken: int) -> str:
    """What to do about images that cannot be read, after the message of the first."""
    more = f" {n_broken - 1:,} more cannot be read either." if n_broken > 1 else ""
    return f"{more} Replace or remove such files, or pass --on-bad-row skip (for at most {SKIP_SHARE:.0%})."


def check_broken(name: str, broken: Sequence[str], kept: int) -> None:
    """Raise InputError when too many images were left out, or none is left."""
    total = len(broken) + kept
    if broken and (not kept or (len(broken) > SKIP_ROWS and len(broken) > SKIP_SHARE * total)):
        what = f"{len(broken):,} of {total:,} images cannot be read (first: {broken[0].rstrip('.')})"
        raise InputError(f"{name}: {what}; at most {SKIP_SHARE:.0%} may be left out. Replace or remove them.")


def check_classes(name: str, labels: Sequence[str]) -> None:
    """Raise InputError where there is only one class, or where no image shares its class with another."""
    counts = Counter(labels)
    if len(counts) == 1:
        raise InputError(f"{name}: holds only one class, {labels[0]!r} ({len(labels):,} images); add another one.")
    if max(counts.values()) < 2:
        raise InputError(f"{name}: {len(counts):,} classes of one image each; a class needs several.")


def joined(parts: Sequence[ImageTable], on_bad_row: str) -> ImageTable:
    """Several folders or files as one."""

    def all_of(name: str) -> list[Any]:
        return [one for part in parts for one in getattr(part, name) or ()]

    return ImageTable(
        tuple(all_of("paths")),
        [IMAGE, LABEL],
        [chunk for part in parts for chunk in part.chunks()].__iter__,
        all_of("row_numbers"),
        fingerprint_of([part.fingerprint for part in parts]),
        starts=[*accumulate((len(part) for part in parts[:-1]), initial=0)],
        sizes=all_of("sizes"),
        arrays=all_of("arrays") if all(part.arrays is not None for part in parts) else None,
        on_bad_row=on_bad_row,
        broken=all_of("broken"),
        notes=all_of("notes"),
    )


def image_table(
    path: Path, rows: Sequence[tuple[str, str]], sizes: list[tuple[int, int]], fingerprint: str, **more: Any
) -> ImageTable:
    """A table of (where an image is, its class)."""
    columns = {IMAGE: [where for where, _ in rows], LABEL: [composed(label) for _, label in rows]}
    numbers = range(1, len(rows) + 1)
    return ImageTable((path,), [IMAGE, LABEL], held(columns, numbers), numbers, fingerprint, sizes=sizes, **more)
