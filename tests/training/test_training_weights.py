"""Rows that count more or less than others in training (``--weight-column``)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults_harness import facts_of
from torch import Tensor, nn

import headway
from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.errors import InputError
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.fitting import _logistic, pair_loss
from headway.tasks.losses import Classification, balanced_weights
from headway.tasks.multi_column.task import ColumnLosses, side_by_side
from headway.tasks.multi_label.task import LabelSets
from headway.tasks.ratings.task import OrderedLevels
from headway.tasks.registry import task_named
from headway.tasks.regression.task import SquaredError
from headway.training.loop.thread_parallel import ThreadParallel

IDS = [[5, 6, 7], [8, 9], [10, 11, 12, 13], [6, 14, 8], [9, 7]]
CLASSES, NUMBERS = np.array([0, 2, 1, 0, 1]), np.array([0.5, -1.0, 2.0, 3.5, 0.1], dtype=np.float32)
SETS = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=np.float32)
TWO = {"kind": task_named("ratings"), "price": task_named("regression")}
LABELS = ["1", "2", "3"]
COLUMNS = np.stack([CLASSES, NUMBERS], axis=1).astype(np.float32)


def columns() -> ColumnLosses:
    parts = side_by_side(TWO, [OrderedLevels(LABELS), SquaredError(2.0)], [LABELS, []])
    return ColumnLosses(parts, torch.from_numpy(COLUMNS))


OBJECTIVES: dict[str, tuple[Any, np.ndarray, int]] = {
    "classes": (Classification(LABELS, label_smoothing=0.1), CLASSES, 3),
    "classes, balanced": (Classification(LABELS, weights=balanced_weights(CLASSES, 3)), CLASSES, 3),
    "classes, r-drop": (Classification(LABELS, r_drop=2.0), CLASSES, 3),
    "numbers": (SquaredError(1.7), NUMBERS, 1),
    "ratings": (OrderedLevels(LABELS), CLASSES.astype(np.float32), 3),
    "several labels": (LabelSets(LABELS), SETS, 3),
    "several columns": (columns(), COLUMNS, 4),
}


def encoder(outputs: int) -> Encoder:
    config = TransformerConfig(vocab_size=16, d_model=16, n_layers=1, n_heads=2, max_length=8, dropout=0.0)
    return initialise(Encoder(config, ClassificationHead(config, outputs)), 3).double()


def step(objective: Any, model: nn.Module, batch: Batch, threads: int = 1) -> tuple[float, list[Tensor]]:
    """The mean loss and its gradient, as the loop takes them."""
    parameters = list(model.parameters())
    for one in parameters:
        one.grad = None
    with ThreadParallel(threads) as shares:
        total, count = shares.add_gradient(model.train(), objective, batch, "float32", parameters)
    return float(total) / count, [one.grad.clone() / count for one in parameters if one.grad is not None]


def examples(rows: list[int], targets: np.ndarray, weights: list[float] | None = None) -> Batch:
    own = None if weights is None else np.array(weights, dtype=np.float32)
    return Examples([IDS[row] for row in rows], targets[rows], TargetKind.ROW, weights=own).together()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_row_of_weight_2_is_the_row_twice_and_one_of_weight_0_is_not_there(name: str, threads: int):
    objective, targets, outputs = OBJECTIVES[name]
    model = encoder(outputs)
    weighed = step(objective, model, examples([0, 1, 2, 3, 4], targets, [1, 2, 0, 1, 2]), threads)
    written = step(objective, model, examples([0, 1, 1, 3, 4, 4], targets))
    plain = step(objective, model, examples([0, 1, 2, 3, 4], targets))
    assert weighed[0] == pytest.approx(written[0], abs=1e-6)
    assert abs(plain[0] - written[0]) > 1e-4
    for one, other in zip(weighed[1], written[1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_weights_of_one_change_nothing():
    objective, targets, outputs = OBJECTIVES["classes"]
    model = encoder(outputs)
    ones = step(objective, model, examples([0, 1, 2, 3, 4], targets, [1.0] * 5))
    plain = step(objective, model, examples([0, 1, 2, 3, 4], targets))
    assert ones[0] == plain[0]
    assert all(torch.equal(one, other) for one, other in zip(ones[1], plain[1], strict=True))


def test_balanced_weights_count_what_rows_weigh():
    weighed = balanced_weights([0, 1, 1], 3, np.array([4.0, 0.5, 0.5]))
    assert weighed.tolist() == balanced_weights([0, 0, 0, 0, 1], 3).tolist()


ROWS = [f"{'good' if at % 3 else 'bad'} thing number {at % 17} of {at}" for at in range(90)]
KINDS = ["pos" if at % 3 else "neg" for at in range(90)]
QUICK: dict[str, Any] = {"steps": 3, "d_model": 16, "layers": 1, "heads": 2, "quiet": True, "threads": 1}


def trained(out: Path, weights: list[Any], **options: Any) -> dict[str, Any]:
    data = {"text": ROWS, "label": KINDS, "weight": weights}
    headway.train(data, out=out, weight_column="weight", **{**QUICK, **options})
    return facts_of(out)


def test_rows_of_weight_0_are_left_out(tmp_path: Path):
    facts = trained(tmp_path / "run", [float(at % 2) for at in range(90)])
    rows = facts["data"]["rows"]
    assert rows["trained"] + rows["held_out"] == 45 and rows["measured"] == rows["held_out"] < 9
    assert "weight" not in (facts["data"]["text_column"], facts["data"]["label_column"])
    assert "45 rows of weight 0 left out" in facts["data"]["warnings"]


def test_the_run_is_measured_again_on_the_same_rows(tmp_path: Path):
    lines = [f"{text},{label},{at % 2}" for at, (text, label) in enumerate(zip(ROWS, KINDS, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label,much", *lines]))
    headway.train(tmp_path / "rows.csv", weight_column="much", out=tmp_path / "run", **QUICK)
    facts = facts_of(tmp_path / "run")
    again = headway.evaluate(tmp_path / "run")
    assert again["examples"] == facts["data"]["rows"]["measured"]
    assert again["val_loss"] == pytest.approx(facts["metrics"]["val_loss"], rel=1e-6)


@pytest.mark.parametrize("weight", [-1, "much", "", float("nan"), float("inf"), 1e300])
def test_what_is_no_weight_is_named_with_its_row(weight: Any, tmp_path: Path):
    with pytest.raises(InputError, match=r"column 'weight' holds .*(index 7).*a number from 0 to"):
        trained(tmp_path / "run", [weight if at == 7 else 1 for at in range(90)])


def test_weights_that_are_not_there_or_all_0_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"all of the rows .* have the weight 0"):
        trained(tmp_path / "run", [0] * 90)
    with pytest.raises(InputError, match="no column 'weights'"):
        headway.train({"text": ROWS, "label": KINDS, "weight": [1] * 90}, weight_column="weights", **QUICK)
    with pytest.raises(InputError, match=r"--weight-column is for .* but this is language_modeling"):
        headway.train(ROWS, weight_column="weight", out=tmp_path / "run", **QUICK)


def test_a_weight_teaches_a_linear_classifier_as_the_row_twice_does():
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
    twice = [0, 1, 1, 2, 3, 4]
    data = np.ones(5, dtype=bool)
    one = _logistic(x.numpy(), CLASSES, data, np.array([1, 2, 1, 1, 1], dtype=np.float32))
    other = _logistic(x.numpy()[twice], CLASSES[twice], data[[*range(5), 0]], None)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-5)
    targets = torch.tensor([0, 1, 1, 0, 1])
    ones, heavy = torch.ones(5), torch.tensor([1.0, 9.0, 1.0, 1.0, 1.0])
    assert pair_loss(x, targets, ones).item() == pytest.approx(pair_loss(x, targets).item(), abs=1e-6)
    assert pair_loss(x, targets, heavy).item() != pytest.approx(pair_loss(x, targets).item(), abs=1e-3)
