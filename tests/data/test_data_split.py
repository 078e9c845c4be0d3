"""Splits keep classes and keep equal texts together; running text is cut at nine tenths."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.open.read import read
from headway.data.records.corpus import split_text, text_boundary
from headway.data.records.repeats import text_hashes, text_key
from headway.data.records.split import split_rows
from headway.errors import InputError

QUICK = settings(max_examples=60, deadline=None)


def split_indices(texts, labels, fraction, seed, known=()):
    """``split_rows`` of texts and their labels."""
    targets = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    return split_rows(text_hashes(texts), targets, fraction, seed, known)


@QUICK
@given(
    rows=st.lists(st.tuples(st.integers(0, 31), st.integers(0, 4)), min_size=3, max_size=97),
    seed=st.integers(0, 2**32),
    fraction=st.sampled_from([0.1, 0.2, 0.5]),
)
def test_split_keeps_classes_and_groups(rows, seed, fraction):
    texts = [f"Text {t} of {y}" if t % 2 else f"text  {t} OF {y} " for t, y in rows]
    labels = [str(y) for _, y in rows]
    distinct = {y: {text_key(t) for t, label in zip(texts, labels, strict=True) if label == y} for y in labels}
    if all(len(found) < 2 for found in distinct.values()):
        with pytest.raises(InputError, match="too few"):
            split_indices(texts, labels, fraction, seed)
        return
    train, validation = split_indices(texts, labels, fraction, seed)
    assert sorted([*train, *validation]) == list(range(len(rows)))
    assert not {text_key(texts[i]) for i in train} & {text_key(texts[i]) for i in validation}
    for label, found in distinct.items():
        assert any(labels[i] == label for i in train)
        assert (len(found) < 2) == all(labels[i] != label for i in validation)
    again = split_indices(texts, labels, fraction, seed)
    assert np.array_equal(train, again[0]) and np.array_equal(validation, again[1])


def test_split_sizes_and_seeds():
    texts, labels = [f"t{i}" for i in range(1009)], [("a", "b", "b", "b")[i % 4] for i in range(1009)]
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    train, validation = split_indices(texts, labels, 0.1, 1)
    assert np.array_equal(before, np.random.get_state()[1])
    assert Counter(labels[i] for i in validation) == {"a": 25, "b": 76}
    assert train.dtype == validation.dtype == np.int64
    assert not np.array_equal(validation, split_indices(texts, labels, 0.1, 2)[1])
    with pytest.raises(ValueError, match="fraction"):
        split_indices(texts, labels, 1.0, 1)


def test_conflicting_labels_stay_together():
    texts = ["same"] * 5 + [f"t{i}" for i in range(20)]
    labels = ["a", "b", "a", "b", "c"] + ["a", "b"] * 10
    train, validation = split_indices(texts, labels, 0.2, 7)
    assert set(range(5)) <= set(train) or set(range(5)) <= set(validation)


def test_boundary_is_nanogpts():
    for n in (1, 9, 10, 11, 1_115_394, 10**9 + 7):
        assert text_boundary(n) == int(n * 0.9)


def test_text_is_cut_by_characters(tmp_path: Path):
    (tmp_path / "a.txt").write_text("é" * 53)
    (tmp_path / "b.txt").write_text("x" * 31)
    (tmp_path / "c.txt").write_text("z" * 17)
    train, validation = split_text(read([tmp_path]))
    assert list(train) == list(train) == [("é" * 53, True), ("x" * 31, True), ("z" * 6, False)]
    assert list(validation) == [("z" * 11, True)]
    assert (train.stop - train.start, validation.stop - validation.start) == (90, 11)
    train, validation = split_text(read([tmp_path]), 0.5)
    assert list(train) == [("é" * 50, False)]
    assert list(validation) == [("é" * 3, True), ("x" * 31, True), ("z" * 17, True)]


def test_text_too_short_to_split(tmp_path: Path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match=r"a\.txt: 1 characters"):
        split_text(read([tmp_path / "a.txt"]))
