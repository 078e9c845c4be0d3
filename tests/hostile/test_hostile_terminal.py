"""What data say reaches a terminal as text: no escape sequence, no line that is not ours, no turned direction."""

import csv
import json
import re

import pytest

from headway.errors import InputError, RunFailed, field, printable

EVIL = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202etxt\u2066 a\tb\r\nheadway: saved \x00 \u2028 \\n \x7f"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


TERMINAL = """
import io, sys
class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True
sys.stdout = Terminal(sys.stdout.buffer, encoding="utf-8")
"""


def test_every_control_character_is_written_out():
    for text in (printable(EVIL), field(EVIL), str(InputError(EVIL)), str(RunFailed(EVIL))):
        assert not UNSAFE.search(text) and "\n" not in text and "\t" not in text
    assert printable("Ünïcödé, 日本語, ไทย, عربي, 👩\u200d👩") == "Ünïcödé, 日本語, ไทย, عربي, 👩\u200d👩"
    assert printable("a\tb\n", keep="\t\n") == "a\tb\n"


def test_a_field_is_unambiguous():
    """Two texts are never written alike."""
    texts = ["a\nb", "a\\nb", "a\tb", "a\\tb", "a\\\\nb", "a\rb", "a\x1bb", "a\\x1bb"]
    assert len({field(text) for text in texts}) == len(texts)
    for text in texts:
        assert field(text).encode().decode("unicode_escape") == text


@pytest.fixture(scope="module")
def evil_run(tmp_path_factory):
    """A classifier whose labels and columns are hostile, and its file."""
    folder = tmp_path_factory.mktemp("evil")
    path = folder / "rows.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text \x1b[1m", "label \u202e"])
        for number in range(60):
            table.writerow(
                [
                    f"the cat \x1b[31m {number} {'good' if number % 2 else 'bad'}",
                    EVIL.replace("\0", "") if number % 2 else "neg\tative\n\x1b[0m",
                ]
            )
    return folder, path


def test_hostile_labels_from_training_to_use(evil_run, forker):
    folder, path = evil_run
    words = ["--steps", "3", "--d-model", "16", "--layers", "1", "--heads", "2", "--length", "32", "--threads", "1"]
    columns = ["--text-column", "text \x1b[1m", "--label-column", "label \u202e"]
    done = forker("train", path, "--out", folder / "run", "--task", "classification", *columns, *words)
    assert done.returncode == 0, done.stderr
    said = [done]
    to = {kind: folder / f"answers.{kind}" for kind in ("csv", "jsonl")}
    said += [
        forker("evaluate", folder / "run"),
        forker("classify", folder / "run", path),
        forker("explain", folder / "run"),
    ]
    said += [forker("classify", folder / "run", path, "--to", place) for place in to.values()]
    said += [forker("evaluate", folder / "run", path, "--label-column", "nothing \x1b[31m")]
    said += [forker("generate", folder / "run", "\x1b[31m"), forker("classify", folder / "run" / "\x1b[2J", "x")]
    for one in said:
        text = one.stdout + one.stderr
        assert one.returncode in (0, 2) and "Traceback" not in text, text
        assert not UNSAFE.search(text.replace("\x0b", "")), repr(UNSAFE.search(text))
    lines = said[2].stdout.splitlines()
    assert said[2].returncode == 0 and len(lines) == 60 and all(line.count("\t") == 2 for line in lines)
    names = json.loads((folder / "run" / "config.json").read_text())["id2label"].values()
    with to["csv"].open(newline="") as file:
        answers = list(csv.DictReader(file))
    assert len(answers) == 60 and {row["label"] for row in answers} <= set(names)
    assert [row["text"] for row in answers] == [
        json.loads(line)["text"] for line in to["jsonl"].read_text().split("\n") if line
    ]
    page = (folder / "run" / "report.html").read_text()
    assert not UNSAFE.search(page), repr(UNSAFE.search(page))


def test_a_model_that_writes_escape_sequences(tmp_path, forker):
    """To a pipe exactly, to a terminal as text."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\x1b[31m\x1b[2J" * 400)
    small = ["--steps", "9", "--d-model", "16", "--layers", "1", "--heads", "2", "--length", "16", "--threads", "1"]
    assert forker("train", corpus, "--out", tmp_path / "run", "--tokenizer", "char", *small).returncode == 0
    words = ["generate", tmp_path / "run", "\x1b", "--max-tokens", "20", "--seed", "1"]
    exact = forker(*words).stdout
    shown = forker(*words, script=TERMINAL).stdout
    assert "\x1b" in exact and "\x1b" not in shown and shown.rstrip("\n") == printable(exact.rstrip("\n"), keep="\t\n")
