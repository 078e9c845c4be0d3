"""The protocol buffer wire format, parsed strictly: numbered fields of four kinds, nested by length."""

import struct
from collections.abc import Iterator

from headway.errors import InputError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""The kinds of field; two further kinds are obsolete and not supported."""

_SIZES = {FIXED64: 8, FIXED32: 4}


def fields(data: bytes, start: int, stop: int, where: str) -> Iterator[tuple[int, int, int, int]]:
    """(number, kind, value, end) of every field of a message, which is ``data[start:stop]``.

    ``value`` is the number itself for VARINT; otherwise the content is ``data[value:end]``.  The format is described at
    https://protobuf.dev/programming-guides/encoding.  Raises InputError, its message beginning with ``where``.
    """
    at = start
    while at < stop:
        key = data[at]
        key, at = (key, at + 1) if key < 0x80 else varint(data, at, stop, where)
        number, kind = key >> 3, key & 7
        if not 0 < number < 2**29:
            raise InputError(f"{where}: field number at byte {at}: found {number}, expected 1 to {2**29 - 1}")
        if kind == VARINT:
            value, at = varint(data, at, stop, where)
            yield number, kind, value, at
            continue
        if kind == BYTES:
            size = data[at] if at < stop else 0x80
            size, at = (size, at + 1) if size < 0x80 else varint(data, at, stop, where)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise InputError(f"{where}: kind of field {number} at byte {at}: found {kind}, expected 0, 1, 2 or 5")
        if size > stop - at:
            raise InputError(
                f"{where}: length of field {number} at byte {at}: found {size}, expected at most {stop - at}, "
                "the bytes that are left; the file may be cut short"
            )
        yield number, kind, at, at + size
        at += size


def varint(data: bytes, at: int, stop: int, where: str) -> tuple[int, int]:
    """(an integer of up to 64 bits, stored in groups of seven, the position after it)."""
    value = shift = 0
    while at < stop:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise InputError(f"{where}: number at byte {at}: found more than 10 bytes, expected at most 10")
    raise InputError(f"{where}: ends at byte {at} inside a number; the file is cut short")


def float32(data: bytes, at: int) -> float:
    """The value of a FIXED32 field."""
    return float(struct.unpack_from("<f", data, at)[0])
