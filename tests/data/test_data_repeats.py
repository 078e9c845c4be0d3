"""Texts that read the same have one hash, and rows are held out as when the texts themselves were compared."""

import random
from collections import Counter
from hashlib import blake2b

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.data.records.repeats import group_numbers, shared, text_hashes, text_key
from headway.data.records.split import split_rows

QUICK = settings(max_examples=60, deadline=None)
TEXTS = st.text(st.sampled_from("aAbß \t\u00a0\u2028ﬁé\u0301\0\x1f"), max_size=7)


@QUICK
@given(texts=st.lists(TEXTS, max_size=31))
def test_texts_that_read_the_same_have_one_hash(texts):
    keys, hashes = [text_key(text) for text in texts], text_hashes(texts).tolist()
    digests = [blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest() for key in keys]
    assert hashes == [int.from_bytes(one, "little", signed=True) for one in digests]  # in every process
    numbers, count = group_numbers(np.array(hashes, dtype=np.int64))
    order = list(dict.fromkeys(keys))
    assert numbers.tolist() == [order.index(key) for key in keys] and count == len(order)
    assert shared(text_hashes(texts[:7]), text_hashes(texts)).tolist() == [
        i for i, key in enumerate(keys) if key in keys[:7]
    ]


def held_out(keys: list[int], labels: list[int], fraction: float, seed: int) -> list[int]:
    """The rows that are held out, by the definition: class by class, whole groups in a drawn order while they fit."""
    groups: dict[int, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    counts = Counter(labels)
    by_class: dict[int, list[list[int]]] = {label: [] for label in sorted(counts)}
    for rows in groups.values():
        by_class[min((labels[i] for i in rows), key=lambda label: (counts[label], label))].append(rows)
    draw, held = np.random.default_rng(seed), list[int]()
    for members in by_class.values():
        if len(members) < 2:
            continue
        target, chosen = max(1, round(fraction * sum(map(len, members)))), list[int]()
        shuffled = [members[i] for i in draw.permutation(len(members))]
        for rows in shuffled[:-1]:
            if len(chosen) + len(rows) <= target:
                chosen.extend(rows)
        held += chosen or min(shuffled, key=len)
    return sorted(held)


def test_rows_are_held_out_as_the_definition_says():
    draw = random.Random(3)
    for seed in range(200):
        count, texts = draw.randint(5, 300), draw.choice([3, 20, 400])
        keys = [draw.randrange(texts) ** 2 % (texts + 7) for _ in range(count)]
        labels = [draw.randrange(4) if draw.random() < 0.2 else key % 3 for key in keys]
        labels = np.unique(labels, return_inverse=True)[1].tolist()
        expected = held_out(keys, labels, 0.1, seed)
        if expected:
            train, found = split_rows(np.array(keys), np.array(labels, dtype=np.int32), 0.1, seed)
            assert found.tolist() == expected and sorted([*train, *found]) == list(range(count))
