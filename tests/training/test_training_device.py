"""Training on a device that is not the processor: everything that a step touches is there, and the losses are equal."""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from bases import make_base
from elsewhere import Somewhere
from faults_harness import lines_of

import headway
from headway.errors import InputError
from headway.models import device as devices
from headway.workflows.train import setup as ready

SIZES = {"d_model": 32, "layers": 2, "heads": 2}
OPTIONS = {
    **{"batch_tokens": 128, "steps": 6, "evaluations": 2, "log_every": 1, "threads": 1, "precision": "float32"},
    **{"dropout": 0.0, "quiet": True},  # dropout is drawn otherwise on a processor
}
WORDS = ["river", "stone", "cloud", "green", "quiet", "under", "seven", "house", "window", "letter", "garden"]


def sentence(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(3, 9)))


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Path]:
    """A file of each kind, and a model to begin from."""
    draw = random.Random(3)
    names = {"text": "notes.txt", "rows": "rows.csv", "pairs": "pairs.tsv", "talk": "talk.jsonl"}
    found = {kind: tmp_path / name for kind, name in names.items()}
    found["text"].write_text("\n".join(sentence(draw) for _ in range(300)))
    found["rows"].write_text("text,label\n" + "\n".join(f"{sentence(draw)},{draw.choice('ab')}" for _ in range(90)))
    made = [(sentence(draw), sentence(draw)) for _ in range(90)]
    found["pairs"].write_text("en\tde\n" + "\n".join("\t".join(pair) for pair in made))
    talk = [[{"role": "user", "content": one}, {"role": "assistant", "content": other}] for one, other in made]
    found["talk"].write_text("\n".join(json.dumps({"messages": said}) for said in talk))
    found["base"] = make_base("bert", tmp_path / "base")
    return found


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.nn.Module]]:
    """Wherever the device is asked for, it is one that is not the processor; the models that are trained there."""
    monkeypatch.setattr(torch.__future__, "get_swap_module_params_on_conversion", lambda: True)
    monkeypatch.setattr(
        sys.modules["torch.optim.optimizer"], "_get_fused_kernels_supported_devices", lambda: ["cpu", "meta"]
    )
    generator = torch.Generator  # there is none for "meta"
    monkeypatch.setattr(torch, "Generator", lambda device="cpu": generator())
    asked = devices.device_of
    for module in list(sys.modules.values()):
        if getattr(module, "device_of", None) is asked:
            monkeypatch.setattr(module, "device_of", lambda asked: torch.device("cpu" if asked == "cpu" else "meta"))
    models: list[torch.nn.Module] = []
    measured = ready.measured
    monkeypatch.setattr(ready, "measured", lambda trial, *rest: (models.append(trial.model), measured(trial, *rest))[1])
    with Somewhere():
        yield models


def logged(run: Path, *events: str) -> list[float]:
    """The losses of a run's log."""
    lines = lines_of(run)
    return [line.get("loss", line.get("val_loss")) for line in lines if line["event"] in events]


FROM_SCRATCH = {
    "language model": ("text", {"length": 32, "average": 0.9, "optimizer": "muon"}),
    "masked tokens": ("text", {"length": 32, "task": "masked_lm", "whole_words": True, "tokenizer": "word"}),
    "classifier": ("rows", {"r_drop": 1.0, "token_dropout": 0.0, "balance": True}),
    "translator": ("pairs", {"task": "translation", "tokenizer": "char", "accumulate": 2}),
    "translating decoder": ("pairs", {"task": "translation", "tokenizer": "char", "model": "decoder"}),
    "vectors": ("pairs", {"task": "embedding", "text_column": "en", "second_column": "de"}),
    "conversations": ("talk", {"tokenizer": "char"}),
}
FROM_A_BASE = {
    "classifier": ("rows", {"layer_decay": 0.9}),
    "frozen": ("rows", {"frozen": True}),
    "contrastive": ("rows", {"contrastive": True}),
    "adapted": ("rows", {"adapt": True}),
    "low-rank": ("rows", {"lora": 2}),
    "upper blocks": ("text", {"task": "masked_lm", "freeze": 1}),
}


