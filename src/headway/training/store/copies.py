"""Copies the files of one run into another directory, which then is a model directory too."""

import shutil
from functools import partial
from pathlib import Path

from headway.io.atomic_write import write_whole

LEFT = ("checkpoints", "adapted", "snapshots", "report.html", "headway.json")
"""Files that are not copied: a copy cannot be resumed, and has its own headway.json."""


def copy_run(source: Path, target: Path) -> list[str]:
    """Copy the model, its tokenizer and its log, each file atomically; returns the names in ``target``."""
    names = []
    for path in sorted(source.iterdir()):
        if path.name in LEFT or path.name.startswith("."):
            continue
        names.append(path.name)
        if path.is_dir():
            shutil.copytree(path, target / path.name, dirs_exist_ok=True)
        else:
            write_whole(target / path.name, partial(shutil.copyfile, path))
    return names
