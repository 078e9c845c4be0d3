"""Heads: pooling by hand, tied matrices, and where training starts."""

import math

import pytest
import torch

from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, MaskedTokenHead, PoolingHead, TokenHead, pool
from headway.models.initialise import initialise
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

X = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [50.0, 60.0]], [[70.0, 80.0], [5.0, 6.0], [7.0, 8.0]]])
MASK = torch.tensor([[True, True, False], [False, True, True]])


@pytest.mark.parametrize(
    ("how", "with_mask", "without"),
    [
        ("mean", [[2.0, 3.0], [6.0, 7.0]], [[18.0, 22.0], [82 / 3, 94 / 3]]),
        ("first", [[1.0, 2.0], [5.0, 6.0]], [[1.0, 2.0], [70.0, 80.0]]),
        ("last", [[3.0, 4.0], [7.0, 8.0]], [[50.0, 60.0], [7.0, 8.0]]),
    ],
)
def test_pooling(how, with_mask, without):
    assert pool(X, MASK, how).tolist() == with_mask
    assert pool(X, None, how).tolist() == [pytest.approx(row) for row in without]


def test_unknown_pooling_is_refused():
    with pytest.raises(ValueError, match="pooling is 'max', but must be mean, first or last"):
        pool(X, MASK, "max")


def test_pooled_vectors_have_length_one():
    assert PoolingHead("first")(X, MASK)[0].tolist() == pytest.approx([1 / math.sqrt(5), 2 / math.sqrt(5)])


@pytest.mark.parametrize("n_classes", [-1, 0])
def test_no_output_is_refused(n_classes):
    with pytest.raises(ValueError, match=f"{n_classes} classes: a classifier needs at least 1"):
        ClassificationHead(TransformerConfig(31), n_classes)


def test_classification_head_is_pool_dense_activation_norm_out():
    config = TransformerConfig(31, d_model=2, n_heads=1, norm="layernorm")
    head = ClassificationHead(config, 3, pooling="mean", activation="relu", norm=True)
    pooled = torch.tensor([[2.0, 3.0], [6.0, 7.0]])
    expected = head.out(head.norm(torch.relu(pooled @ head.dense.weight.T)))
    torch.testing.assert_close(head(X, MASK), expected)
    assert head(X, MASK).shape == (2, 3)


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_are_the_same_tensor(tied):
    config = TransformerConfig(31, d_model=20, n_heads=2, tied=tied)
    decoder, translator, encoder = Decoder(config), EncoderDecoder(config), Encoder(config)
    encoder.head = MaskedTokenHead(config, encoder.stack.embedding.tokens)
    assert (decoder.head.matrix.weight is decoder.stack.embedding.tokens.weight) is tied
    assert (encoder.head.token.matrix.weight is encoder.stack.embedding.tokens.weight) is tied
    assert translator.encoder.embedding.tokens.weight is translator.decoder.embedding.tokens.weight
    assert (translator.head.matrix.weight is translator.decoder.embedding.tokens.weight) is tied


def test_stacks_of_different_widths_have_a_table_each():
    config = TransformerConfig(31, d_model=20, n_heads=2)
    model = EncoderDecoder(config, config.but(d_model=28))
    assert model(torch.zeros(1, 3).long(), torch.zeros(1, 2).long()).shape == (1, 2, 31)


def test_softcap_squashes_logits():
    config = TransformerConfig(31, d_model=20, n_heads=2, logit_softcap=2.0, tied=False)
    head, x = TokenHead(config, torch.nn.Embedding(31, 20)), 10 * torch.randn(3, 7, 20)
    torch.testing.assert_close(head(x), 2 * torch.tanh(x @ head.matrix.weight.T / 2))


@pytest.mark.parametrize("make", [Decoder, Encoder, EncoderDecoder])
def test_same_seed_same_weights(make):
    config = TransformerConfig(31, d_model=20, n_heads=2, positions="learned", norm="layernorm", norm_parameters="both")
    one, other, third = (initialise(make(config), seed, zero_out=False) for seed in (3, 3, 5))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    differing = [
        name for (name, a), b in zip(one.named_parameters(), third.parameters(), strict=True) if not a.equal(b)
    ]
    assert all(("norm" in name) != (name in differing) for name, _ in one.named_parameters())


def test_initialise_forgets_what_was_there():
    config = TransformerConfig(31, d_model=20, n_heads=2, bias=("qkv", "out", "ff", "head"), norm="layernorm")
    one, other = (initialise(model, 3) for model in (Decoder(config), redrawn(Decoder(config))))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def redrawn(model):
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize("make", [Decoder, Encoder, EncoderDecoder])
def test_zero_out_makes_every_block_the_identity(make):
    model = initialise(redrawn(make(TransformerConfig(31, d_model=20, n_heads=2, bias=("ff", "out")))), 3)
    x, source = torch.randn(3, 7, 20), torch.randn(3, 11, 20)
    stacks = [model.encoder, model.decoder] if make is EncoderDecoder else [model.stack]
    for block in (block for stack in stacks for block in stack.blocks):
        assert torch.equal(block(x, source=source), x)


def test_matrices_keep_the_size_of_what_they_read():
    model = initialise(Decoder(TransformerConfig(31, d_model=509, n_heads=1, d_head=64)), 3, embedding_std=0.5)
    blocks = model.stack.blocks
    assert blocks[0].attention.layer.qkv.weight.std().item() == pytest.approx(1 / math.sqrt(509), rel=0.02)
    assert model.stack.embedding.tokens.weight.std().item() == pytest.approx(0.5, rel=0.02)
