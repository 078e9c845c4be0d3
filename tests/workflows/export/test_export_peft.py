"""``export --to peft``: the real ``peft`` computes with the adapter and its base what the run computes."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headway
from headway.hub.directory import load_model
from headway.workflows.export import RECORD, export

peft = pytest.importorskip("peft")
sys.path.append(str(Path(__file__).parents[2] / "training"))
from bases import make_base  # noqa: E402

LORA = {"lora": 3, "steps": 4, "batch_tokens": 128, "threads": 1, "precision": "float32", "evaluations": 1}
ADAPTER = {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "tokenizer_config.json"}


def run_of(kind: str, data: Path, place: Path, **options: object) -> Path:
    make_base(kind, place / "base")
    headway.train(data, out=place / "run", from_model=str(place / "base"), quiet=True, **{**LORA, **options})
    return place / "run"


def ids() -> torch.Tensor:
    return torch.randint(5, 270, (3, 13), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_peft_computes_the_same(
    kind: str, corpus: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    run = run_of(kind, corpus, tmp_path)
    status, text, err = in_process("export", run, "--to", "peft", "--json")
    found = json.loads(text.splitlines()[-1])
    assert status == 0 and found["checked"] and found["tokens_equal"] and found["max_difference"] <= 1e-4, err
    assert found["door"] == "PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(BASE), DIR)"
    out = run / "exports" / "peft"
    assert {path.name for path in out.iterdir()} - {RECORD, "README.md"} == ADAPTER
    assert json.loads((out / "adapter_config.json").read_text())["base_model_name_or_path"] == "../../../base"
    assert not [path for path in out.iterdir() if path.name != RECORD and str(tmp_path).encode() in path.read_bytes()]
    monkeypatch.chdir(out)  # by a relative path, PEFT finds a base from the working directory
    with torch.no_grad():
        base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
        before, ours = base(ids()).logits, load_model(run)(ids())
        assert (ours - before).abs().max() > 1e-3
        theirs = (
            peft.PeftModel.from_pretrained(base, out),
            peft.AutoPeftModelForCausalLM.from_pretrained(out),
            transformers.AutoModelForCausalLM.from_pretrained(out),
        )
        for model in theirs:
            assert (model(ids()).logits - ours).abs().max() <= 1e-4
        assert (headway.load(out).model(ids()) - ours).abs().max() <= 1e-4
    size, whole = ((place).stat().st_size for place in (out / "adapter_model.safetensors", run / "model.safetensors"))
    assert size < whole / 2


def test_a_base_that_is_far_away_is_named_without_its_place(monkeypatch: pytest.MonkeyPatch):
    from headway.formats.peft.export import _name_of
    from headway.hub.download import Download

    assert _name_of(Download(Path("/home/a person/models/base")), Path("/data/out")) == "base"
    assert _name_of(Download(Path("/srv/base"), "org/name", "abc"), Path("/data/out")) == "org/name"


def test_a_classifier_keeps_its_labels(rows: Path, tmp_path: Path):
    run = run_of("bert", rows, tmp_path)
    found = export(run, tmp_path / "out", to="peft")
    assert found.made and found.parity.passed, found.parity
    expected, answer = headway.load(run)("the cat sat"), headway.load(tmp_path / "out")("the cat sat")
    assert answer["label"] == expected["label"] and answer["scores"] == pytest.approx(expected["scores"], abs=1e-5)
    labels = json.loads((tmp_path / "out" / "labels.json").read_text())["id2label"]
    words = {"id2label": {int(number): label for number, label in labels.items()}}
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "base", **words)
    model = peft.PeftModel.from_pretrained(model, tmp_path / "out")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    with torch.no_grad():
        scores = model(**tokenizer("the cat sat", return_tensors="pt")).logits[0].softmax(0).tolist()
    found = {model.config.id2label[i]: score for i, score in enumerate(scores)}
    assert found == pytest.approx(expected["scores"], abs=1e-4)


def test_frozen_blocks_have_no_update(corpus: Path, tmp_path: Path):
    run = run_of("qwen3", corpus, tmp_path, freeze=1)
    found = export(run, tmp_path / "out", to="peft")
    assert found.parity.passed, found.parity
    names = set(load_file(tmp_path / "out" / "adapter_model.safetensors"))
    assert names and not any(".layers.0." in name for name in names)


def test_what_is_no_adapter_is_refused(lm_run: Path, corpus: Path, tmp_path: Path, in_process: Callable):
    status, out, err = in_process("export", lm_run, "--to", "peft", "--out", tmp_path / "out")
    assert status == 2 and out == "" and "was not trained with --lora" in err and err.count("\n") == 1
    run = run_of("llama", corpus, tmp_path, extend_vocab=7)
    status, out, err = in_process("export", run, "--to", "peft", "--out", tmp_path / "out")
    assert status == 2 and "model.embed_tokens.weight is not that of the base" in err and err.count("\n") == 1
    shutil.rmtree(tmp_path / "base")
    status, out, err = in_process("export", run, "--to", "peft", "--out", tmp_path / "out")
    assert status == 2 and f"its base, {tmp_path / 'base'}, is not there" in err and not (tmp_path / "out").exists()


def test_another_base_is_refused(corpus: Path, tmp_path: Path, in_process: Callable):
    run = run_of("llama", corpus, tmp_path)
    make_base("llama", tmp_path / "base", seed=5)
    status, _, err = in_process("export", run, "--to", "peft", "--out", tmp_path / "out")
    assert status == 2 and "has changed since; an adapter belongs to the old one" in err


def test_what_peft_reads_otherwise_is_not_left(
    corpus: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    def halved(tensors: dict, file: Path, **words: object) -> None:
        save_file({name: tensor / 2 if "lora_B" in name else tensor for name, tensor in tensors.items()}, file, **words)

    monkeypatch.setattr("headway.hub.safe.weights.save_file", halved)
    run = run_of("llama", corpus, tmp_path, learning_rate=0.02)
    status, _, err = in_process("export", run, "--to", "peft", "--out", tmp_path / "out")
    assert status == 1 and "the answers differ by" in err and not (tmp_path / "out").exists()


def test_without_peft_it_is_not_checked(
    corpus: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    run = run_of("llama", corpus, tmp_path)
    monkeypatch.setitem(sys.modules, "peft", None)
    status, text, err = in_process("export", run, "--to", "peft", "--out", tmp_path / "out")
    assert status == 0 and "not checked: peft cannot be imported" in text and "pip install --upgrade peft" in text, err
