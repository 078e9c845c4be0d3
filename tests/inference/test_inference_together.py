"""Texts that are read together: every one once, as many at once as the model's size allows."""

import torch

from headway.inference.together import LEAST, MOST, read_together, tokens_at_once
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig

WIDE = TransformerConfig(vocab_size=99, d_model=4096, n_heads=4, n_layers=1, d_ff=16384)


def test_the_wider_a_model_the_fewer_tokens_it_reads_at_once():
    sizes = [tokens_at_once(WIDE.but(d_ff=width)) for width in (64, 1536, 3072, 16384)]
    assert sizes == [MOST, 1365, 682, LEAST]
    assert tokens_at_once(BaselineConfig("lstm", vocab_size=99)) == MOST


def test_every_sequence_is_read_once_beside_those_of_like_length():
    windows = [[7] * (1 + 37 * n % 100) for n in range(60)]
    seen, places = [], 0
    for index, ids, mask in read_together(windows, WIDE):
        assert ids.numel() <= LEAST
        lengths = torch.tensor([len(windows[i]) for i in index])
        found = mask.sum(dim=1) if mask is not None else torch.full((len(ids),), ids.shape[1])
        assert torch.equal(found, lengths)
        seen += index.tolist()
        places += ids.numel()
    assert sorted(seen) == list(range(60))
    assert places < 1.1 * sum(map(len, windows))


def test_a_long_sequence_is_read_alone_and_nothing_is_read_of_nothing():
    assert [ids.shape for _, ids, _ in read_together([[1] * 300], WIDE)] == [(1, 300)]
    assert list(read_together([], WIDE)) == []
