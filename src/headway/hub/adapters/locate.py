"""Where a model is: a directory, an id of the hub, or a PEFT adapter, whose model is its base merged with its updates.

The merged model is kept in the cache, ``adapters/KEY``; another adapter or another base has another key.  One that
was not used for a month is deleted when another is merged.
"""

import hashlib
import os
import shutil
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headway import __version__
from headway.errors import InputError, RunFailed
from headway.hub.adapters.config import is_adapter, read_adapter
from headway.hub.adapters.merge import write_merged
from headway.hub.download import ADAPTER, ADAPTER_WEIGHTS, Download, locate
from headway.hub.fingerprint import check_record, full_fingerprint
from headway.hub.safe.weights import FILE
from headway.io.atomic_write import temporary, why_not, write_json
from headway.io.file_lock import cache_directory
from headway.io.regular_file import changed_file, inside, open_regular, sha256, sha256_of
from headway.io.strict_json import read_object

FOLDER = "adapters"
MERGING = 3
"""Counts the ways in which adapters were merged: a model that an earlier one made is merged again."""
SUMS = "sha256"
"""The file with the SHA-256 of the others."""
MONTH = 30 * 24 * 3600
"""Seconds."""


def locate_model(place: str | Path, *, allow_pickle: bool = False) -> Download:
    """As ``hub.download.locate``; for a PEFT adapter, the directory of its base merged with its updates.

    Raises InputError for an adapter that Headway cannot express, where its base cannot be found, and for an export that
    is damaged.
    """
    download = locate(place, allow_pickle=allow_pickle)
    check_record(download.path)
    return replace(download, path=_merged(download.path)) if is_adapter(download.path) else download


def base_of(directory: Path) -> Path:
    """The directory of an adapter's base.  Raises InputError where there is none, or another adapter."""
    config = read_adapter(directory)
    base = locate(config.base).path
    if not base.is_absolute() and (directory / base).is_dir():
        base = directory / base
    if not base.is_dir():
        raise InputError(
            f"{config.path}: its base, {config.base}, is not there; name it in base_model_name_or_path: a directory, "
            "or an id of the hub."
        )
    if is_adapter(base):
        raise InputError(f"{config.path}: its base, {config.base}, is an adapter itself; merge that one with PEFT.")
    return base


def _merged(directory: Path) -> Path:
    base = base_of(directory)
    kept = cache_directory() / FOLDER / _key(directory, base)
    if kept.is_dir() and _is_whole(kept):
        with suppress(OSError):
            os.utime(kept)
        return kept
    shutil.rmtree(kept, ignore_errors=True)
    _forget_unused(kept.parent)
    staged = temporary(kept)
    try:
        staged.mkdir(parents=True, exist_ok=True)
        write_merged(directory, base, staged)
        sums = {path.name: sha256(path) for path in sorted(staged.iterdir()) if path.is_file()}
        write_json(staged / SUMS, sums)
        staged.rename(kept)
    except OSError as error:
        if kept.is_dir() and _is_whole(kept):  # another command was faster
            return kept
        raise RunFailed(
            f"{directory}: merged with its base, it cannot be kept in the cache {why_not(kept, error)}; name a folder "
            "on another disk with the environment variable HEADWAY_CACHE."
        ) from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return kept


def _is_whole(kept: Path) -> bool:
    """Whether a merged model is as it was written."""
    try:
        sums = read_object(kept / SUMS)
        return FILE in sums and changed_file(kept, sums) is None
    except InputError:
        return False


def _forget_unused(folder: Path) -> None:
    """Delete the merged models that nobody has used for a month, and what interrupted commands have left."""
    with suppress(OSError):
        for model in folder.iterdir():
            if time.time() - model.stat().st_mtime > MONTH:
                shutil.rmtree(model, ignore_errors=True)


def _key(directory: Path, base: Path) -> str:
    """Of everything that the merged model depends on: 40 hexadecimal digits."""
    digest = hashlib.sha256(f"{__version__} {MERGING} {full_fingerprint(base)}".encode())
    for path in sorted(directory.iterdir()):
        if path.name == ADAPTER_WEIGHTS or path.suffix in (".json", ".txt", ".model", ".jinja"):
            with open_regular(inside(directory, path.name)) as file:
                digest.update(f"\n{path.name} {sha256_of(file)}".encode())
    if not (directory / ADAPTER_WEIGHTS).exists():
        raise InputError(f"{directory / ADAPTER_WEIGHTS}: no such file; expected the weights of {ADAPTER}")
    return digest.hexdigest()[:40]
