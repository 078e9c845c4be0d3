"""Losses on pairs by hand, rankings, and rank correlation against another implementation."""

import json
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr
from torch import nn

import headway
from headway.data.batches.batching import Batch, TargetKind, pad
from headway.models.config import TransformerConfig
from headway.models.heads import PoolingHead
from headway.models.transformer import Encoder
from headway.tasks.embedding.objective import Embedding, cosent, ranking, same_pairs
from headway.training.evaluation.intervals import spearman


class Table(nn.Module):
    """One vector for each text, by its first token."""

    def __init__(self, vectors):
        super().__init__()
        self.vectors = nn.Parameter(vectors)

    def forward(self, ids, mask=None):
        return self.vectors[ids[:, 0]]


SMALL = TransformerConfig(61, d_model=16, n_layers=1, n_heads=2, max_length=8, norm="layernorm")


def pairs(first, second, targets=None):
    ids = torch.tensor([first + second]).T
    return Batch({"ids": ids}, None, torch.tensor(targets or [1.0] * len(first)), TargetKind.PAIR)


def table(n=23, width=5, seed=3):
    return Table(torch.randn(n, width, generator=torch.Generator().manual_seed(seed)))


@pytest.mark.parametrize("symmetric", [False, True])
def test_contrastive_loss_by_hand(symmetric):
    model, scale = table(), 7.0
    total, count = Embedding(scale=scale, symmetric=symmetric).loss(model, pairs([0, 1, 2], [3, 4, 5]))
    unit = F.normalize(model.vectors.detach(), dim=-1)
    cosines = [[float(unit[i] @ unit[j]) for j in (3, 4, 5)] for i in (0, 1, 2)]

    def loss(rows):
        return sum(math.log(sum(math.exp(scale * (c - row[i])) for c in row)) for i, row in enumerate(rows))

    turned = [list(column) for column in zip(*cosines, strict=True)]
    expected = (loss(cosines) + loss(turned)) / 2 if symmetric else loss(cosines)
    assert count == 3
    assert total.item() == pytest.approx(expected, rel=1e-5)


def test_two_right_angles_and_two_hits_by_hand():
    model = Table(torch.eye(2).repeat(2, 1))
    total, _ = Embedding(scale=2.0).loss(model, pairs([0, 1], [2, 3]))
    assert total.item() == pytest.approx(2 * math.log(1 + math.exp(-2.0)))


def test_two_scores_are_ranked_as_scikit_learn_does_and_perfection_is_one():
    from sklearn.metrics import average_precision_score, roc_auc_score

    draw = np.random.default_rng(2)
    wanted = np.where(draw.random(97) < 0.3, 5.0, 1.0)
    cosines = np.round(draw.normal(size=97) + (wanted > 1), 1)  # with ties
    metrics, units = ranking(cosines, wanted)
    area, precision = (score(wanted > 1, cosines) for score in (roc_auc_score, average_precision_score))
    assert metrics == pytest.approx({"roc_auc": area, "average_precision": precision})
    assert set(units[:, 1]) == {0.0, 1.0}
    assert ranking(wanted / 7, wanted)[0] == {"roc_auc": 1.0, "average_precision": 1.0}
    assert set(ranking(cosines, draw.integers(0, 3, 97))[0]) == {"spearman"}


