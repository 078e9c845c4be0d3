"""Runs that earlier versions left are taken up, and go on as they would have gone on there (FT-19).

``tests/faults/formats`` has one for each format of checkpoints: a run of twelve steps that was stopped after six, its
text, its options and the losses of the run left alone.  Who changes ``checkpoint.FORMAT`` adds one, made beforehand.
"""

import json
import shutil
from pathlib import Path

import pytest
from faults_harness import losses

import headway
from headway.training.store.checkpoint import FORMAT, newest_checkpoint

RUNS = sorted((Path(__file__).parent / "formats").iterdir())


def test_there_is_a_run_of_every_format():
    assert [path.name for path in RUNS] == [str(number) for number in range(1, FORMAT + 1)]


@pytest.mark.parametrize("kept", RUNS, ids=lambda path: path.name)
def test_an_earlier_run_goes_on_as_it_would_have(kept: Path, tmp_path: Path):
    shutil.copytree(kept, tmp_path / "kept")
    kept, run = tmp_path / "kept", tmp_path / "kept" / "run"
    known = json.loads((kept / "expected.json").read_text())
    found, problems = newest_checkpoint(run / "checkpoints")
    assert found is not None and found[1]["step"] == 6 and not problems
    headway.train(kept / "corpus.txt", out=run, quiet=True, **known["options"])
    now = {step: float.fromhex(loss) for step, loss in losses(run).items()}
    expected = {int(step): loss for step, loss in known["losses"].items()}
    assert now == pytest.approx(expected, rel=1e-5), "another processor rounds otherwise"
    assert headway.load(run).model is not None
