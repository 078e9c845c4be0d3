"""Directories whose weights are pickles: (how to spoil a valid one, what is said although pickles are allowed)."""

import io
import os
import pickle
import zipfile

import numpy
import torch
from seeds import WEIGHTS

FILE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
CANARY = "canary"
"""What the code in these files would make."""


class Call:
    """Pickled, it calls a function when it is read."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def saved(make, name=FILE, **options):
    """A file of ``torch.save`` in the place of the weights; ``make`` takes the directory."""

    def spoil(directory):
        (directory / WEIGHTS).unlink()
        torch.save(make(directory), directory / name, **options)

    return spoil


def written(make, name=FILE):
    """Any bytes in the place of the weights; ``make`` takes the directory."""

    def spoil(directory):
        (directory / WEIGHTS).unlink()
        (directory / name).write_bytes(make(directory))

    return spoil


def zipped(entries, compression=zipfile.ZIP_STORED):
    """The bytes of a zip."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression, compresslevel=9) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


def call(directory):
    """Tensors, and a call of the system."""
    return {"a": torch.ones(3), "b": Call(os.system, f"touch {directory / CANARY}")}


def bomb(directory):
    """A file of torch.save packed anew: 65 kB that unpack to 64 MB."""
    file = io.BytesIO()
    torch.save({"a": torch.ones(3)}, file)
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    return zipped({**entries, "archive/data/1": bytes(2**26)}, zipfile.ZIP_DEFLATED)


def arrays_bomb(directory):
    """A NumPy archive that unpacks to a thousand times its size."""
    file = io.BytesIO()
    numpy.savez_compressed(file, a=numpy.zeros(2**22))
    return file.getvalue()


def overlapping(directory):
    """A zip whose every entry is the same megabyte: 200 of them."""
    start = zipped({"archive/data.pkl": bytes(10**6)})
    with zipfile.ZipFile(io.BytesIO(start)) as archive:
        place = archive.start_dir
    end = start[place:]
    record = end[: end.index(b"PK\x05\x06")]
    tail = bytearray(end[len(record) :])
    tail[8:12] = (200).to_bytes(2, "little") * 2
    tail[12:16] = (200 * len(record)).to_bytes(4, "little")
    return start[:place] + record * 200 + bytes(tail)


def large_directory(directory):
    """A zip whose list of entries is a hole of a terabyte."""
    path = directory / FILE
    (directory / WEIGHTS).unlink()
    with path.open("wb") as file:
        file.write(b"PK\x03\x04")
        file.seek(10**12)
        size = 10**12 - 100
        file.write(
            b"PK\x06\x06"
            + (44).to_bytes(8, "little")
            + bytes(4 + 4 + 4)
            + (1).to_bytes(8, "little") * 2
            + size.to_bytes(8, "little")
            + (50).to_bytes(8, "little")
        )
        file.write(b"PK\x06\x07" + bytes(4) + (10**12).to_bytes(8, "little") + (1).to_bytes(4, "little"))
        file.write(b"PK\x05\x06" + bytes(4) + b"\xff" * 12 + bytes(2))  # fmt: skip


def index(directory):
    """An index of pickles that points above."""
    (directory / WEIGHTS).unlink()
    torch.save({"a": torch.ones(3)}, directory.parent / f"{directory.name}.bin")
    (directory / INDEX).write_text(f'{{"weight_map": {{"a": "../{directory.name}.bin"}}}}')


def piped(directory):
    """A pipe under the name of the pickle."""
    (directory / WEIGHTS).unlink()
    os.mkfifo(directory / FILE)


def two(directory):
    """Two files, and no word on which is meant."""
    (directory / WEIGHTS).unlink()
    torch.save({"a": torch.ones(3)}, directory / "a.pt")
    torch.save({"a": torch.ones(3)}, directory / "b.pt")


LEGACY = {"_use_new_zipfile_serialization": False}
SPOILED = {
    "a call of the system": (saved(call), "posix.system"),
    "a call of the system in a .pt": (saved(call, "model.pt"), "posix.system"),
    "a call of the system, the old way": (saved(call, **LEGACY), "posix.system"),
    "a call by a computed name": (saved(call, pickle_protocol=4), "computed name"),
    "a call of eval": (saved(lambda d: {"a": Call(eval, f"open({str(d / CANARY)!r}, 'w')")}), "eval"),
    "a bare pickle": (written(lambda d: pickle.dumps(call(d)["b"], protocol=2)), "posix.system"),
    "a bare pickle of protocol 0": (written(lambda d: pickle.dumps(call(d)["b"], protocol=0)), "something else"),
    "a whole module": (saved(lambda d: torch.nn.Linear(2, 3)), "torch.nn.modules.linear.Linear"),
    "a zip bomb": (written(bomb), "compressed entry"),
    "a zip bomb of arrays": (written(arrays_bomb, "model.pt"), "compressed entry"),
    "entries that overlap": (written(overlapping), "bytes in a zip of"),
    "a list of entries of a terabyte": (large_directory, ""),
    "a zip of something": (written(lambda d: zipped({"a": b"b"})), "without data.pkl"),
    "a pickle cut short": (written(lambda d: b"\x80\x02}q\x00X"), "damaged pickle"),
    "a zip cut short": (written(lambda d: zipped({"archive/data.pkl": bytes(99)})[:-9]), "not a zip"),
    "a text of 4 GB": (written(lambda d: b"\x80\x02X\xff\xff\xff\x7f"), ""),
    "empty": (written(lambda d: b""), "something else"),
    "LFS pointer": (written(lambda d: b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"),
    "web page": (written(lambda d: b"<html>"), "a web page"),
    "7z": (written(lambda d: b"7z\xbc\xaf\x27\x1c" + bytes(99)), "a 7z archive"),
    "a pipe": (piped, "not a regular file"),
    "two files": (two, "found a.pt, b.pt, expected one file of weights"),
    "an index that climbs": (index, "expected the bare name of a .bin file"),
}  # fmt: skip
SLOW = {
    "tensors larger than the file": (saved(lambda d: {"a": torch.zeros(1).expand(10**10)}), "larger than the file"),
    "a number among tensors": (saved(lambda d: {"a": torch.ones(2), "b": 3}), "b: found int"),
    "a name that climbs": (saved(lambda d: {"../a": torch.ones(2)}), "named '../a'"),
}
"""Those that only torch can tell: the process has to import it first."""
