"""Files of a few kilobytes that unpack to gigabytes, and very wide tables: one message, soon, in bounded memory."""

import gzip
import json

import pytest
from test_hostile_corpus import examine

MB = 2**20
WIDE = 3000


def unpacked(begin: str, middle: str, times: int) -> bytes:
    """A text as gzip with ``middle`` so often in its middle: gzip files may be put one after the other."""
    return gzip.compress(begin.encode()) + gzip.compress(middle.encode(), 1) * times


def words(row: int, column: int) -> str:
    return f"word{(row * 7 + column) % 23} and word{(row + column) % 11}"


def rows(width: int) -> list[dict[str, str]]:
    return [{f"field {column}": words(row, column) for column in range(width)} for row in range(30)]


def table(width: int) -> str:
    lines = [list(rows(width)[0]), *(list(row.values()) for row in rows(width))]
    return "".join(",".join(line) + "\n" for line in lines)


LONG = "a" * (64 * MB)
FILES = {
    "a line": ("long.csv.gz", lambda: unpacked("text,label\n", LONG, 32), "line 2: has more than 67,108,864 char"),
    "a header": ("head.csv.gz", lambda: unpacked("text,", LONG, 32), "line 1: has more than 67,108,864 characters"),
    "a stray quote": (
        "quote.csv.gz",
        lambda: unpacked('text,label\ngood,a\n"fine,b\n', "good,a\nbad,b\n" * 2**22, 36),
        "line 3: the quote",
    ),
    "long lines in a quote": (
        "lines.csv.gz",
        lambda: unpacked('text,label\n"a', f"{LONG[: 9 * MB]}\n", 200),
        "line 2:",
    ),
    "an object": ("long.jsonl.gz", lambda: unpacked('{"text": "', LONG, 32), "line 1: has more than 67,108,864 ch"),
    "a list": ("long.json.gz", lambda: unpacked("[", " " * (64 * MB), 32), "has more than 67,108,864 characters"),
    "a list of lines": (
        "lines.json.gz",
        lambda: unpacked("[", (" " * 1023 + "\n") * 2**10, 2000),
        "this JSON list has more than",
    ),
    "columns": ("wide.csv", lambda: table(WIDE).encode(), "could each be the text"),
    "keys": ("wide.jsonl", lambda: "".join(json.dumps(row) + "\n" for row in rows(WIDE)).encode(), "could each be"),
    "keys of tags": (
        "tags.jsonl",
        lambda: "".join(
            json.dumps({f"T_e{'_' * (n // 50)}x{'_' * (n % 50)}t": "B-PER O" if n % 2 else "" for n in range(WIDE)})
            + "\n"
            for _ in range(30)
        ).encode(),
        "too few to hold out",
    ),
    "fields in no row": ("ragged.csv", lambda: f"{','.join(map(str, rows(WIDE)[0]))}\na\n".encode(), "and 2,979 more"),
}


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    root = tmp_path_factory.mktemp("tables")
    for name, content, _ in FILES.values():
        (root / name).write_bytes(content())
    return root, examine([(what, root / name, "train") for what, (name, _, _) in FILES.items()], root)


@pytest.mark.parametrize("what", FILES)
def test_a_table_that_cannot_be_used_is_refused_soon(what, examined):
    root, results = examined
    name, _, said = FILES[what]
    result = results[what]
    assert result["raised"] == "exit 2", f"{result['raised']}: {result['said']}\n{result['beside']}"
    assert said in result["said"] and (str(root / name) in result["said"] or "too few" in said), result["said"][:500]
    assert "\n" not in result["said"] and len(result["said"]) < 2000 and "--batch-tokens" not in result["said"]
    assert result["peak"] < 1200 * 10**6, result["peak"]
    assert result["seconds"] < 20, result["seconds"]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("encoding", ["dictionary", "delta"])
def test_values_of_parquet_that_are_written_once(nested, encoding, tmp_path):
    """A megabyte that many rows refer to is read a few rows at a time, and then refused for what it holds."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    text = "\0" + "a" * (MB - 100)
    values = [[text] if nested else text] * 4096
    how = {"use_dictionary": True} if encoding == "dictionary" else {
        "use_dictionary": False, "column_encoding": {"text.list.element" if nested else "text": "DELTA_BYTE_ARRAY"},
    }  # fmt: skip
    held = arrow.table({"text": [values[0]] * 64, "label": ["a", "b"] * 32})
    with parquet.ParquetWriter(tmp_path / "a.parquet", held.schema, compression="zstd", **how) as file:
        file.write_table(arrow.concat_tables([held] * (8 if nested else 64)), row_group_size=4096)
    assert (tmp_path / "a.parquet").stat().st_size < MB
    result = examine([("parquet", tmp_path / "a.parquet", "train")], tmp_path)["parquet"]
    said = "column 'text' holds lists" if nested else "a NUL in column 'text'"
    assert result["raised"] == "exit 2" and said in result["said"], result
    assert result["peak"] < 1200 * 10**6, result["peak"]


def test_out_of_memory_is_a_message(tmp_path):
    """What runs out although every part is bounded: a message without a traceback, and status 1."""
    import subprocess
    import sys

    script = (
        "import sys, headway.data.open.read as read; from headway.cli.main import main\n"
        "def fail(*_, **__): raise MemoryError\n"
        "read.lines = fail; main(sys.argv[1:])"
    )
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": "b"}\n' * 30)
    for verb in (["train", "a.jsonl", "--steps", "1"], ["compare", "a.jsonl", "--models", "bow,cnn"]):
        done = subprocess.run([sys.executable, "-c", script, *verb], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 1 and "headway: out of memory" in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and "--batch-tokens" not in done.stderr
