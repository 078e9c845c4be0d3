"""Data sets of the Hugging Face hub, fetched when their id is given, and at no other time.

    owner/name                  the split "train" of its main branch
    owner/name:test             another split, or a part of one: owner/name:train[:1%]
    owner/name@v1.0:test        of a branch, a tag or a commit

A path that exists is a path, and so is what ends as a file does (org/name.csv).  The library ``datasets`` keeps its
cache and reads its variables as it does elsewhere; nothing is told about this machine, and nobody has to log in.
"""

import contextlib
import logging
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.download import discreet, is_hub_id, missing, one_line

SPLIT = re.compile(r"[A-Za-z_][\w.\-\[\]:%+]*", re.ASCII)
TRAIN = "train"
ENDING = re.compile(r"\.[A-Za-z]+$")
"""What a name ends in that is surely meant as a path; with a revision it is an id all the same."""
WHAT = "data set"


@dataclass(frozen=True)
class DatasetId:
    """A data set on the hub, and which split of it."""

    name: str
    """owner/name"""
    revision: str | None = None
    split: str = TRAIN

    def __str__(self) -> str:
        revision = "" if self.revision is None else f"@{self.revision}"
        return f"{self.name}{revision}:{self.split}"


def dataset_id(place: str | Path) -> DatasetId | None:
    """The data set that an input names, None for a path."""
    if not isinstance(place, str):
        return None
    whole, colon, split = place.partition(":")
    if not is_hub_id(whole) or ENDING.search(whole) or (colon and not SPLIT.fullmatch(split)):
        return None
    name, _, revision = whole.partition("@")
    return DatasetId(name, revision or None, split or TRAIN)


@contextlib.contextmanager
def loaded(wanted: DatasetId) -> Iterator[Any]:
    """The rows, as ``datasets.Dataset``, while the library is silent; fetched if they are not in its cache.

    Raises InputError where the library is missing (it is the extra ``hub``), the hub cannot be reached, or has no such
    data set, revision or split, and where what is done with the rows fails.
    """
    with _library(wanted) as datasets:
        yield datasets.load_dataset(wanted.name, split=wanted.split, revision=wanted.revision)


def parquet_files(wanted: DatasetId) -> list[str]:
    """Where the Parquet files of a split are, as ``fsspec`` opens them; none of them is fetched.

    Raises InputError as ``loaded`` does, and where the split is stored in another format.
    """
    with _library(wanted) as datasets:
        found = datasets.load_dataset_builder(wanted.name, revision=wanted.revision).config.data_files or {}
        splits = {str(split): list(files) for split, files in found.items()}
    if wanted.split not in splits:
        raise InputError(f"{wanted}: has no split {wanted.split!r}, but {', '.join(splits) or 'none'}")
    files = [str(file) for file in splits[wanted.split]]
    if others := [file for file in files if not file.lower().endswith(".parquet")]:
        raise InputError(
            f"{wanted}: is stored as {others[0].rpartition('/')[2]}, and --stream reads Parquet; leave it out, or try "
            f"the hub's own copy, {wanted.name}@refs/convert/parquet"
        )
    return files


@contextlib.contextmanager
def _library(wanted: DatasetId) -> Iterator[Any]:
    """The library, for a time silent, with progress bars on a terminal alone; its errors become one message."""
    with discreet(str(wanted), WHAT):
        try:
            import datasets
        except ImportError:
            raise missing(str(wanted), WHAT) from None
        logs = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]  # set up when they are loaded
        levels, counts = [log.level for log in logs], datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
        hide = not sys.stderr.isatty() and not datasets.are_progress_bars_disabled()
        for log in logs:
            log.setLevel(logging.CRITICAL)
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
        if hide:
            datasets.disable_progress_bars()
        try:
            yield datasets
        except (InputError, MemoryError):
            raise
        except Exception as error:  # which ones depends on the version of the library, and of those that it uses
            raise InputError(f"{wanted}: {_reason(error)}") from None
        finally:
            if hide:
                datasets.enable_progress_bars()
            datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = counts
            for log, level in zip(logs, levels, strict=True):
                log.setLevel(level)


def _reason(error: Exception) -> str:
    """What went wrong, and what to do, in one line."""
    from datasets import config, exceptions
    from huggingface_hub import constants

    text, hub = one_line(error), constants.ENDPOINT
    if isinstance(error, exceptions.DatasetNotFoundError) and "gated" in text:
        return f"whoever made it asks you to accept terms first: do so on its page, then set HF_TOKEN ({hub})"
    if isinstance(error, exceptions.DatasetNotFoundError) and text.startswith("Revision"):
        return f"has no such revision on {hub}; expected a branch, a tag or a commit"
    if isinstance(error, exceptions.DatasetNotFoundError):
        return f"no such path here, and no such {WHAT} on {hub}, or a private one; check the name, or set HF_TOKEN"
    if isinstance(error, ConnectionError) and config.HF_HUB_OFFLINE:
        return "no such path, and it was not fetched before; HF_HUB_OFFLINE is set, so it is not fetched now"
    if isinstance(error, ConnectionError):
        return f"no such path, and {hub} cannot be reached ({text}); connect, or give the path of a file"
    return f"cannot be fetched ({text})"
