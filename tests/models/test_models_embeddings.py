"""What a stack reads: token vectors, and all that the configuration adds to them."""

import copy
import math
import pickle

import pytest
import torch

from headway.models.config import Positions, TransformerConfig
from headway.models.transformer import Decoder, Embeddings, Encoder, position_encoding
from headway.nn.positions import sinusoids

IDS = torch.tensor([[5, 3, 5, 29]])
SIZES = {"d_model": 15, "n_heads": 3, "d_head": 10, "n_layers": 2, "max_length": 7}


def embed(**changes):
    """The embeddings, and what they make of four ids at positions 2 to 5."""
    config = TransformerConfig(31, **{**SIZES, "positions": "none", **changes})
    embeddings = Embeddings(config, position_encoding(config, causal=True))
    return embeddings, embeddings(IDS, torch.arange(2, 6)[None], None, 6)


def test_tokens_alone():
    embeddings, found = embed()
    assert torch.equal(found, embeddings.tokens.weight[IDS])


def test_scaled_by_the_root_of_the_width_before_anything_is_added():
    embeddings, found = embed(embedding_scale=True, positions="sinusoidal")
    expected = embeddings.tokens.weight[IDS] * math.sqrt(15) + sinusoids(torch.arange(2, 6)[None], 15)
    torch.testing.assert_close(found, expected)


def test_learned_positions_and_segments_are_added_then_normalised():
    embeddings, found = embed(positions="learned", segments=2, embedding_norm=True)
    added = embeddings.tokens.weight[IDS] + embeddings.learned.table.weight[2:6]
    torch.testing.assert_close(found, embeddings.norm(added + embeddings.segments.weight[0]))
    second = torch.tensor([[0, 0, 1, 1]])
    found = embeddings(IDS, torch.arange(2, 6)[None], second, 6)
    torch.testing.assert_close(found, embeddings.norm(added + embeddings.segments.weight[second]))


def test_an_encoder_takes_segments():
    model = Encoder(TransformerConfig(31, segments=2, **SIZES))
    zeros = torch.zeros_like(IDS)
    assert torch.equal(model(IDS), model(IDS, segments=zeros))
    assert not torch.allclose(model(IDS), model(IDS, segments=zeros + 1))


@pytest.mark.parametrize(("windows", "base"), [((None, None), 1009.0), ((9, 9), 101.0)])
@torch.no_grad()
def test_layers_with_a_window_may_turn_by_a_base_of_their_own(windows, base):
    """A window wider than the text forbids nothing, so only the base differs."""
    both = Positions("rotary", base=1009.0, window_base=101.0)
    model = Decoder(TransformerConfig(31, window=windows, positions=both, **SIZES))
    plain = Decoder(TransformerConfig(31, positions=Positions("rotary", base=base), **SIZES))
    plain.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(IDS), plain(IDS), atol=1e-5, rtol=0)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("kind", ["learned", "relative"])
@torch.no_grad()
def test_a_copy_reads_the_positions_that_it_trains(kind, again):
    model = Decoder(TransformerConfig(31, positions=kind, **SIZES))
    other = again(model)
    table = other.stack.embedding.learned if kind == "learned" else other.stack.relative
    before = model(IDS)
    table.table.weight.normal_(0.0, 3.0)
    assert torch.equal(model(IDS), before) and not torch.allclose(other(IDS), before)
