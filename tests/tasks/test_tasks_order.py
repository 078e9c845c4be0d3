"""Baselines and samples do not depend on the order of a file: sorted by class, by length and shuffled."""

import csv
import random

import numpy as np
import pytest
from faults_harness import facts_of

import headway
from headway.data.records.split import few
from headway.tasks import baselines, data_profile
from headway.tasks.embedding import objective as embedding
from headway.tasks.text_to_text import data as translation
from headway.tasks.token_classification import data as tags

TINY = {"threads": 1, "precision": "float32", "quiet": True, "steps": 1, "evaluations": 1, "d_model": 16, "layers": 1}
TOPICS = [[f"{letter}{i}" for i in range(9)] for letter in "pqr"]
HALF_A_POINT = 0.005


def orders(rows, length, measured):
    """What is measured with rows that come sorted by class, by length and shuffled: the same figures in every order."""
    ways = {"class": rows, "length": sorted(rows, key=length), "shuffled": random.Random(1).sample(rows, len(rows))}
    found = {name: measured(name, given) for name, given in ways.items()}
    first, _ = found["class"]
    for name, (lines, _) in found.items():
        for one, other in zip(first, lines, strict=True):
            assert one == pytest.approx(other, abs=HALF_A_POINT), name
    return first, [" ".join(warnings) for _, warnings in found.values()]


def table(path, rows, *columns):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def first_length(row):
    return len(row[0])


def drawn_texts(count, seed):
    """Texts of some words of a topic each, sorted by it."""
    draw = random.Random(seed)
    drawn = [
        (topic, draw.choices(words, k=draw.randint(3, 9)))
        for topic, words in zip("pqr", TOPICS, strict=True)
        for _ in range(count)
    ]
    return [[" ".join([*words, str(draw.randrange(999))]), f"topic {topic}"] for topic, words in drawn]


def measured(inputs, held_out, **options):
    out = inputs.with_suffix("")
    headway.train(inputs, validation=held_out, out=out, **{**TINY, **options})
    facts = facts_of(out)
    return facts["baselines"], facts["data"]["warnings"]


@pytest.fixture
def of_tables(tmp_path):
    """The figures of a table in every order."""

    def of(rows, held_out, *columns, **options):
        kept = table(tmp_path / "held_out.csv", held_out, *columns)

        def one(name, given):
            return measured(table(tmp_path / f"{name}.csv", given, *columns), kept, **options)

        return orders(rows, first_length, one)

    return of


def test_classification(of_tables, monkeypatch):
    monkeypatch.setattr(baselines, "MOST_CHARACTERS", 1_500)
    lines, said = of_tables(drawn_texts(60, 0), drawn_texts(20, 1), "text", "label")
    assert lines[1]["accuracy"] == 1.0 and all("drawn at random" in warnings for warnings in said)


