"""What is hidden, how often and how; the loss by hand; the same masks at every evaluation."""

import math

import numpy as np
import pytest
import torch
from objectives_kit import Recorder

from headway.data.batches.batching import Batch, Examples, TargetKind, pad
from headway.models.config import TransformerConfig
from headway.models.heads import MaskedTokenHead
from headway.models.transformer import Encoder
from headway.tasks.count_baselines import ngram_baselines, token_counts
from headway.tasks.masked_lm.objective import MaskedLM, masked_baselines, word_starts
from headway.text.train import train_tokenizer

V, MASK, SPECIAL = 101, 4, (0, 1, 2, 3, 4)
CONFIG = TransformerConfig(V, d_model=24, n_layers=2, n_heads=3, max_length=64, norm="layernorm", activation="gelu")


def tokens(ids, mask=None):
    return Batch({"ids": ids}, mask, ids, TargetKind.TOKEN)


def masked_model():
    torch.manual_seed(3)
    model = Encoder(CONFIG)
    model.head = MaskedTokenHead(CONFIG, model.stack.embedding.tokens)
    return model.eval()


def rows(n, length, seed=7):
    """n sequences between [CLS] (2) and [SEP] (3)."""
    ids = torch.from_numpy(np.random.default_rng(seed).integers(5, V, (n, length)))
    ids[:, 0], ids[:, -1] = 2, 3
    return ids


@pytest.mark.parametrize("share", [0.15, 0.3])
def test_shares_are_those_of_the_paper_within_five_standard_deviations(share):
    task, ids = MaskedLM(MASK, SPECIAL, V, share=share), rows(211, 211)
    torch.manual_seed(5)
    hidden, chosen = task.hide(tokens(ids))
    n_ordinary = 211 * 209
    n = int(chosen.sum())

    def near(found, wanted, trials):
        return abs(found - wanted) < 5 * math.sqrt(wanted * (1 - wanted) / trials)

    assert not chosen[:, 0].any() and not chosen[:, -1].any(), "special tokens are never hidden"
    assert near(n / n_ordinary, share, n_ordinary)
    masked = hidden == MASK
    assert near(int(masked.sum()) / n, 0.8, n)
    changed = (hidden != ids) & ~masked
    assert near(int(changed.sum()) / n, 0.1 * 95 / 96, n), "one of 96 random tokens is the right one"
    assert not torch.isin(hidden[changed], torch.tensor(SPECIAL)).any()
    assert torch.equal(hidden[~chosen], ids[~chosen])
    assert set(hidden[changed].tolist()) == set(range(5, V)), "any ordinary token may take the place"


def test_padding_is_never_hidden_and_masks_follow_from_torchs_seed():
    ids, mask = pad([[2, 17, 3], [2, *range(10, 41), 3], [2, 3], [2, 19, 23, 3]])
    task = MaskedLM(MASK, SPECIAL, V, share=0.01)
    for _ in range(17):
        chosen = task.hide(tokens(ids, mask))[1]
        assert not (chosen & ~mask).any()
        assert (chosen.sum(dim=1) > 0).tolist() == [True, True, False, True]  # each has something to predict
    task, batch = MaskedLM(MASK, SPECIAL, V), tokens(rows(7, 31))
    torch.manual_seed(11)
    first, second = task.hide(batch)[1], task.hide(batch)[1]
    torch.manual_seed(11)
    assert torch.equal(task.hide(batch)[1], first) and not torch.equal(first, second)


def test_whole_words_are_hidden_or_left():
    starts = torch.arange(V) % 3 == 0
    task, ids = MaskedLM(MASK, SPECIAL, V, starts_word=starts, share=0.3), rows(103, 97)
    hidden_tokens = 0
    chosen = task.hide(tokens(ids))[1]
    for row, picked in zip(ids.tolist(), chosen.tolist(), strict=True):
        words = []
        for place, token in enumerate(row):
            after_special = place > 0 and row[place - 1] in SPECIAL
            if place == 0 or token % 3 == 0 or token in SPECIAL or after_special:
                words.append([])
            words[-1].append(place)
        for word in words:
            assert len({picked[place] for place in word}) == 1
        hidden_tokens += sum(picked)
    assert hidden_tokens / (103 * 95) == pytest.approx(0.3, abs=0.03)


