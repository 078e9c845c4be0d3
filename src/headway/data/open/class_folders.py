"""A folder of texts, one folder for each class: FOLDER/CLASS/1.txt."""

from collections.abc import Sequence
from pathlib import Path

from headway.data.open.files import PARTS, folder_files, kind
from headway.errors import InputError

AS_TEXT = "--task language_modeling reads all of them as running text"


def are_class_folders(inputs: Sequence[str | Path]) -> bool:
    """Whether the inputs are folders with a folder of texts for each class.  Raises InputError for both kinds."""
    folders = [path for path in inputs if Path(path).is_dir() and _holds_classes(Path(path))]
    if other := next((path for path in inputs if folders and path not in folders), None):
        raise InputError(f"{folders[0]} has a folder of texts for each class, {other} has not; give one kind.")
    return bool(folders)


def _holds_classes(folder: Path) -> bool:
    """Whether the texts of a folder are in folders in it, at least two, or in those of its only folder.

    Raises InputError for parts of the data, such as train and test, for few texts in no class, and for classes of one.
    """
    files = [path.relative_to(folder) for path in folder_files(folder)]
    if kind(files[0]) != "text":
        return False
    names = list(dict.fromkeys(path.parts[0] for path in files if len(path.parts) > 1))
    if len(names) == 1 and all(len(path.parts) > 2 for path in files):
        return _holds_classes(folder / names[0])
    inner = {path.parts[:2] for path in files if len(path.parts) > 2}
    repeated = len({name for _, name in inner}) < len(inner)  # train/pos and test/pos
    parts = [name for name in names if name.lower() in PARTS]
    if len(names) > 1 and (len(parts) > 1 or repeated or (parts and inner)):
        train = next((name for name in names if name.lower().startswith("train")), names[0])
        rest = " ".join(str(folder / name) for name in names if name != train)
        raise InputError(
            f"{folder}: {' and '.join(names)} look like parts of the data; train on {folder / train} and name the "
            f"rest: --validation {rest}. {AS_TEXT}."
        )
    others = [path for path in files if len(path.parts) != 2]
    if len(names) < 2 or len(others) > len(names):
        return False
    if others:
        raise InputError(
            f"{folder}: has folders of texts ({', '.join(names[:4])}) and texts that are in none of them "
            f"({others[0]}); for classification, keep only a folder for each class. {AS_TEXT}."
        )
    if len(files) == len(names):
        raise InputError(f"{folder}: has {len(names)} folders of one text each; a class needs several. {AS_TEXT}.")
    return True
