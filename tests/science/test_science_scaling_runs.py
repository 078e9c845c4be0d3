"""The grid of runs, the queue that makes them, and what is measured of their models."""

import json
import math
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from headway.errors import InputError, RunFailed
from headway.models.size import parameters
from headway.science.scaling import probes, study
from headway.science.scaling.analysis import analyse
from headway.science.scaling.grid import FEWEST, KINDS, LEAST_STEPS, MOST, PASSES, Grid, Text, plan_grid, shapes
from headway.science.scaling.law import check_varied
from headway.science.scaling.study import Study, options_of, points_of
from headway.science.speeds import step_rate
from headway.tasks.language_modeling.data import SCALING
from headway.tasks.registry import task_named
from headway.training.options import TrainOptions
from headway.training.sizing.presets import decoder_config
from headway.training.store.run_directory import RunDirectory
from headway.workflows.train.run import run_training

LONG = Text(tokens=27_000_003, held_out=100_003, vocab_size=101)


def speed(shape):
    """5e10 FLOP/s, and no step in less than 20 microseconds a token."""
    return 1 / (2e-5 + 6 * shape.parameters / 5e10)


def gridded(seconds=600, text=LONG, pace=speed, kind=KINDS[0], **more):
    return plan_grid(text, seconds, pace, **{"length": 128, "kind": kind, "scaling": SCALING, **more})


