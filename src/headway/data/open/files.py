"""Decoded text from a path, in bounded memory: one reader for every command, which refuses what is no text."""

import codecs
import contextlib
import difflib
import functools
import gzip
import hashlib
import itertools
import os
import re
import stat
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from headway.data.open.diagnose import check_head, encoding_error
from headway.errors import InputError

LONGEST_LINE = 64 << 20
"""Characters of a line, or of a row of a table, at most; a longer one is not read to its end."""
BLOCK = 1 << 20
"""Bytes read at a time."""
WIDE = ("utf-16", "utf-32")
"""Encodings whose line ends hold NUL bytes, as no UTF-8 text does."""
MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""What text in one of them may begin with."""
MARK = re.compile("(?<=\n)\ufeff+")
"""Finds byte order marks at the beginning of a line."""
NOT_FILES = ("idna", "punycode")
"""Encodings of host names, which Python lists among those of text."""
SURE = 8
"""Letters beyond ASCII that make a file surely UTF-8: text in another encoding is valid as UTF-8 by chance alone."""
TABLES = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet"},
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), "excel"),
}
"""The kinds of tables by the endings of their files."""
PARTS = ("train", "training", "test", "testing", "val", "valid", "validation", "dev")
"""What folders and files are called that hold a part of the data and not a class."""
KINDS = dict(text="text", csv="CSV", tsv="TSV", jsonl="JSON Lines", parquet="Parquet", excel="spreadsheet")
"""The kinds of files that are read from a folder, in words."""
ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx", ".xls", ".ods", ".txt", ".gz")
"""What files of texts are mostly called."""


class Tally:
    """The SHA-256 of the bytes that were read, after unpacking."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self.add = self._sha.update

    def add_cells(self, columns: Iterable[Iterable[str]]) -> None:
        """Add the cells of some columns, row by row."""
        cells = itertools.chain.from_iterable(zip(*columns, strict=True))
        self.add("\0".join([*cells, ""]).encode("utf-8", "surrogatepass"))

    @property
    def digest(self) -> str:
        """The SHA-256 of everything added so far, in hexadecimal."""
        return self._sha.hexdigest()


def fingerprint_of(digests: Sequence[str]) -> str:
    """That of some files by the digest of each."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def kind(path: Path) -> str:
    """ "csv", "tsv", "jsonl", "parquet", "excel" or "text", by the extension without .gz; an unknown one is text."""
    name = path.name.lower().removesuffix(".gz")
    return TABLES.get(Path(name).suffix, "text")


def unit(path: Path) -> str:
    """What is counted in a file, for messages: "row", as a spreadsheet shows it, or "line"."""
    return "line" if kind(path) in ("jsonl", "text") else "row"


def check_path(path: Path) -> os.stat_result:
    """The status of a regular file or folder; InputError for anything else, without ever opening it."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(_missing(path)) from None
    except PermissionError:
        raise InputError(f"{path}: permission denied; check who may read this file and its folder.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)[:200]}: this path cannot be opened ({error}).") from None
    device = str(path).startswith(("/dev/stdin", "/dev/fd/", "/proc/"))  # whatever stands behind it now
    if device or not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise InputError(f"{path}: this is a pipe or a device, not a file. Save its content to a file and name that.")
    return status


def _missing(path: Path) -> str:
    folder, names = path.parent, list[str]()
    if not folder.is_dir():
        return f"{path}: there is no folder {folder}."
    with contextlib.suppress(OSError):
        names = sorted(entry.name for entry in folder.iterdir())
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{path}: there is no such file.{hint}"


