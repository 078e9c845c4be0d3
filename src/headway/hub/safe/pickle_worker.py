"""The process that converts files of ``torch.save``; started by ``pickle_import``, which explains why.

It imports nothing from the package.  Standard input is a JSON object: "files" (pairs of source and target), "memory",
"seconds", "bytes" (limits).  The last line of standard output is another: "done", or "file" and "error".
"""

import json
import os
import pickletools
import re
import resource
import sys
import zipfile
from typing import IO, Any

MAX_ENTRIES = 100_000
MAX_PICKLE = 2**25
"""Maximum bytes of the pickle in a zip: it holds names and shapes, no numbers."""
CHECKING = 2**28
"""Bytes of memory that listing the zip may take."""
LEAST_TORCH = (2, 10)
"""Earlier versions could overwrite memory or run code despite weights_only (CVE-2026-24747, -2025-32434)."""
LEGACY_PICKLES = 5
"""A file from before 2020: a number, a version, a system, the tensors' names, their storages' keys; then numbers."""
GLOBALS = {
    "collections OrderedDict",
    *(f"torch._utils _rebuild_{what}" for what in ("tensor", "tensor_v2", "parameter")),
    *(
        f"torch {kind}Storage"
        for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte")
    ),
    "torch BoolStorage",
}
"""The names in a pickle of tensors."""
COMPUTED = {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4"}
FORBIDDEN = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "pty.", "webbrowser.", "ftplib.", "urllib.")
ALLOWED = ("os.listdir", "os.scandir", "os.putenv", "os.unsetenv")


class Refused(Exception):
    """The file cannot be converted; the message says why."""


def is_zip(path: str) -> bool:
    """Whether torch will read a file as a zip: by its first bytes, as torch decides."""
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(4) == b"PK\x03\x04"


def check_zip(path: str) -> None:
    """Refuse a zip that would unpack to more than its size: torch stores entries uncompressed."""
    size = os.stat(path).st_size  # noqa: PTH116
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as error:
        raise Refused(f"not a zip of torch.save ({error})") from None
    if len(entries) > MAX_ENTRIES:
        raise Refused(f"found {len(entries)} entries in the zip, expected at most {MAX_ENTRIES}")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits & 1:
            raise Refused(
                f"found the compressed entry {entry.filename[:64]!r} in the zip, expected all as torch.save stores them"
            )
        if entry.filename.endswith(".pkl") and entry.file_size > MAX_PICKLE:
            raise Refused(f"found a pickle of {entry.file_size} bytes in the zip, expected at most {MAX_PICKLE}")
    total = sum(entry.file_size for entry in entries)
    if total > size:
        raise Refused(f"found {total} bytes in a zip of {size}, expected no more than its size")
    if not any(entry.filename.endswith("data.pkl") for entry in entries):
        raise Refused("found a zip without data.pkl, expected one of torch.save")


def check_pickle(path: str) -> None:
    """Refuse a pickle that names anything but the parts of tensors, before torch reads it.

    Only what ``torch.save`` writes is allowed: names are spelled out (the opcode GLOBAL), never computed.
    """
    if not is_zip(path):
        with open(path, "rb") as file:  # noqa: PTH123
            for _ in range(LEGACY_PICKLES):
                _check_names(file)
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".pkl"):
                with archive.open(name) as file:
                    _check_names(file)


def _check_names(file: IO[bytes]) -> None:
    try:
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "GLOBAL" and argument not in GLOBALS:
                name = ".".join(str(argument).split())[:64]
                raise Refused(f"found a call of {name} in the pickle, expected only tensors; it was not run")
            if opcode.name in COMPUTED:
                raise Refused("found a computed name in the pickle, expected only tensors; it was not run")
    except (ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise Refused(f"found a damaged pickle ({error})") from None


def read(path: str, size: int) -> dict[str, Any]:
    """The tensors of a file of ``torch.save``, by name."""
    import pickle

    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip(path))
    except pickle.UnpicklingError as error:
        named = re.search(r"(?:GLOBAL|global|function|class) ([\w.]+)", str(error))
        what = f"a call of {named.group(1)}" if named else "something other than tensors"
        raise Refused(f"found {what} in the pickle, expected only tensors; it was not run") from None
    if isinstance(found, dict) and isinstance(found.get("state_dict"), dict):
        found = found["state_dict"]
    if not isinstance(found, dict) or not found:
        raise Refused(f"found {type(found).__name__}, expected tensors by name")
    seen: set[int] = set()
    tensors, total = {}, 0
    for name, tensor in found.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise Refused(f"{str(name)[:64]}: found {type(tensor).__name__}, expected tensors by name")
        if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
            raise Refused(
                f"{name[:64]}: found a tensor that is sparse, quantised or without data, expected an ordinary one"
            )
        total += tensor.numel() * tensor.element_size()
        if total > 2 * size:
            raise Refused(f"{name[:64]}: found tensors larger than the file's {size} bytes")
        shared = tensor.untyped_storage().data_ptr()
        tensor = tensor.detach()
        tensors[name] = tensor.clone().contiguous() if shared in seen else tensor.contiguous()
        seen.add(shared)
    return tensors


def limit_memory(memory: int, for_good: bool = False) -> int:
    """Limit the additional memory of the process; returns the previous limit, if not ``for_good``."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123
            taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        taken = 2**34  # a system that does not report it
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = taken + memory if hard == resource.RLIM_INFINITY else min(taken + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most if for_good else hard))
    return hard


def limit(memory: int, seconds: int, n_bytes: int) -> None:
    """From here on: limited additional memory and processor time, limited file sizes, no new program, no connection."""
    limit_memory(memory, for_good=True)
    used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime) + 1
    for kind, most in (
        (resource.RLIMIT_CPU, used + seconds),
        (resource.RLIMIT_FSIZE, n_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))

    def forbid(event: str, _: tuple[Any, ...]) -> None:
        if event.startswith(FORBIDDEN) and event not in ALLOWED:
            raise Refused(f"it tried to call {event}, which is not allowed")

    sys.addaudithook(forbid)


def main() -> None:
    job = json.load(sys.stdin)
    path = ""
    try:
        hard = limit_memory(CHECKING)
        for path, _ in job["files"]:
            if is_zip(path):
                check_zip(path)
            check_pickle(path)
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # torch is large
        import torch
        from safetensors.torch import save_file

        found = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
        if found < LEAST_TORCH:
            raise Refused(f"torch {torch.__version__} reads pickles unsafely; install 2.10 or later")
        limit(job["memory"], job["seconds"], job["bytes"])
        for path, target in job["files"]:
            save_file(read(path, os.stat(path).st_size), target)  # noqa: PTH116
        print(json.dumps({"done": len(job["files"])}))
    except Refused as error:
        print(json.dumps({"file": path, "error": str(error)}))
    except MemoryError:
        print(json.dumps({"file": path, "error": "takes more memory than its size allows for"}))
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        print(json.dumps({"file": path, "error": f"cannot be read by torch ({text})"}))


if __name__ == "__main__":
    main()