@pytest.mark.parametrize("seconds", [300, 2400, 14400])
def test_a_grid_fits_its_time_and_can_tell_n_from_d(seconds: float):
    grid = gridded(seconds, kind=KINDS[seconds > 600])
    *cells, last = grid.cells
    assert 0.6 * seconds < grid.seconds <= 0.85 * seconds
    assert last.held_out and not any(cell.held_out for cell in cells) and len(cells) >= 10
    for count in ("parameters", "blocks"):
        assert last.tokens * getattr(last, count) >= 2 * max(cell.tokens * getattr(cell, count) for cell in cells)
    assert all(FEWEST * 0.9 <= cell.tokens / cell.parameters <= MOST * 1.1 for cell in grid.cells)
    assert all(cell.tokens == cell.steps * grid.batch_tokens for cell in grid.cells)
    assert min(cell.steps for cell in cells) >= 0.9 * LEAST_STEPS and grid.batch_tokens % grid.length == 0
    facts = {"metrics": {"val_loss": 2.0}, "seconds": 1.0, "training_seconds": 1.0}
    check_varied([study.run_of(cell, {**facts, "tokens": cell.tokens}, Path("none")) for cell in cells])
    computes = [cell.parameters * cell.tokens for cell in cells]
    assert computes == sorted(computes)
    assert len({cell.learning_rate for cell in cells}) == len({cell.width for cell in cells}) >= 4
    assert {(cell.layers, cell.width // cell.heads) for cell in grid.cells} == {(2, 32 if seconds > 600 else 16)}
    assert Grid.from_plain(asdict(grid)) == grid


def test_a_short_text_is_not_gone_through_more_often_than_is_said():
    grid = gridded(14400, replace(LONG, tokens=1_000_003))
    assert max(cell.tokens for cell in grid.cells) <= PASSES * 1_000_003 + grid.batch_tokens
    assert grid.seconds < 7000 and "more epochs" in grid.notes[-1]
    with pytest.raises(InputError, match="too few for a scaling law"):
        gridded(14400, replace(LONG, tokens=10_007))
    with pytest.raises(InputError, match=r"--time 20s is too short for a grid"):
        gridded(20)


def test_a_grid_that_could_not_be_fitted_is_refused_before_it_is_trained():
    with pytest.raises(InputError, match="different numbers of tokens, so beta cannot be known"):
        gridded(2400, kind=KINDS[1], batch_tokens=1 << 21)


@pytest.mark.parametrize("faster", [0.3, 1.0, 5.0])
def test_the_time_that_a_message_names_is_enough(faster: float):
    def quick(shape):
        return faster * speed(shape)

    with pytest.raises(InputError, match=r"--time 30s is too short") as caught:
        gridded(10, pace=quick, before=20)
    enough = int(str(caught.value).split("expected ")[1].split("s or more")[0])
    assert gridded(enough - 20, pace=quick, before=20)


def test_parameters_are_counted_as_the_models_have_them():
    for shape in shapes(67, 32, KINDS[1], SCALING)[:3]:
        config = decoder_config(67, shape.width, 2, shape.heads, 32)
        counted = parameters(config)
        assert shape.parameters == counted["total"]
        assert shape.parameters - shape.blocks == counted["embedding"] + counted["head"] + shape.width  # the last norm
        assert counted["embedding"] == counted["head"] == 67 * shape.width


class Clock:
    """A clock that stands still but for what is trained."""

    def __init__(self):
        self.time = 0.0
        self.trained: list[str] = []
        self.slow = self.later = 1.0

    def train(self, inputs, options, *, out, validation, progress):
        self.trained.append(out.name)
        self.time += (self.slow if len(self.trained) < 3 else self.later) * self.expected[out.name]
        run = RunDirectory(out)
        run.create()
        tokens = options.run.steps * options.optimisation.batch_tokens
        run.log("evaluation", step=1, val_loss=1.0)
        run.log("evaluation", step=options.run.steps, val_loss=2.0)
        run.update(task="language_modeling", finished=True, tokens=tokens, metrics={"val_loss": 1.0})
        run.update(options={}, plan={}, data={}, seconds=1.0, training_seconds=3.0)
        return run


def queued(clock: Clock, grid: Grid, place: Path, end: float):
    clock.expected = {cell.name: cell.seconds for cell in grid.cells}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "run_training", clock.train)
        patch.setattr(study, "time", SimpleNamespace(monotonic=lambda: clock.time))
        return Study(["x.txt"], TrainOptions(), place).make(grid, end)


def test_the_queue_makes_every_run_once_and_the_one_that_is_left_out_always(tmp_path: Path):
    grid, clock = gridded(), Clock()
    clock.slow = clock.later = 1.4  # slower than was measured: the time is not enough for all
    runs, notes = queued(clock, grid, tmp_path, 600.0)
    assert sorted(clock.trained) == sorted(run.name for run in runs) and grid.cells[-1].name in clock.trained
    assert runs[-1].held_out and 0 < len(notes) < 4 and clock.time <= 600
    assert all(note.split()[0] not in clock.trained for note in notes)
    clock.trained, before = [], clock.time
    runs, notes = queued(clock, grid, tmp_path, before + 600.0)
    assert not notes and len(runs) == len(grid.cells) and len(clock.trained) < 4
    clock.trained = []
    assert len(queued(clock, grid, tmp_path, clock.time)[0]) == len(grid.cells) and not clock.trained


def test_a_run_that_fails_is_left_out_unless_it_is_to_be_foretold(tmp_path: Path):
    grid, clock = gridded(), Clock()
    honest, failing = clock.train, grid.cells[2].name

    def train(inputs, options, *, out, **more):
        if out.name == failing:
            clock.trained.append(out.name)
            raise RunFailed("the loss is not a number.")
        return honest(inputs, options, out=out, **more)

    clock.train = train  # type: ignore[method-assign]
    runs, notes = queued(clock, grid, tmp_path / "one", 6000.0)
    assert len(runs) == len(grid.cells) - 1 and clock.trained.count(failing) == 1
    assert notes == [f"{failing} failed and is left out: the loss is not a number."]
    assert runs[0].more["seconds"] == 3.0, "of all commands that trained it, not of the last alone"
    failing = grid.cells[-1].name
    with pytest.raises(RunFailed):
        queued(clock, grid, tmp_path / "two", 6000.0)


def test_what_seemed_too_long_is_made_when_there_is_time_after_all(tmp_path: Path):
    grid, clock = gridded(), Clock()
    clock.slow, clock.later = 15.0, 0.5  # two slow runs, then a quiet machine
    runs, notes = queued(clock, grid, tmp_path, 600.0)
    assert len(runs) == len(grid.cells) and not notes and clock.time <= 600
    assert [run.name for run in runs] == [cell.name for cell in grid.cells] != clock.trained


def test_runs_share_all_but_sizes_tokens_and_rate():
    grid = gridded()
    given = TrainOptions(seed=7, tokenizer="char")
    *every, last = [options_of(cell, grid, given).flat() for cell in grid.cells]
    differing = {name for name in every[0] if len({one[name] for one in every}) > 1}
    sizes = {"steps", "d_model", "layers", "heads", "learning_rate"}
    assert {"steps", "d_model", "learning_rate"} <= differing <= sizes
    assert every[0]["seed"] == 7 and every[0]["dropout"] == 0.0 and every[0]["evaluations"] == 1
    differing = {name for name in last if last[name] != every[-1][name]} - sizes
    assert differing == {"evaluations", "snapshots"} and last["snapshots"], "the last is looked at on its way"


def small(grid: Grid) -> Grid:
    """The same with models that take no time."""
    pick = [(16, 3), (16, 7), (16, 13), (24, 3), (24, 7), (24, 13), (32, 7), (40, 29)]
    cells = []
    for (width, steps), cell in zip(pick, [*grid.cells[:7], grid.cells[-1]], strict=True):
        count = parameters(decoder_config(20, width, 1, 1, 16))
        sizes = {"width": width, "layers": 1, "heads": 1, "parameters": count["total"], "blocks": count["block"]}
        more = {"steps": steps, "tokens": steps * 64, "name": f"{width}-{steps}", "held_out": cell.held_out}
        cells.append(replace(cell, **sizes, **more, seconds=0.1))
    return replace(grid, cells=tuple(cells), length=16, batch_tokens=64, precision="float32")


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory):
    """A study of eight tiny models."""
    grid = small(gridded())
    place = tmp_path_factory.mktemp("study")
    options = TrainOptions(tokenizer="char", threads=1)
    runs, _ = Study([corpus], options, place).make(grid, math.inf)
    return place, grid, runs, options


