"""Loss, metrics, class weights and token dropout of the classifier's task."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from objectives_kit import Recorder, check_parts, check_r_drop
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support

from headway.data.batches.batching import Batch, TargetKind, pad
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.losses import Classification, balanced_weights, scores

LABELS = ["ant", "bee", "cow"]
TARGETS = [0, 2, 1, 2, 2]


@pytest.fixture
def batch():
    random = np.random.default_rng(7)
    ids, mask = pad([random.integers(5, 31, n).tolist() for n in (3, 7, 2, 11, 5)])
    return Batch({"ids": ids}, mask, torch.tensor(TARGETS), TargetKind.ROW)


@pytest.fixture
def logits():
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(13))


@pytest.mark.parametrize("share", [0.0, 0.11])
@pytest.mark.parametrize("weights", [None, torch.tensor([2.0, 3.0, 0.5])])
def test_weights_of_classes_and_smoothing_act_in_training_alone(weights, share, batch, logits):
    """The loss is a sum, and a number of texts; a row has the weight of its own class, with smoothing too."""
    log_p, of_class = logits.log_softmax(dim=-1), torch.ones(3) if weights is None else weights
    plain = -log_p[torch.arange(5), batch.targets]
    task, model = Classification(LABELS, weights=weights, label_smoothing=share), Recorder(logits)
    loss, count, shown = task.loss(model, batch)
    expected = (of_class[batch.targets] * ((1 - share) * plain - share * log_p.mean(dim=-1))).sum()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(shown, plain.sum())  # as validation measures it
    assert count == 5
    model.eval()
    torch.testing.assert_close(task.loss(model, batch)[0], plain.sum())
    if weights is None:
        smoothed = F.cross_entropy(logits, batch.targets, reduction="sum", label_smoothing=share)
        torch.testing.assert_close(loss, smoothed)


def test_balanced_weights_make_the_classes_equal_and_the_mean_weight_one():
    weights = balanced_weights([0, 0, 0, 0, 1, 1, 2], 3)
    assert torch.allclose(weights * torch.tensor([4.0, 2.0, 1.0]), torch.full((3,), 7 / 3))
    assert balanced_weights([0, 0], 2).isfinite().all()


def test_token_dropout_hides_about_its_share_and_never_a_special_token(logits):
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


def test_micro_batches_of_any_size_give_the_gradient_of_the_whole(batch):
    config = TransformerConfig(vocab_size=31, d_model=14, n_heads=1, n_layers=2, max_length=11)
    model = Encoder(config, ClassificationHead(config, 3, norm=True, dropout=0.0))
    initialise(model, seed=5)
    check_parts(Classification(LABELS, weights=torch.tensor([1.5, 1.0, 0.5])), model, batch, 2, 3, 5)


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
def test_scores_agree_with_scikit_learn(seed):
    random = np.random.default_rng(seed)
    true, predicted = random.integers(0, 3, 29), random.integers(0, 2 + seed % 2, 29)
    found = scores(true, predicted, LABELS)
    precision, recall, f1, support = precision_recall_fscore_support(true, predicted, labels=range(3), zero_division=0)
    assert found["accuracy"] == pytest.approx(accuracy_score(true, predicted))
    assert found["macro_f1"] == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))
    for i, label in enumerate(LABELS):
        assert list(found["per_class"][label].values()) == pytest.approx([precision[i], recall[i], f1[i], support[i]])


def test_of_very_many_classes_no_matrix_is_made_and_nothing_scores_zero():
    classes = np.arange(20_000)
    found = scores(classes, np.roll(classes, 1) * (classes % 2), [str(i) for i in classes])
    assert "confusion" not in found and found["accuracy"] == 1 / 20_000
    nothing = np.zeros(0, dtype=np.int64)
    assert scores(nothing, nothing, LABELS)["macro_f1"] == 0.0


def test_evaluation_counts_rows_as_true_and_columns_as_predicted(batch, logits):
    model = Recorder(logits).eval()
    found = Classification(LABELS).evaluate(model, [batch])
    predicted = logits.argmax(dim=-1).tolist()
    assert found["confusion"] == confusion_matrix(TARGETS, predicted, labels=range(3)).tolist()
    assert found["val_loss"] == pytest.approx(F.cross_entropy(logits, batch.targets).item())


def test_r_drop_adds_the_divergence_of_two_answers():
    draw = torch.Generator().manual_seed(0)
    answers = [torch.randn(5, 3, generator=draw) for _ in range(2)]
    batch = Batch({"ids": torch.ones(5, 2).long()}, None, torch.tensor([0, 2, 1, 1, 0]), TargetKind.ROW)
    check_r_drop(Classification(["a", "b", "c"], r_drop=4.0), batch, answers, 4.0)
