"""Ten planted faults and ten healthy runs, end to end: what each evaluation says of them.

The thresholds of `training.health` and `tasks.data_profile` were set on other made-up data: sentences of
a small grammar, syllables that follow each other, reviews of keywords, topics, and words with their cipher.  No
threshold was changed for the sake of the tasks here.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults_harness import lines_of

import headway
from headway.data.samples import copies, dates, documentation, source_code
from headway.training import health as h

SMALL = {
    **{"d_model": 32, "layers": 2, "heads": 2, "length": 32, "batch_tokens": 512, "steps": 80},
    **{"threads": 1, "precision": "float32", "evaluations": 8},
}
FRUIT = ["apple", "pear", "plum", "grape", "melon", "cherry"]
STARS = ["orbit", "comet", "planet", "galaxy", "moon", "crater"]
OTHER = ["a", "of", "to", "in", "we", "saw", "some", "was", "so", "then", "more", "while", "they", "said", "very"]


def prose(length: int, seed: int) -> str:
    """Documentation of the standard library, each paragraph once: some stand there twice, which would be a leak."""
    paragraphs = dict.fromkeys(documentation(3 * length, seed=seed).split("\n\n"))
    return "\n\n".join(paragraphs)[:length]


def sums(count: int, seed: int) -> str:
    """Lines such as 7+12=19."""
    choose = random.Random(seed)
    pairs = ((choose.randrange(20), choose.randrange(20)) for _ in range(count))
    return "".join(f"{a}+{b}={a + b}\n" for a, b in pairs)


def notes(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts about fruit and about stars, with which of the two it is."""
    choose, rows = random.Random(seed), []
    for _ in range(count):
        kind, words = choose.choice([("fruit", FRUIT), ("stars", STARS)])
        text = [*choose.choices(OTHER, k=choose.randint(5, 13)), *choose.choices(words, k=2)]
        rows.append((" ".join(choose.sample(text, len(text))), kind))
    return rows


def shouted(count: int, seed: int) -> list[tuple[str, str]]:
    """Words, and the same in capitals from behind."""
    choose = random.Random(seed)
    lines = [choose.choices([*FRUIT, *STARS, *OTHER], k=choose.randint(2, 6)) for _ in range(count)]
    return [(" ".join(line), " ".join(line[::-1]).upper()) for line in lines]