def test_real_runs_become_points_and_are_not_made_again(made, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    place, grid, runs, options = made
    assert [run.tokens for run in runs] == [cell.tokens for cell in grid.cells]
    for run in runs:
        facts = RunDirectory(place / "runs" / run.name).read()
        assert facts["parameters"] == run.parameters and facts["metrics"]["val_loss"] == run.loss
        assert facts["best_step"] == facts["steps"]  # evaluated once, at the end

    monkeypatch.setattr(study, "run_training", Mock(side_effect=AssertionError("trained again")))
    again, _ = Study([corpus], options, place).make(grid, 0.0)
    assert again == runs


def test_points_are_read_as_they_were_written(made):
    place, _, runs, _ = made
    for count in ("total", "blocks"):
        read, kind = points_of(place, count)
        assert kind == count and [run.name for run in read] == [run.name for run in runs]
        assert [run.loss for run in read] == [run.loss for run in runs] and read[-1].held_out
    assert read[0].parameters == runs[0].more["parameters_without_embeddings"] < runs[0].parameters
    assert analyse(points_of(place, None)[0], "total", draws=50)["held_out"]["name"] == "40-29"


def test_a_run_that_was_stopped_is_taken_up(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    grid = small(gridded())
    grid = replace(grid, cells=grid.cells[:2])
    calls = []

    def stopped(inputs, options, *, out, validation, progress):
        calls.append(out.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run_training(inputs, options, out=out, validation=validation, progress=progress)

    monkeypatch.setattr(study, "run_training", stopped)
    one = Study([corpus], TrainOptions(tokenizer="char"), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        one.make(grid, math.inf)
    one.make(grid, math.inf)
    assert calls == [grid.cells[0].name, grid.cells[1].name, grid.cells[1].name]


def test_masked_models_are_studied_too(corpus: Path, tmp_path: Path):
    masked = task_named("masked_lm").scaling()
    shape = shapes(67, 32, KINDS[1], masked)[1]
    config = masked.config(67, shape.width, 2, shape.heads, 32)
    assert shape.parameters == sum(p.numel() for p in masked.build(config).parameters())
    assert step_rate(shape, 67, 32, "float32", masked) > 0
    grid = small(gridded(scaling=masked))
    options = TrainOptions(tokenizer="char", threads=1, task="masked_lm")
    first, *_, last = grid.cells
    runs, _ = Study([corpus], options, tmp_path).make(replace(grid, cells=(first, last)), math.inf)
    assert [run.tokens for run in runs] == [first.tokens, last.tokens] and all(run.loss > 0 for run in runs)
    assert (RunDirectory(tmp_path / "runs" / first.name).read() or {})["task"] == "masked_lm"
    with pytest.raises(InputError, match="--task classification: scale is for language_modeling and masked_lm"):
        Study([corpus], TrainOptions(task="classification")).decide(600)


def test_a_plan_is_kept_and_refused_for_another_text(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(study, "measured_speed", lambda *given: speed)
    monkeypatch.setattr(study, "faster_steps", lambda *given: "float32")
    monkeypatch.setattr(study, "plan_grid", lambda text, seconds, *given, **more: gridded(seconds, length=8))
    first = Study([corpus], TrainOptions(), tmp_path / "out").decide(600)
    assert Study([corpus], TrainOptions(), tmp_path / "out").decide(900) == first
    with pytest.raises(InputError, match="holds a study with another seed"):
        Study([corpus], TrainOptions(seed=3), tmp_path / "out").decide(600)
    (tmp_path / "other.txt").write_text(corpus.read_text() + "more\n")
    with pytest.raises(InputError, match="holds a study with another text"):
        Study([tmp_path / "other.txt"], TrainOptions(), tmp_path / "out").decide(600)


class Copier(nn.Module):
    """Says what followed the last time the token was read; of a token that is new, nothing."""

    def __init__(self, vocab_size: int):
        super().__init__()
        self.vocab_size = vocab_size

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*ids.shape, self.vocab_size)
        for row, out in zip(ids.tolist(), logits, strict=True):
            for i, token in enumerate(row):
                before = [j for j in range(i) if row[j] == token]
                if before:
                    out[i, row[before[-1] + 1]] = 20.0
        return logits


class LinkCopier(Copier):
    """Says what followed the last time these two tokens were read."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*ids.shape, self.vocab_size)
        for row, out in zip(ids.tolist(), logits, strict=True):
            before = [j for j in range(1, len(row) - 1) if row[j - 1 : j + 1] == row[-2:]]
            if before:
                out[-1, row[before[-1] + 1]] = 20.0
        return logits


def test_copying_is_told_from_not_copying(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(probes, "SEQUENCES", 31)
    pool = np.arange(3, 41)
    found = probes.induction(Copier(43), pool, 47)
    assert found["first"] == pytest.approx(math.log(43), abs=1e-4) and found["second"] < 1e-4
    assert probes.induction(Copier(43), pool, 47) == found
    shots = probes.few_shot(LinkCopier(43), pool, 67)
    assert list(shots) == ["0", "1", "2", "4"] and shots["1"] == shots["4"] == 1.0 and shots["0"] < 0.5
    assert list(probes.few_shot(Copier(43), pool, 33)) == ["0", "1"]


def test_half_a_line_of_a_log_and_a_snapshot_that_failed_lose_nothing_else(made, tmp_path: Path):
    place, grid, runs, _ = made
    shutil.copytree(place / "runs", tmp_path / "runs")
    last = tmp_path / "runs" / runs[-1].name
    with (last / "log.jsonl").open("a") as log:
        log.write('{"event": "evaluation", "step": 29, "val_')
    (last / "snapshots" / "step-8" / "model.safetensors").unlink()
    found = probes.probe_runs(tmp_path / "runs", runs[-1:], ["induction"])
    assert [row["tokens"] for row in found] == [15 * 64, 22 * 64, 29 * 64]
    facts = json.loads((last / "headway.json").read_text())
    assert study.run_of(grid.cells[-1], facts, last).loss == runs[-1].loss
    shutil.rmtree(last / "snapshots" / "step-29")
    assert [row["name"] for row in probes.probe_runs(tmp_path / "runs", runs[-1:], ["induction"])] == [runs[-1].name]


def test_models_of_a_study_are_probed(made):
    place, _, runs, _ = made
    found = probes.probe_runs(place / "runs", runs, probes.wanted_probes("induction"), seed=3)
    kept = [f"40-29, step-{step}" for step in (8, 15, 22)]
    assert [row["name"] for row in found] == [*[run.name for run in runs[:-1]], *kept, runs[-1].name]
    assert [row["tokens"] for row in found[-4:]] == [8 * 64, 15 * 64, 22 * 64, 29 * 64] and found[-1]["held_out"]
    losses = [row["induction"]["first"] for row in found[-4:]]
    assert len(set(losses)) == 4, "each is a model of its own"
    assert all(0 < row["induction"]["second"] < 9 for row in found)
    with pytest.raises(InputError, match="there is no model to probe"):
        probes.probe_runs(place, runs, ["induction"])
    with pytest.raises(InputError, match=r"--probe 'luck' is unknown"):
        probes.wanted_probes("induction,luck")
