"""PEFT adapters, as the real ``peft`` saves them: their model is the one that PEFT computes with."""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headway
from headway.errors import InputError
from headway.hub.adapters import locate
from headway.runtime.precision import prepare

peft = pytest.importorskip("peft")
sys.path.append(str(Path(__file__).parent.parent / "training"))
from bases import make_base  # noqa: E402

B, T, RANK = 3, 11, 3
LM = ("AutoModelForCausalLM", "CAUSAL_LM", {})
ADAPTERS: dict[str, tuple[str, tuple[str, str, dict], dict[str, Any]]] = {
    "llama": ("llama", LM, {"target_modules": ["q_proj", "v_proj", "down_proj"]}),
    "ranks of their own": (
        "llama",
        LM,
        {
            "target_modules": ["q_proj", "up_proj"],
            "rank_pattern": {"up_proj": 5, "^model.layers.1.self_attn.q_proj": 2},
            "alpha_pattern": {"layers.0.self_attn.q_proj": 19},
        },
    ),
    "rslora": ("qwen3", LM, {"target_modules": "all-linear", "use_rslora": True}),
    "gpt2": ("gpt2", LM, {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "a bare base": ("gpt2-bare", LM, {"target_modules": ["c_attn"], "fan_in_fan_out": True}),
    "t5": ("t5", ("AutoModelForSeq2SeqLM", "SEQ_2_SEQ_LM", {}), {"target_modules": ["q", "v", "wo"]}),
    "classifier": (
        "llama",
        ("AutoModelForSequenceClassification", "SEQ_CLS", {"num_labels": 3}),
        {"target_modules": ["q_proj"]},
    ),
    "tags": (
        "bert",
        ("AutoModelForTokenClassification", "TOKEN_CLS", {"num_labels": 5}),
        {"target_modules": ["query", "intermediate.dense"]},
    ),
}


def adapter(kind: str, place: Path) -> tuple[Path, Any]:
    """An adapter with drawn updates, saved by PEFT, and PEFT's model."""
    base, (loader, task, words), settings = ADAPTERS[kind]
    make_base(base, place / "base")
    torch.manual_seed(7)
    model = getattr(transformers, loader).from_pretrained(place / "base", **words)
    config = peft.LoraConfig(task_type=task, r=RANK, lora_alpha=7, lora_dropout=0.1, **settings)
    model = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                p.normal_(0.0, 0.2)
    model.save_pretrained(place / "adapter")
    return place / "adapter", model.eval()


def ids() -> torch.Tensor:
    return torch.randint(5, 270, (B, T), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", ADAPTERS)
@torch.no_grad()
def test_the_model_is_the_one_that_peft_has(kind: str, tmp_path: Path):
    place, theirs = adapter(kind, tmp_path)
    x = ids()[:, :T].clamp(max=70) if kind == "tags" else ids()
    model: Any = headway.load(place).model
    words = {"decoder_input_ids": x} if kind == "t5" else {}
    if kind == "classifier":
        x = x[:1]  # without a padding token, theirs reads one text at a time
    ours = model(x, x) if kind == "t5" else model(x)
    expected = theirs(input_ids=x, **words).logits
    assert ours.shape == expected.shape and (ours - expected).abs().max() <= 1e-4
    alone: Any = headway.load_model(place)
    prepare(alone, "float32")  # the same layout of matrices in memory, which can change the last bit
    assert torch.equal(alone(x, x) if kind == "t5" else alone(x), ours)
    with theirs.disable_adapter():
        assert (expected - theirs(input_ids=x, **words).logits).abs().max() > 1e-2


def test_every_verb_takes_it(tmp_path: Path, corpus: Path, in_process: Callable):
    """Where it was saved elsewhere, the base is found beside it, and training starts from the merged model."""
    place, _ = adapter("llama", tmp_path)
    config = json.loads((place / "adapter_config.json").read_text())
    (place / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "../base"}))
    status, out, err = in_process("generate", place, "the cat", "--max-tokens", 3, "--temperature", 0)
    assert status == 0 and out, err
    words = ("--steps", 2, "--batch-tokens", 128, "--threads", 1, "--quiet")
    status, _, err = in_process("train", corpus, "--from", place, "--out", tmp_path / "run", *words)
    assert status == 0 and (tmp_path / "run" / "model.safetensors").exists(), err
    status, text, err = in_process("export", place, "--to", "hf", "--out", tmp_path / "merged")
    assert status == 0 and "max_difference" in text, err


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another method": ({"peft_type": "IA3"}, "peft_type is 'IA3', and Headway reads LORA alone"),
    "DoRA": ({"use_dora": True}, "use_dora: DoRA is not supported"),
    "PiSSA": ({"init_lora_weights": "pissa"}, "init_lora_weights is 'pissa', which is not supported"),
    "biases": ({"bias": "all"}, "bias is 'all', which is not supported"),
    "something new": ({"warp_config": {"a": 1}}, "warp_config is {'a': 1}, which is not supported"),
    "a pattern of ranks": ({"rank_pattern": {"(a+)+b": 5}}, "rank_pattern: found '(a+)+b': 5"),
    "another rank": ({"r": 4}, "has shapes [24, 3] and [3, 17], expected [24, 4] and [4, 17]"),
    "no rank": ({"r": 0}, "r is 0, expected a whole number above 0"),
    "no base": ({"base_model_name_or_path": None}, "base_model_name_or_path is None"),
    "a base elsewhere": ({"base_model_name_or_path": "/nowhere/base"}, "its base, /nowhere/base, is not there"),
    "layers without their updates": ({"layers_to_transform": [0]}, "has an update of model.layers.1.mlp.down_proj"),
    "other modules": ({"target_modules": ["nothing"]}, "which target_modules, exclude_modules and layers_to_transform"),
    "modules left out": ({"exclude_modules": ["q_proj"]}, "has an update of model.layers.0.self_attn.q_proj, which"),
    "modules without an update": (
        {"target_modules": ["q_proj", "v_proj", "down_proj", "k_proj"]},
        "has no update of model.layers.0.self_attn.k_proj, which",
    ),
    "another task": ({"task_type": "QUESTION_ANS"}, "task_type QUESTION_ANS is not a task of Headway"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_expressed_is_refused(
    what: str, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    place, _ = adapter("llama", tmp_path)
    changes, said = REFUSED[what]
    config = json.loads((place / "adapter_config.json").read_text())
    (place / "adapter_config.json").write_text(json.dumps({**config, **changes}))
    status, out, err = in_process("generate", place, "the cat")
    assert status == 2 and out == "" and said in err and err.count("\n") == 1, err
    assert not list((tmp_path / "cache").rglob("model.safetensors")), "nothing is half-written"


def test_a_base_of_another_shape_is_refused(tmp_path: Path):
    place, _ = adapter("llama", tmp_path)
    make_base("gpt2", tmp_path / "base")
    with pytest.raises(InputError, match="belongs to no weight of the base, a gpt2"):
        headway.load(place)


def test_what_was_merged_is_forgotten_a_month_after_its_last_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / locate.FOLDER
    places = [adapter("gpt2", tmp_path / name)[0] for name in ("one", "two", "three")]
    merged = [locate.locate_model(place).path for place in places[:2]]
    assert {path.name for path in folder.iterdir()} == {path.name for path in merged}
    for path in merged:
        os.utime(path, (time.time() - locate.MONTH - 60,) * 2)
    assert locate.locate_model(places[0]).path == merged[0], "which is a use of it"
    third = locate.locate_model(places[2]).path
    assert {path.name for path in folder.iterdir()} == {merged[0].name, third.name}


TABLES = {  # loader, task, an attention matrix, the embedding, the head
    "qwen3": (*LM, "q_proj", "embed_tokens", "lm_head"),
    "gpt2": (*LM, "c_attn", "wte", "lm_head"),
    "t5": (*ADAPTERS["t5"][1], "q", "shared", "lm_head"),
    "bert": ("AutoModelForMaskedLM", None, {}, "query", "word_embeddings", "cls.predictions.decoder"),
}
CHANGES: dict[str, Callable[[str, str], dict[str, Any]]] = {
    "embedding saved": lambda embedding, head: {"modules_to_save": [embedding]},
    "head saved": lambda embedding, head: {"modules_to_save": [head]},
    "both saved": lambda embedding, head: {"modules_to_save": [embedding, head]},
    "embedding updated": lambda embedding, head: {"target_modules": [embedding]},
    "head updated": lambda embedding, head: {"target_modules": [head]},
    "both updated": lambda embedding, head: {"target_modules": [embedding, head]},
    "tokens": lambda embedding, head: {"trainable_token_indices": {embedding: [5, 7]}},
}
MATRIX = "embed_tokens|wte|shared|word_embeddings|lm_head|predictions.decoder|trainable_token_indices"


def tied_adapter(kind: str, place: Path, ties: bool = False, **settings: Any) -> tuple[Path, Any]:
    """An adapter of a model whose head is tied to its embedding, and the model that PEFT loads it as."""
    loader, task, _, matrix, _, _ = TABLES[kind]
    make_base(kind, place / "base")
    torch.manual_seed(7)
    model = getattr(transformers, loader).from_pretrained(place / "base")
    targets = [matrix, *settings.pop("target_modules", [])]
    words = {"target_modules": targets, "fan_in_fan_out": kind == "gpt2", "ensure_weight_tying": ties, **settings}
    model = peft.get_peft_model(model, peft.LoraConfig(task_type=task, r=RANK, lora_alpha=7, **words))
    with torch.no_grad():
        for p in model.parameters():
            if p.requires_grad:
                p.normal_(0.0, 0.2)
    model.save_pretrained(place / "adapter")
    base = getattr(transformers, loader).from_pretrained(place / "base")
    return place / "adapter", peft.PeftModel.from_pretrained(base, place / "adapter").eval()


@pytest.mark.parametrize("ties", [False, True], ids=["", "ensure_weight_tying"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", TABLES)
@torch.no_grad()
def test_a_change_of_a_tied_matrix_is_that_of_peft_or_refused(kind: str, change: str, ties: bool, tmp_path: Path):
    place, theirs = tied_adapter(kind, tmp_path, ties, **CHANGES[change](*TABLES[kind][4:]))
    refused = kind == "t5" or change == "tokens" or (ties and change in ("head updated", "both updated"))
    try:
        model: Any = headway.load_model(place)
    except InputError as error:
        assert refused and re.search(MATRIX, str(error)), error
        return
    x = ids().clamp(max=70)
    expected = theirs(input_ids=x).logits
    assert (model(x) - expected).abs().max() <= 1e-4 and kind != "t5" and change != "tokens"


@torch.no_grad()
def test_the_matrices_of_a_base_in_an_adapter_stay_tied(tmp_path: Path):
    """``save_embedding_layers`` writes what the base has; PEFT reads it into the one matrix."""
    place, _ = tied_adapter("qwen3", tmp_path)
    file = place / "adapter_model.safetensors"
    table = torch.randn(331, 24, generator=torch.Generator().manual_seed(3))
    save_file({**load_file(file), "base_model.model.model.embed_tokens.weight": table}, file)
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    expected = peft.PeftModel.from_pretrained(base, place).eval()(input_ids=ids()).logits
    model: Any = headway.load_model(place)
    assert (model(ids()) - expected).abs().max() <= 1e-4


@pytest.mark.parametrize("kind", ["a head", "a classifier", "a classifier, of a base that has one"])
def test_what_modules_to_save_promises_and_the_file_lacks_is_refused(kind: str, tmp_path: Path, in_process: Callable):
    if kind == "a head":
        place, _ = tied_adapter("gpt2", tmp_path, modules_to_save=["lm_head"])
    else:
        place, model = adapter("classifier", tmp_path)
        if kind != "a classifier":
            model.get_base_model().score = model.get_base_model().score.original_module
            model.unload().save_pretrained(tmp_path / "base")
    name = "lm_head.weight" if kind == "a head" else "score.weight"
    file = place / "adapter_model.safetensors"
    tensors = load_file(file)
    del tensors[f"base_model.model.{name}"]
    save_file(tensors, file)
    status, out, err = in_process("predict", place, "the cat")
    expected = "has no classifier" if kind == "a classifier" else f"modules_to_save promises {name}"
    assert status == 2 and out == "" and expected in err and err.count("\n") == 1, err


def test_layers_are_those_of_peft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(ADAPTERS, "one layer", ("llama", LM, {"target_modules": ["q_proj"], "layers_to_transform": 1}))
    place, theirs = adapter("one layer", tmp_path)
    with torch.no_grad():
        assert (headway.load_model(place)(ids()) - theirs(input_ids=ids()).logits).abs().max() <= 1e-4
    save_file({}, place / "adapter_model.safetensors")
    with pytest.raises(InputError, match="holds no update"):
        headway.load_model(place)


def test_a_merged_model_that_is_damaged_is_merged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    place, _ = adapter("llama", tmp_path)
    with torch.no_grad():
        expected: Any = headway.load_model(place)(ids())
        (kept,) = (tmp_path / "cache" / "adapters").iterdir()
        weights = load_file(kept / "model.safetensors")
        save_file({name: 2 * weight for name, weight in weights.items()}, kept / "model.safetensors")
        assert torch.equal(headway.load_model(place)(ids()), expected)
