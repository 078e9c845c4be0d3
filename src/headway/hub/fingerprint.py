"""Whether a directory still holds the same model: fingerprints, and the record of an export."""

import hashlib
import json
from pathlib import Path
from typing import BinaryIO

from headway.errors import InputError
from headway.io.regular_file import add_file, changed_file, open_regular
from headway.io.strict_json import read_object

SAMPLE = 4096
"""Bytes read from each tensor."""
LONGEST_HEADER = 1 << 27

OF_THE_RUN = ("headway.json",)
"""Files of a run directory that do not affect the model's outputs."""


def fingerprint(directory: Path) -> str:
    """SHA-256 of ``config.json`` and of an extract of the weight files, in hexadecimal.

    The extract is the header, with every name, type and shape, and the first bytes of every tensor: training changes
    all of those, and a file of gigabytes takes a moment.  Raises InputError for files that cannot be read.
    """
    digest = hashlib.sha256()
    weights = sorted(directory.glob("*.safetensors")) or sorted(directory.glob("pytorch_model*.bin"))
    for path in (directory / "config.json", *weights):
        try:
            with open_regular(path, "expected a model") as file:
                digest.update(f"\n{path.name}\n".encode())
                if path.suffix == ".safetensors":
                    _add_weights(digest, file)
                else:
                    add_file(digest, file)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path}: cannot be read ({error}).") from None
    return digest.hexdigest()


def full_fingerprint(directory: Path) -> str:
    """``fingerprint``, including the files of the tokenizer and of generation, and the models in subfolders.

    These are, for example, the members of an ensemble, or the last layers of a sentence encoder.
    """
    digest, files = hashlib.sha256(fingerprint(directory).encode()), files_of(directory)
    for path in files:
        if path.suffix not in (".safetensors", ".bin") and path.name not in OF_THE_RUN:
            with open_regular(path) as file:
                digest.update(f"\n{path.relative_to(directory)}\n".encode())
                add_file(digest, file)
    for folder in sorted({path.parent for path in files} - {directory}):
        digest.update(fingerprint(folder).encode())
    return digest.hexdigest()


def files_of(directory: Path) -> list[Path]:
    """The files that a model is loaded from, also those of models in subfolders, and the record of its run."""
    folders = [directory, *(path for path in sorted(directory.iterdir()) if (path / "config.json").is_file())]
    files = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    with_tensors = {path.parent for path in files if path.suffix == ".safetensors"}
    return [
        path
        for path in files
        if path.suffix in (".json", ".txt", ".model", ".safetensors")
        or (path.suffix == ".bin" and path.parent not in with_tensors)
    ]


def _add_weights(digest: "hashlib._Hash", file: BinaryIO) -> None:
    size = int.from_bytes(file.read(8), "little")
    if size > LONGEST_HEADER:
        raise ValueError(f"a header of {size} bytes")
    header = file.read(size)
    digest.update(header)
    places = [entry["data_offsets"] for name, entry in json.loads(header).items() if name != "__metadata__"]
    for start, end in sorted(places):
        file.seek(8 + size + start)
        digest.update(file.read(min(SAMPLE, end - start)))


RECORD = "headway_export.json"
"""The record of an export: its source, files and check.  It marks an earlier export, which may be replaced."""


def check_record(directory: Path) -> None:
    """Raise InputError for an export whose files are not those of its record; the card is anybody's to change."""
    path = directory / RECORD
    if not path.is_file():
        return
    sums = read_object(path).get("files")
    weights = {file.name for file in directory.glob("*.safetensors")}
    if not isinstance(sums, dict) or not weights <= set(sums):
        raise InputError(f"{path}: is damaged; export the model again.")
    changed = changed_file(directory, {name: sums[name] for name in sums if not name.endswith(".md")})
    if changed is not None:
        raise InputError(
            f"{changed}: has changed since it was exported (its SHA-256 differs); export the model again, or delete "
            f"{path} if the change is yours."
        )
