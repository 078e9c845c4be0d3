"""Numbers that are wrong: they change no weight, are named with their step and examples, and never count as best."""

import math
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from faults_harness import LIVELY, facts_of, lines_of, losses, outcome
from torch import nn

import headway
from headway.tasks.losses import Classification
from headway.training.loop import trainer
from headway.training.loop.trainer import LEAST, Diverged, spike_limit
from headway.training.store import checkpoint
from headway.workflows.train import run as session

Change = Callable[[nn.Module, torch.Tensor], torch.Tensor]


@pytest.fixture
def at_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[int, Change]], None]:
    """Change the loss of some batches, counted in training from 0 and anew by each call; or the model before it."""
    honest = Classification.loss

    def spoil(changes: dict[int, Change]) -> None:
        number = count()

        def loss(task: Classification, model: nn.Module, batch: Any) -> Any:
            total, *others = honest(task, model, batch)
            change = changes.get(next(number)) if model.training else None
            changed = change(model, total) if change else total
            if changed.isfinite():  # a spike is one for validation too
                others[1:] = [one + (changed - total).detach() for one in others[1:]]
            return changed, *others

        monkeypatch.setattr(Classification, "loss", loss)
        monkeypatch.setattr(session, "try_longest", lambda *given: None)  # which is no step

    return spoil


def lost(model: nn.Module, total: torch.Tensor) -> torch.Tensor:
    return total * math.nan


def infinite(model: nn.Module, total: torch.Tensor) -> torch.Tensor:
    return total + math.inf


def lost_gradient(model: nn.Module, total: torch.Tensor) -> torch.Tensor:
    """The loss itself stays finite."""
    first = next(model.parameters()).sum()
    return total + torch.where(torch.zeros(()) > 1, first, first * 0.0).sqrt() * 0.0


@pytest.mark.parametrize("change", [lost, infinite, lost_gradient])
def test_one_bad_batch_changes_nothing_and_is_named(
    change: Change, rows: Path, tmp_path: Path, tiny: dict, at_steps: Callable, monkeypatch: Any
):
    weights: list[torch.Tensor] = []
    allowed = trainer.LossGuard.allows

    def looking(watch: Any, *given: Any) -> bool:
        weights.append(torch.cat([p.detach().flatten().clone() for p in watching[0].parameters()]))
        return allowed(watch, *given)

    watching: list[nn.Module] = []
    kept = trainer.Training.__init__

    def noting(self: Any, model: nn.Module, *given: Any) -> None:
        watching.append(model)
        kept(self, model, *given)

    monkeypatch.setattr(trainer.Training, "__init__", noting)
    monkeypatch.setattr(trainer.LossGuard, "allows", looking)
    at_steps({5: change})
    headway.train(rows, out=tmp_path / "run", quiet=True, **{**tiny, "log_every": 1})
    assert torch.equal(weights[6], weights[5]), "the sixth step changed nothing"
    assert not torch.equal(weights[7], weights[6]) and torch.isfinite(weights[-1]).all()
    (bad,) = [line for line in lines_of(tmp_path / "run") if line["event"] == "bad step"]
    assert bad["step"] == 6 and not (math.isfinite(float(bad["loss"])) and math.isfinite(float(bad["norm"])))
    assert len(bad["examples"]) > 1 and len(set(bad["examples"])) == len(bad["examples"])


def test_bad_weights_end_the_run_and_leave_what_was_good(rows: Path, tmp_path: Path, tiny: dict, at_steps: Callable):
    def spoil(model: nn.Module, total: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            next(model.parameters())[:] = math.nan
        return total

    at_steps({11: spoil})
    with pytest.raises(Diverged, match=r"3 times in a row, at step 15 \(loss nan, gradient nan\).*--learning-rate"):
        headway.train(rows, out=tmp_path / "run", quiet=True, **{**tiny, **LIVELY, "accumulate": 1, "grow_batch": 1})
    assert headway.load(tmp_path / "run")("the cat")["score"] > 0
    for path in (tmp_path / "run" / "checkpoints").glob("step-*"):
        assert checkpoint._problem(path) is None


def test_a_validation_metric_that_is_no_number_is_never_the_best(rows: Path, tmp_path: Path, tiny: dict, monkeypatch):
    honest, number = Classification.evaluate, count()

    def evaluated(*given: Any) -> dict[str, Any]:
        found = honest(*given)
        return {**found, "val_loss": math.nan} if next(number) > 3 else found

    monkeypatch.setattr(Classification, "evaluate", evaluated)
    headway.train(rows, out=tmp_path / "run", quiet=True, **{**tiny, "evaluations": 5})
    facts = facts_of(tmp_path / "run")
    assert math.isfinite(facts["metrics"]["val_loss"]) and facts["best_step"] < 20


def spike(model: nn.Module, total: torch.Tensor) -> torch.Tensor:
    return total * 1000


@pytest.mark.parametrize("policy", ["report", "skip"])
def test_a_spike_is_reported_or_left_out(
    policy: str, rows: Path, tmp_path: Path, tiny: dict, at_steps: Callable, capfd: pytest.CaptureFixture
):
    options = {**tiny, "steps": LEAST + 12, "log_every": 1, "learning_rate": 1e-4, "max_grad_norm": 0.0}
    at_steps({LEAST + 5: spike})
    headway.train(rows, out=tmp_path / "run", quiet=True, on_spike=policy, **options)
    (line,) = [line for line in lines_of(tmp_path / "run") if line["event"] == "spike"]
    assert line["step"] == LEAST + 6 and line["loss"] > 100 and line["examples"]
    assert f"step {LEAST + 6}: loss" in capfd.readouterr().err
    assert float.fromhex(losses(tmp_path / "run")[LEAST + 7]) < 10


def press(model: nn.Module, total: torch.Tensor) -> torch.Tensor:
    """Ctrl-C."""
    signal.raise_signal(signal.SIGINT)
    return total


def test_a_spike_is_left_out_by_the_run_that_is_taken_up_too(
    rows: Path, tmp_path: Path, tiny: dict, at_steps: Callable
):
    """It comes shortly after: without the losses before it, it would be trained on."""
    options = {**tiny, "steps": LEAST + 12, "log_every": 1, "on_spike": "skip"}
    at_steps({LEAST + 5: spike})
    headway.train(rows, out=tmp_path / "alone", quiet=True, **options)
    at_steps({LEAST + 3: press, LEAST + 5: spike})
    with pytest.raises(KeyboardInterrupt):
        headway.train(rows, out=tmp_path / "run", quiet=True, **options)
    headway.train(rows, out=tmp_path / "run", quiet=True, **options)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")
    assert [line["step"] for line in lines_of(tmp_path / "run") if line["event"] == "spike"] == [LEAST + 6]


def test_where_a_spike_begins():
    assert spike_limit([1.0] * (LEAST - 1)) == math.inf
    assert spike_limit([1.0] * LEAST) == pytest.approx(1.12)  # two hundredths of the mean, at least, six times
    assert spike_limit([1.0, 2.0] * LEAST) == pytest.approx(1.5 + 6 * 0.5)
