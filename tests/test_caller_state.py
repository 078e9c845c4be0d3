"""A public call leaves torch's global settings as the caller had them, and does not depend on them."""

import contextlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.workflows.inside import look_inside

EARLIER = Path(__file__).parent / "fixtures" / "earlier"
TASKS = sorted(path.name for path in EARLIER.iterdir() if path.name != "own_task")  # which is not installed here
sys.path.append(str(Path(__file__).parents[1] / "tools"))
from cases import CASES  # noqa: E402


@contextlib.contextmanager
def disturbed(device="cpu"):
    """Settings of a caller that nothing of ours may depend on."""
    torch.manual_seed(99)
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad(), torch.device(device):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


def settings():
    kinds = torch.is_autocast_enabled("cpu"), torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    state = torch.get_rng_state().tolist()
    return [torch.get_default_dtype(), torch.get_default_device(), torch.get_num_threads(), *kinds, state]


def answers(folder):
    pipe = headway.load(folder / "run")
    given = CASES[folder.name.removesuffix("_onnx")].inputs[0]
    options = {"seed": 5, "max_tokens": 9} if pipe.task == "language_modeling" else {}
    found = [pipe(given, **options), pipe([given] * 3, **options)]
    if pipe.task == "language_modeling":
        found.append(list(pipe.stream(given, **options)))
    if pipe.task == "embedding":
        found.append(pipe.similarity(given, [given, "another"]))
    return found


def same(one, other):
    if isinstance(one, np.ndarray):
        return one.dtype == np.float32 and np.array_equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("task", TASKS)
def test_answers_and_figures_of_every_task(task, monkeypatch):
    folder = EARLIER / task
    monkeypatch.chdir(folder)
    expected, measured = answers(folder), headway.evaluate("run")
    with disturbed():
        before = settings()
        found, again = answers(folder), headway.evaluate("run")
        assert settings() == before
    assert same(found, expected)
    assert {**again, "seconds": 0} == {**measured, "seconds": 0}


@pytest.mark.parametrize("data", ["corpus", "rows"])
def test_training(data, request, tmp_path, tiny):
    file, asked = request.getfixturevalue(data), {**tiny, "steps": 5, "evaluations": 1, "quiet": True}
    expected = headway.train(file, out=tmp_path / "calm", **asked)
    with disturbed("meta"):
        threads = torch.get_num_threads()
        torch.set_num_threads(threads + 1)
        before = settings()
        found = headway.train(file, out=tmp_path / "disturbed", **asked)
        after = settings()
        torch.set_num_threads(threads)
    assert after == before
    assert found["val_loss"] == expected["val_loss"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("calm", "disturbed")]
    assert weights[0] == weights[1]


def test_models_and_what_is_seen_inside_them(lm_run, tmp_path):
    ids, pipe = torch.tensor([[5, 6, 7]]), headway.load(lm_run)
    expected = headway.load_model(lm_run)(ids)
    maps = look_inside(pipe, "the cat")
    with disturbed():
        before = settings()
        model = headway.load_model(lm_run)
        headway.save_model(model, tmp_path / "saved")
        seen = look_inside(headway.load(lm_run), "the cat")
        assert settings() == before
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert torch.equal(model(ids), expected) and torch.equal(headway.load_model(tmp_path / "saved")(ids), expected)
    assert repr(seen) == repr(maps)
    torch.manual_seed(7)
    first, drawn = pipe("the cat", max_tokens=30), torch.rand(3)
    torch.manual_seed(7)
    assert torch.equal(drawn, torch.rand(3)), "nothing is drawn from the generator of the caller"
    torch.manual_seed(7)
    assert pipe("the cat", max_tokens=30) != first, "without seed each answer is another"
