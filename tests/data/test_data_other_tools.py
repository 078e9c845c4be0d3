"""Files as other tools and careless exports have them: nothing is lost or taken for something else in silence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headway

TEXTS = [f"The device {n} is {'broken' if n % 2 else 'fine'}" for n in range(60)]
LABELS = [("pos", "neg")[n % 2] for n in range(60)]
SPAN = {"start": 0, "end": 3, "text": "The", "labels": ["PER"]}


def rows_of(**columns: Any) -> str:
    rows = [{"text": text, **{name: value(n) for name, value in columns.items()}} for n, text in enumerate(TEXTS)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def swallowed(between: int) -> str:
    lines = [f"{text};{label};" for text, label in zip(TEXTS, LABELS, strict=True)]
    lines[20] += '"very urgent'
    lines[21 + between] += 'a screen of 24"'
    return "Message;Category;Comment\n" + "\n".join(lines) + "\n"


PAIRS = [("text", "label"), *zip(TEXTS, LABELS, strict=True)]
LABEL_FIRST = "".join(f"__label__{label} {text}\n" for text, label in PAIRS[1:])
REFUSED = {
    "a quote in a column that is mostly empty": ("a.csv", swallowed(2), "line 22: the quote"),
    "a title": ("a.csv", "Tickets 2024\n" + "".join(f"{text};{label}\n" for text, label in PAIRS), "semicolon"),
    "entities": (
        "a.jsonl",
        rows_of(entities=lambda n: [{"label": "PER", "start_offset": 0, "end_offset": 3}][: n % 2]),
        "'entities' holds annotations",
    ),
    "spans as labels": (
        "a.jsonl",
        rows_of(label=lambda n: [{**SPAN, "labels": [LABELS[n]]}]),
        "'label' holds annotations",
    ),
    "choices": (
        "a.jsonl",
        rows_of(sentiment=lambda n: {"choices": [LABELS[n], "x"]}),
        "'sentiment' holds annotations",
    ),
    "rejected": (
        "a.jsonl",
        rows_of(label=lambda n: LABELS[n], answer=lambda n: ("accept", "reject")[n % 3 == 0]),
        "annotators rejected or ignored rows",
    ),
    "a line without a label": ("a.txt", "A heading\n" + LABEL_FIRST, "line 1"),
    "labels at the end": (
        "a.txt",
        "".join(f"{text} __label__{label}\n" for text, label in PAIRS),
        "at the start of the line",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_be_read_wrongly_is_refused(name: str, tmp_path: Path, in_process: Callable):
    file, content, message = REFUSED[name]
    (tmp_path / file).write_text(content, encoding="utf-8")
    status, _, err = in_process("train", tmp_path / file, "--plan", "--out", tmp_path / "run")
    assert (status, message in err) == (2, True), err


def test_parts_of_the_data_in_one_folder(tmp_path: Path, in_process: Callable):
    for part in ("train", "test"):
        table = "text,label\n" + "".join(f"{text},{label}\n" for text, label in PAIRS[1:])
        (tmp_path / f"{part}.csv").write_text(table)
    status, _, err = in_process("train", tmp_path, "--plan", "--out", tmp_path / "run")
    assert status == 2 and "train.csv and test.csv are parts of the data" in err


def test_a_named_index_is_a_column(tmp_path: Path, tiny: dict[str, Any]):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": LABELS}, index=pandas.Index(TEXTS, name="text"))
    found = headway.train(frame, out=str(tmp_path / "run"), quiet=True, **{**tiny, "steps": 2})
    assert found["task"] == "classification"


def test_another_column_of_texts_is_named(classifier_run: Path, tmp_path: Path, in_process: Callable):
    path = tmp_path / "others.csv"
    path.write_text("number,body\n" + "".join(f"{n},{text}\n" for n, text in enumerate(TEXTS)))
    status, _, err = in_process("classify", classifier_run, path, "--to", tmp_path / "answers.csv")
    assert status == 0 and "no column 'text': 'body' is taken as the text" in err
