"""The baselines that a model must beat, computed by hand."""

import math
import tracemalloc

import numpy as np
import pytest

from headway.tasks import baselines, count_baselines
from headway.tasks.baselines import _flat, classification_baselines, image_baselines
from headway.tasks.count_baselines import ngram_baselines

TRAIN, VALIDATION = np.array([0, 1, 0, 1, 2], dtype=np.uint16), np.array([0, 1, 2, 2], dtype=np.uint16)


class TextList(list[str]):
    """Texts in memory, as rows of texts are."""

    @property
    def lengths(self):
        return np.array([*map(len, self)], dtype=np.int64)

    def part(self, rows):
        return TextList(self[i] for i in rows)


def of_texts(texts, targets, held_out, wanted, labels):
    return classification_baselines(TextList(texts), targets, TextList(held_out), wanted, labels)


def test_ngrams_by_hand():
    uniform, unigram, bigram = ngram_baselines(TRAIN, VALIDATION, 3)
    counted = [3 / 8, 3 / 8, 2 / 8]  # 2, 2 and 1 times, and one added to each
    assert uniform["val_loss"] == pytest.approx(math.log(3))
    assert unigram["val_loss"] == pytest.approx(-(math.log(counted[1]) + 2 * math.log(counted[2])) / 3)
    after_0 = 2 / 3 + 1 / 3 * counted[1]  # twice followed by 1, and by nothing else
    after_1 = 1 / 4 + 2 / 4 * counted[2]  # once by 0, once by 2
    after_2 = counted[2]  # never followed by anything
    assert bigram["val_loss"] == pytest.approx(-sum(map(math.log, (after_0, after_1, after_2))) / 3)


def test_probabilities_after_every_token_sum_to_one_and_no_target_is_no_crash():
    for first in range(3):
        pairs = [np.array([first, second], dtype=np.uint16) for second in range(3)]
        losses = [ngram_baselines(TRAIN, pair, 3)[2]["val_loss"] for pair in pairs]
        assert sum(math.exp(-loss) for loss in losses) == pytest.approx(1.0)
    assert ngram_baselines(TRAIN, VALIDATION[:1], 3) == [{"name": "uniform (ln V)", "val_loss": math.log(3)}]


@pytest.mark.parametrize("chunk", [1, 2, 7, 101])
def test_counting_in_chunks_changes_nothing(chunk, monkeypatch):
    random = np.random.default_rng(3)
    train, validation = random.integers(0, 13, 97).astype(np.uint16), random.integers(0, 13, 31).astype(np.uint16)
    whole = ngram_baselines(train, validation, 13)
    monkeypatch.setattr(count_baselines, "CHUNK", chunk)
    for most in (10_007, 29, 1):  # pairs that are held at a time
        monkeypatch.setattr(count_baselines, "MOST_PAIRS", most)
        for name, found in zip(whole, ngram_baselines(train, validation, 13), strict=True):
            assert found == {**name, "val_loss": pytest.approx(name["val_loss"], rel=1e-12)}


def test_memory_does_not_grow_with_the_text(monkeypatch):
    monkeypatch.setattr(count_baselines, "CHUNK", 1 << 12)
    random = np.random.default_rng(3)
    monkeypatch.setattr(count_baselines, "MOST_PAIRS", 1 << 12)
    text = random.integers(0, 211, 1_000_003).astype(np.uint16)
    for train, validation in ((text, text[:7]), (text[:100_003], text)):
        tracemalloc.start()
        ngram_baselines(train, validation, 211)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000, "half of the text itself"


def test_the_linear_model_is_right_where_single_words_tell_and_the_majority_is_what_it_says():
    texts = [f"{word} number {i}" for i in range(17) for word in ("good", "bad", "bad")]
    (majority, fitted), said = of_texts(texts, [0, 1, 1] * 17, ["a good one", "a bad one"], [0, 1], ["good", "bad"])
    assert said == "" and majority["accuracy"] == 0.5
    assert majority["macro_f1"] == pytest.approx((0 + 2 / 3) / 2)
    assert fitted["accuracy"] == fitted["macro_f1"] == 1.0
    found, _ = of_texts(["", "", ""], [1, 1, 0], ["", ""], [1, 0], ["a", "b"])  # no n-gram: the majority
    assert [entry["accuracy"] for entry in found] == [0.5, 0.5]


def test_of_many_rows_a_sample_is_read_and_said(monkeypatch):
    monkeypatch.setattr(baselines, "MOST_CHARACTERS", 2_000)
    texts = [f"{word} number {i}" for i in range(211) for word in ("good", "bad", "bad")]
    found, said = of_texts(texts, [0, 1, 1] * 211, ["a good one"], [0], ["good", "bad"])
    assert found[1]["accuracy"] == 1.0
    assert "of 633 rows, drawn at random" in said and "on 633" not in said


def test_of_too_many_classes_there_is_no_linear_model_and_that_is_said():
    classes = 20_000
    texts, targets = [f"text {i}" for i in range(3 * classes)], [i % classes for i in range(3 * classes)]
    found, said = of_texts(texts, targets, texts[:9], targets[:9], [str(i) for i in range(classes)])
    assert [line["name"] for line in found] == ["majority class"]
    assert "left out: 20,000 classes in 60,000 rows" in said


def test_of_many_classes_rare_ngrams_are_left_out(monkeypatch):
    monkeypatch.setattr(baselines, "MOST_WEIGHTS", 40_000)
    words = [f"{i}{i}" for i in range(40)]
    texts = [f"{word} number {i * 37 % 1009} {i}" for i in range(29) for word in words]
    found, said = of_texts(texts, [*range(40)] * 29, words, [*range(40)], words)
    assert said == "" and found[1]["accuracy"] > 0.9


def test_images_are_told_by_a_linear_model():
    draw = np.random.default_rng(0)
    targets = draw.integers(0, 2, 71)
    images = draw.integers(0, 120, (71, 5, 7, 3), dtype=np.uint8)
    images[:, :, 3:] += (targets * 100).astype(np.uint8)[:, None, None, None]
    known = images[:60], targets[:60].tolist()
    (majority, fitted), said = image_baselines(*known, images[60:], targets[60:], ["a", "b"])
    assert said == ""
    assert majority["name"] == "majority class" and majority["accuracy"] < 0.8
    assert fitted["name"] == "linear model on pixels" and fitted["accuracy"] == fitted["macro_f1"] == 1.0
    alone, _ = image_baselines(images[:9], [1] * 9, images[60:], targets[60:], ["a", "b"])
    assert alone[0]["accuracy"] == alone[1]["accuracy"]


@pytest.mark.parametrize(("size", "step"), [((5, 7), (1, 1)), ((65, 40), (3, 3)), ((2, 97), (2, 4))])
def test_large_images_are_shrunk_by_means(size, step):
    images = np.random.default_rng(0).integers(0, 256, (3, *size, 3), dtype=np.uint8)
    rows, columns = size[0] // step[0], size[1] // step[1]
    expected = [
        images[n, row * step[0] : (row + 1) * step[0], column * step[1] : (column + 1) * step[1], channel].mean()
        for n in range(3)
        for row in range(rows)
        for column in range(columns)
        for channel in range(3)
    ]
    assert np.allclose(_flat(images).ravel(), expected, atol=1e-3)
    assert _flat(np.repeat(images[..., :1], 3, axis=3)).shape == (3, rows * columns), "grey counts once"
