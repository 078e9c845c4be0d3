"""A tiny model of each kind of another program, and a small file for each task, made once for all tests of training."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bases import KINDS, make_base

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "é", "sang"]


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Their directories; look, but do not write."""
    place = tmp_path_factory.mktemp("bases")
    return {kind: make_base(kind, place / kind) for kind in KINDS}


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files for every task."""
    place, draw = tmp_path_factory.mktemp("files"), random.Random(3)
    lines = [" ".join(["é", *draw.choices(WORDS, k=9), f"n{i % 7}"]) for i in range(60)]
    (place / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    (place / "column.csv").write_text("\n".join(["text", *lines]), encoding="utf-8")
    pq.write_table(pa.table({"text": lines}), place / "text.parquet", row_group_size=20)
    labels = ["Pos" if i % 6 == 0 else "pos" if i % 3 else "neg" for i in range(60)]
    rows = [
        {"text": f"{line} {label}", "label": label, "note": f"{line[::-1]} é", "kind": "xy"[i % 2], "count": i % 5}
        for i, (line, label) in enumerate(zip(lines, labels, strict=True))
    ]
    table(place / "rows.csv", rows)
    json_lines(place / "rows.jsonl", rows)
    pairs = [{"source": line, "target": line.upper(), "third": line[::-1]} for line in lines]
    table(place / "pairs.csv", pairs)
    two = [{"source": one["source"], "target": one["target"]} for one in pairs]
    table(place / "two.csv", two)
    table(place / "scored.csv", [{**one, "score": i % 5 / 4, "kind": i % 2} for i, one in enumerate(two)])
    json_lines(place / "talk.jsonl", [{"messages": turns(line)} for line in lines])
    table(place / "turns.csv", [{"instruction": line, "output": line[::-1], "reply": line.upper()} for line in lines])
    tagged = [[(word, "B-X" if word in ("cat", "dogs") else "O") for word in line.split()] for line in lines]
    written = ("\n".join("\t".join(pair) for pair in one) for one in tagged)
    (place / "tags.conll").write_text("\n\n".join(written) + "\n", encoding="utf-8")
    json_lines(
        place / "tags.jsonl", [{"tokens": [word for word, _ in one], "tags": [tag for _, tag in one]} for one in tagged]
    )
    images = np.random.default_rng(3).integers(0, 255, (60, 8, 8, 3), dtype=np.uint8)
    np.savez(place / "images.npz", images=images, labels=np.arange(60) % 3 // 2)
    return place


def turns(line: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": line}, {"role": "assistant", "content": line[::-1]}]


def table(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]), "utf-8")


def json_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