def mixed(rows: list[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    """The same inputs and the same targets, but not together."""
    targets = random.Random(seed).sample([target for _, target in rows], len(rows))
    return [(text, target) for (text, _), target in zip(rows, targets, strict=True)]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    return written(path, "text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))


def sides(folder: Path, pairs: list[tuple[str, str]]) -> list[Path]:
    return [
        written(folder / name, "".join(f"{pair[side]}\n" for pair in pairs))
        for side, name in enumerate(("t.en", "t.de"))
    ]


def logged(run: Path) -> list[tuple[str, str]]:
    """(word, cause) of every evaluation of a run."""
    return [(line["health"], line["cause"]) for line in lines_of(run) if line["event"] == "evaluation"]


Case = Callable[[Path], tuple[Any, dict[str, Any]]]
"""Writes data into a folder, and gives them with options."""


def verdicts(case: Case, folder: Path) -> list[tuple[str, str]]:
    """Train, and give (word, cause) of every evaluation."""
    folder.mkdir()
    data, own = case(folder)
    options = {**SMALL, **own}
    if "from_model" in options:
        for name in ("d_model", "layers", "heads"):
            del options[name]
    headway.train(data, out=folder / "run", quiet=True, **options)
    return logged(folder / "run")


CHARACTERS = {"tokenizer": "char"}
HEALTHY: dict[str, Case] = {
    "documentation, subwords": lambda at: (written(at / "d.txt", prose(60_000, 0)), {"vocab": 400}),
    "documentation, characters": lambda at: (written(at / "d.txt", prose(40_000, 1)), CHARACTERS),
    "sums": lambda at: (written(at / "s.txt", sums(3000, 2)), {"tokenizer": "char", "seed": 2}),
    "two subjects": lambda at: (table(at / "n.csv", notes(400, 3)), {}),
    "two subjects, long": lambda at: (table(at / "n.csv", notes(300, 4)), {"steps": 200, "seed": 4}),
    "two subjects, some rows wrong": lambda at: (
        table(at / "n.csv", notes(400, 5) + mixed(notes(80, 6), 6)),
        {"seed": 5},
    ),
    "shouted": lambda at: (sides(at, shouted(500, 7)), {"tokenizer": "word", "learning_rate": 3e-3}),
    "copies": lambda at: (sides(at, copies(500, 8)), {**CHARACTERS, "learning_rate": 3e-3}),
    "dates": lambda at: (sides(at, dates(500, 9)), {**CHARACTERS, "learning_rate": 3e-3}),
    "hidden characters": lambda at: (
        written(at / "s.txt", sums(3000, 10)),
        {**CHARACTERS, "task": "masked_lm", "steps": 160},
    ),
}


def wrong_tokenizer(at: Path) -> tuple[Any, dict[str, Any]]:
    """A base in which the tokenizer of another lies, of the same size and kind."""
    text = written(at / "d.txt", prose(60_000, 3))
    other = written(at / "s.txt", source_code(40_000, seed=4)[:40_000])
    options = {**SMALL, "vocab": 800, "evaluations": 1, "quiet": True}
    headway.train(text, out=at / "base", **options)
    headway.train(other, out=at / "other", **{**options, "steps": 1})
    shutil.copy(at / "other" / "tokenizer.json", at / "base" / "tokenizer.json")
    (at / "base" / "headway.json").unlink()  # which says what the file was
    return text, {"from_model": str(at / "base"), "steps": 30}


def letter(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same texts below a heading that all have."""
    heading = "to all who read this on behalf of the club and its many friends in town and in the country"
    return [(f"{heading} {text}", label) for text, label in rows]


def mostly(rows: list[tuple[str, str]], seed: int) -> list[tuple[str, str]]:
    """The same texts, nearly all with one label."""
    choose = random.Random(seed)
    return [(text, "fruit" if choose.random() < 0.95 else "stars") for text, _ in rows]


def exchanged(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(text, "fruit" if label == "stars" else "stars") for text, label in rows]


def judged_on(at: Path, rows: list[tuple[str, str]], held_out: list[tuple[str, str]]) -> tuple[Path, dict[str, Any]]:
    return table(at / "n.csv", rows), {"validation": table(at / "v.csv", held_out)}


BY_HEART = {**CHARACTERS, "dropout": 0.0, "steps": 250, "d_model": 48, "batch_tokens": 256}
FAULTS: dict[str, tuple[Case, set[str], str]] = {
    "labels shuffled": (lambda at: (table(at / "n.csv", mixed(notes(500, 11), 1)), {}), {h.FAULT}, h.UNRELATED),
    "pairs out of step": (
        lambda at: (sides(at, mixed(shouted(500, 12), 2)), {"tokenizer": "word", "learning_rate": 3e-3}),
        {h.FAULT},
        h.UNRELATED,
    ),
    "learning rate times 100": (
        lambda at: (written(at / "s.txt", sums(3000, 13)), {**CHARACTERS, "learning_rate": 0.3}),
        {h.DIVERGING},
        h.HIGH_RATE,
    ),
    "learning rate over 10,000": (
        lambda at: (table(at / "n.csv", notes(400, 14)), {"learning_rate": 1e-7}),
        {h.STUCK},
        h.LOW_RATE,
    ),
    "validation duplicated": (lambda at: judged_on(at, notes(400, 15), notes(400, 15)[100:170]), {h.FAULT}, h.LEAKED),
    "wrong tokenizer": (wrong_tokenizer, {h.FAULT}, h.STRANGE_BASE),
    "labels constant": (lambda at: (table(at / "n.csv", mostly(notes(500, 16), 3)), {}), {h.FAULT}, h.ONE_TARGET),
    "inputs cut alike": (lambda at: (table(at / "n.csv", letter(notes(400, 17))), {"length": 16}), {h.FAULT}, h.ALIKE),
    "labels exchanged": (lambda at: judged_on(at, notes(400, 18), exchanged(notes(70, 19))), {h.FAULT}, h.UNLIKE),
    "too little text": (lambda at: (written(at / "d.txt", prose(3_000, 5)), BY_HEART), {h.OVERFITTING}, h.BY_HEART),
}


def test_ten_healthy_runs_raise_no_alarm(tmp_path: Path):
    alarms = {}
    for name, case in HEALTHY.items():
        found = verdicts(case, tmp_path / name.replace(" ", "-"))
        assert len(found) >= 2
        if alarm := [one for one in found if one[0] != h.LEARNING]:
            alarms[name] = alarm
    assert len(HEALTHY) == 10 and not alarms


def test_of_ten_planted_faults_eight_are_named(tmp_path: Path):
    """A fault is named by the last alarm of its run: word and cause."""
    named, missed = [], {}
    for name, (case, words, expected) in FAULTS.items():
        found = verdicts(case, tmp_path / name.replace(" ", "-"))
        last = next((one for one in reversed(found) if one[0] != h.LEARNING), None)
        if last is not None and last[0] in words and last[1] == expected:
            named.append(name)
        else:
            missed[name] = found
    assert len(FAULTS) == 10 and len(named) >= 8, missed


def test_a_run_taken_up_again_says_what_it_would_have_said(corpus: Path, tmp_path: Path, tiny: dict, stop_at: Callable):
    """Stopped twice; the corpus is of words drawn at random, so there is something to say."""
    options = {**tiny, "steps": 40, "evaluations": 8, "quiet": True}
    headway.train(corpus, out=tmp_path / "alone", **options)
    stop_at(13, 27)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            headway.train(corpus, out=tmp_path / "run", **options)
    headway.train(corpus, out=tmp_path / "run", **options)
    alone, run = (logged(tmp_path / name) for name in ("alone", "run"))
    assert alone == run and len(run) == 8
