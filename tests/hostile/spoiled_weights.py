"""Directories whose ``model.safetensors`` is not what it says: (how to spoil a valid one, what the message says)."""

import io
import json
import os
import pickle
import socket
import struct
import zipfile
from pathlib import Path

import numpy
from seeds import WEIGHTS, joined, replace, split

NAME = "model.embed_tokens.weight"
SIZE = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
TERABYTE = 10**12


def content(change):
    """Spoil the bytes of the file: ``change`` takes and gives them, or gives them alone."""

    def spoil(directory):
        path = directory / WEIGHTS
        replace(path, change(path.read_bytes()) if callable(change) else change)

    return spoil


def header(change):
    """Spoil the header: ``change`` takes it and changes it in place, or gives another."""

    def edit(old):
        found, data = split(old)
        return joined(change(found) or found, data)

    return content(edit)


def entry(**changes):
    """Spoil what the header says of one tensor."""
    return header(lambda found: found[NAME].update(changes))


def stretch(*names):
    """Move the places of tensors: name to a function of its two offsets."""
    (name, change), *_ = names
    return header(lambda found: found[name].update(data_offsets=change(*found[name]["data_offsets"])))


def single(**changes):
    """One tensor of 16 bytes, spoiled."""
    return content(joined({"a": {**SIZE, **changes}}, bytes(16)))


def twice(old):
    """The same tensor under the same name twice, with two meanings."""
    found, data = split(old)
    text = json.dumps(found)
    return joined(text[:-1] + ", " + json.dumps(NAME) + ": " + json.dumps(found[NAME]) + "}", data)


def many(count, shape):
    """A file of that many tensors without numbers."""
    said = json.dumps({"dtype": "F32", "shape": shape, "data_offsets": [0, 0]})
    return joined("{" + ",".join(f'"t{i}":{said}' for i in range(count)) + "}")


def number(*values):
    """Other numbers in the place of the first ones of a tensor."""

    def edit(old):
        found, data = split(old)
        start, raw = found[NAME]["data_offsets"][0], struct.pack(f"<{len(values)}f", *values)
        return joined(found, data[:start] + raw + data[start + len(raw) :])

    return content(edit)


def typed(dtype, size):
    """A tensor of the right shape whose numbers are of another type, of so many bytes each."""

    def edit(old):
        found, data = split(old)
        found.pop("__metadata__", None)
        start, end = found[NAME]["data_offsets"]
        shorter = (end - start) // 4 * (4 - size)
        for entry in found.values():
            entry["data_offsets"] = [place - shorter * (place > start) for place in entry["data_offsets"]]
        found[NAME]["dtype"] = dtype
        return joined(found, data[:start] + data[start + shorter :])

    return content(edit)


def links(target):
    """Put a symbolic link in the place of the file."""

    def spoil(directory):
        (directory / WEIGHTS).unlink()
        (directory / WEIGHTS).symlink_to(target(directory) if callable(target) else target)

    return spoil


def elsewhere(directory):
    """The same weights, outside the directory."""
    target = directory.parent / f"{directory.name}.outside"
    target.write_bytes((directory / WEIGHTS).read_bytes() if (directory / WEIGHTS).exists() else b"")
    return target


def outside(directory):
    """A link to good weights outside the directory."""
    target = elsewhere(directory)
    (directory / WEIGHTS).unlink()
    (directory / WEIGHTS).symlink_to(target)


def instead(make):
    """Another kind of thing in the place of the file."""

    def spoil(directory):
        (directory / WEIGHTS).unlink()
        make(directory / WEIGHTS)

    return spoil


def a_socket(path):
    """Bind a socket there; names of sockets are short, so from inside the folder."""
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def sparse(start, size):
    """A file of that many bytes, nearly all of them never written."""

    def spoil(directory):
        with (directory / WEIGHTS).open("wb") as file:
            file.write(start)
            file.truncate(size)

    return spoil


def huge():
    """A header that holds for a file of a terabyte."""
    said = {NAME: {"dtype": "U8", "shape": [TERABYTE], "data_offsets": [0, TERABYTE]}}
    start = joined(said)
    return sparse(start, len(start) + TERABYTE)


def unknown_huge(old):
    """Every tensor the model has, and a large one more: its data is never read."""
    found, data = split(old)
    found["more"] = {"dtype": "U8", "shape": [10**9], "data_offsets": [len(data), len(data) + 10**9]}
    return joined(found, data)


def with_unknown_huge(directory):
    start = unknown_huge((directory / WEIGHTS).read_bytes())
    sparse(start, len(start) + 10**9)(directory)


