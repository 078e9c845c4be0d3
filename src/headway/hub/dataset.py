"""Datasets of the Hugging Face hub, fetched only when you give their id.

    owner/name                  the split "train" of the main branch
    owner/name:test             another split, or a part of one: owner/name:train[:1%]
    owner/name@v1.0:test        of a branch, a tag or a commit

An existing path is a path, and so is anything that ends like a file name (org/name.csv).  The ``datasets`` library uses
its usual cache and environment variables; no telemetry is sent, and no login is needed.
"""

import contextlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.download import hub_library, is_hub_id, missing_extra, one_line, silence

SPLIT = re.compile(r"[A-Za-z_][\w.\-\[\]:%+]*", re.ASCII)
TRAIN = "train"
ENDING = re.compile(r"\.[A-Za-z]+$")
"""The ending of a name that must be meant as a path; with a revision it is an id all the same."""
WHAT = "dataset"


@dataclass(frozen=True)
class DatasetId:
    """A dataset on the hub, and one of its splits."""

    name: str
    """owner/name"""
    revision: str | None = None
    split: str = TRAIN

    def __str__(self) -> str:
        revision = "" if self.revision is None else f"@{self.revision}"
        return f"{self.name}{revision}:{self.split}"


def dataset_id(place: str | Path) -> DatasetId | None:
    """The dataset that an input names, or None for a path."""
    if not isinstance(place, str):
        return None
    whole, colon, split = place.partition(":")
    if not is_hub_id(whole) or ENDING.search(whole) or (colon and not SPLIT.fullmatch(split)):
        return None
    name, _, revision = whole.partition("@")
    return DatasetId(name, revision or None, split or TRAIN)


@contextlib.contextmanager
def loaded(wanted: DatasetId) -> Iterator[Any]:
    """The rows, as ``datasets.Dataset``, fetched if they are not in the cache; the library's output is suppressed.

    Raises InputError if the library is missing (extra ``hub``), if the hub cannot be reached or has no such dataset,
    revision or split, and for errors in the code that uses the rows.
    """
    with _library(wanted) as datasets:
        yield datasets.load_dataset(wanted.name, split=wanted.split, revision=wanted.revision)


def parquet_files(wanted: DatasetId) -> list[str]:
    """The locations of the Parquet files of a split, for ``fsspec`` to open; none of them is fetched.

    Raises InputError as ``loaded`` does, and if the split is stored in another format.
    """
    with _library(wanted) as datasets:
        data_files = datasets.load_dataset_builder(wanted.name, revision=wanted.revision).config.data_files or {}
        splits = {str(split): list(files) for split, files in data_files.items()}
    if wanted.split not in splits:
        raise InputError(f"{wanted}: has no split {wanted.split!r}, but {', '.join(splits) or 'none'}")
    files = [str(file) for file in splits[wanted.split]]
    if others := [file for file in files if not file.lower().endswith(".parquet")]:
        raise InputError(
            f"{wanted}: is stored as {others[0].rpartition('/')[2]}, but --stream reads Parquet; leave out --stream, "
            f"or try the hub's own copy, {wanted.name}@refs/convert/parquet"
        )
    return files


@contextlib.contextmanager
def _library(wanted: DatasetId) -> Iterator[Any]:
    """The library, with its output suppressed except progress bars on a terminal; its errors become InputError."""
    with hub_library(str(wanted), WHAT), contextlib.ExitStack() as undo:
        try:
            import datasets
        except ImportError:
            raise missing_extra(str(wanted), WHAT) from None
        for name in ("datasets", "huggingface_hub"):  # configured on import
            silence(name, undo)
        counts = "HF_UPDATE_DOWNLOAD_COUNTS"
        undo.callback(setattr, datasets.config, counts, datasets.config.HF_UPDATE_DOWNLOAD_COUNTS)
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
        if not sys.stderr.isatty() and not datasets.are_progress_bars_disabled():
            undo.callback(datasets.enable_progress_bars)
            datasets.disable_progress_bars()
        try:
            yield datasets
        except (InputError, MemoryError):
            raise
        except Exception as error:  # the types depend on the versions of the library and of its dependencies
            raise InputError(f"{wanted}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What went wrong and what to do, in one line."""
    from datasets import config, exceptions
    from huggingface_hub import constants

    text, hub = one_line(error), constants.ENDPOINT
    if isinstance(error, exceptions.DatasetNotFoundError) and "gated" in text:
        return f"its authors ask you to accept their terms first: do so on its page, then set HF_TOKEN ({hub})"
    if isinstance(error, exceptions.DatasetNotFoundError) and text.startswith("Revision"):
        return f"has no such revision on {hub}; expected a branch, a tag or a commit"
    if isinstance(error, exceptions.DatasetNotFoundError):
        return f"no such path here, and no such {WHAT} on {hub}, or a private one; check the name, or set HF_TOKEN"
    if isinstance(error, ConnectionError) and config.HF_HUB_OFFLINE:
        return "no such path, and it was not fetched before; HF_HUB_OFFLINE is set, so it is not fetched now"
    if isinstance(error, ConnectionError):
        return f"no such path, and {hub} cannot be reached ({text}); connect, or give the path of a file"
    return f"cannot be fetched ({text})"
