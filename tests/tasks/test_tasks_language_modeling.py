"""The loss of a language model against a plain computation."""

import math

import pytest
import torch
from objectives_kit import check_parts

from headway.data.batches.batching import IGNORED, Batch, TargetKind
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Decoder
from headway.tasks.losses import LanguageModeling

B, T, V = 5, 7, 23


@pytest.fixture
def model():
    model = Decoder(TransformerConfig(vocab_size=V, d_model=22, n_heads=1, n_layers=2, max_length=T, dropout=0.0))
    initialise(model, seed=3, embedding_std=1.0)
    return model


@pytest.fixture
def batch():
    random = torch.Generator().manual_seed(11)
    tokens = torch.randint(V, (B, T + 1), generator=random)
    return Batch({"ids": tokens[:, :-1]}, None, tokens[:, 1:], TargetKind.TOKEN)


def test_loss_is_the_sum_over_all_targets_and_their_number(model, batch):
    total, count, _ = LanguageModeling().loss(model, batch)
    probabilities = model(batch.ids).softmax(dim=-1)
    targets = batch.targets.tolist()
    expected = -sum(math.log(probabilities[row, at, targets[row][at]]) for row in range(B) for at in range(T))
    assert count == B * T
    assert total.item() == pytest.approx(expected, rel=1e-5)


def test_what_is_ignored_is_neither_counted_nor_computed(model, batch):
    targets = batch.targets.clone()
    targets[0], targets[2, :4] = IGNORED, IGNORED
    rows = []
    model.head.register_forward_hook(lambda *given: rows.append(given[2].numel() // V))
    total, count, _ = LanguageModeling().loss(model, Batch({"ids": batch.ids}, None, targets, TargetKind.TOKEN))
    assert rows == [B * T - T - 4] == [count]
    logs = model(batch.ids).log_softmax(dim=-1)
    places = (targets != IGNORED).nonzero().tolist()
    assert total.item() == pytest.approx(-sum(logs[i, t, targets[i, t]].item() for i, t in places), rel=1e-5)


def test_label_smoothing_acts_in_training_alone(model, batch):
    share = 0.13
    plain, smoothed = LanguageModeling(), LanguageModeling(label_smoothing=share)
    logs = model(batch.ids).log_softmax(dim=-1)
    expected = (1 - share) * plain.loss(model, batch)[0] - share * logs.mean(dim=-1).sum()
    model.train()
    torch.testing.assert_close(smoothed.loss(model, batch)[0], expected)
    model.eval()
    assert smoothed.loss(model, batch)[0] == plain.loss(model, batch)[0]


def test_evaluation_counts_every_target_once_whatever_the_batches(model, batch):
    model.eval()
    task = LanguageModeling(bytes_per_token=3.0)
    total, count, _ = task.loss(model, batch)
    halves = (slice(0, 2), slice(2, B))
    parts = [Batch({"ids": batch.ids[rows]}, None, batch.targets[rows], TargetKind.TOKEN) for rows in halves]
    found = task.evaluate(model, parts)
    assert found["val_loss"] == pytest.approx(total.item() / count, rel=1e-6)
    assert found["perplexity"] == pytest.approx(math.exp(found["val_loss"]))
    assert found["bits_per_byte"] == pytest.approx(found["val_loss"] / math.log(2) / 3.0)


def test_micro_batches_of_any_size_give_the_gradient_of_the_whole(model, batch):
    check_parts(LanguageModeling(), model, batch, 1, 3, B)
