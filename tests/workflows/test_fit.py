"""``headway.fit`` and ``headway.compare``: an own module in the training loop."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import headway

STEPS = 23
SCRIPT = """
import os, signal, sys
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import Dataset
import headway

out, kill, number = Path(sys.argv[1]), sys.argv[2] == "kill", 0

class Rows(Dataset):
    def __len__(self):
        return 97

    def __getitem__(self, at):
        global number
        number += 1
        if kill and number > 300 and list(out.glob("checkpoints/step-*")):
            os.kill(os.getpid(), signal.SIGKILL)
        draw = torch.Generator().manual_seed(at)
        x = torch.randn(5, generator=draw)
        return x, int(x[0] > 0)

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(5, 11), nn.BatchNorm1d(11), nn.Dropout(0.2), nn.Linear(11, 2))
print(headway.fit(model, Rows(), steps=41, batch_size=13, log_every=1, save_every="0.001s", out=out, quiet=True))
"""


def net(width=11):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, width), nn.BatchNorm1d(width), nn.Dropout(0.2), nn.Linear(width, 2))


def rows(n=97):
    x = torch.randn(n, 5, generator=torch.Generator().manual_seed(0))
    return x, (x[:, 0] > 0).long()


def fit(model, data, out, **options):
    return headway.fit(model, data, out=out, quiet=True, **{"steps": STEPS, "batch_size": 13, **options})


def losses(out):
    events = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    kept = [one for one in events if one["event"] in ("step", "evaluation")]
    return {(one["event"], one["step"]): one.get("loss", one.get("val_loss")) for one in kept}


def test_it_learns_and_leaves_the_best_weights_in_the_module(tmp_path):
    model, (x, y) = net(), rows()
    found = fit(model, (x, y), tmp_path / "run", steps=150, learning_rate=0.01)
    assert found["val_loss"] < 0.4 and found["steps"] == 150 and found["parameters"] == 112
    assert not model.training
    with torch.no_grad():
        assert (model(x).argmax(1) == y).float().mean() > 0.9
    again = net()
    assert fit(again, (x, y), tmp_path / "run", steps=150, learning_rate=0.01) == found  # it is finished
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())


def test_the_same_seed_gives_the_same_losses_to_the_bit(tmp_path):
    for name, data in (
        ("a", rows()),
        ("b", rows()),
        ("c", TensorDataset(*rows())),
        ("d", tuple(part.numpy() for part in rows())),
    ):
        fit(net(), data, tmp_path / name, log_every=1)
        assert losses(tmp_path / name) == losses(tmp_path / "a")
    fit(net(), rows(), tmp_path / "e", log_every=1, seed=5)
    assert losses(tmp_path / "e") != losses(tmp_path / "a")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_killed_and_resumed_it_is_the_run_left_alone_to_the_bit(tmp_path):
    """With a batch norm, whose buffers have no gradient."""

    def command(out, how):
        words = [sys.executable, "-c", SCRIPT, str(out), how]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, env=dict(os.environ))

    alone, killed = tmp_path / "alone", tmp_path / "killed"
    assert command(alone, "").returncode == 0
    assert command(killed, "kill").returncode == -signal.SIGKILL
    assert not (json.loads((killed / "headway.json").read_text()))["finished"]
    done = command(killed, "")
    assert done.returncode == 0, done.stderr
    assert "resume" in (killed / "log.jsonl").read_text()
    assert losses(killed) == losses(alone)
    assert (killed / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()


def test_ids_are_read_in_windows_and_variants_are_compared(tmp_path):
    ids = torch.arange(2000) % 7
    sizes = headway.TransformerConfig(vocab_size=7, d_model=16, n_layers=1, n_heads=2, max_length=32)
    models = {
        "block": lambda: headway.Decoder(sizes),
        "none": lambda: nn.Sequential(nn.Embedding(7, 16), nn.Linear(16, 7)),
    }
    how = {"steps": 40, "length": 17, "batch_size": 5, "learning_rate": 0.01, "quiet": True}
    found = headway.compare(models, ids, out=tmp_path, seeds=3, **how)
    assert [row["model"] for row in found["rows"]] == ["block", "none"]
    assert all(len(row["values"]) == 3 and row["tokens"] == 40 * 5 * 17 for row in found["rows"])
    best, worse = sorted(found["rows"], key=lambda row: row["mean"])
    assert best["behind"] == 0 and worse["behind_interval"][0] <= worse["behind"] <= worse["behind_interval"][1]
    assert json.loads((tmp_path / "compare.json").read_text()) == found
    assert headway.compare(models, ids, out=tmp_path, seeds=3, **how) == found


def test_several_inputs_an_own_loss_and_validation(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(5, 1)

        def forward(self, a, b):
            return self.out(a - b)[:, 0]

    a, b = rows()[0], rows()[0].flip(0)
    target = (a - b).sum(dim=1)
    data, held_out = (a[:80], b[:80], target[:80]), (a[80:], b[80:], target[80:])
    model = Two()
    how = {"loss": nn.functional.mse_loss, "validation": held_out, "steps": 200, "learning_rate": 0.05}
    found = fit(model, data, tmp_path, **how)
    with torch.no_grad():
        assert found["val_loss"] == pytest.approx(nn.functional.mse_loss(model(a[80:], b[80:]), target[80:]).item())
    assert found["val_loss"] < 0.5


def frozen():
    return net().requires_grad_(False)


@pytest.mark.parametrize(
    ("model", "data", "options", "said"),
    [
        (frozen(), rows(), {}, "no parameters to train"),
        (print, rows(), {}, "torch.nn.Module"),
        (net(), (rows()[0], rows(96)[1]), {}, r"\[97, 96\]"),
        (net(), (torch.randn(97, 7), rows()[1]), {}, r"\(13, 7\)"),
        (net(), rows(), {"loss": lambda output, targets: output}, "scalar"),
        (net(), rows(), {"loss": lambda output, targets: targets.float().mean()}, "does not depend"),
        (net(), (rows()[0] * float("nan"), rows()[1]), {}, "nan"),
        (net(), (rows()[0], rows()[0][:, 0]), {}, "without loss="),
        (net(), ["a", "b"], {}, "numbers"),
        (net(), rows()[0], {}, "expected a tuple"),
        (net(), (torch.zeros(1, 5), torch.zeros(1).long()), {}, "single row"),
        (net(), TensorDataset(torch.zeros(0, 5), torch.zeros(0)), {}, "no rows"),
        (net(), TensorDataset(torch.zeros(9, 5)), {}, "last a target"),
        (net(), rows(), {"validation": torch.arange(99)}, "another kind"),
        (net(), rows(), {"preset": "tiny"}, "preset"),
        (net(), rows(), {"stepz": 3}, "stepz"),
    ],
)
def test_bad_input_is_one_clear_error_before_anything_is_written(model, data, options, said, tmp_path):
    with pytest.raises(headway.InputError, match=said):
        fit(model, data, tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_run_of_something_else_is_not_resumed(tmp_path):
    fit(net(), rows(), tmp_path)
    with pytest.raises(headway.InputError, match="another model"):
        fit(net(13), rows(), tmp_path)
    with pytest.raises(headway.InputError, match="other data"):
        fit(net(), rows(89), tmp_path)
    with pytest.raises(headway.InputError, match=r"learning.rate"):
        fit(net(), rows(), tmp_path, learning_rate=0.5)


def test_a_comparison_takes_functions(tmp_path):
    with pytest.raises(headway.InputError, match="function"):
        headway.compare({"a": net(), "b": net}, rows(), steps=1, out=tmp_path)
    with pytest.raises(headway.InputError, match="two models"):
        headway.compare({"a": net}, rows(), steps=1, out=tmp_path)


def test_weight_decay_shrinks_the_matrices_but_no_table_norm_or_bias(tmp_path):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.norm, self.out = nn.Embedding(7, 5), nn.LayerNorm(5), nn.Linear(5, 3)

        def forward(self, ids):
            return self.out(self.norm(self.table(ids)))

    model = Words()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    how = {"loss": lambda output, _: 0 * output.sum(), "weight_decay": 0.5, "learning_rate": 0.1, "keep": "last"}
    fit(model, (torch.arange(97) % 7, torch.zeros(97)), tmp_path, **how)
    after = model.state_dict()
    shrunk = after.pop("out.weight") / before["out.weight"]
    assert torch.allclose(shrunk, shrunk[0, 0]) and 0.95**STEPS < shrunk[0, 0] < 0.9
    assert all(torch.equal(value, before[name]) for name, value in after.items())