def zipped(name="a", data=b"text"):
    """The bytes of a zip."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, data)
    return file.getvalue()


def arrays():
    """The bytes of a NumPy archive."""
    file = io.BytesIO()
    numpy.savez(file, a=numpy.zeros(7))
    return file.getvalue()


PE = b"MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00" + bytes(48)
ELF = b"\x7fELF\x02\x01\x01" + bytes(57)
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"
PAGE = b"<!DOCTYPE html>\n<html><head><title>403 Forbidden</title></head></html>"
DEEP = '{"a":' + "[" * 5000 + "]" * 5000 + "}"

SPOILED = {
    "empty": (content(b""), "empty file"),
    "seven bytes": (content(b"\x01\0\0\0\0\0\0"), "header length"),
    "length 2^63": (content(lambda old: (2**63).to_bytes(8, "little") + old[8:]), "header length"),
    "length 2^64 - 1": (content(lambda old: (2**64 - 1).to_bytes(8, "little") + old[8:]), "header length"),
    "length beyond the file": (content(lambda old: len(old).to_bytes(8, "little") + old[8:]), "header length"),
    "length 0": (content(lambda old: bytes(8) + old[8:]), "header: begins with"),
    "header of 100 MB": (sparse((100_000_001).to_bytes(8, "little") + b"{", 200_000_000), "at most 10485760"),
    "header of 10 MiB of spaces": (content(joined(b"{}" + b" " * (10 * 2**20 - 2))), "missing model"),
    "header of 10 MiB of lists": (content(joined("{" + '"a":[' + "[]," * (3 * 2**20) + "[]]}")), "values"),
    "header of 10 MiB of objects": (content(joined("{" + '"a":[' + "{}," * (3 * 2**20) + "{}]}")), "values"),
    "header of one long text": (content(joined('{"a":"' + "é" * (5 * 2**20 - 20) + '😀"}')), "expected dtype, shape"),
    "one byte short": (content(lambda old: old[:-1]), "cut short"),
    "one byte more": (content(lambda old: old + b"\0"), "more follow"),
    "header alone": (content(lambda old: old[: 8 + int.from_bytes(old[:8], "little")]), "cut short"),
    "hole": (stretch((NAME, lambda start, end: [start + 4, end + 4])), "no gap and no overlap"),
    "overlap": (stretch((NAME, lambda start, end: [0, end - start])), "no gap and no overlap"),
    "reversed offsets": (stretch((NAME, lambda start, end: [end, start])), "data_offsets"),
    "negative offsets": (stretch((NAME, lambda start, end: [start - 10**6, end - 10**6])), "data_offsets"),
    "offsets beyond u64": (stretch((NAME, lambda start, end: [2**64 + start, 2**64 + end])), "data_offsets begin at"),
    "offsets of 5000 digits": (header(lambda found: json.dumps(found)[:-1] + ',"x":' + "9" * 5000 + "}"), "digits"),
    "one offset": (entry(data_offsets=[0]), "data_offsets"),
    "three offsets": (entry(data_offsets=[0, 1, 2]), "data_offsets"),
    "offsets are texts": (entry(data_offsets=["0", "16"]), "data_offsets"),
    "offsets are true": (entry(data_offsets=[False, True]), "data_offsets"),
    "offsets are fractions": (entry(data_offsets=[0.0, 16.0]), "data_offsets"),
    "shape larger than its bytes": (entry(shape=[31, 27]), "expected 3348 bytes"),
    "shape that overflows": (entry(shape=[2**40] * 8), "fewer than 2^62"),
    "shape [0, 2^62]": (single(shape=[0, 2**62], data_offsets=[0, 0]), "shape"),
    "shape [2^40, 2^40, 0]": (single(shape=[2**40, 2**40, 0], data_offsets=[0, 0]), "fewer than 2^62"),
    "nine dimensions": (entry(shape=[1] * 9), "at most 8 sizes"),
    "a size below 0": (entry(shape=[-31, -26]), "shape"),
    "a size that is true": (entry(shape=[True, 4]), "shape"),
    "a size that is a fraction": (entry(shape=[31.0, 26]), "shape"),
    "a size that is a text": (entry(shape=["31", 26]), "shape"),
    "shape is a number": (entry(shape=4), "shape"),
    "a shape of a million sizes": (entry(shape=[1] * 10**6), "at most 8 sizes"),
    "unknown dtype": (entry(dtype="F128"), "dtype: found 'F128'"),
    "dtype is a list": (entry(dtype=["F32"]), "dtype"),
    "eight-bit floats": (single(dtype="F8_E4M3", shape=[16]), "dtype"),
    "no dtype": (header(lambda found: found[NAME].pop("dtype") and None), "expected dtype, shape and data_offsets"),
    "one key more": (entry(code="x"), "expected dtype, shape and data_offsets"),
    "entry is a list": (header(lambda found: found.update({NAME: []})), "expected dtype, shape and data_offsets"),
    "entry is null": (header(lambda found: found.update({NAME: None})), "expected dtype, shape and data_offsets"),
    "header is a list": (content(joined("[]")), "begins with"),
    "header is no JSON": (content(joined("{]")), "not JSON"),
    "header ends with zeros": (content(joined("{}\0\0\0")), "not JSON"),
    "not UTF-8": (content(joined(b'{"\xff": 1}')), "not UTF-8"),
    "half a surrogate pair": (content(joined(r'{"__metadata__": {"a": "\ud800"}}')), "surrogate"),
    "metadata is a text": (header(lambda found: found.update(__metadata__="x")), "__metadata__"),
    "metadata holds a number": (header(lambda found: found.update(__metadata__={"format": 3})), "__metadata__"),
    "5000 levels": (content(joined(DEEP)), "at most 64"),
    "100 000 levels": (content(joined('{"a":' * 100_000)), "at most 64"),
    "spaces before the header": (header(lambda found: "  " + json.dumps(found)), "begins with"),
    "a name twice": (content(twice), "twice"),
    "NaN in the header": (single(shape=[2, float("nan")]), "found NaN"),
    "200 000 tensors": (content(many(200_000, [0])), "header length"),
    "100 001 tensors": (content(many(100_001, [0])), "found 100001 tensors"),
    "100 000 tensors of 8 dimensions": (content(many(99_999, [0] * 8)), "values"),
    "a byte 2 among bools": (
        header(lambda found: found[NAME].update(dtype="BOOL", shape=[31, 26 * 4])), "model.embed_tokens.weight",
    ),
    "NaN among the numbers": (number(float("nan")), f"{NAME}: contains NaN or infinity"),
    "infinity among the numbers": (number(1.0, float("inf")), f"{NAME}: contains NaN or infinity"),
    "two infinities": (number(float("inf"), float("-inf")), f"{NAME}: contains NaN or infinity"),
    "whole numbers for weights": (typed("I32", 4), f"{NAME}: dtype: found I32, expected one of F64, F32, F16, BF16"),
    "bytes for weights": (typed("I8", 1), f"{NAME}: dtype: found I8, expected one of F64, F32, F16, BF16"),
    "bools for weights": (typed("BOOL", 1), f"{NAME}: dtype: found BOOL, expected one of F64, F32, F16, BF16"),
    "a name that climbs": (header(lambda found: found.update({"../../x": found.pop(NAME)})), "'../../x'"),
    "a name from the root": (header(lambda found: found.update({"/etc/passwd": found.pop(NAME)})), "'/etc/passwd'"),
    "a name with a zero": (header(lambda found: found.update({"a\0b": found.pop(NAME)})), r"'a\x00b'"),
    "a name with a line": (header(lambda found: found.update({"a\nb": found.pop(NAME)})), r"'a\nb'"),
    "no name": (header(lambda found: found.update({"": found.pop(NAME)})), "named ''"),
    "a name of a million": (header(lambda found: found.update({"a" * 10**6: found.pop(NAME)})), "named 'aaa"),
    "a pickle": (content(pickle.dumps({"a": 1}, protocol=2)), "a Python pickle"),
    "a zip": (content(zipped()), "a zip file"),
    "a zip of arrays": (content(arrays()), "a zip file"),
    "7z": (content(b"7z\xbc\xaf\x27\x1c\x00\x04" + bytes(64)), "a 7z archive"),
    "gzip": (content(b"\x1f\x8b\x08\x00" + bytes(64)), "a gzip file"),
    "a Windows program and weights": (content(lambda old: PE + old), "a program (PE)"),
    "a Linux program and weights": (content(lambda old: ELF + old), "a program (ELF)"),
    "weights and a zip": (content(lambda old: old + zipped()), "more follow"),
    "LFS pointer": (content(POINTER), "a Git LFS pointer"),
    "web page": (content(PAGE), "a web page"),
    "text": (content(b"hello"), "header length"),
    "missing": (lambda directory: (directory / WEIGHTS).unlink(), "no such file"),
    "a folder": (instead(Path.mkdir), "not a regular file"),
    "a pipe": (instead(os.mkfifo), "not a regular file"),
    "a socket": (instead(a_socket), "not a regular file"),
    "a link to zeros without end": (links("/dev/zero"), "found a link to /dev/zero"),
    "a link to good weights elsewhere": (outside, "found a link to"),
    "a link to nothing": (links("nothing"), "no such file"),
    "a link to itself": (links(WEIGHTS), ""),
    "a terabyte of nothing": (sparse(b"", TERABYTE), "header: begins with"),
    "a terabyte that its header allows": (huge(), "model.embed_tokens.weight has shape [1000000000000]"),
    "a gigabyte that no model asked for": (with_unknown_huge, "unknown more"),
}  # fmt: skip