def test_images(tmp_path, monkeypatch):
    """Sorted by class, the first 40 are of one class."""
    monkeypatch.setattr(baselines, "MOST_IMAGES", 40)
    draw = np.random.default_rng(0)

    def images(each):
        values = [draw.integers(0, 60, (8, 8), dtype=np.uint8) for _ in range(3 * each)]
        for i, image in enumerate(values):
            image[:, 2 * (i // each) : 2 * (i // each) + 3] += 150
        return [(image, f"kind {i // each}") for i, image in enumerate(values)]

    def save(name, rows):
        np.savez(tmp_path / name, images=np.stack([one for one, _ in rows]), labels=np.array([one for _, one in rows]))
        return tmp_path / name

    held_out = save("held_out.npz", images(10))
    (majority, fitted), said = orders(
        images(40),
        lambda row: int(row[0].sum()),
        lambda name, rows: measured(save(f"{name}.npz", rows), held_out, batch_size=8),
    )
    assert majority["accuracy"] == pytest.approx(1 / 3) and fitted["accuracy"] == 1.0
    assert all("the linear baseline is fitted on 40 of 120 images, drawn at random" in warnings for warnings in said)


def test_tags(tmp_path, monkeypatch):
    monkeypatch.setattr(tags, "MOST_WORDS", 60)
    draw = random.Random(0)

    def sentences(count, seed):
        draw.seed(seed)
        return [
            "".join(
                f"{name}\tB-{name[0].upper()}\nx{draw.randrange(9999)}\tO\n"
                for name in draw.choices(names, k=draw.randint(2, 6))
            )
            for names in TOPICS
            for _ in range(count)
        ]

    def save(name, rows):
        (tmp_path / f"{name}.conll").write_text("\n".join(rows))
        return tmp_path / f"{name}.conll"

    held_out = save("held_out", sentences(10, 1))
    found, _ = orders(sentences(40, 0), len, lambda name, rows: measured(save(name, rows), held_out))
    assert found[0]["entity_f1"] > 0.99


def test_embeddings(of_tables, monkeypatch):
    monkeypatch.setattr(embedding, "MOST_CHARACTERS", 1_200)
    draw = random.Random(0)

    def pairs(count):
        chosen = [draw.sample(words, draw.randint(3, 5)) for words in TOPICS for _ in range(count)]
        return [[" ".join(words), " ".join(reversed(words))] for words in chosen]

    held_out = list({tuple(sorted(a.split())): [a, b] for a, b in pairs(15)}.values())
    lines, said = of_tables(pairs(60), held_out, "one", "other", task="embedding")
    assert lines[0]["accuracy"] == 1.0 and all("the TF-IDF baseline is fitted on" in warnings for warnings in said)


def test_translation(of_tables, monkeypatch):
    """Of held-out pairs, the short ones are copies: what is written and compared with copies is not only of those."""
    monkeypatch.setattr(translation, "MOST_WRITTEN", 20)
    draw = random.Random(0)
    pairs = [[f"alpha beta gamma {i}"] * 2 for i in range(40)]
    pairs += [[" ".join(draw.choices(TOPICS[0], k=14)), " ".join(draw.choices(TOPICS[1], k=14))] for _ in range(40)]
    lines, _ = of_tables(pairs, pairs, "source", "target", task="translation")
    (unchanged,) = [line for line in lines if line["name"] == "the source, unchanged"]
    assert 10 < unchanged["bleu"] < 90


@pytest.mark.parametrize("task", ["language_modeling", "masked_lm"])
def test_running_text(task, of_tables):
    rows, held_out = ([[text] for text, _ in drawn_texts(count, seed)] for count, seed in ((60, 0), (20, 1)))
    of_tables(rows, held_out, "text", task=task, tokenizer="word", length=16)


def test_what_is_said_of_pairs_does_not_depend_on_their_order(monkeypatch):
    """Targets that follow from their sources do so in sorted pairs too, of which the first are of one topic."""
    monkeypatch.setattr(data_profile, "MOST_PAIRS", 60)
    draw = random.Random(0)
    rows = [[draw.randrange(9) + 10 * topic for _ in range(3)] for topic in range(3) for _ in range(100)]
    train = [draw.sample(row, 3) for row in rows]
    held_out = [draw.sample(row, 3) for row in rows[::10]]

    def fit(order):
        parts = [[part[i] for i in order] for part in (rows, train)]
        some = [list(data_profile._shuffled(part, data_profile.MOST_PAIRS)) for part in parts]
        return data_profile.fitting_pairs(*some, rows[::10], held_out)

    assert fit(range(300)) > 0.9 and fit(draw.sample(range(300), 300)) > 0.9


def test_few_rows_are_drawn_from_all():
    assert few(range(5), 9) != list(range(5)) and sorted(few(range(5), 9)) == list(range(5))
    found = few(iter(range(10_000)), 100)
    assert len(set(found)) == 100 and 4_000 < sum(found) / 100 < 6_000 and found == few(range(10_000), 100)