def folder_files(folder: Path) -> list[Path]:
    """The .txt files below a folder, or the tables of one kind, also as .gz, in the order of their relative paths.

    Hidden files, empty ones and those of other endings are left out; so are .json files next to others, since they
    describe them.  Raises InputError where no file is left, or where they are of several kinds.
    """
    try:
        entries = sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    except OSError as error:
        raise InputError(f"{folder}: this folder cannot be read ({error.strerror}).") from None
    seen = [path for path in entries if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if not seen:
        raise InputError(
            f"{folder}: this folder is empty; expected .txt or .parquet files in it, or a folder of images for each "
            "class; .csv, .tsv and .jsonl files are read too."
        )
    read = [path for path in seen if kind(path) != "text" or path.name.lower().endswith((".txt", ".txt.gz"))]
    if not read:
        example = seen[0].relative_to(folder)
        raise InputError(
            f"{folder}: no .txt, .csv, .tsv, .jsonl or .parquet files in this folder, only others such as {example}; "
            "name the file to read."
        )
    if not (filled := [path for path in read if not path.is_file() or path.stat().st_size]):
        raise InputError(f"{folder}: every file in this folder is empty, such as {read[0].relative_to(folder)}.")
    files = [path for path in filled if not path.name.lower().endswith((".json", ".json.gz"))] or filled
    first = {kind(path): path.relative_to(folder) for path in reversed(files)}
    if len(first) > 1:
        several = " and ".join(f"{words} files ({first[name]})" for name, words in KINDS.items() if name in first)
        raise InputError(f"{folder}: contains {several}; name the files to read, or keep one kind in a folder.")
    parts = {part: path.name for path in reversed(files) if (part := _part(path)) and "text" not in first}
    if len(parts) > 1:
        raise InputError(
            f"{folder}: {' and '.join(parts.values())} are parts of the data; name the files to train on, and the "
            "others with --validation."
        )
    for path in files:
        check_path(path)
    return files


def _part(path: Path) -> str | None:
    """The part of the data that a table is by its name: train.csv, or test-00000-of-00002.parquet."""
    word = re.split(r"[-_.]", path.name.lower())[0]
    return word[:2] if word in PARTS else None


def check_encoding(encoding: str | None) -> str:
    """The encoding to decode with ("utf-8" for None); InputError when Python knows no text encoding of that name."""
    if encoding is None:
        return "utf-8"
    try:
        "".encode(encoding)
        name = codecs.lookup(encoding).name
        if name in NOT_FILES:
            raise LookupError
    except (LookupError, ValueError):
        raise InputError(f"there is no encoding named {encoding!r}; try utf-8, cp1252, latin-1 or utf-16.") from None
    return "utf-8" if name == "utf-8-sig" else name


def encoding_of(path: Path, encoding: str | None) -> str:
    """The encoding to read a file in: the one that is named, but UTF-8, with a warning, where the file surely is that.

    So the encoding of one file that is not UTF-8 does no harm to the others that are read with it.
    """
    name = check_encoding(encoding)
    if name in ("utf-8", "ascii"):  # a part of UTF-8: who names it wants nothing else
        return name
    status = check_path(path)
    return _encoding_found(path, name, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=256)
def _encoding_found(path: Path, name: str, *_state: int) -> str:
    """``encoding_of``, found once for a file as it is."""
    if not surely_utf8(blocks(path), name):
        return name
    warnings.warn(f"{path}: this file is UTF-8 and is read as UTF-8, not as {name}", stacklevel=2)
    return "utf-8"


def surely_utf8(content: Iterable[bytes], name: str) -> bool:
    """Whether bytes that are said to be in the encoding ``name`` are UTF-8 and nothing else.

    They are where all of them decode and letters beyond ASCII are among them: one is enough where ``name`` has a
    letter for each byte (cp1252), SURE are needed where it has not (gb18030).  With UTF-16 and UTF-32 it is enough
    that no byte is NUL and that no byte order mark is at the start.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("strict")
    wide = name.startswith(WIDE)
    letters = 0
    try:
        for number, block in enumerate(itertools.chain(content, [b""])):
            if wide and (b"\0" in block or (number == 0 and block.startswith(MARKS))):
                return False
            text = decoder.decode(block, final=not block)
            letters += len(text) - len(text.encode("ascii", errors="ignore"))
    except UnicodeDecodeError:
        return False
    is_one_byte = all(len(bytes([byte, byte]).decode(name, errors="replace")) == 2 for byte in range(128, 256))
    return wide or letters >= (1 if is_one_byte else SURE)


def blocks(path: Path, size: int = BLOCK) -> Iterator[bytes]:
    """The bytes of a file in blocks of `size`, unpacked when its name ends in .gz."""
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
            while block := file.read(size):
                yield block
    except PermissionError:
        raise InputError(f"{path}: permission denied; check who may read this file.") from None
    except gzip.BadGzipFile:
        raise InputError(f"{path}: this is not a valid gzip file; rename it if it is not compressed.") from None
    except (EOFError, zlib.error):
        raise InputError(f"{path}: this gzip file is cut short or damaged; copy it again.") from None
    except OSError as error:
        raise InputError(f"{path}: reading this file failed ({error.strerror or error}).") from None


def pieces(path: Path, encoding: str | None = None, tally: Tally | None = None) -> Iterator[str]:
    """The text of a file, about 1 MB at a time; joined, the pieces are the text without its byte order marks.

    Files that were put one after the other have a mark at the beginning of a line, too.
    Raises InputError when the file is not text or does not decode, naming byte, line and offset.
    """
    name = encoding_of(path, encoding)
    decoder = codecs.getincrementaldecoder(name)("strict")
    offset, newlines, begins = 0, 0, True
    for block in itertools.chain(blocks(path), [b""]):
        if offset == 0 and block:
            check_head(path, block, encoding)
        if tally is not None:
            tally.add(block)
        try:
            text = decoder.decode(block, not block)
        except UnicodeDecodeError as error:
            line = newlines + error.object[: error.start].decode(name, errors="ignore").count("\n") + 1
            start = offset - (len(error.object) - len(block)) + error.start
            raise encoding_error(path, name, error, start, line, _fits_cp1252(path)) from None
        except UnicodeError as error:
            name = name.upper()
            raise InputError(f"{path}: this file is not {name} ({error}); name its encoding with --encoding.") from None
        offset += len(block)
        newlines += text.count("\n")
        if "\ufeff" in text:
            text = MARK.sub("", text.lstrip("\ufeff") if begins else text)
        if text:
            begins = text.endswith("\n")
            yield text


def _fits_cp1252(path: Path) -> bool:
    """Whether all bytes are letters of Windows-1252, and those beyond ASCII stand alone, as in no other script."""
    undefined = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")
    runs = letters = 0
    for block in blocks(path):
        if any(byte in block for byte in undefined):
            return False
        beyond = re.findall(rb"[\x80-\xff]+", block)
        runs, letters = runs + len(beyond), letters + sum(map(len, beyond))
    return letters <= 2 * runs


def lines(path: Path, encoding: str | None = None, tally: Tally | None = None) -> Iterator[str]:
    """The lines of a file without their ends (``split_lines``); a JSON list may be one line."""
    most = longest_list(path) if kind(path) == "jsonl" else LONGEST_LINE
    return itertools.chain.from_iterable(split_lines(pieces(path, encoding, tally), path, most))


def split_lines(text: Iterable[str], place: object, most: int = LONGEST_LINE) -> Iterator[list[str]]:
    """The lines of a text in pieces, those that end in a piece at a time; no empty line follows the last.

    Lines end at "\\n" only, so that U+2028 and its like are text; a "\\r" before it is dropped.  Raises InputError,
    with the place of the text, for a line that is too long; one that begins a list may have ``most`` characters.
    """
    number, size, begun = 1, 0, list[str]()
    for piece in text:
        first, *rest = piece.split("\n")
        begun.append(first)
        size += len(first)
        if rest:
            whole = ["".join(begun), *rest[:-1]]
            yield [line.removesuffix("\r") for line in whole]
            number, size, begun = number + len(whole), len(rest[-1]), rest[-1:]
        if size > LONGEST_LINE and (size > most or not begun[0].lstrip().startswith("[")):
            raise too_long(place, number)
    if size:
        yield ["".join(begun).removesuffix("\r")]


def too_long(place: object, line: int) -> InputError:
    """The error for a line that is not read to its end."""
    return InputError(
        f"{place}, line {line}: has more than {LONGEST_LINE:,} characters, which is too long for one line; "
        "end each line with a line feed."
    )


def longest_list(path: Path) -> int:
    """Characters of a JSON list at most, which is held in memory: less than a compressed file could unpack to."""
    return min(1 << 30, max(LONGEST_LINE, 32 * path.stat().st_size))


def cut_point(text: str) -> int:
    """Where to cut a long text so that a tokenizer loses least: after its last line, else before its last word.

    Blank space after a newline stays with the newline.  Returns a position in (0, len(text)].
    """
    end = len(text)
    for _ in range(8):
        end = text.rfind("\n", 0, end)
        if end < 0:
            break
        if end + 1 < len(text) and not text[end + 1].isspace():
            return end + 1
    newline = text.rfind("\n")
    if newline >= 0:
        return newline + 1
    space = text.rfind(" ")
    return space if space > 0 else len(text)