def test_loss_and_accuracy_are_of_the_hidden_positions_alone():
    logits = torch.randn(V, generator=torch.Generator().manual_seed(13))
    task, ids, model = MaskedLM(MASK, SPECIAL, V), rows(5, 31), Recorder(logits)
    total, count = task.loss(model, tokens(ids))
    targets = ids[model.chosen]
    assert count == len(targets) > 0
    torch.testing.assert_close(total, -logits.log_softmax(-1)[targets].sum())
    assert (model.ids == MASK).any()
    total, count = task.loss(masked_model(), tokens(torch.tensor([[2, 3]])))  # no ordinary token
    assert (total.item(), count) == (0.0, 0)
    ids, logits = torch.full((2, 50), 17), torch.zeros(V)
    logits[17] = 9.0
    for sign, right in ((1, 1.0), (-1, 0.0)):
        assert task.evaluate(Recorder(sign * logits), [tokens(ids)])["accuracy"] == right
    for share in (0.0, -0.1, 0.9, 1.0):
        with pytest.raises(ValueError, match="share"):
            MaskedLM(MASK, SPECIAL, V, share=share)


def test_logits_of_chosen_positions_equal_the_full_ones():
    model, ids = masked_model(), rows(3, 17)
    padded, mask = pad([row[: 17 - 5 * i] for i, row in enumerate(ids.tolist())])
    chosen = (torch.rand(padded.shape, generator=torch.Generator().manual_seed(3)) < 0.4) & mask
    for attended in (mask, None):
        full = model(padded, attended)
        assert full.shape == (3, 17, V)
        torch.testing.assert_close(model(padded, attended, chosen=chosen), full[chosen], atol=1e-6, rtol=0)


def test_evaluation_hides_the_same_whatever_the_batch_and_leaves_the_random_state_alone():
    task, model, ids = MaskedLM(MASK, SPECIAL, V, seed=3), masked_model(), rows(13, 29)
    lists = [row[: 29 - i] for i, row in enumerate(ids.tolist())]
    torch.manual_seed(1)
    state = torch.get_rng_state()

    def batches(size, order):
        parts = [order[i : i + size] for i in range(0, len(order), size)]
        return [Examples([lists[i] for i in part], np.zeros(len(part)), TargetKind.ROW).together() for part in parts]

    straight, turned = list(range(13)), list(range(12, -1, -1))
    found = task.evaluate(model, batches(3, straight))
    assert found == task.evaluate(model, batches(3, straight))
    assert found == pytest.approx(task.evaluate(model, batches(5, turned)), rel=1e-5)
    assert torch.equal(state, torch.get_rng_state())
    assert found["perplexity"] == pytest.approx(math.exp(found["val_loss"]))
    counts = task.held_out_counts(batches(3, straight))
    assert counts.sum() > 13 and np.array_equal(counts, task.held_out_counts(batches(7, turned)))
    other = MaskedLM(MASK, SPECIAL, V, seed=5)
    assert found["val_loss"] != other.evaluate(model, batches(3, straight))["val_loss"]


def test_baselines_by_hand():
    counts = np.array([0, 3, 1])
    uniform, unigram = masked_baselines(counts, np.array([0, 1, 2]))
    assert uniform["val_loss"] == pytest.approx(math.log(3))
    assert unigram["val_loss"] == pytest.approx(-(math.log(4 / 7) + 2 * math.log(2 / 7)) / 3)
    assert uniform["accuracy"] == pytest.approx(1 / 3) and unigram["accuracy"] == pytest.approx(1 / 3)
    assert masked_baselines(counts, np.zeros(3, dtype=np.int64)) == [uniform]
    tokens = np.array([0, 1, 0, 1, 2], dtype=np.uint16)
    same = ngram_baselines(tokens, np.array([2, 1, 2], dtype=np.uint16), 3)[1]
    assert masked_baselines(token_counts(tokens, 3), np.array([0, 1, 1]))[1]["val_loss"] == same["val_loss"]


TEXTS = ["the cat sat on mats, unbelievably", "dogs ran unbelievably far; the cats sat"] * 7


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "word", "char"])
def test_the_tokens_that_start_a_word(kind):
    tokenizer = train_tokenizer(TEXTS, kind, 300 if kind == "bpe" else 60, role="encoder")
    starts = word_starts(tokenizer)
    if kind == "char":  # which does not tell
        assert starts is None
        return
    assert starts is not None and starts.shape == (tokenizer.vocab_size,)
    text = "the unbelievably far cat"
    ids = tokenizer.encode(text)
    words = sum(starts[ids].tolist()) + (kind == "bpe")  # at the start of a text no space tells
    assert words == 4
