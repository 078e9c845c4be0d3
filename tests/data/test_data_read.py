"""Reading: what is written comes back, whatever stands in it, and never all at once."""

import csv
import gzip
import hashlib
import io
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.data.open.files import cut_point
from headway.data.open.read import read, text_corpus
from headway.data.records.corpus import Corpus
from headway.data.records.rows import left_out
from headway.data.records.table import Table
from headway.errors import InputError

SEPARATORS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
CELLS = st.text(
    st.one_of(
        st.sampled_from(SEPARATORS + "\",;\t|' \ufeffé漢😀"),
        st.characters(exclude_characters="\0", exclude_categories=("Cs",)),
    ),
    max_size=17,
)
TABLES = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=11)
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def loaded(path: Path, **options) -> list[tuple[str, str]]:
    table = read([path], **options)
    assert isinstance(table, Table)
    assert table.columns == ["text", "label"]
    return [(row["text"], row["label"]) for row in table.rows]


@QUICK
@given(rows=TABLES, delimiter=st.sampled_from(",;\t|"), bom=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_delimited_round_trip(tmp_path, rows, delimiter, bom, end):
    rows = [row for row in rows if row != ("text", "label") and tuple(c.strip() for c in row) != ("text", "label")]
    rows = rows or [("a", "b")]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("text", "label"), *rows])
    path = tmp_path / "a.csv"
    path.write_bytes((("\ufeff" if bom else "") + buffer.getvalue()).encode())
    try:
        assert loaded(path, delimiter=delimiter) == rows
    except InputError as error:  # a cell of lines that cannot be told from rows is refused
        assert "look like rows" in str(error)
        assert any(delimiter in cell and len(cell.splitlines()) > 1 for row in rows for cell in row)


@QUICK
@given(rows=TABLES, bom=st.booleans(), end=st.sampled_from(["\n", "\r\n"]), escaped=st.booleans())
def test_json_lines_round_trip(tmp_path, rows, bom, end, escaped):
    lines = [json.dumps({"text": a, "label": b}, ensure_ascii=escaped) for a, b in rows]
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress((("\ufeff" if bom else "") + end.join(lines)).encode()))
    assert loaded(path) == rows


