"""Hashes of the texts that a run was trained on, by which a run that begins from it keeps them out of what it measures.

By task the hashes of the run's own texts (``data.records.repeats.text_hashes``), and after "before " those of the runs
that it began from: sorted, eight bytes each.  The file has the form of safetensors; it is no file of the model, so that
exports and containers leave it out.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headway.errors import InputError
from headway.io.atomic_write import write_whole

TEXTS, BEFORE = "trained_texts", "before "


def read_texts(run: Path) -> dict[str, np.ndarray]:
    """What the file of a run says, int64 (N,) each; nothing without one.  Raises InputError for a damaged one."""
    path = run / TEXTS
    try:
        return load(path.read_bytes()) if path.is_file() else {}
    except (OSError, SafetensorError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); restore it, or remove it to go on without it.") from None


def known_texts(run: Path) -> dict[str, np.ndarray]:
    """By task, the texts that a run and the runs before it were trained on."""
    by_task: dict[str, np.ndarray] = {}
    for name, hashes in read_texts(run).items():
        task = name.removeprefix(BEFORE)
        by_task[task] = np.union1d(by_task.get(task, hashes[:0]), hashes)
    return by_task


def write_texts(run: Path, own: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]) -> None:
    """Write the file of a run atomically."""
    kept = {**own, **{BEFORE + task: hashes for task, hashes in before.items()}}
    data = save({name: np.unique(hashes) for name, hashes in kept.items()})
    write_whole(run / TEXTS, lambda path: path.write_bytes(data))
