"""What `evaluate` says of a tagger is what its answers are, by every door: words with marks, and long sentences."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from served_models import Server

import headway
from headway.training.store.facts import read_facts

Row = list[tuple[str, str]]
PEOPLE = ["O'Brien", "Jean-Pierre", "Ann-Kathrin O'Neill", "Anna", "Mr. D'Arcy", "Ben Smith", "Zoe"]
NEW_PEOPLE = ["O'Connor", "Marie-Claire", "Mr. Lee", "Ben D'Souza", "Eva"]
PLACES = ["U.S.", "St. Ives", "Rome", "New York", "Al-Khor"]
FRAMES = [
    "{P} of the {L} sues {P} by e-mail .",
    "Don't ask {P} , said {P} in {L} .",
    "In {L} 3.5 % of it isn't here",
    '" {P} ( of {L} ) "',
    "It rained in {L} .",
]


def row(draw: random.Random, people: list[str], frames: int = 1) -> Row:
    found: Row = []
    for word in " ".join(draw.choices(FRAMES, k=frames)).split():
        names = {"{P}": ("PER", people), "{L}": ("LOC", PLACES)}.get(word)
        parts = draw.choice(names[1]).split() if names else [word]
        found += [(part, f"{'I' if i else 'B'}-{names[0]}" if names else "O") for i, part in enumerate(parts)]
    return found


def rows(count: int, people: list[str], seed: int) -> list[Row]:
    draw = random.Random(seed)
    return [row(draw, people, 16 if number % 9 == 0 else draw.randint(1, 2)) for number in range(count)]


def write(path: Path, given: list[Row]) -> Path:
    path.write_text("\n\n".join("\n".join("\t".join(pair) for pair in one) for one in given) + "\n")
    return path


def spans_of(tags: list[str]) -> set[tuple[str, int, int]]:
    """(type, first word, word after the last), as seqeval finds them in IOB2."""
    found, start = set(), None
    for at, tag in enumerate([*tags, "O"]):
        if start is not None and not tag.startswith("I-"):
            found.add((tags[start][2:], start, at))
            start = None
        start = at if tag.startswith("B-") else start
    return found


def f1(given: list[Row], answers: list[list[dict]]) -> float:
    """The entity F1 of answers to the sentences' words joined by blanks; a span that cuts a word is wrong."""
    right = found = wanted = 0
    for words, spans in zip(given, answers, strict=True):
        ends = [0]
        for word, _ in words:
            ends.append(ends[-1] + len(word) + 1)
        answered = {(one["label"], one["start"], one["end"] + 1) for one in spans}
        true = {(kind, ends[start], ends[end]) for kind, start, end in spans_of([tag for _, tag in words])}
        right, found, wanted = right + len(answered & true), found + len(answered), wanted + len(true)
    return 2 * right / (found + wanted)


TRAINED, HELD_OUT, NEW = rows(150, PEOPLE, 1), rows(60, PEOPLE, 2), rows(61, NEW_PEOPLE, 3)
OPTIONS = {"threads": 1, "precision": "float32", "quiet": True, "evaluations": 2, "d_model": 32, "layers": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    files = {"train": TRAINED, "held_out": HELD_OUT, "new": NEW}
    names = {name: write(folder / f"{name}.conll", given) for name, given in files.items()}
    given = {"validation": [names["held_out"]], "length": 48, "steps": 60, **OPTIONS}
    headway.train(names["train"], out=folder / "run", **given)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    found = Server(folder / "run")
    yield found
    found.stop()


def texts(given: list[Row]) -> list[str]:
    return [" ".join(word for word, _ in one) for one in given]


@pytest.mark.parametrize("name", ["held_out", "new"])
def test_what_is_measured_is_what_answers(in_process: Callable, server: Server, folder: Path, name: str):
    given = {"held_out": HELD_OUT, "new": NEW}[name]
    said = headway.evaluate(folder / "run", folder / f"{name}.conll")["entity_f1"]
    assert 0.3 < said < 1
    if name == "held_out":
        assert said == pytest.approx(read_facts(folder / "run")["metrics"]["entity_f1"], abs=1e-12)
        assert said == headway.evaluate(folder / "run")["entity_f1"]
    pipe = headway.load(folder / "run")
    assert max(len(pipe.tokenizer.encode(text)) for text in texts(given)) > 2 * pipe.longest
    words = [[word for word, _ in one] for one in given]
    assert f1(given, pipe(texts(given))) == f1(given, pipe(words)) == said
    for inputs in (texts(given), words):
        assert f1(given, server.post("/tag", {"inputs": inputs}).json()["answers"]) == said
    (folder / "texts.txt").write_text("\n".join(texts(given)) + "\n")
    (folder / "words.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in words))
    for file, option in (("texts.txt", []), ("texts.txt", ["--pretokenized"]), ("words.jsonl", ["--pretokenized"])):
        out = folder / f"{name}-{file}{len(option)}.jsonl"
        in_process.passed("tag", folder / "run", folder / file, "--to", out, "--threads", 1, *option)
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert f1(given, [line["spans"] for line in lines]) == said, (file, option)
        assert [line["text"] for line in lines] == texts(given)


def test_words_of_texts_as_people_write_them(folder: Path, in_process: Callable):
    words = headway.load(folder / "run").words
    text = "Mr. O'Toole (of the U.S.), don't e-mail; it's 3.5% in Rome."
    found = [text[start:end] for start, end in words.split(text)]
    assert " ".join(found) == "Mr. O'Toole ( of the U.S. ) , don't e-mail ; it's 3.5 % in Rome ."
    assert read_facts(folder / "run")["data"]["words"]["known"]
    _, out, _ = in_process("train", folder / "train.conll", "--out", folder / "plan", "--plan", "--threads", 1)
    assert "held-out words are found in their text" in out
    unlike = write(folder / "unlike.conll", [[("Ph.D.", "O"), ("Anna", "B-PER"), ("left", "O")], *NEW[:4]])
    with pytest.warns(UserWarning, match=r"1 of \d+ words are split otherwise"):
        headway.evaluate(folder / "run", unlike)


def test_a_run_without_the_record_splits_as_before(folder: Path, tmp_path: Path):
    text = "O'Brien of the U.S. sues"
    names = ["Anna", "Ben", "Clara", "Ida", "Tom", "Mia", "Leo"]
    texts = [f"{name} saw O'Brien{mark}" for name in names for mark in (".", "!", " again.")]
    rows = [{"text": one, "spans": [[0, one.index(" "), "PER"]]} for one in texts]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    headway.train(tmp_path / "a.jsonl", out=tmp_path / "run", **{**OPTIONS, "steps": 3})
    assert "words" not in read_facts(tmp_path / "run")["data"]
    words = headway.load(tmp_path / "run").words
    assert [text[start:end] for start, end in words.split(text)][:4] == ["O", "'", "Brien", "of"]


def test_words_that_are_no_words(server: Server, folder: Path):
    pipe = headway.load(folder / "run")
    with pytest.raises(headway.InputError, match=r"text 1 is list; expected a text or a list of words"):
        pipe(["a", ["b", 1]])
    assert pipe([[], ["", " "], "", ["Anna"]])[:3] == [[], [], []]
    assert server.post("/tag", {"inputs": [["Anna", 3]]}).status_code == 400
