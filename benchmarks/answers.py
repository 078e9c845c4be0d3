"""What is measured is what answers: benchmarks/results/answers.json.

    python benchmarks/answers.py DATA [--rows 500] [--steps 300] [--tasks classification,translation]

For each task that answers rows, a small model is trained and 500 other rows (short, longer than the model reads, odd)
are answered by ``headway predict --to``, by Python, and over HTTP.  ``scores.py``, which imports nothing of Headway,
computes the figures from the answers; they must be those of ``headway evaluate`` to four digits.  On the held-out part
of the training file, ``evaluate`` must give the figures that training printed.  The exit status is 1 unless all agree.
"""

import argparse
import base64
import csv
import gzip
import json
import random
import signal
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scores
from http_load import Serving
from images import as_folder, split
from machine import facts, headway, write

import headway as api

AT_ONCE = 50
"""Inputs of a request."""
SMALL = ("--d-model", "32", "--layers", "2", "--heads", "2", "--threads", "1", "--seed", "5")
ODD: list[Callable[[str], str]] = [
    lambda _: "😀😀 🛫",
    lambda _: "Самолёт опоздал на три часа",
    lambda text: text.upper(),
    lambda text: f'"{text}"\nand a line that begins anew\r\n',
    lambda text: f"\u00a0 {text} \u200b e\u0301te\u0301 &amp; <b>",
    lambda text: text[:1],
]
"""Nothing that the model knows, other letters, capitals, several lines, blanks and accents, one letter."""


@dataclass
class Job:
    """A task's files, the rows to answer, and how answers are scored."""

    train: Path
    test: Path
    inputs: list[Any]
    score: Callable[[list[Any]], dict[str, float]]
    verb: str
    options: tuple[str, ...] = ()
    answers_file: Path | None = None
    """what ``predict`` reads, where it is another file than the one that is evaluated"""


