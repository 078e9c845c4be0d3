"""Teacher forcing, label smoothing and R-Drop by hand; batches of sources with targets of their own lengths."""

import math
import random

import pytest
import torch
from objectives_kit import check_r_drop

from headway.data.batches.batch_source import Position, RowBatches
from headway.data.batches.batching import IGNORED, Batch, Examples, TargetKind, length_batches
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import EncoderDecoder
from headway.tasks.text_to_text.objective import Translation, shifted
from headway.training.loop.thread_parallel import ThreadParallel, equal_shares

V, START, END = 23, 2, 2
PAIRS = [([5, 6, 7], [8, 9, END]), ([3, 4], [10, 11, 12, 13, END]), ([9, 9, 9, 9, 9], [7, END]), ([4], [END])]


def translator(dropout=0.0):
    config = TransformerConfig(vocab_size=V, d_model=20, n_heads=2, n_layers=2, max_length=32, dropout=dropout)
    return initialise(EncoderDecoder(config), 3, zero_out=False)


def batch_of_pairs():
    return next(Examples([s for s, _ in PAIRS], [t for _, t in PAIRS], TargetKind.SEQUENCE).batches(1000))


def test_the_decoder_reads_the_true_target_so_far():
    targets = torch.tensor([[8, 9, END, IGNORED], [7, END, IGNORED, IGNORED]])
    assert shifted(targets, START)[:, :3].tolist() == [[START, 8, 9], [START, 7, END]]
    assert int(shifted(targets, START).min()) >= 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_each_pair_alone(smoothing):
    model, task = translator().train(), Translation(START, label_smoothing=smoothing)
    loss, count, _ = task.loss(model, batch_of_pairs())
    total = 0.0
    for source, target in PAIRS:
        logits = model(torch.tensor([source]), torch.tensor([[START, *target[:-1]]]))[0]
        p = logits.log_softmax(dim=-1)
        spread = torch.full_like(p, smoothing / V)
        spread[range(len(target)), target] += 1 - smoothing
        total += float(-(spread * p).sum().detach())
    assert count == sum(len(target) for _, target in PAIRS)
    assert loss.item() == pytest.approx(total, rel=1e-5)


def test_evaluation_is_without_smoothing_and_counts_every_token_once():
    model, batch = translator().eval(), batch_of_pairs()
    plain, count, _ = Translation(START).loss(model, batch)
    for task in (Translation(START), Translation(START, label_smoothing=0.3, r_drop=5.0)):
        found = task.evaluate(model, [batch, batch])
        assert found["val_loss"] == pytest.approx(plain.item() / count, rel=1e-5)
        assert found["perplexity"] == pytest.approx(math.exp(found["val_loss"]), rel=1e-5)
    likeliest = model(batch.ids, shifted(batch.targets, START), batch.mask).argmax(dim=-1)
    hits = ((likeliest == batch.targets) & (batch.targets != IGNORED)).sum()
    assert found["accuracy"] == pytest.approx(int(hits) / count)


def test_r_drop_adds_the_divergence_of_two_answers():
    draw = torch.Generator().manual_seed(0)
    answers = [torch.randn(2, 3, V, generator=draw) for _ in range(2)]
    targets = torch.tensor([[4, END, IGNORED], [7, 8, END]])
    batch = Batch({"ids": torch.tensor([[5, 6], [9, 9]])}, None, targets, TargetKind.SEQUENCE)
    check_r_drop(Translation(START, r_drop=5.0), batch, answers, 5.0)


def test_rows_of_a_batch_lose_the_padding_of_both_sides():
    batch = batch_of_pairs()
    for row in range(len(PAIRS)):
        alone = batch.rows(torch.tensor([row]))
        assert alone.mask is None and IGNORED not in alone.targets
        assert (alone.ids[0].tolist(), alone.targets[0].tolist()) in PAIRS
    assert sorted(batch.lengths.tolist()) == sorted(len(s) + len(t) for s, t in PAIRS)
    assert batch.tokens == sum(len(t) for _, t in PAIRS)


def test_shares_of_pairs_give_the_gradient_of_the_whole():
    model, task, batch = translator().train(), Translation(START, label_smoothing=0.1), batch_of_pairs()
    parameters, found = list(model.parameters()), []
    for count in (1, 2, 3):
        for p in parameters:
            p.grad = None
        with ThreadParallel(count) as shares:
            loss, n = shares.add_gradient(model, task, batch, "float32", parameters)
        found.append((loss.item(), n, [p.grad.clone() for p in parameters if p.grad is not None]))
    assert len(equal_shares(batch, 2)) == 2
    for loss, n, gradients in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-5) and n == found[0][1]
        assert all(torch.allclose(a, b, atol=1e-6, rtol=1e-4) for a, b in zip(gradients, found[0][2], strict=True))


def test_every_pair_comes_once_in_an_epoch_and_similar_ones_together():
    choose = random.Random(2)
    lengths = [(n, max(1, n + choose.randint(-3, 3))) for n in (choose.randint(1, 30) for _ in range(211))]
    pairs = [([i % 20 + 3] * s, [i % 20 + 3] * t) for i, (s, t) in enumerate(lengths)]
    train, held_out = (Examples(*zip(*part, strict=True), TargetKind.SEQUENCE) for part in (pairs, pairs[:31]))
    batch_source = RowBatches(train, held_out, batch_tokens=256, seed=1)
    position, seen, padded = Position(), 0, 0
    while position.epoch == 0:
        batch, position = batch_source.next(position)
        assert batch.kind is TargetKind.SEQUENCE
        padded += batch.ids.numel() + batch.targets.numel()
        assert batch.ids.numel() + batch.targets.numel() <= 256
        seen += len(batch.ids)
        masks = torch.ones_like(batch.ids, dtype=torch.bool) if batch.mask is None else batch.mask
        for ids, mask, target in zip(batch.ids, masks, batch.targets, strict=True):
            assert set(ids[mask].tolist()) == set(target[target != IGNORED].tolist())
    assert seen == len(pairs)
    assert padded < 1.25 * sum(s + t for s, t in lengths)
    assert sum(len(batch.ids) for batch in batch_source.validation()) == 31
    assert batch_source.validation_batches() == len(list(batch_source.validation()))


def test_batches_without_second_sequences_are_what_they_were():
    lengths = [random.Random(4).randint(1, 40) for _ in range(97)]
    found = length_batches(lengths, 128, seed=3, epoch=2)
    again = length_batches(lengths, 128, seed=3, epoch=2, second=[0] * 97)
    assert [batch.tolist() for batch in found] == [batch.tolist() for batch in again]
    assert all(len(batch) * max(lengths[i] for i in batch) <= 128 for batch in found)
