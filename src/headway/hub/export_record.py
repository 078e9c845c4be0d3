"""``headway_export.json``: what an export was made of, and the SHA-256 of its files."""

from pathlib import Path

from headway.errors import InputError
from headway.io.digest import changed_file
from headway.io.strict_json import read_object

RECORD = "headway_export.json"
"""The record of an export: its source, files and check.  It marks an earlier export, which may be replaced."""


def check_record(directory: Path) -> None:
    """Raise InputError for an export whose files are not those of its record; the card is anybody's to change."""
    path = directory / RECORD
    if not path.is_file():
        return
    told = read_object(path).get("files")
    weights = {file.name for file in directory.glob("*.safetensors")}
    if not isinstance(told, dict) or not weights <= set(told):
        raise InputError(f"{path}: is damaged; export the model again.")
    if (found := changed_file(directory, {name: told[name] for name in told if not name.endswith(".md")})) is not None:
        raise InputError(
            f"{found}: has changed since it was exported (its SHA-256 differs); export the model again, or delete "
            f"{path} if the change is yours."
        )
