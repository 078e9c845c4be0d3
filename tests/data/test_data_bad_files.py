"""One fixture for each kind of bad data: the message names file and place, on one line."""

import gzip
import io
import json
import os
import stat
import time
import zipfile
from pathlib import Path

import pytest

from headway.data.open.read import read
from headway.data.records.corpus import Corpus
from headway.data.records.table import Table
from headway.errors import InputError

ROWS = "".join(f"text number {i},{'pos' if i % 2 else 'neg'}\n" for i in range(7))


def write(tmp_path: Path, name: str, content: bytes | str) -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def message(path: Path, **options) -> str:
    """What `read` says about a bad file, after checking that it is one line that names the file, and quick."""
    began = time.monotonic()
    with pytest.raises(InputError) as caught:
        read([path], **options)
    assert time.monotonic() - began < 5
    text = str(caught.value)
    assert "\n" not in text and "Traceback" not in text
    assert path.name in text
    return text


def excel() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    return buffer.getvalue()


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("a.txt", "hello")
    return buffer.getvalue()


CSV = "text,label\n"

BAD = {
    # name: (file name, content, options, words the message has)
    "BD-2 cp1252": (
        "a.csv",
        (CSV + ROWS).encode() + "un café,pos\n".encode("cp1252"),
        {},
        ["0xE9", "line 9", "cp1252"],
    ),
    "BD-2 offset": ("a.txt", b"\xef\xbb\xbfab\ncd\xff\n", {}, ["0xFF", "line 2", "offset 8", "--encoding cp1252"]),
    "BD-2 mixed": ("a.txt", "été où\nété\n".encode() + b"caf\xe9\n", {}, ["line 3", "two encodings"]),
    "BD-2 half cp1252, half UTF-8": (
        "a.txt",
        "été où\n".encode("cp1252") * 99 + "été où\n".encode() * 90,
        {},
        ["line 1", "two encodings"],
    ),
    "BD-2 Chinese": ("a.txt", "这部电影非常好看\n".encode("gb18030") * 99, {}, ["line 1", "name its encoding"]),
    "BD-2 utf-32": ("a.csv", (CSV + ROWS).encode("utf-32"), {}, ["UTF-32", "--encoding utf-32."]),
    "BD-2 neither": ("a.txt", b"ab\x81\x8d\xff cd\n", {}, ["0x81", "name its encoding"]),
    "BD-2 utf-16": ("a.csv", (CSV + ROWS).encode("utf-16"), {}, ["UTF-16", "--encoding utf-16."]),
    "BD-2 utf-16-be": ("a.txt", ROWS.encode("utf-16-be"), {}, ["--encoding utf-16-be"]),
    "BD-2 wrong encoding": ("a.txt", "é\nè\n".encode(), {"encoding": "ascii"}, ["line 1", "ASCII", "--encoding"]),
    "BD-2 cut in a letter": ("a.txt", "ab\né".encode()[:-1], {}, ["line 2", "0xC3"]),
    "BD-4 text": ("a.txt", "one\ntwo\0three\n", {}, ["line 2", "NUL", "column 4"]),
    "BD-4 csv": ("a.csv", CSV + "a\0b,pos\n" + ROWS, {}, ["row 2", "NUL", "column 2"]),
    "BD-4 quoted": ("a.csv", CSV + '"a\nb\0",pos\n' + ROWS, {}, ["line 3", "NUL"]),
    "BD-4 jsonl": ("a.jsonl", '{"text": "a", "n": 1}\n{"text": "\0"}\n', {}, ["line 2", "NUL"]),
    "BD-5 short": ("a.csv", CSV + ROWS + "lonely\n", {}, ["row 9", "1 field", "header has 2", "'label'"]),
    "BD-5 long": ("a.tsv", "text\tlabel\none\tpos\ntwo\tneg\tmore\n", {}, ["row 3", "3 fields", "header has 2"]),
    "BD-5 after newline": ("a.csv", CSV + '"a\nb",pos\nx\n', {}, ["row 3", "1 field"]),
    "BD-6 end of file": (
        "a.csv",
        CSV + 'fine,pos\n"never closed,pos\n' + ROWS,
        {},
        ["line 3", "quote", "never closed"],
    ),
    "BD-6 next quote": ("a.csv", CSV + '"never closed,pos\n"b, c",neg\n' + ROWS, {}, ["line 2", "never closed"]),
    "BD-6 second column": ("a.csv", 'text,label\n"a\nb","c\nd\n', {}, ["line 3", "never closed"]),
    "BD-6 tabs": ("a.tsv", 'text\tlabel\na\tpos\n"b\tneg\nc\tpos\n', {}, ["line 3", "never closed"]),
    "BD-6 swallowed": ("a.csv", CSV + '"open,pos\n' + "a,neg\n" * 139 + '",neg\n', {}, ["line 2", "140 lines"]),
    "BD-6 text after": ("a.csv", CSV + '"a" b,pos\n' + ROWS, {}, ["row 2", "closing quote"]),
    "BD-7 delimiter": ("a.csv", CSV + ROWS, {"delimiter": ";"}, ["';'", "comma"]),
    "BD-7 twice": ("a.csv", "text,text\na,b\n", {}, ["'text' twice", "line 1"]),
    "BD-7 no header": ("a.csv", "good film,pos\nbad film,neg\nfine,pos\n", {}, ["header", "line 1"]),
    "BD-7 numbers": ("a.csv", "1,good film\n0,bad film\n1,fine\n", {}, ["header", "line 1"]),
    "BD-7 carriage returns": ("a.csv", "text,label\ra,pos\rb,neg\r", {}, ["row 1", "carriage return"]),
    "BD-7 no rows": ("a.csv", "text,label\n", {}, ["no rows", "text, label"]),
    "BD-7 repeated header": ("a.csv", CSV + ROWS + CSV, {}, ["row 9", "repeats the header"]),
    "BD-7 two files with marks": ("a.csv", ("\ufeff" + CSV + ROWS) * 2, {}, ["row 9", "repeats the header"]),
    "BD-8 bad line": ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', {}, ["line 2", "JSON object", "column"]),
    "BD-8 list in a line": ("a.jsonl", '{"text": "a"}\n["b"]\n', {}, ["line 2", "a list", "expected an object"]),
    "BD-8 list not closed": ("a.json", '[{"text": "a"},\n {"text": "b"}\n', {}, ["line 3", "end of the file"]),
    "BD-8 list cut": ("a.json", '[{"text": "a"},\n {"text": "b', {}, ["line 2", "not a complete JSON object"]),
    "BD-8 list of texts": ("a.json", '["a",\n "b"]\n', {}, ["line 1", "a string", "expected an object"]),
    "BD-8 list with a comma at its end": ("a.json", '[{"text": "a"},\n]', {}, ["line 2", "comma"]),
    "BD-8 list without a comma": ("a.json", '[{"text": "a"}\n{"text": "b"}]', {}, ["line 2", "comma"]),
    "BD-8 text after a list": ("a.json", '[{"text": "a"}]\n\nmore', {}, ["line 1", "'more'", "follows the end"]),
    "BD-8 list, other keys": ("a.json", '[{"text": "a"},\n\n{"word": "b"}]', {}, ["line 3", "'text'", "line 1"]),
    "BD-8 empty list": ("a.json", "[ ]", {}, ["no rows"]),
    "BD-8 two objects": ("a.jsonl", '{"text": "a"}{"text": "b"}\n', {}, ["line 1", "after the JSON object"]),
    "BD-8 missing key": (
        "a.jsonl",
        '{"text": "a", "label": "x"}\n{"text": "b"}\n',
        {},
        ["line 2", "'label'", "line 1"],
    ),
    "BD-8 extra key": ("a.jsonl", '{"text": "a"}\n{"text": "b", "lable": 1}\n', {}, ["line 2", "'lable'"]),
    "BD-8 mixed": (
        "a.jsonl",
        '{"text": "a"}\n{"text": 5}\n',
        {},
        ["line 2", "'text' is a number", "expected a string"],
    ),
    "BD-8 duplicate key": ("a.jsonl", '{"text": "a", "text": "b"}\n', {}, ["line 1", "'text' occurs twice"]),
    "BD-8 NaN": ("a.jsonl", '{"text": "a", "label": NaN}\n', {}, ["line 1", "NaN"]),
    "BD-8 NUL escape": ("a.jsonl", '{"text": "a\\u0000"}\n', {}, ["line 1", "'text'", "NUL"]),
    "BD-8 half a pair": ("a.jsonl", '{"text": "b"}\n{"text": "\\ud800"}\n', {}, ["line 2", "half a character"]),
    "BD-8 blank": ("a.jsonl", "\n\n", {}, ["no rows"]),
    "BD-9 blank text": ("a.txt", " \n\t\n", {}, ["no text", "blank"]),
    "BD-9 blank rows": ("a.jsonl", '{"text": " "}\n{"text": ""}\n', {}, ["no text"]),
    "BD-23 empty": ("a.csv", "", {}, ["empty", "0 bytes"]),
    "BD-23 excel": ("a.csv", excel(), {}, ["Excel", "CSV"]),
    "BD-23 zip": ("a.txt", archive(), {}, ["zip", "unpack"]),
    "BD-23 gzip": ("a.csv", gzip.compress((CSV + ROWS).encode()), {}, ["gzip", ".gz"]),
    "BD-23 no gzip": ("a.csv.gz", CSV + ROWS, {}, ["not a valid gzip"]),
    "BD-23 cut gzip": ("a.txt.gz", gzip.compress(os.urandom(3001).hex().encode())[:-301], {}, ["cut short"]),
    "BD-23 excel in gzip": ("a.csv.gz", gzip.compress(b"PAR1" + bytes(97)), {}, ["Parquet"]),
    "BD-23 parquet": ("a.parquet", b"PAR1" + bytes(97), {}, ["Parquet", "cut short", "copy it again"]),
    "BD-23 pdf": ("a.txt", b"%PDF-1.7\n" + bytes(range(97)), {}, ["PDF"]),
    "BD-23 png": ("a.txt", b"\x89PNG\r\n\x1a\n" + bytes(97), {}, ["PNG"]),
    "BD-23 safetensors": ("a.txt", (67).to_bytes(8, "little") + b'{"w": {}}' + bytes(97), {}, ["safetensors"]),
    "BD-23 binary": ("a.txt", bytes(range(256)) * 11, {}, ["binary"]),
    "unknown encoding": ("a.txt", "hello", {"encoding": "utf-99"}, ["utf-99"]),
    "an encoding of hosts": ("a.txt", "hello", {"encoding": "idna"}, ["idna"]),
    "utf-16 without a mark": ("a.txt", b"caf\xe9 au lait", {"encoding": "utf-16"}, ["UTF-16", "BOM", "--encoding"]),
    "not a text encoding": ("a.txt", "hello", {"encoding": "hex"}, ["hex"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_file(tmp_path, case):
    name, content, options, words = BAD[case]
    path = write(tmp_path, name, content)
    if "encoding" in case and "wrong" not in case:
        with pytest.raises(InputError, match=words[0]):
            read([path], **options)
        return
    text = message(path, **options)
    for word in words:
        assert word in text, text


def test_missing_file_suggests_the_near_one(tmp_path):
    write(tmp_path, "reviews.csv", CSV + ROWS)
    assert "Did you mean reviews.csv?" in message(tmp_path / "review.csv")
    assert "no folder" in message(tmp_path / "nowhere" / "a.csv")
    assert "no folder" in message(tmp_path / "reviews.csv" / "a.csv")
    with pytest.raises(InputError, match="longer than a file name can be"):
        read(["x" * 5003])


def test_pipe_does_not_block(tmp_path):
    path = tmp_path / "pipe.txt"
    os.mkfifo(path)
    assert "pipe or a device" in message(path)
    assert "pipe or a device" in message(Path("/dev/zero"))
    assert "pipe or a device" in message(Path("/proc/version"))  # a regular file, as /dev/stdin may be


def test_a_folder_with_a_file_that_cannot_be_read(tmp_path):
    write(tmp_path, "a.csv", CSV + ROWS)
    os.mkfifo(tmp_path / "b.csv")
    assert "b.csv: this is a pipe or a device" in message(tmp_path)
    (tmp_path / "b.csv").unlink()
    (tmp_path / "c.csv").symlink_to("nowhere.csv")
    assert "c.csv: there is no such file" in message(tmp_path)


def test_folder_without_text(tmp_path):
    assert "empty" in message(tmp_path)
    write(tmp_path, "a.csv", CSV)
    assert "a.csv" in message(tmp_path)
    write(tmp_path, "b.txt", "")
    assert "empty" in message(tmp_path)


def test_permission_denied(tmp_path, monkeypatch):
    path = write(tmp_path, "a.csv", CSV + ROWS)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "permission denied" in message(path)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root reads everything")
def test_permission_denied_for_real(tmp_path):
    path = write(tmp_path, "a.csv", CSV + ROWS)
    path.chmod(stat.S_IWUSR)
    assert "permission denied" in message(path)


def test_inputs_of_two_kinds(tmp_path):
    text, table = write(tmp_path, "a.txt", "hello\n"), write(tmp_path, "b.csv", CSV + ROWS)
    with pytest.raises(InputError, match=r"one kind"):
        read([text, table])
    with pytest.raises(InputError, match=r"c\.csv: its columns are text, class"):
        read([table, write(tmp_path, "c.csv", "text,class\na,b\n")])
    with pytest.raises(InputError, match="no input"):
        read([])


def test_skipping_is_counted_and_limited(tmp_path):
    good = "".join(f"text {i},{'pos' if i % 2 else 'neg'}\n" for i in range(701))
    table = read([write(tmp_path, "a.csv", CSV + good + "short\n" * 7)], on_bad_row="skip")
    assert isinstance(table, Table)
    assert len(table) == 701
    assert [place for place, _ in table.skipped] == [f"row {number}" for number in range(703, 710)]
    tiny = write(tmp_path, "b.csv", CSV + ROWS + "short\n" * 3 + 'x,"y" z\n')
    assert [place for place, _ in read([tiny], on_bad_row="skip").skipped] == ["row 9", "row 10", "row 11", "row 12"]
    text = message(write(tmp_path, "c.csv", CSV + good + "short\n" * 11), on_bad_row="skip")
    assert "11 of 712 rows are malformed" in text and "row 703" in text
    with pytest.raises(ValueError, match="on_bad_row"):
        read([tmp_path / "a.csv"], on_bad_row="ignore")


def test_skipping_in_jsonl(tmp_path):
    content = '{"text": "a", "label": 1}\n{"text": "b"}\n\n{"text": 3, "label": 1}\nnot json\n{"text": "c", "label": 2}'
    table = read([write(tmp_path, "a.jsonl", content)], on_bad_row="skip")
    assert isinstance(table, Table)
    assert table.column("text") == ["a", "c"]
    assert [place for place, _ in table.skipped] == ["line 2", "line 4", "line 5"]
    assert table.row_numbers == [1, 6]


def test_missing_column(tmp_path):
    table = read([write(tmp_path, "reviews.csv", "review,label\na,pos\nb,neg\n")])
    assert isinstance(table, Table)
    with pytest.raises(InputError, match=r"no column 'labl'; found: review, label\. Did you mean 'label'\?"):
        table.column("labl")


def test_what_is_accepted(tmp_path):
    """CRLF, no final newline, a byte order mark, blank lines, null, Unicode separators: none of them is an error."""
    for name, content in [
        ("a.csv", "\ufefftext,label\r\n\r\none,pos\r\ntwo,neg"),
        ("a2.csv", "\ufeff\ufefftext,label\none,pos\n\ufefftwo,neg"),
        ("b.tsv", "\ufefftext\tlabel\none\tpos\n\ntwo\tneg"),
        ("c.csv", "text;label\none;pos\ntwo;neg\n"),
        ("d.csv", "text|label\none|pos\ntwo|neg\n"),
        ("e.jsonl", '\ufeff{"text": "one", "label": "pos"}\r\n\r\n{"label": "neg", "text": "two"}'),
    ]:
        table = read([write(tmp_path, name, content)])
        assert isinstance(table, Table), name
        assert table.rows == [{"text": "one", "label": "pos"}, {"text": "two", "label": "neg"}], name
    for encoding in ("utf-16", "utf-16-le", "cp1252", "utf-8-sig"):
        path = write(tmp_path, "f.csv", "text,label\nété,pos\noù,neg\n".encode(encoding))
        table = read([path], encoding=encoding)
        assert isinstance(table, Table)
        assert table.column("text") == ["été", "où"]
    number = read(
        [write(tmp_path, "g.jsonl", '{"t": "a", "n": 1.50, "x": [1, "é"]}\n{"t": "b", "n": null, "x": [true]}')]
    )
    assert isinstance(number, Table)
    assert number.rows == [{"t": "a", "n": "1.50", "x": '[1, "é"]'}, {"t": "b", "n": "", "x": "[true]"}]
    assert json.loads(number.rows[0]["x"]) == [1, "é"]


def test_long_documents_in_fields_are_accepted(tmp_path):
    letter = "Dear all, this is long.\n" * 211 + "word " * 300_007
    path = write(tmp_path, "a.csv", f'text,label\n"{letter}",pos\nshort,neg\n')
    table = read([path])
    assert isinstance(table, Table)
    assert table.column("text") == [letter, "short"]
    assert table.row_numbers == [2, 3]


def test_one_column_is_running_text(tmp_path):
    for name, content in [
        ("a.csv", 'text\none\n"two, 2"\n\nthree'),
        ("a.jsonl", '{"t": "one"}\n{"t": "two, 2"}\n{"t": "three"}'),
    ]:
        corpus = read([write(tmp_path, name, content)])
        assert isinstance(corpus, Corpus)
        assert list(corpus.chunks()) == [("one", True), ("two, 2", True), ("three", True)]
        assert corpus.n_documents == 3


def test_a_file_is_not_read_twice(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one line\n")
    for inputs in ([tmp_path / "a.txt", tmp_path / "a.txt"], [tmp_path, tmp_path / ".." / tmp_path.name / "a.txt"]):
        with pytest.raises(InputError, match=r"a\.txt: is given twice"):
            read(inputs)
