"""Texts that are read together: every one once, as many at once as the model's size allows."""

import torch

from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.runtime.batching import LEAST, MOST, read_together, tokens_at_once

WIDE = TransformerConfig(vocab_size=99, d_model=4096, n_heads=4, n_layers=1, d_ff=16384)


def test_the_wider_a_model_the_fewer_tokens_it_reads_at_once():
    assert [tokens_at_once(WIDE.but(d_ff=width)) for width in (64, 1536, 3072, 16384)] == [MOST, 682, 341, LEAST]
    assert tokens_at_once(BaselineConfig("lstm", vocab_size=99)) == MOST


def test_every_sequence_is_read_once_beside_those_of_like_length():
    windows = [[1 + n] * (1 + 37 * n % 100) for n in range(60)]
    places = []

    def read(index, ids, mask):
        assert not torch.is_grad_enabled()
        assert ids.numel() <= LEAST
        places.append(ids.numel())
        return (ids if mask is None else ids * mask).sum(dim=1)

    found = read_together(windows, WIDE, read)
    assert {int(i): int(total) for index, totals in found for i, total in zip(index, totals, strict=True)} == {
        n: sum(window) for n, window in enumerate(windows)
    }
    assert sum(places) < 1.1 * sum(map(len, windows))


def test_a_long_sequence_is_read_alone_and_nothing_is_read_of_nothing():
    assert read_together([[1] * 300], WIDE, lambda index, ids, mask: (ids.shape, mask))[0][1] == ((1, 300), None)
    assert read_together([], WIDE, lambda *given: 1) == []
