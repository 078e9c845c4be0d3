"""Reading and encoding a large table, next to ``pyarrow.csv`` with the ``tokenizers`` library alone.

    python benchmarks/table_reading.py TABLE.csv TOKENIZER.json

The table has the columns text and label.  "ours" is everything that training does before its first step needs ids: the
first pass, with checks and what the columns hold; labels, repeats and warnings; the split; and the ids of both parts.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from machine import facts, write

TOGETHER = 4096
"""Texts that the library encodes at a time."""


def ours(path: Path, tokenizer_file: Path) -> dict[str, float]:
    """Seconds of each part."""
    from headway.data.batches.encoded import encoded_rows
    from headway.data.open.read import read
    from headway.data.records.labels import labelled
    from headway.data.records.split import split_rows
    from headway.data.records.table import Table
    from headway.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(tokenizer_file.parent)
    began, found = time.perf_counter(), {}

    def done(what: str) -> None:
        nonlocal began
        found[what], began = time.perf_counter() - began, time.perf_counter()

    table = read([path])
    if not isinstance(table, Table):
        raise SystemExit(f"{path}: expected a table with the columns text and label")
    done("first pass")
    rows = labelled(table, "text", "label")
    done("labels, repeats, warnings")
    parts = split_rows(rows.hashes, rows.targets, 0.1, 0)
    done("split")
    with tempfile.TemporaryDirectory() as folder:
        for name, part in zip(("train", "held-out"), parts, strict=True):
            ids = tokenizer.encode_each(rows.part(part), special=True)
            encoded_rows(ids, vocab_size=tokenizer.vocab_size, key=name, directory=Path(folder))
    done("ids")
    return found


def theirs(path: Path, tokenizer_file: Path) -> dict[str, float]:
    """Seconds of each part."""
    import pyarrow.csv
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    began = time.perf_counter()
    texts = pyarrow.csv.read_csv(path).column("text")
    read = time.perf_counter() - began
    began = time.perf_counter()
    ids = []
    for start in range(0, len(texts), TOGETHER):
        part = texts[start : start + TOGETHER].to_pylist()
        ids = [one.ids for one in tokenizer.encode_batch_fast(part)]
    return {"read": read, "ids": time.perf_counter() - began, "last": float(len(ids))}


def main() -> None:
    """Both in turn, twice; the faster time of each counts."""
    path, tokenizer = Path(sys.argv[1]), Path(sys.argv[2])
    ways: dict[str, Callable[[Path, Path], dict[str, float]]] = {"ours": ours, "theirs": theirs}
    found: dict[str, dict[str, float]] = {}
    for _ in range(2):
        for name, way in ways.items():
            parts = way(path, tokenizer)
            parts.pop("last", None)
            if name not in found or sum(parts.values()) < sum(found[name].values()):
                found[name] = parts
            print(name, {what: round(value, 2) for what, value in parts.items()}, flush=True)
    ratio = sum(found["ours"].values()) / sum(found["theirs"].values())
    print(f"{ratio:.2f} times as long")
    write("table-reading", {**facts(), "bytes": path.stat().st_size, "seconds": found, "ratio": ratio})


if __name__ == "__main__":
    main()
