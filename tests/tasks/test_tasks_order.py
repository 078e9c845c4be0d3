"""Baselines and samples do not depend on the order of a file: sorted by class, by length and shuffled."""

import csv
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import headway
from headway.data.records.split import few
from headway.tasks import baselines, data_profile
from headway.tasks.embedding import objective as embedding
from headway.tasks.text_to_text import data as translation
from headway.tasks.token_classification import data as tags
from headway.training.store.facts import read_facts

TINY = {"threads": 1, "precision": "float32", "quiet": True, "steps": 1, "evaluations": 1, "d_model": 16, "layers": 1}
TOPICS = [[f"{letter}{i}" for i in range(9)] for letter in "pqr"]
HALF_A_POINT = 0.005


def orders(rows: list, length: Callable[[object], int]) -> dict[str, list]:
    """Rows that come sorted by class, in two other orders too."""
    return {
        "class": rows,
        "length": sorted(rows, key=length),
        "shuffled": random.Random(1).sample(rows, len(rows)),
    }


def table(path: Path, rows: Sequence[Sequence[str]], *columns: str) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def drawn_texts(count: int, seed: int) -> list[list[str]]:
    """Texts of some words of a topic each, sorted by it."""
    draw = random.Random(seed)
    drawn = [
        (topic, draw.choices(words, k=draw.randint(3, 9)))
        for topic, words in zip("pqr", TOPICS, strict=True)
        for _ in range(count)
    ]
    return [[" ".join([*words, str(draw.randrange(999))]), f"topic {topic}"] for topic, words in drawn]


def measured(inputs: Path, held_out: Path, out: Path, **options: object) -> tuple[list[dict], list[str]]:
    headway.train(inputs, validation=held_out, out=out, **{**TINY, **options})
    facts = read_facts(out)
    assert facts is not None
    return facts["baselines"], facts["data"]["warnings"]


def check(found: dict[str, tuple[list[dict], list[str]]]) -> list[dict]:
    """The same figures in every order; those of one."""
    (_, (first, _)), *others = found.items()
    for name, (lines, _) in others:
        for one, other in zip(first, lines, strict=True):
            assert one == pytest.approx(other, abs=HALF_A_POINT), name
    return first


def test_classification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(baselines, "MOST_CHARACTERS", 1_500)
    held_out = table(tmp_path / "held_out.csv", drawn_texts(20, 1), "text", "label")
    found = {
        name: measured(table(tmp_path / f"{name}.csv", rows, "text", "label"), held_out, tmp_path / name)
        for name, rows in orders(drawn_texts(60, 0), lambda row: len(row[0])).items()
    }
    assert check(found)[1]["accuracy"] == 1.0
    assert all("drawn at random" in " ".join(warnings) for _, warnings in found.values())


