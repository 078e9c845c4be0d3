"""Check a saved model for correctness, on this machine.

    found = verify("runs/notes")
    found["checks"]                     # name, passed, value, bound of each

cache           the KV cache changes the speed of generation, and nothing else
batch           texts in one padded batch get the same answers as each alone
engines         and so by each engine whose export lies in the run
accumulation    the gradient of a batch equals the sum over its parts
export          the exported model is the same model
checkpoints     the files of the run's checkpoints are unchanged
resume          training that is killed and resumed equals uninterrupted training, bit for bit
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway.hub.adapters.locate import locate_model
from headway.training.monitor.progress import NoProgress, Progress
from headway.workflows.load import load
from headway.workflows.verify.cache import check_cache
from headway.workflows.verify.check import Check
from headway.workflows.verify.checks import (
    check_accumulation,
    check_batch,
    check_checkpoints,
    check_engines,
    check_export,
    check_precision,
)
from headway.workflows.verify.resume import check_resume
from headway.workflows.verify.samples import Subject


def verify(run: str | Path, progress: Progress | None = None, *, device: str = "auto") -> dict[str, Any]:
    """Check a run, a Hugging Face directory or a hub id; ``task``, ``passed`` and ``checks``, each as ``Check.plain``.

    The model's directory is not changed: training and export use a temporary directory, which is removed.  Raises
    InputError if there is no such model or device, or if one of its files is damaged.
    """
    place = locate_model(run).path
    pipe = load(place, device=device, precision="float32")
    subject = Subject(pipe)
    checks = list(_checks(subject, place, progress or NoProgress()))
    passed = all(check.passed is not False for check in checks)
    return {"task": pipe.task, "passed": passed, "checks": [check.plain() for check in checks]}


def _checks(subject: Subject, place: Path, progress: Progress) -> Iterator[Check]:
    """Each check, the longest last."""
    with tempfile.TemporaryDirectory(prefix="headway-verify-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        to_do: list[tuple[str, Callable[[], Check]]] = [
            ("generating with the cache and without", lambda: check_cache(subject)),
            ("reading texts together and one by one", lambda: check_batch(subject)),
            ("answering in the precision of the run", lambda: check_precision(subject, place)),
            ("answering by the engines of the run", lambda: check_engines(place)),
            ("summing gradients", lambda: check_accumulation(subject)),
            ("exporting it for other programs", lambda: check_export(subject, place, folder / "export")),
            ("reading its checkpoints", lambda: check_checkpoints(place)),
            ("training, killing and resuming", lambda: check_resume(subject, place, folder, progress)),
        ]
        for words, check in to_do:
            progress.phase(words)
            began = time.monotonic()
            found = check()
            yield replace(found, seconds=round(time.monotonic() - began, 3))
