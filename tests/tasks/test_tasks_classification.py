"""Loss, metrics, class weights and token dropout of the classifier's task."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support
from torch import Tensor, nn

from headway.data.batches.batching import Batch, TargetKind, pad
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.labels import Classification, balanced_weights, scores

LABELS = ["ant", "bee", "cow"]
TARGETS = [0, 2, 1, 2, 2]


class Recorder(nn.Module):
    """A model that keeps what it was given and answers with fixed logits."""

    def __init__(self, logits: Tensor):
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.ids = torch.empty(0)

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        self.ids = ids
        return self.logits


@pytest.fixture
def batch() -> Batch:
    random = np.random.default_rng(7)
    ids, mask = pad([random.integers(5, 31, n).tolist() for n in (3, 7, 2, 11, 5)])
    return Batch({"ids": ids}, mask, torch.tensor(TARGETS), TargetKind.ROW)


@pytest.fixture
def logits() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(13))


def test_loss_is_a_sum_and_a_number_of_texts(batch: Batch, logits: Tensor):
    total, count, _ = Classification(LABELS).loss(Recorder(logits), batch)
    expected = -sum(logits.log_softmax(dim=-1)[row, target] for row, target in enumerate(TARGETS))
    assert count == 5
    torch.testing.assert_close(total, expected)


def test_class_weights_multiply_the_loss_in_training_alone(batch: Batch, logits: Tensor):
    weights = torch.tensor([2.0, 3.0, 0.5])
    task, model = Classification(LABELS, weights=weights), Recorder(logits)
    losses = -logits.log_softmax(dim=-1)[torch.arange(5), batch.targets]
    torch.testing.assert_close(task.loss(model, batch)[0], (losses * weights[batch.targets]).sum())
    model.eval()
    torch.testing.assert_close(task.loss(model, batch)[0], losses.sum())


def test_a_row_has_the_weight_of_its_own_class_with_smoothing_too(batch: Batch, logits: Tensor):
    weights, share = torch.tensor([2.0, 3.0, 0.5]), 0.11
    log_p = logits.log_softmax(dim=-1)
    expected = sum(
        -weights[target] * ((1 - share) * log_p[row, target] + share * log_p[row].mean())
        for row, target in enumerate(TARGETS)
    )
    task = Classification(LABELS, weights=weights, label_smoothing=share)
    loss, _, shown = task.loss(Recorder(logits), batch)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(shown, -log_p[torch.arange(5), batch.targets].sum())  # as validation measures it


def test_balanced_weights_make_the_classes_equal_and_the_mean_weight_one():
    weights = balanced_weights([0, 0, 0, 0, 1, 1, 2], 3)
    assert torch.allclose(weights * torch.tensor([4.0, 2.0, 1.0]), torch.full((3,), 7 / 3))
    assert balanced_weights([0, 0], 2).isfinite().all()


def test_label_smoothing_acts_in_training_alone(batch: Batch, logits: Tensor):
    task, model = Classification(LABELS, label_smoothing=0.11), Recorder(logits)
    smoothed = F.cross_entropy(logits, batch.targets, reduction="sum", label_smoothing=0.11)
    torch.testing.assert_close(task.loss(model, batch)[0], smoothed)
    model.eval()
    torch.testing.assert_close(task.loss(model, batch)[0], F.cross_entropy(logits, batch.targets, reduction="sum"))


def test_token_dropout_hides_about_its_share_and_never_a_special_token(logits: Tensor):
    hidden, protected, share = 4, [0, 1, 2, 3, 4], 0.3
    ids = torch.arange(5 * 997).reshape(5, 997) % 31
    batch = Batch({"ids": ids}, None, torch.tensor(TARGETS), TargetKind.ROW)
    task = Classification(LABELS, token_dropout=share, hidden_token=hidden, protected=protected)
    model = Recorder(logits)
    torch.manual_seed(17)
    task.loss(model, batch)
    changed = model.ids != ids
    special = ids < 5
    assert not (changed & special).any()
    assert (model.ids[changed] == hidden).all()
    assert changed[~special].float().mean().item() == pytest.approx(share, abs=0.03)
    assert (batch.ids == ids).all(), "the batch itself stays as it was"
    model.eval()
    task.loss(model, batch)
    assert torch.equal(model.ids, ids)


def test_micro_batches_of_any_size_give_the_gradient_of_the_whole(batch: Batch):
    config = TransformerConfig(vocab_size=31, d_model=14, n_heads=1, n_layers=2, max_length=11)
    model = Encoder(config, ClassificationHead(config, 3, norm=True, dropout=0.0))
    initialise(model, seed=5)
    task = Classification(LABELS, weights=torch.tensor([1.5, 1.0, 0.5]))
    gradients = []
    for cuts in ([0, 5], [0, 2, 3, 5]):
        model.zero_grad()
        count = 0
        for start, stop in pairwise(cuts):
            part = Batch(
                {"ids": batch.ids[start:stop]}, batch.mask[start:stop], batch.targets[start:stop], TargetKind.ROW
            )
            loss, n, _ = task.loss(model, part)
            loss.backward()
            count += n
        gradients.append([p.grad / count for p in model.parameters()])
    for whole, parts in zip(*gradients, strict=True):
        assert (whole - parts).abs().max() <= 1e-6 * max(1.0, whole.abs().max().item())


def test_scores_by_hand_with_a_class_that_is_never_predicted():
    counts = [[3, 1, 0], [2, 4, 0], [1, 0, 0]]
    true, guessed = np.array([(i, j) for i in range(3) for j in range(3) for _ in range(counts[i][j])]).T
    found = scores(true, guessed, LABELS)
    assert found["accuracy"] == pytest.approx(7 / 11)
    assert found["per_class"]["ant"] == pytest.approx({"precision": 3 / 6, "recall": 3 / 4, "f1": 0.6, "support": 4})
    assert found["per_class"]["cow"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}
    assert found["macro_f1"] == pytest.approx((0.6 + 8 / 11 + 0.0) / 3)
    assert found["confusion"] == [[3, 1, 0], [2, 4, 0], [1, 0, 0]]


@pytest.mark.parametrize("seed", range(7))
def test_scores_agree_with_scikit_learn(seed: int):
    random = np.random.default_rng(seed)
    true, predicted = random.integers(0, 3, 29), random.integers(0, 2 + seed % 2, 29)
    found = scores(true, predicted, LABELS)
    precision, recall, f1, support = precision_recall_fscore_support(true, predicted, labels=range(3), zero_division=0)
    assert found["accuracy"] == pytest.approx(accuracy_score(true, predicted))
    assert found["macro_f1"] == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))
    for i, label in enumerate(LABELS):
        assert list(found["per_class"][label].values()) == pytest.approx([precision[i], recall[i], f1[i], support[i]])


def test_scores_of_nothing_are_zero():
    nothing = np.zeros(0, dtype=np.int64)
    assert scores(nothing, nothing, LABELS)["macro_f1"] == 0.0


def test_of_very_many_classes_no_matrix_is_made():
    classes = np.arange(20_000)
    found = scores(classes, np.roll(classes, 1) * (classes % 2), [str(i) for i in classes])
    assert "confusion" not in found and found["accuracy"] == 1 / 20_000


def test_evaluation_counts_rows_as_true_and_columns_as_predicted(batch: Batch, logits: Tensor):
    model = Recorder(logits).eval()
    found = Classification(LABELS).evaluate(model, [batch])
    predicted = logits.argmax(dim=-1).tolist()
    assert found["confusion"] == confusion_matrix(TARGETS, predicted, labels=range(3)).tolist()
    assert found["val_loss"] == pytest.approx(F.cross_entropy(logits, batch.targets).item())


class Both(nn.Module):
    """A model that answers B rows with one set of logits, and 2 B rows with both."""

    def __init__(self, *answers: torch.Tensor):
        super().__init__()
        self.answers = answers

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return torch.cat(self.answers[: len(ids) // len(self.answers[0])])


def test_r_drop_adds_the_divergence_of_two_answers():
    draw = torch.Generator().manual_seed(0)
    answers = [torch.randn(5, 3, generator=draw) for _ in range(2)]
    targets = torch.tensor([0, 2, 1, 1, 0])
    batch = Batch({"ids": torch.ones(5, 2, dtype=torch.int64)}, None, targets, TargetKind.ROW)
    model = Both(*answers).train()
    found, count, _ = Classification(["a", "b", "c"], r_drop=4.0).loss(model, batch)
    one, other = (answer.log_softmax(dim=-1) for answer in answers)
    plain = sum(F.nll_loss(p, targets, reduction="sum") for p in (one, other)) / 2
    both = sum(F.kl_div(a, b, log_target=True, reduction="sum") for a, b in ((one, other), (other, one))) / 2
    assert count == 5
    assert found.item() == pytest.approx((plain + 4.0 / 2 * both).item(), rel=1e-5)
    once = Classification(["a", "b", "c"], r_drop=4.0).loss(model.eval(), batch)[0]
    assert once.item() == pytest.approx(F.nll_loss(one, targets, reduction="sum").item(), rel=1e-5)