def varied(texts: Sequence[str], draw: random.Random) -> list[str]:
    """Texts of which a fifth are joined to long ones and a fifth are odd; the first of those joined comes first."""
    found = list(texts)
    for at in range(len(found)):
        if at % 5 == 1:
            found[at] = " ".join([texts[at], *draw.choices(texts, k=9)])
        elif at % 5 == 3:
            found[at] = ODD[at // 5 % len(ODD)](texts[at])
    return found


def table(path: Path, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Path:
    """A .csv file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def classification(data: Path, folder: Path, rows: int) -> Job:
    """Tweets to airlines: three classes."""
    parts = []
    for part in ("train", "test"):
        with (data / "reviews" / f"airline-{part}.csv").open(encoding="utf-8", newline="") as file:
            parts.append([(row["text"], row["label"]) for row in csv.DictReader(file)])
    train, test = parts[0][:3000], parts[1][:rows]
    texts, true = varied([text for text, _ in test], random.Random(1)), [label for _, label in test]
    return Job(
        table(folder / "train.csv", ("text", "label"), train),
        table(folder / "test.csv", ("text", "label"), list(zip(texts, true, strict=True))),
        texts,
        lambda answers: scores.of_classes(true, answers),
        "classify",
        ("--length", "32"),
    )


def image_classification(_: Path, folder: Path, rows: int) -> Job:
    """Digits of 8 × 8 pixels in a folder for each class."""
    train, test = split()
    test = test[0][:rows], test[1][:rows]
    places = as_folder(folder / "train", train), as_folder(folder / "test", test)
    files = sorted(places[1].rglob("*.png"))
    true = [file.parent.name for file in files]
    return Job(*places, files, lambda answers: scores.of_classes(true, answers), "classify")


def captions(data: Path, part: str, count: int) -> list[tuple[str, str]]:
    """English and German captions."""
    both = [
        gzip.decompress((data / "multi30k" / f"{part}.{language}.gz").read_bytes()).decode().splitlines()
        for language in ("en", "de")
    ]
    return list(zip(*both, strict=True))[:count]


def pairs(data: Path, folder: Path, rows: int) -> tuple[list[tuple[str, str]], Path, Path]:
    """Captions, of which some are long or odd on the English side, and both files."""
    test = captions(data, "test2016", rows)
    texts = varied([one for one, _ in test], random.Random(2))
    found = [(text, other) for text, (_, other) in zip(texts, test, strict=True)]
    train = table(folder / "train.csv", ("english", "german"), captions(data, "train", 3000))
    return found, train, table(folder / "test.csv", ("english", "german"), found)


def translation(data: Path, folder: Path, rows: int) -> Job:
    """Captions from English."""
    both, train, test = pairs(data, folder, rows)
    references = [other for _, other in both]

    def score(answers: list[Any]) -> dict[str, float]:
        texts = [answer["translation"] if isinstance(answer, dict) else answer for answer in answers]
        return scores.of_texts(references, texts)

    inputs = [text for text, _ in both]
    return Job(train, test, inputs, score, "translate", ("--task", "translation"))


def embedding(data: Path, folder: Path, rows: int) -> Job:
    """The German caption that is nearest to the English one."""
    both, train, test = pairs(data, folder, rows)
    inputs = [text for pair in both for text in pair]

    def score(answers: list[Any]) -> dict[str, float]:
        rows = [answer["vector"] if isinstance(answer, dict) else answer for answer in answers]
        vectors = np.asarray(rows, dtype=np.float32)
        return scores.of_pairs(both, vectors[::2], vectors[1::2])

    lines = folder / "lines.csv"
    table(lines, ("text",), [(text,) for text in inputs])
    return Job(train, test, inputs, score, "embed", ("--task", "embedding", "--length", "16"), lines)


NAMES = ["Anna", "O'Brien", "Jean-Pierre", "Ben", "McKay-Smith", "St. Ives", "Köln"]
PLACES = ["Rome", "the U.S.", "New York", "St. Ives", "Stoke-on-Trent", "Köln"]
FILLING = [
    *("saw", "don't", "met", "e-mailed", "on", "Tuesday", ",", "a", "well-known", "and", "half", "of", "1,000"),
    *("people", "at", "5", "p.m.", "who", "isn't", "from", "here"),
]


def sentence(draw: random.Random, words: int) -> list[tuple[str, str]]:
    """Words with their tags."""
    found: list[tuple[str, str]] = []
    while len(found) < words:
        kind = draw.choice(("PER", "LOC", "", "", ""))
        if kind:
            name = draw.choice(NAMES if kind == "PER" else PLACES).split()
            found += [(word, f"{'I' if at else 'B'}-{kind}") for at, word in enumerate(name)]
        else:
            found.append((draw.choice(FILLING), "O"))
    return [*found, (".", "O")]


def token_classification(_: Path, folder: Path, rows: int) -> Job:
    """Sentences in a CoNLL file whose words have marks inside; some are longer than the model reads."""
    draw = random.Random(3)
    files = []
    for name, count in (("train", 1500), ("test", rows)):
        sentences = [sentence(draw, draw.choice((1, 5, 11, 17, 17, 90))) for _ in range(count)]
        files.append(folder / f"{name}.conll")
        files[-1].write_text("\n".join("".join(f"{one} {tag}\n" for one, tag in line) for line in sentences))
    texts = [" ".join(word for word, _ in line) for line in sentences]
    true = []
    for line in sentences:
        spans, at = [], 0
        for word, tag in line:
            if tag[0] == "B":
                spans.append((at, at + len(word), tag[2:]))
            elif tag[0] == "I":
                spans[-1] = spans[-1][0], at + len(word), spans[-1][2]
            at += len(word) + 1
        true.append(spans)

    def score(answers: list[Any]) -> dict[str, float]:
        return scores.of_spans(true, [answer["spans"] if isinstance(answer, dict) else answer for answer in answers])

    lines = table(folder / "lines.csv", ("text",), [(text,) for text in texts])
    return Job(files[0], files[1], texts, score, "tag", ("--length", "64"), lines)


TASKS = {
    job.__name__: job for job in (classification, image_classification, translation, embedding, token_classification)
}


def by_file(run: Path, job: Job) -> list[Any]:
    """What the command writes."""
    out = run.with_suffix(".jsonl")
    headway("predict", str(run), str(job.answers_file or job.test), "--to", str(out), "--threads", "1")
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def over_http(run: Path, job: Job) -> list[Any]:
    """What the server answers, some inputs at a time."""
    serving = Serving(run, "--threads", "1")
    answers = []
    try:
        for start in range(0, len(job.inputs), AT_ONCE):
            inputs = [sent(one) for one in job.inputs[start : start + AT_ONCE]]
            request = urllib.request.Request(
                f"http://127.0.0.1:{serving.port}/{job.verb}",
                json.dumps({"inputs": inputs}).encode(),
                {"content-type": "application/json"},
            )
            with urllib.request.urlopen(request) as found:
                answers += json.load(found)["answers"]
    finally:
        serving.stop(signal.SIGTERM)
    return answers


def sent(one: Any) -> str:
    """An input as JSON holds it: a text, or a picture in base64."""
    return base64.b64encode(one.read_bytes()).decode() if isinstance(one, Path) else one


def by_python(run: Path, job: Job) -> list[Any]:
    """What ``headway.load`` answers."""
    pipe: Any = api.load(run)
    return list(pipe(job.inputs))


DOORS = {"file": by_file, "python": by_python, "http": over_http}


def measured(task: str, data: Path, folder: Path, rows: int, steps: int) -> dict[str, Any]:
    """Train, measure and answer by every door: the figures of each, as they are printed, and whether they agree."""
    job = TASKS[task](data, folder, rows)
    run = folder / "run"
    options = ("--steps", str(steps), *SMALL, *job.options)
    trained = headway("train", str(job.train), "--out", str(run), *options)
    again = headway("evaluate", str(run), str(job.train), "--threads", "1")
    figures = {"evaluate": headway("evaluate", str(run), str(job.test), "--threads", "1")}
    for door, ask in DOORS.items():
        figures[door] = job.score(ask(run, job))
    keys = list(figures["file"])
    found = {name: {key: round(float(line[key]), 4) for key in keys} for name, line in figures.items()}
    held_out = {
        name: {key: round(float(line[key]), 4) for key in (*keys, "val_loss")}
        for name, line in (("train", trained), ("evaluate", again))
    }
    agree = all(line == found["evaluate"] for line in found.values())
    same = held_out["train"] == held_out["evaluate"]
    return {
        "task": task,
        "rows": figures["evaluate"]["examples"],
        **found,
        "held_out": held_out,
        "equal": agree and same,
    }


def main() -> None:
    """All tasks, the table, and the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tasks", default=",".join(TASKS))
    given = parser.parse_args()
    found = []
    for task in given.tasks.split(","):
        with tempfile.TemporaryDirectory(prefix="headway-answers-") as name:
            found.append(measured(task, given.data, Path(name), given.rows, given.steps))
        print(json.dumps(found[-1]), flush=True)
    if given.tasks == ",".join(TASKS):
        write("answers", {**facts(), "steps": given.steps, "tasks": found})
    sys.exit(not all(line["equal"] for line in found))


if __name__ == "__main__":
    main()