@QUICK
@given(
    text=st.text(
        st.one_of(st.sampled_from(SEPARATORS), st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
    )
)
def test_running_text_round_trip(tmp_path, text):
    if not text.strip():
        text += "x"
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    corpus = read([path])
    assert isinstance(corpus, Corpus)
    assert "".join(piece for piece, _ in corpus.chunks()) == text
    assert corpus.n_characters == len(text)


def test_sniffed_delimiters_survive_rivals_in_the_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text;label\none, two, three;pos\nfour;neg\n"five; six";pos\nseven, eight;neg\n')
    assert loaded(path)[2] == ("five; six", "pos")
    path.write_text("text,label\none; two,pos\nthree;four;five,neg\n")
    assert loaded(path)[1] == ("three;four;five", "neg")


def test_row_numbers_are_those_of_a_spreadsheet(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"a\nb",pos\nc,neg\n\n"d\n\ne",pos\nf,neg\n')
    table = read([path])
    assert isinstance(table, Table)
    assert table.row_numbers == [2, 3, 5, 6]
    assert table.places([1, 3]) == "rows 3, 6"
    assert table.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()


def test_several_tables(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.tsv"
    first.write_text("text,label\na,pos\nb,neg\n")
    second.write_text("label\ttext\nneg\tc\n")
    table = read([first, second])
    assert isinstance(table, Table)
    assert table.column("text") == ["a", "b", "c"]
    assert table.row_numbers == [2, 3, 2]
    assert table.places([0, 2]) == "a.csv row 2, b.tsv row 2"
    assert table.fingerprint != read([first]).fingerprint


def test_folder_of_texts(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name, text in [("b.txt", "b\r\n"), ("a.txt", "a"), ("sub/c.txt", "c\n"), (".hidden/d.txt", "d"), ("e.md", "e")]:
        (tmp_path / name).write_bytes(text.encode())
    (tmp_path / "blank.txt").write_text("\n\n")
    (tmp_path / "zip.txt.gz").write_bytes(gzip.compress(b"z"))
    corpus = read([tmp_path])
    assert isinstance(corpus, Corpus)
    assert list(corpus.chunks()) == [("a", True), ("b\r\n", True), ("c\n", True), ("z", True)]
    assert (corpus.n_documents, corpus.n_empty) == (4, 1)
    assert list(read([tmp_path / "e.md"]).chunks()) == [("e", True)]


def test_a_column_of_a_table_streams_as_text(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "text": "one"}\n{"id": 2, "text": ""}\n{"id": 3, "text": "three"}\n')
    table = read(path)
    assert isinstance(table, Table)
    corpus = text_corpus(table, "text")
    assert list(corpus.chunks()) == [("one", True), ("three", True)]
    assert corpus.n_empty == 1
    assert corpus.fingerprint == table.fingerprint


def test_long_text_streams_in_bounded_memory(tmp_path):
    path = tmp_path / "a.txt"
    line = "the quick brown fox jumps over the lazy dog\r\n"
    with path.open("wb") as file:
        for _ in range(211):
            file.write(line.encode() * 2003)
    tracemalloc.start()
    corpus = read([path])
    assert isinstance(corpus, Corpus)
    pieces = sizes = 0
    for text, _ in corpus.chunks():
        assert text.endswith(line)
        pieces, sizes = pieces + 1, max(sizes, len(text))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert corpus.n_characters == 211 * 2003 * len(line)
    assert pieces > 7 and sizes < 2_200_000
    assert peak < 16_000_000


def test_text_without_newlines_is_cut(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("é" * 1_500_007)
    corpus = read([path])
    chunks = list(corpus.chunks())
    assert len(chunks) > 1
    assert "".join(text for text, _ in chunks) == "é" * 1_500_007
    assert [ends for _, ends in chunks] == [False] * (len(chunks) - 1) + [True]


@pytest.mark.parametrize(
    "text, cut",
    [("ab\ncd", 3), ("ab\n\ncd", 4), ("ab\ncd\n\n", 3), ("ab cd", 2), ("abcd", 4), ("ab\n", 3), (" abcd", 5)],
)
def test_cut_point(text, cut):
    assert cut_point(text) == cut


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "koi8-r", "utf-16", "utf-16-le", "gb18030", "shift_jis"])
def test_the_encoding_of_other_files_does_no_harm_to_one_that_is_utf8(tmp_path: Path, encoding: str):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nun café très âgé à côté d’ici 😡 漢字漢字,a\nthe other,b\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="a.csv: this file is UTF-8 and is read as UTF-8, not as "):
        assert loaded(path, encoding=encoding)[0][0].startswith("un café très âgé à côté d’ici 😡")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "un café très âgé"),
        ("cp1252", "only letters of ASCII"),
        ("utf-16", "un café"),
        ("utf-16-le", "plain"),
        ("utf-16-be", "漢字"),
        ("gb18030", "联通"),  # its four bytes are valid UTF-8 too
        ("shift_jis", "日本語の文章"),
        ("koi8-r", "привет"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_file_in_the_encoding_that_is_named(tmp_path: Path, encoding: str, text: str):
    path = tmp_path / "a.csv"
    path.write_bytes(f"text,label\n{text},a\nthe other,b\n".encode(encoding))
    assert loaded(path, encoding=encoding) == [(text, "a"), ("the other", "b")]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_list_is_read_like_json_lines(tmp_path: Path, indent: int | None):
    rows = [{"text": "a [b], {c}", "label": "x"}, {"text": 'say "d"\n', "label": "y"}, {"text": "é", "label": "x"}]
    path, lines = tmp_path / "a.json", tmp_path / "a.jsonl"
    path.write_text("\n" + json.dumps(rows, indent=indent) + "\n")
    lines.write_text("\n".join(map(json.dumps, rows)))
    assert loaded(path) == loaded(lines)
    table = read([path])
    assert isinstance(table, Table)
    assert table.row_numbers == ([2, 2, 2] if indent is None else [3, 7, 11])


def test_what_was_left_out_of_running_text_is_known(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text("text\n" + "a line\n" * 7 + "a,b\n" + "the end\n")
    corpus = read([path], on_bad_row="skip")
    assert isinstance(corpus, Corpus)
    assert [place for place, _ in corpus.skipped] == ["row 9"]
    assert left_out("a.csv", corpus.skipped) == (
        "a.csv: 1 malformed row left out (row 9: this row has 2 fields, the header has 1)"
    )