def test_pairs_of_two_scores_are_judged_by_the_area_under_the_curve(in_process, tmp_path):
    draw = np.random.default_rng(0)
    words = [f"word{number}" for number in range(12)]
    rows = ["first,second,score"]
    for number in range(400):
        same = number % 2
        one, other = draw.choice(12, 2, replace=False)
        rows.append(f"{words[one]} {number},{words[one] if same else words[other]} {number},{same}")
    (tmp_path / "pairs.csv").write_text("\n".join(rows))
    out = tmp_path / "run"
    small = {"steps": 20, "d_model": 16, "layers": 1, "heads": 2, "quiet": True, "evaluations": 2}
    found = headway.train(tmp_path / "pairs.csv", task="embedding", out=out, **small)
    assert 0.5 < found["roc_auc"] <= 1 and 0 < found["average_precision"] <= 1 and "spearman" not in found
    verdict = json.loads((out / "headway.json").read_text())["verdict"]
    assert verdict["metric"] == "roc_auc" and verdict["interval"][0] <= verdict["value"] <= verdict["interval"][1]
    assert verdict["paired"] and verdict["difference_interval"][0] <= verdict["difference"]
    again = headway.evaluate(out)
    assert all(again[key] == pytest.approx(found[key]) for key in ("roc_auc", "average_precision"))
    # on new pairs too, next to the words in common; their first texts were seen, the pairs were not
    (tmp_path / "new.csv").write_text("\n".join([rows[0], *(row.replace(",", ", not ", 1) for row in rows[1:101])]))
    status, printed, err = in_process("evaluate", out, tmp_path / "new.csv")
    assert status == 0 and "of 100 first texts also occur in the training data: their scores may be too high" in err
    assert "words and characters in common baseline are both perfect, on 100 measured pairs" in printed


def test_pairs_that_share_a_text_are_no_wrong_answers():
    model = table()
    shared = Embedding().loss(model, pairs([0, 0, 2], [3, 4, 3]))[0]
    unit = F.normalize(model.vectors, dim=-1)
    logits = 20 * unit[[0, 0, 2]] @ unit[[3, 4, 3]].T
    logits[0, 1] = logits[1, 0] = logits[0, 2] = logits[2, 0] = -torch.inf
    expected = (F.cross_entropy(logits, torch.arange(3)) + F.cross_entropy(logits.T, torch.arange(3))) / 2
    torch.testing.assert_close(shared, 3 * expected)
    assert not same_pairs(torch.tensor([[1, 2], [1, 3]]), torch.tensor([[5], [7]])).any()


def test_padding_does_not_make_texts_equal():
    ids, mask = pad([[5], [5, 0], [7], [9]])
    batch = Batch({"ids": ids}, mask, torch.ones(2), TargetKind.PAIR)
    model = Table(torch.randn(11, 3, generator=torch.Generator().manual_seed(1)))
    model.vectors.data[7] = -model.vectors.data[5]
    plain = Batch({"ids": torch.tensor([[5, 0], [6, 0], [7, 0], [9, 0]])}, None, torch.ones(2), TargetKind.PAIR)
    model.vectors.data[6] = model.vectors.data[5]
    torch.testing.assert_close(Embedding().loss(model, batch)[0], Embedding().loss(model, plain)[0])


def brute_cosent(cosines, scores, scale):
    pairs = [(i, j) for i in range(len(scores)) for j in range(len(scores)) if scores[i] < scores[j]]
    return math.log(1 + sum(math.exp(scale * (cosines[i] - cosines[j])) for i, j in pairs))


@pytest.mark.parametrize("scores", [[0.2, 0.9, 0.2, 0.5, 0.5, 1.0, 0.0], [0, 1, 1, 0, 0, 1, 0], [0.5] * 7])
def test_cosent_equals_the_sum_over_all_pairs(scores):
    cosines = torch.rand(7, generator=torch.Generator().manual_seed(5)).requires_grad_()
    found = cosent(cosines, torch.tensor(scores, dtype=torch.float32), 5.0)
    assert found.item() == pytest.approx(brute_cosent(cosines.tolist(), scores, 5.0), rel=1e-5)
    found.backward()
    assert cosines.grad.isfinite().all()


