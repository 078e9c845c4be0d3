"""Several columns of text as one: the same in training, evaluation and answers."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import headway
from headway.data.open.read import read
from headway.errors import InputError

WORDS = {"billing": ("invoice", "refund"), "ship": ("parcel", "courier")}
TINY = {"steps": 60, "learning_rate": 0.01, "threads": 1, "d_model": 16, "layers": 1, "quiet": True}


@pytest.fixture(scope="module")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The subject says which queue, or only the body does."""
    path = tmp_path_factory.mktemp("tickets") / "tickets.csv"
    with path.open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["id", "Subject", "Body", "Queue"])
        for n in range(120):
            queue = sorted(WORDS)[n % 2]
            word = WORDS[queue][n // 2 % 2]
            write.writerow([n, "" if n % 3 else word, f"number {n}, please" if n % 3 == 0 else f"my {word}", queue])
    return path


@pytest.fixture(scope="module")
def run(tickets: Path) -> Path:
    """A run on both columns."""
    out = tickets.parent / "run"
    headway.train(tickets, text_column=["Subject", "Body"], label_column="Queue", out=out, **TINY)
    return out


def test_a_row_with_one_of_them_is_a_row(tickets: Path):
    table = read(tickets)
    joined = table.joined("Subject,Body")
    assert joined.column("Subject,Body")[:2] == ["invoice\nnumber 0, please", "my parcel"]
    assert len(joined) == len(table) == 120 and table.joined("Subject") is table.joined(None) is table
    assert table.columns == ["id", "Subject", "Body", "Queue"] and joined.columns == ["id", "Queue", "Subject,Body"]


def test_a_column_whose_name_has_a_comma_is_itself(tmp_path: Path):
    (tmp_path / "a.csv").write_text('"Subject,Body",label\nx,y\n')
    table = read(tmp_path / "a.csv")
    assert table.joined("Subject,Body") is table


def test_what_is_measured_is_what_answers(run: Path, tickets: Path, in_process: Callable, tmp_path: Path):
    facts = json.loads((run / "headway.json").read_text())
    assert facts["data"]["text_column"] == "Subject,Body"
    assert headway.evaluate(run, tickets)["accuracy"] == 1.0
    status, _, _ = in_process("classify", run, tickets, "--to", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert status == 0 and all(row["label"] == row["Queue"] for row in rows) and "Subject,Body" not in rows[0]
    (answer,) = headway.load(run)(["invoice\nnumber 0, please"])
    assert answer["label"] == rows[0]["label"] and abs(answer["score"] - float(rows[0]["score"])) < 1e-5


def test_other_columns_can_be_named(run: Path, tmp_path: Path, in_process: Callable):
    (tmp_path / "b.csv").write_text("title,text,x\ninvoice,,1\n,my parcel,2\n")
    status, out, _ = in_process("classify", run, tmp_path / "b.csv", "--text-column", "title", "--text-column", "text")
    assert status == 0 and [line.split("\t")[0] for line in out.splitlines()] == ["billing", "ship"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"text_column": ["Subject", "Bdy"]}, "no column 'Bdy'; found: id, Subject, Body, Queue. Did you mean 'Body'?"),
        (
            {"text_column": ["Subject", "Body"], "task": "language_modeling"},
            "language_modeling reads one column as text; name one with --text-column.",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(tickets: Path, tmp_path: Path, options: dict, says: str):
    with pytest.raises(InputError, match=says.replace("?", r"\?").replace("(", r"\(")):
        headway.train(tickets, out=tmp_path / "no", **TINY, **options)
