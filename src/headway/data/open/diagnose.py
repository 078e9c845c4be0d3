"""What is this file really?  Messages about bytes that are not text."""

import codecs
import zipfile
from pathlib import Path

from headway.errors import InputError

IMAGES = "expected text, or a folder with a folder of images for each class"
MAGIC: list[tuple[int, bytes, str]] = [  # offset, bytes, what the file is and what to do about it
    (0, b"PAR1", "a Parquet file; give it the ending .parquet, and unpack it if it is compressed"),
    (0, b"ARROW1", "an Arrow file; save it as CSV or JSON Lines"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel or Word file; open it there and save it as CSV or text"),
    (0, b"%PDF-", "a PDF file; extract its text and save it as .txt"),
    (0, b"\x89PNG\r\n", f"a PNG image; {IMAGES}"),
    (0, b"\xff\xd8\xff", f"a JPEG image; {IMAGES}"),
    (0, b"GIF89a", f"a GIF image; {IMAGES}"),
    (0, b"\x1f\x8b", "gzip-compressed; add .gz to its name, or unpack it first"),
    (4, b"1AY&SY", "bzip2-compressed; unpack it first"),
    (0, b"\xfd7zXZ\x00", "xz-compressed; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "zstd-compressed; unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (0, b"Rar!\x1a\x07", "a RAR archive; unpack it first"),
    (257, b"ustar", "a tar archive; unpack it first and name the folder"),
    (0, b"SQLite format 3\x00", "an SQLite database; export the table as CSV"),
    (0, b"\x93NUMPY", "a NumPy array; expected text"),
    (0, b"\x89HDF\r\n", "an HDF5 file; expected text"),
    (0, b"GGUF", "a GGUF model; expected text to train on"),
    (0, b"\x7fELF", "a program; expected text"),
]
"""The first bytes by which common formats are known."""
SAMPLE = 65536
"""Bytes of the beginning of a file that are looked at."""
BY_CHANCE = 8
"""Letters in whole lines of another encoding that are valid UTF-8, at most."""


def check_head(path: Path, head: bytes, encoding: str | None) -> None:
    """Raise InputError when the first bytes `head` of a file show that it is not text in the expected encoding."""
    for offset, magic, words in MAGIC:
        if head[offset : offset + len(magic)] == magic:
            raise InputError(f"{path}: this is {words}.")
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        raise InputError(f"{path}: this is {_zip_words(path)}.")
    if len(head) > 9 and head[8:10] == b'{"' and b"\0" in head[:8]:
        raise InputError(f"{path}: this is a safetensors file (model weights); expected text to train on.")
    if encoding is not None:
        return
    if wide := _wide(head):
        raise InputError(f"{path}: this is {wide[:6].upper()} text, expected UTF-8. Run again with --encoding {wide}.")
    sample = head[:SAMPLE]
    controls = sum(sample.count(bytes([byte])) for byte in range(32) if byte not in b"\t\n\r\f\b\x1b")
    if controls > 0.05 * len(sample) and len(sample) >= 32:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(sample)
            is_text = b"\0" not in sample  # be its control characters as they may
        except UnicodeDecodeError:
            is_text = False
        if not is_text:
            raise InputError(f"{path}: this is a binary file ({controls} control bytes at its start); expected text.")


def _zip_words(path: Path) -> str:
    """What a file with the signature of a zip archive holds."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError):
        names = []
    if any(name.startswith("xl/") for name in names):
        return "an Excel file; give it the ending .xlsx, or save it as CSV"
    if any(name.startswith("word/") for name in names):
        return "a Word file; save it as plain text"
    if any(name.endswith("data.pkl") for name in names):
        return "a PyTorch checkpoint; expected text to train on"
    return "a zip archive; unpack it first"


def _wide(head: bytes) -> str | None:
    """The `--encoding` of UTF-16 text with or without a byte order mark, or of UTF-32 with one; None for others."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # before UTF-16, whose mark one begins with
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[0:SAMPLE:2], head[1:SAMPLE:2]
    zeros_even, zeros_odd = (half.count(0) / max(1, len(half)) if len(odd) > 1 else 0.0 for half in (even, odd))
    if zeros_odd > 0.4 and zeros_even < 0.05:
        return "utf-16-le"
    return "utf-16-be" if zeros_even > 0.4 and zeros_odd < 0.05 else None


def encoding_error(
    path: Path, encoding: str, error: UnicodeDecodeError, offset: int, line: int, fits_cp1252: bool
) -> InputError:
    """The message for a byte that does not decode.

    `offset` counts bytes from the start of the (unpacked) file, `line` from 1; `fits_cp1252` says that the
    file can be read as Windows-1252.
    """
    byte = error.object[error.start]
    where = f"{path}, line {line}: byte 0x{byte:02X} (offset {offset:,}) is not {encoding.upper()}"
    advice = ". Save the file as UTF-8, or name its encoding with --encoding."
    if encoding != "utf-8":
        advice = ". Leave out --encoding to read UTF-8, or name the encoding the file was saved in."
    elif _has_utf8(error.object):
        two = ", but other letters in the file are, so it has two encodings."
        advice = f"{two} Correct what is not UTF-8, and save the file as UTF-8."
    elif fits_cp1252:
        advice = ". The file looks like cp1252. Run again with --encoding cp1252."
    return InputError(f"{where}{advice}")


def _has_utf8(block: bytes) -> bool:
    """Whether letters beyond ASCII are valid UTF-8: more than are not, or many in lines that are valid as a whole.

    Text in GB 18030 has valid letters by chance, but hardly a line of them.
    """
    valid = in_lines = damaged = 0
    for line in block.split(b"\n"):
        if not line.isascii():
            text = line.decode("utf-8", errors="replace")
            lost = text.count("\ufffd")
            letters = len(text) - len(text.encode("ascii", errors="ignore")) - lost
            valid, damaged, in_lines = valid + letters, damaged + lost, in_lines + (0 if lost else letters)
    return valid > damaged or in_lines > max(BY_CHANCE, damaged / 10)