@pytest.mark.parametrize("size", [1, 3, 7])
def test_ranking_is_over_all_held_out_texts_however_they_are_batched(size):
    vectors = F.normalize(table(14).vectors.data, dim=-1)
    starts = range(0, 7, size)
    batches = [pairs(list(range(i, min(i + size, 7))), list(range(7 + i, min(7 + i + size, 14)))) for i in starts]
    found = Embedding().evaluate(Table(vectors), batches)
    cosines = vectors[:7] @ vectors[7:].T
    ranks = [int((row >= row[i]).sum()) for i, row in enumerate(cosines)]
    assert found["accuracy"] == pytest.approx(sum(rank == 1 for rank in ranks) / 7)
    assert found["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / 7)
    whole = Embedding().loss(Table(vectors), pairs(list(range(7)), list(range(7, 14))))[0] / 7
    assert found["val_loss"] == pytest.approx(whole.item(), rel=1e-5)


def test_equal_second_texts_are_equally_right_and_one_vector_ranks_nothing():
    vectors = torch.eye(4)
    batch = pairs([0, 1, 2], [0, 1, 1])
    found = Embedding(texts=torch.tensor([[0, 1, 2], [3, 4, 4]])).evaluate(Table(vectors), [batch])
    assert found["accuracy"] == pytest.approx(2 / 3), "the third text is at a right angle to both"
    other = Embedding().evaluate(Table(vectors), [batch])
    assert other["accuracy"] == pytest.approx(1 / 3), "texts that only look equal to the model are not told apart"
    found = Embedding().evaluate(Table(torch.ones(14, 3)), [pairs(list(range(7)), list(range(7, 14)))])
    assert found["accuracy"] == 0.0 and found["mrr"] == pytest.approx(1 / 7)


def test_spearman_equals_another_implementation():
    random = np.random.default_rng(3)
    for n in (2, 7, 31):
        one, other = random.integers(0, 5, n).astype(float), random.random(n)
        assert spearman(one, other) == pytest.approx(spearmanr(one, other).statistic)
    assert spearman(np.ones(5), np.arange(5.0)) == 0.0
    assert spearman(np.arange(5.0), np.arange(5.0) ** 3) == pytest.approx(1.0)


def test_scored_pairs_give_cosent_and_are_evaluated_by_rank_correlation():
    model, scores = table(), [0.1, 0.9, 0.4, 0.4, 0.7]
    unit = F.normalize(model.vectors.detach(), dim=-1)
    cosines = (unit[:5] * unit[5:10]).sum(-1)
    total, count = Embedding("scores", scale=3.0).loss(model, pairs([0, 1, 2], [5, 6, 7], scores[:3]))
    assert count == 3
    assert total.item() == pytest.approx(3 * brute_cosent(cosines[:3].tolist(), scores[:3], 3.0), rel=1e-5)
    halves = [pairs([0, 1], [5, 6], scores[:2]), pairs([2, 3, 4], [7, 8, 9], scores[2:])]
    found = Embedding("scores").evaluate(model, halves)
    assert found["spearman"] == pytest.approx(spearmanr(cosines.numpy(), scores).statistic)
    assert found["val_loss"] == pytest.approx(brute_cosent(cosines.tolist(), scores, 20.0), rel=1e-4)


def test_it_learns_which_texts_belong_together():
    torch.manual_seed(3)
    model = Encoder(SMALL, PoolingHead())
    topics = torch.arange(5, 61).view(7, 8)

    def batch(seed):
        random = torch.Generator().manual_seed(seed)
        words = [(topic, side) for side in (0, 4) for topic in topics]  # both texts of a pair share no word
        ids = torch.stack([topic[side + torch.randperm(4, generator=random)[:3]] for topic, side in words])
        return Batch({"ids": ids}, None, torch.ones(7), TargetKind.PAIR)

    task, held_out = Embedding(), [batch(10_007)]
    before = task.evaluate(model, held_out)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(60):
        total, count = task.loss(model, batch(step))
        (total / count).backward()
        optimizer.step()
        optimizer.zero_grad()
    after = task.evaluate(model, held_out)
    assert before["accuracy"] < 6 / 7 <= after["accuracy"] and after["mrr"] > before["mrr"]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Embedding("triplets"), "kind"),
        (lambda: Embedding(scale=0.0), "scale"),
        (lambda: Embedding().loss(Encoder(SMALL), pairs([1, 2], [3, 4])), "one vector for each text"),
    ],
)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()