def test_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Sorted by class, the first 40 are of one class."""
    monkeypatch.setattr(baselines, "MOST_IMAGES", 40)
    draw = np.random.default_rng(0)

    def images(each: int) -> list[tuple[np.ndarray, str]]:
        values = [draw.integers(0, 60, (8, 8), dtype=np.uint8) for _ in range(3 * each)]
        for i, image in enumerate(values):
            image[:, 2 * (i // each) : 2 * (i // each) + 3] += 150
        return [(image, f"kind {i // each}") for i, image in enumerate(values)]

    def save(name: str, rows: list[tuple[np.ndarray, str]]) -> Path:
        np.savez(tmp_path / name, images=np.stack([one for one, _ in rows]), labels=np.array([one for _, one in rows]))
        return tmp_path / name

    held_out = save("held_out.npz", images(10))
    found = {
        name: measured(save(f"{name}.npz", rows), held_out, tmp_path / name, batch_size=8)
        for name, rows in orders(images(40), lambda row: int(row[0].sum())).items()
    }
    majority, fitted = check(found)
    assert majority["accuracy"] == pytest.approx(1 / 3) and fitted["accuracy"] == 1.0
    for _, warnings in found.values():
        assert "the linear baseline is fitted on 40 of 120 images, drawn at random" in warnings


def test_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tags, "MOST_WORDS", 60)
    draw = random.Random(0)

    def sentences(count: int, seed: int) -> list[str]:
        draw.seed(seed)
        return [
            "".join(
                f"{name}\tB-{name[0].upper()}\nx{draw.randrange(9999)}\tO\n"
                for name in draw.choices(names, k=draw.randint(2, 6))
            )
            for names in TOPICS
            for _ in range(count)
        ]

    held_out = tmp_path / "held_out.conll"
    held_out.write_text("\n".join(sentences(10, 1)))
    found = {}
    for name, rows in orders(sentences(40, 0), len).items():
        path = tmp_path / f"{name}.conll"
        path.write_text("\n".join(rows))
        found[name] = measured(path, held_out, tmp_path / name)
    assert check(found)[0]["entity_f1"] > 0.99


def test_embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedding, "MOST_CHARACTERS", 1_200)
    draw = random.Random(0)

    def pairs(count: int) -> list[list[str]]:
        rows = []
        for words in TOPICS:
            for _ in range(count):
                chosen = draw.sample(words, draw.randint(3, 5))
                rows.append([" ".join(chosen), " ".join(reversed(chosen))])
        return rows

    held_out = table(
        tmp_path / "held_out.csv",
        list({tuple(sorted(a.split())): [a, b] for a, b in pairs(15)}.values()),
        "one",
        "other",
    )
    found = {
        name: measured(
            table(tmp_path / f"{name}.csv", rows, "one", "other"), held_out, tmp_path / name, task="embedding"
        )
        for name, rows in orders(pairs(60), lambda row: len(row[0])).items()
    }
    assert check(found)[0]["accuracy"] == 1.0
    assert all("the TF-IDF baseline is fitted on" in " ".join(warnings) for _, warnings in found.values())


def test_translation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of held-out pairs, the short ones are copies: what is written and compared with copies is not only of those."""
    monkeypatch.setattr(translation, "MOST_WRITTEN", 20)
    draw = random.Random(0)
    copies = [[f"alpha beta gamma {i}"] * 2 for i in range(40)]
    others = [[" ".join(draw.choices(TOPICS[0], k=14)), " ".join(draw.choices(TOPICS[1], k=14))] for _ in range(40)]
    held_out = table(tmp_path / "held_out.csv", [*copies, *others], "source", "target")
    found = {
        name: measured(
            table(tmp_path / f"{name}.csv", rows, "source", "target"), held_out, tmp_path / name, task="translation"
        )
        for name, rows in orders([*copies, *others], lambda row: len(row[0])).items()
    }
    unchanged = next(line for line in check(found) if line["name"] == "the source, unchanged")
    assert 10 < unchanged["bleu"] < 90


@pytest.mark.parametrize("task", ["language_modeling", "masked_lm"])
def test_running_text(task: str, tmp_path: Path):
    held_out = table(tmp_path / "held_out.csv", [[text] for text, _ in drawn_texts(20, 1)], "text")
    found = {
        name: measured(
            table(tmp_path / f"{name}.csv", [[text] for text, _ in rows], "text"), held_out, tmp_path / name,
            task=task, tokenizer="word", length=16,
        )
        for name, rows in orders(drawn_texts(60, 0), lambda row: len(row[0])).items()
    }  # fmt: skip
    check(found)


def test_what_is_said_of_pairs_does_not_depend_on_their_order(monkeypatch: pytest.MonkeyPatch):
    """Targets that follow from their sources do so in sorted pairs too, of which the first are of one topic."""
    monkeypatch.setattr(data_profile, "MOST_PAIRS", 60)
    draw = random.Random(0)
    rows = [[draw.randrange(9) + 10 * topic for _ in range(3)] for topic in range(3) for _ in range(100)]
    train = [draw.sample(row, 3) for row in rows]
    held_out = [draw.sample(row, 3) for row in rows[::10]]

    def fit(order: Sequence[int]) -> float | None:
        parts = [[part[i] for i in order] for part in (rows, train)]
        some = [list(data_profile._shuffled(part, data_profile.MOST_PAIRS)) for part in parts]
        return data_profile.fitting_pairs(*some, rows[::10], held_out)

    assert fit(range(300)) > 0.9 and fit(draw.sample(range(300), 300)) > 0.9


def test_few_rows_are_drawn_from_all():
    assert few(range(5), 9) != list(range(5)) and sorted(few(range(5), 9)) == list(range(5))
    found = few(iter(range(10_000)), 100)
    assert len(set(found)) == 100 and 4_000 < sum(found) / 100 < 6_000 and found == few(range(10_000), 100)
