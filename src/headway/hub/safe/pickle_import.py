"""Weights saved with ``torch.save``, converted to safetensors by a process with restricted resources.

Such a file is a Python pickle, a program that builds objects.  ``weights_only=True`` makes torch run only what builds
tensors, but holes were found in it before, so it is one of several barriers: a separate process (``pickle_worker``)
does the work with limited memory, time and file sizes, and may start no program and open no connection.  There is no
second attempt with fewer barriers.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from headway.errors import InputError
from headway.hub.safe import pickle_worker
from headway.io.memory import available_bytes, check_fits
from headway.io.regular_file import open_regular, other_kind

STARTS = (b"PK\x03\x04", *(bytes([128, protocol]) for protocol in range(2, 6)))
"""The first bytes of a file of ``torch.save``: a zip since 2020, a bare pickle before."""
MEMORY = 2**30
"""Bytes that the process may take in addition to four times the file."""
SECONDS, BYTES_PER_SECOND = 30, 2**25
"""Processor time: a fixed part, and the time to read the file at this slow rate."""

INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The environment variables that the process needs; tokens and passwords are not passed on."""


def convert(sources: list[Path], targets: list[Path]) -> None:
    """Write the tensors of each source to the safetensors file in the same position of ``targets``.

    Raises InputError naming the source if it holds anything but tensors, is damaged, or takes too much memory or time.
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
    answer = _run(job, sources[0])
    if "error" in answer:
        raise InputError(f"{answer.get('file', sources[0])}: {answer['error']}")
    if answer != {"done": len(sources)}:
        raise InputError(f"{sources[0]}: could not be converted; it is damaged or takes too much memory or time")


def _run(job: dict[str, object], source: Path) -> dict[str, object]:
    """The JSON object on the worker's last line; empty when it was killed."""
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
        answer = json.loads(lines[-1])
        if isinstance(answer, dict):
            return answer
    return {}
