"""Weights that were saved with ``torch.save``: converted to safetensors by a process of limited means.

Such a file is a Python pickle, a program for building objects.  ``weights_only=True`` lets torch run only what builds
tensors, but holes were found in that before, so it is one wall of several: the work is done by another process
(``pickle_worker``) with limited memory, time and file sizes, which may start no program and open no connection.  There
is no second try with fewer walls.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from headway.errors import InputError
from headway.hub import pickle_worker
from headway.io.memory import available_bytes, check_fits
from headway.io.regular_file import open_regular, other_kind

STARTS = (b"PK\x03\x04", *(bytes([128, protocol]) for protocol in range(2, 6)))
"""What a file of ``torch.save`` begins with: a zip since 2020, a bare pickle before."""
MEMORY = 2**30
"""Bytes the process may take beside four times the file."""
SECONDS, BYTES_PER_SECOND = 30, 2**25
"""Processor time: this much, and what it takes to read the file this slowly."""

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The environment that the process needs; tokens and passwords stay here."""


def convert(sources: list[Path], targets: list[Path]) -> None:
    """Write the tensors of each source to the safetensors file beside it in ``targets``.

    Raises InputError naming the source that holds anything but tensors, is damaged, or takes too much.
    """
    size = 0
    for source in sources:
        with open_regular(source, "expected the model's weights") as file:
            size += os.fstat(file.fileno()).st_size
            head = file.read(256)
        if not head.startswith(STARTS):
            kind = other_kind(head)
            raise InputError(f"{source}: found {kind[0] if kind else 'something else'}, expected a file of torch.save")
    check_fits(2 * size, str(sources[0]))
    job = {
        "files": [[str(source.absolute()), str(target)] for source, target in zip(sources, targets, strict=True)],
        "memory": min(MEMORY + 4 * size, available_bytes() or sys.maxsize),
        "seconds": SECONDS + size // BYTES_PER_SECOND,
        "bytes": 2 * size + 2**20,
    }
    said = _run(job, sources[0])
    if "error" in said:
        raise InputError(f"{said.get('file', sources[0])}: {said['error']}")
    if said != {"done": len(sources)}:
        raise InputError(f"{sources[0]}: could not be converted; it is damaged or takes too much memory or time")


def _run(job: dict[str, object], source: Path) -> dict[str, object]:
    """What the worker says in its last line; empty when it was ended."""
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(Path(pickle_worker.__file__))],
            input=json.dumps(job).encode(),
            capture_output=True,
            env=environment,
            timeout=4 * int(str(job["seconds"])),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{source}: could not be converted within {job['seconds']} seconds") from None
    except OSError as error:
        raise InputError(f"{source}: no process could be started to convert it ({error.strerror})") from None
    lines = done.stdout[-(2**16) :].decode(errors="replace").splitlines()
    with contextlib.suppress(ValueError, IndexError):
        said = json.loads(lines[-1])
        if isinstance(said, dict):
            return said
    return {}