@pytest.mark.parametrize("name", FROM_SCRATCH)
def test_each_task_trains_there_as_it_does_here(name, inputs, tmp_path, request):
    kind, options = FROM_SCRATCH[name]
    compare(inputs[kind], {**OPTIONS, **SIZES, **options}, tmp_path, request)


@pytest.mark.parametrize("name", FROM_A_BASE)
def test_a_base_is_trained_there_as_it_is_here(name, inputs, tmp_path, request):
    kind, options = FROM_A_BASE[name]
    plain = ("threads", "precision", "quiet") if {"frozen", "contrastive"} & set(options) else tuple(OPTIONS)
    options = {"from_model": str(inputs["base"]), **{key: OPTIONS[key] for key in plain}, **options}
    drops = bool({"contrastive", "adapt"} & set(options))  # by themselves, and otherwise there
    compare(inputs[kind], options, tmp_path, request, tolerance=1e-2 if drops else 1e-4)


def compare(path: Path, options: dict, folder: Path, request: pytest.FixtureRequest, tolerance: float = 1e-4) -> None:
    here = headway.train(path, out=folder / "here", **options)
    models = request.getfixturevalue("there")
    found = headway.train(path, out=folder / "there", **options)
    assert models and all(p.device.type == "meta" for model in models for p in (*model.parameters(), *model.buffers()))
    both = [logged(folder / name, "step", "evaluation") for name in ("here", "there")]
    assert both[0] == pytest.approx(both[1], rel=tolerance) and both[0]
    assert found["val_loss"] == pytest.approx(here["val_loss"], rel=tolerance)
    weights = [headway.load(folder / name, device="cpu").model.state_dict() for name in ("here", "there")]
    for key, value in weights[0].items():
        torch.testing.assert_close(value, weights[1][key], rtol=1e-3, atol=tolerance)


def test_what_is_trained_there_is_taken_up_there(inputs, tmp_path, there):
    options = {**OPTIONS, **SIZES, "length": 32, "average": 0.9, "dropout": 0.1}
    headway.train(inputs["text"], out=tmp_path / "whole", **options)
    headway.train(inputs["text"], out=tmp_path / "parts", **{**options, "steps": 3})
    headway.train(inputs["text"], out=tmp_path / "parts", **options, allow_changes=True)
    assert len(there) == 2  # the third went on with the plan of the second
    checkpoints = [tmp_path / name / "checkpoints" / "step-6" / "MANIFEST.json" for name in ("whole", "parts")]
    assert all(path.exists() for path in checkpoints)
    assert logged(tmp_path / "parts", "step")[:3] == logged(tmp_path / "whole", "step")[:3]


def test_tensors_of_two_devices_do_not_mix():
    with Somewhere():
        layer = torch.nn.Linear(3, 5)
        layer.weight = torch.nn.Parameter(layer.weight.detach().to("meta"))
        with pytest.raises(RuntimeError, match="two devices"):
            layer(torch.zeros(2, 3))
        with pytest.raises(RuntimeError, match="numpy"):
            layer.weight.detach().numpy()


def test_a_gpu_is_taken_where_there_is_one(monkeypatch):
    assert devices.device_of("auto") == devices.device_of("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.device_of("auto") == devices.device_of("cuda") == torch.device("cuda", 0)
    assert devices.device_of("cpu") == torch.device("cpu")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert devices.device_of("auto") == torch.device("cuda", 1)
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(InputError, match="finds 2 GPUs; start at most 2"):
        devices.device_of("auto")


def test_a_gpu_that_is_not_there_is_one_message(inputs, in_process):
    code, _, said = in_process("train", inputs["text"], "--device", "cuda", "--steps", 1)
    assert code == 2 and "finds no GPU here" in said and "Traceback" not in said
