"""PEFT adapters, as the real ``peft`` saves them: their model is the one that PEFT computes with."""

import os
import re
import sys
import time
from pathlib import Path

import pytest
import torch
import transformers
from hub_kit import edit, reweighed
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
CLASSES = ("AutoModelForSequenceClassification", "SEQ_CLS", {"num_labels": 3})
TAGS = ("AutoModelForTokenClassification", "TOKEN_CLS", {"num_labels": 5})
PATTERNS = {
    "rank_pattern": {"up_proj": 5, "^model.layers.1.self_attn.q_proj": 2},
    "alpha_pattern": {"layers.0.self_attn.q_proj": 19},
}
ADAPTERS = {
    "llama": ("llama", LM, {"target_modules": ["q_proj", "v_proj", "down_proj"]}),
    "ranks of their own": ("llama", LM, {"target_modules": ["q_proj", "up_proj"], **PATTERNS}),
    "rslora": ("qwen3", LM, {"target_modules": "all-linear", "use_rslora": True}),
    "gpt2": ("gpt2", LM, {"target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
    "a bare base": ("gpt2-bare", LM, {"target_modules": ["c_attn"], "fan_in_fan_out": True}),
    "t5": ("t5", ("AutoModelForSeq2SeqLM", "SEQ_2_SEQ_LM", {}), {"target_modules": ["q", "v", "wo"]}),
    "classifier": ("llama", CLASSES, {"target_modules": ["q_proj"]}),
    "tags": ("bert", TAGS, {"target_modules": ["query", "intermediate.dense"]}),
}


@torch.no_grad()
def saved(model, place, changed, **settings):
    """PEFT's model with drawn updates, as it saves it."""
    model = peft.get_peft_model(model, peft.LoraConfig(r=RANK, lora_alpha=7, **settings))
    for name, p in model.named_parameters():
        if changed(name, p):
            p.normal_(0.0, 0.2)
    model.save_pretrained(place / "adapter")
    return model.eval()


def adapter(kind, place):
    """An adapter with drawn updates, saved by PEFT, and PEFT's model."""
    base, (loader, task, words), settings = ADAPTERS[kind]
    make_base(base, place / "base")
    torch.manual_seed(7)
    model = getattr(transformers, loader).from_pretrained(place / "base", **words)
    settings = {"task_type": task, "lora_dropout": 0.1, **settings}
    return place / "adapter", saved(model, place, lambda n, p: "lora_" in n or "modules_to_save" in n, **settings)


def ids():
    return torch.randint(5, 270, (B, T), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", ADAPTERS)
@torch.no_grad()
def test_the_model_is_the_one_that_peft_has(kind, tmp_path):
    place, theirs = adapter(kind, tmp_path)
    x = ids().clamp(max=70) if kind == "tags" else ids()
    model = headway.load(place).model
    words = {"decoder_input_ids": x} if kind == "t5" else {}
    x = x[:1] if kind == "classifier" else x  # without a padding token, theirs reads one text at a time
    ours = model(x, x) if kind == "t5" else model(x)
    expected = theirs(input_ids=x, **words).logits
    assert ours.shape == expected.shape and (ours - expected).abs().max() <= 1e-4
    alone = headway.load_model(place)
    prepare(alone, "float32")  # the same layout of matrices in memory, which can change the last bit
    assert torch.equal(alone(x, x) if kind == "t5" else alone(x), ours)
    with theirs.disable_adapter():
        assert (expected - theirs(input_ids=x, **words).logits).abs().max() > 1e-2


def test_every_verb_takes_it(tmp_path, corpus, in_process):
    """Where it was saved elsewhere, the base is found beside it, and training starts from the merged model."""
    place, _ = adapter("llama", tmp_path)
    edit(place / "adapter_config.json", base_model_name_or_path="../base")
    assert in_process.passed("generate", place, "the cat", "--max-tokens", 3, "--temperature", 0)[0]
    words = ("--steps", 2, "--batch-tokens", 128, "--threads", 1, "--quiet")
    in_process.passed("train", corpus, "--from", place, "--out", tmp_path / "run", *words)
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert "max_difference" in in_process.passed("export", place, "--to", "hf", "--out", tmp_path / "merged")[0]


ALL = ["q_proj", "v_proj", "down_proj", "k_proj"]
REFUSED = {
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
    "modules without an update": ({"target_modules": ALL}, "has no update of model.layers.0.self_attn.k_proj, which"),
    "another task": ({"task_type": "QUESTION_ANS"}, "task_type QUESTION_ANS is not a task of Headway"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_expressed_is_refused(what, tmp_path, in_process, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    place, _ = adapter("llama", tmp_path)
    changes, said = REFUSED[what]
    edit(place / "adapter_config.json", **changes)
    in_process.refused("generate", place, "the cat", said=said, lines=1)
    assert not list((tmp_path / "cache").rglob("model.safetensors")), "nothing is half-written"


def test_what_was_merged_is_forgotten_a_month_after_its_last_use(tmp_path, monkeypatch):
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
CHANGES = {
    "embedding saved": lambda embedding, head: {"modules_to_save": [embedding]},
    "head saved": lambda embedding, head: {"modules_to_save": [head]},
    "both saved": lambda embedding, head: {"modules_to_save": [embedding, head]},
    "embedding updated": lambda embedding, head: {"target_modules": [embedding]},
    "head updated": lambda embedding, head: {"target_modules": [head]},
    "both updated": lambda embedding, head: {"target_modules": [embedding, head]},
    "tokens": lambda embedding, head: {"trainable_token_indices": {embedding: [5, 7]}},
}
MATRIX = "embed_tokens|wte|shared|word_embeddings|lm_head|predictions.decoder|trainable_token_indices"


def tied_adapter(kind, place, ties=False, **settings):
    """An adapter of a model whose head is tied to its embedding, and the model that PEFT loads it as."""
    loader, task, _, matrix, _, _ = TABLES[kind]
    make_base(kind, place / "base")
    torch.manual_seed(7)
    model, base = (getattr(transformers, loader).from_pretrained(place / "base") for _ in range(2))
    targets = [matrix, *settings.pop("target_modules", [])]
    words = {"target_modules": targets, "fan_in_fan_out": kind == "gpt2", "ensure_weight_tying": ties, **settings}
    saved(model, place, lambda name, p: p.requires_grad, task_type=task, **words)
    return place / "adapter", peft.PeftModel.from_pretrained(base, place / "adapter").eval()


@pytest.mark.parametrize("ties", [False, True], ids=["", "ensure_weight_tying"])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", TABLES)
@torch.no_grad()
def test_a_change_of_a_tied_matrix_is_that_of_peft_or_refused(kind, change, ties, tmp_path):
    place, theirs = tied_adapter(kind, tmp_path, ties, **CHANGES[change](*TABLES[kind][4:]))
    refused = kind == "t5" or change == "tokens" or (ties and change in ("head updated", "both updated"))
    try:
        model = headway.load_model(place)
    except InputError as error:
        assert refused and re.search(MATRIX, str(error)), error
        return
    x = ids().clamp(max=70)
    expected = theirs(input_ids=x).logits
    assert (model(x) - expected).abs().max() <= 1e-4 and kind != "t5" and change != "tokens"


@torch.no_grad()
def test_the_matrices_of_a_base_in_an_adapter_stay_tied(tmp_path):
    """``save_embedding_layers`` writes what the base has; PEFT reads it into the one matrix."""
    place, _ = tied_adapter("qwen3", tmp_path)
    file = place / "adapter_model.safetensors"
    table = torch.randn(331, 24, generator=torch.Generator().manual_seed(3))
    save_file({**load_file(file), "base_model.model.model.embed_tokens.weight": table}, file)
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    expected = peft.PeftModel.from_pretrained(base, place).eval()(input_ids=ids()).logits
    model = headway.load_model(place)
    assert (model(ids()) - expected).abs().max() <= 1e-4


@pytest.mark.parametrize("kind", ["a head", "a classifier", "a classifier, of a base that has one"])
def test_what_modules_to_save_promises_and_the_file_lacks_is_refused(kind, tmp_path, in_process):
    if kind == "a head":
        place, _ = tied_adapter("gpt2", tmp_path, modules_to_save=["lm_head"])
    else:
        place, model = adapter("classifier", tmp_path)
        if kind != "a classifier":
            model.get_base_model().score = model.get_base_model().score.original_module
            model.unload().save_pretrained(tmp_path / "base")
    name = "lm_head.weight" if kind == "a head" else "score.weight"
    reweighed(lambda weights: weights.pop(f"base_model.model.{name}"), "adapter_model.safetensors")(place)
    expected = "has no classifier" if kind == "a classifier" else f"modules_to_save promises {name}"
    in_process.refused("predict", place, "the cat", said=expected, lines=1)


def test_layers_are_those_of_peft_and_another_base_or_no_update_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(ADAPTERS, "one layer", ("llama", LM, {"target_modules": ["q_proj"], "layers_to_transform": 1}))
    place, theirs = adapter("one layer", tmp_path)
    with torch.no_grad():
        assert (headway.load_model(place)(ids()) - theirs(input_ids=ids()).logits).abs().max() <= 1e-4
    make_base("gpt2", tmp_path / "base")
    with pytest.raises(InputError, match="belongs to no weight of the base, a gpt2"):
        headway.load(place)
    save_file({}, place / "adapter_model.safetensors")
    with pytest.raises(InputError, match="holds no update"):
        headway.load_model(place)


def test_a_merged_model_that_is_damaged_is_merged_again(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    place, _ = adapter("llama", tmp_path)
    with torch.no_grad():
        expected = headway.load_model(place)(ids())
        (kept,) = (tmp_path / "cache" / "adapters").iterdir()
        weights = load_file(kept / "model.safetensors")
        save_file({name: 2 * weight for name, weight in weights.items()}, kept / "model.safetensors")
        assert torch.equal(headway.load_model(place)(ids()), expected)
