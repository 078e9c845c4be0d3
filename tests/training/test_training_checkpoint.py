"""Checkpoints: whole or not there, the newest whole one is found, and nothing in them can run code."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from faults_harness import ENDED
from torch import nn

from headway.training.loop.state import optimizer_tensors, restore_optimizers
from headway.training.store.checkpoint import KEPT, copied, newest_checkpoint, save_checkpoint

FILES = ("tensors.safetensors", "state.json", "MANIFEST.json")


def tensors(step: int) -> dict[str, torch.Tensor]:
    return {"weight": torch.full((5, 7), float(step)), "random": torch.arange(11, dtype=torch.uint8)}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Checkpoints of steps 5 and 12."""
    for step in (5, 12):
        save_checkpoint(tmp_path / "checkpoints", step, tensors(step), {"step": step})
    return tmp_path / "checkpoints"


def test_round_trip(directory: Path):
    found, problems = newest_checkpoint(directory)
    assert found is not None and not problems
    assert found[1] == {"step": 12}
    assert torch.equal(found[0]["weight"], tensors(12)["weight"])
    assert found[0]["random"].dtype == torch.uint8


def test_there_may_be_none(tmp_path: Path):
    assert newest_checkpoint(tmp_path / "nowhere") == (None, [])


def test_tensors_that_share_memory_are_saved_each_for_itself(tmp_path: Path):
    one = torch.arange(6.0)
    save_checkpoint(tmp_path, 1, copied({"whole": one, "part": one[2:], "turned": one.view(2, 3).mT}), {})
    found, _ = newest_checkpoint(tmp_path)
    assert found is not None and torch.equal(found[0]["turned"], one.view(2, 3).mT)


def damages(path: Path) -> Iterator[tuple[str, bytes]]:
    """A file that was cut short, one with a bit changed, and what belongs elsewhere in its place."""
    whole = path.read_bytes()
    for size in (0, 1, 8, len(whole) // 2, len(whole) - 1):
        yield f"cut to {size}", whole[:size]
    for i in range(50):
        changed = bytearray(whole)
        at = i * (len(whole) - 1) // 49
        changed[at] ^= 1 << (i % 8)
        yield f"bit {i % 8} of byte {at}", bytes(changed)
    yield "that of another step", (path.parents[1] / "step-5" / path.name).read_bytes()
    yield "a pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"


def json_equal(one: bytes, other: bytes) -> bool:
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


@pytest.mark.parametrize("name", FILES)
def test_every_damage_is_found_and_the_one_before_is_taken(name: str, directory: Path):
    path = directory / "step-12" / name
    whole = path.read_bytes()
    found = [(what, content) for what, content in damages(path) if name != FILES[2] or not json_equal(content, whole)]
    assert len(found) > 50, "all but a changed space"
    for what, content in [*found, ("missing", None)]:
        path.unlink() if content is None else path.write_bytes(content)
        newest, problems = newest_checkpoint(directory)
        assert newest is not None and newest[1]["step"] == 5, what
        assert len(problems) == 1 and str(path.parent) in problems[0], what
    path.write_bytes(whole)
    assert newest_checkpoint(directory)[0][1] == {"step": 12}


def test_a_renamed_checkpoint_is_noticed(directory: Path):
    shutil.rmtree(directory / "step-12")
    (directory / "step-5").rename(directory / "step-99")
    found, problems = newest_checkpoint(directory)
    assert found is None and "step 5" in problems[0]


def test_when_all_are_damaged_each_is_named(directory: Path):
    for step in (5, 12):
        (directory / f"step-{step}" / "state.json").write_text("{")
    found, problems = newest_checkpoint(directory)
    assert found is None
    assert ["step-12" in problems[0], "step-5" in problems[1]] == [True, True]


def test_the_newest_stay_and_leftovers_go(directory: Path):
    (directory / f".step-9.{ENDED}.tmp").mkdir()
    (directory / f".step-9.{ENDED}.tmp" / "tensors.safetensors").write_bytes(b"half")
    for step in (100, 101):
        save_checkpoint(directory, step, tensors(step), {"step": step})
    assert sorted(path.name for path in directory.iterdir()) == ["step-100", "step-101"]
    assert KEPT == 2


def test_a_step_saved_again_replaces_the_first(directory: Path):
    save_checkpoint(directory, 12, tensors(13), {"step": 12, "again": True})
    found, _ = newest_checkpoint(directory)
    assert found is not None and found[1]["again"]
    assert sorted(path.name for path in directory.iterdir()) == ["step-12", "step-5"]


def test_an_error_while_saving_leaves_the_earlier_ones(directory: Path):
    with pytest.raises(ValueError, match="JSON compliant"):
        save_checkpoint(directory, 20, tensors(20), {"loss": float("nan")})
    found, problems = newest_checkpoint(directory)
    assert found is not None and found[1]["step"] == 12 and not problems


def test_nothing_is_pickled(directory: Path):
    assert sorted(path.name for path in directory.rglob("*") if path.is_file()) == sorted([*FILES, *FILES])
    for path in directory.rglob("*.json"):
        json.loads(path.read_text(encoding="utf-8"))
    for path in directory.rglob("*.safetensors"):
        length = int.from_bytes(path.read_bytes()[:8], "little")
        json.loads(path.read_bytes()[8 : 8 + length])


def test_nothing_in_the_package_pickles():
    """Save the worker that turns pickles of others into tensors, where the user asks for it."""
    root = Path(__file__).parents[2] / "src" / "headway"
    worker = root / "hub" / "safe" / "pickle_worker.py"
    assert worker.read_text(encoding="utf-8").count("torch.load(") == 1
    assert "weights_only=True" in worker.read_text(encoding="utf-8")
    for path in (path for path in root.rglob("*.py") if path != worker):
        text = path.read_text(encoding="utf-8")
        for word in ("import pickle\n", "torch.load(", "torch.save(", "joblib", "allow_pickle=True"):
            assert word not in text, f"{path}: {word}"


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_the_state_of_an_optimiser_survives(kind: type, tmp_path: Path):
    options = {"lr": 0.1} if kind is torch.optim.AdamW else {"lr": 0.1, "momentum": 0.9}
    models = [nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)) for _ in range(2)]
    chosen = [kind(model.parameters(), **options) for model in models]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(3))

    def step(n: int) -> None:
        models[n](x).square().sum().backward()
        chosen[n].step()
        chosen[n].zero_grad()

    step(0)
    save_checkpoint(tmp_path, 1, optimizer_tensors(models[0], [chosen[0]]), {})
    models[1].load_state_dict(models[0].state_dict())
    found, _ = newest_checkpoint(tmp_path)
    assert found is not None
    restore_optimizers(models[1], [chosen[1]], found[0])
    step(0), step(1)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


def test_all_of_a_fused_optimisers_state_is_restored_to_where_its_parameter_is():
    """Torch's fused Adam wants its count of steps there too, and torch's own ``load_state_dict`` puts it there."""
    here = nn.Linear(3, 5)
    chosen = torch.optim.AdamW(here.parameters(), fused=True)
    here(torch.ones(2, 3)).sum().backward()
    chosen.step()
    there = nn.Linear(3, 5, device="meta")
    restored = torch.optim.AdamW(there.parameters())
    restored.defaults["fused"] = True  # which torch refuses on this device
    restore_optimizers(there, [restored], optimizer_tensors(here, [chosen]))
    state = restored.state[there.weight]
    assert {name: value.device.type for name, value in state.items()} == dict.fromkeys(
        ("step", "exp_avg", "exp_avg_sq"), "meta"
    )
