"""An export is checked through the door that its user takes, and what that door would not open is not left there."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

import headway
from headway.formats.parity import own_texts, room
from headway.hub.directory import load_model, save_model
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, PoolingHead
from headway.models.transformer import Encoder
from headway.text.train import train_tokenizer
from headway.workflows.export import export
from headway.workflows.verify.check import Subject
from headway.workflows.verify.verify import check_export

TOKENIZER = train_tokenizer(
    ["the cat sat on a mat while old dogs ran past red doors"] * 9, "wordpiece", 80, role="encoder"
)
CONFIG = TransformerConfig(
    TOKENIZER.vocab_size, d_model=24, n_layers=2, n_heads=3, d_ff=29, max_length=31, norm="layernorm",
    norm_parameters="both", norm_order="post", norm_eps=1e-12, positions="learned", activation="gelu", gated=False,
    embedding_norm=True, bias=("qkv", "out", "ff", "head"), tied=True, segments=2,
)  # fmt: skip
NAMES = ["ant", "bee", "cow"]
LABELS = {"id2label": dict(zip("012", NAMES, strict=True)), "label2id": {name: i for i, name in enumerate(NAMES)}}
BERT = {
    **{"hidden_size": 24, "intermediate_size": 17, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"vocab_size": TOKENIZER.vocab_size},
}


def saved(head: nn.Module | None, place: Path, **entries: object) -> Path:
    torch.manual_seed(3)
    model = Encoder(CONFIG, head)
    for p in model.parameters():
        nn.init.normal_(p, std=0.3) if p.dim() > 1 else nn.init.uniform_(p, 0.5, 1.5)
    save_model(model.eval(), place, **entries)
    TOKENIZER.save(place, max_length=31, segments=True)
    return place


def bert_head() -> ClassificationHead:
    return ClassificationHead(CONFIG, 3, pooling="first", activation="tanh", dense_bias=True)


def old_head(normalise: bool = False) -> ClassificationHead:
    return ClassificationHead(CONFIG, 3, dense=False, normalise=normalise)


def test_a_classifier_of_the_familys_own_class_is_read(tmp_path: Path, in_process: Callable):
    status, text, err = in_process("export", saved(bert_head(), tmp_path / "a", **LABELS), "--out", tmp_path / "b")
    assert status == 0, err
    assert 'read through pipeline("text-classification", DIR, truncation=True) with transformers' in text
    assert "no weight is missing or left over" in text and "the answers to 32 texts" in text


@pytest.mark.parametrize("normalise", [False, True])
def test_a_classifier_in_the_layout_of_sentence_transformers_fails(
    normalise: bool, tmp_path: Path, in_process: Callable
):
    source = saved(old_head(normalise), tmp_path / "a", **LABELS)
    status, out, err = in_process("export", source, "--out", tmp_path / "b", "--json")
    found = json.loads(out.splitlines()[-1])
    assert status == 1 and found["out"] is None and found["checked"] is True and found["max_difference"] is None
    assert found["door"] == 'pipeline("text-classification", DIR, truncation=True)' and not (tmp_path / "b").exists()
    assert "classifier.weight" in err and "a logit for each of ant, bee, cow" in err and err.count("\n") == 1
    assert "SentenceTransformer(RUN).encode(TEXTS)" in err
    check = check_export(Subject(headway.load(source)), source, tmp_path / "c")
    assert check.passed is False and "SentenceTransformer(RUN)" in (check.problem or "")
    theirs = pytest.importorskip("sentence_transformers").SentenceTransformer(str(source), device="cpu")
    logits = torch.from_numpy(theirs.encode(["the cat sat"]))[0]
    scores = headway.load(source)("the cat sat")["scores"]
    assert list(scores.values()) == pytest.approx(logits.softmax(-1).tolist(), abs=1e-5), "the one line is right"


@pytest.mark.parametrize("head", [None, PoolingHead()])
def test_a_bare_model_is_written_with_all_that_its_class_would_draw(head: nn.Module | None, tmp_path: Path):
    """BertModel has a pooler, which other programs draw where it is missing; here it is written as zeros."""
    source = saved(head, tmp_path / "a")
    found = export(source, tmp_path / "b")
    assert found.parity.passed, found.parity
    assert found.parity.door == ("SentenceTransformer(DIR)" if head else 'pipeline("feature-extraction", DIR)')
    _, report = transformers.AutoModel.from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert load_model(tmp_path / "b").pooler is None


def test_the_pooler_of_a_checkpoint_is_no_part_of_a_masked_token_model(tmp_path: Path):
    """bert-base-uncased is BertForPreTraining: its pooler has no place in BertForMaskedLM, which is what is written."""
    model = transformers.BertForPreTraining(transformers.BertConfig(**BERT))
    model.save_pretrained(tmp_path / "a")
    TOKENIZER.save(tmp_path / "a")
    found = export(tmp_path / "a", tmp_path / "b")
    assert found.parity.passed and found.parity.door == 'pipeline("fill-mask", DIR)', found.parity


def drop(name: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        weights = load_file(path / "model.safetensors")
        kept = {key: tensor for key, tensor in weights.items() if not key.endswith(name)}
        assert len(kept) < len(weights)
        save_file(kept, path / "model.safetensors", metadata={"format": "pt"})

    return spoil


def add(path: Path) -> None:
    weights = {**load_file(path / "model.safetensors"), "extra.weight": torch.zeros(3)}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})


def edit(name: str, **changes: object) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        said = json.loads((path / name).read_text())
        (path / name).write_text(json.dumps({**said, **changes}))

    return spoil


SPOILT: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a missing pooler": ("bare", drop("pooler.dense.weight"), "missing keys: pooler.dense.weight"),
    "a weight left over": ("bare", add, "unexpected keys: extra.weight"),
    "a missing bias": ("classes", drop("classifier.bias"), "missing keys: classifier.bias"),
    "labels in another order": (
        "classes",
        edit("config.json", id2label={"0": "bee", "1": "ant", "2": "cow"}, label2id={"bee": 0, "ant": 1, "cow": 2}),
        "here",
    ),
    "labels without names": (
        "classes",
        edit("config.json", id2label={str(i): f"LABEL_{i}" for i in range(3)}, label2id={}),
        "its labels are LABEL_0",
    ),
    "another way to make scores": (
        "classes",
        edit("config.json", problem_type="multi_label_classification"),
        "scores that differ",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_the_door_shows_fails_the_check(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    kind, spoil, said = SPOILT[name]
    source = saved(bert_head(), tmp_path / "a", **LABELS) if kind == "classes" else saved(None, tmp_path / "a")

    def save(model: nn.Module, path: Path, **entries: object) -> None:
        save_model(model, path, **entries)
        spoil(path)

    monkeypatch.setattr("headway.formats.hf.export.save_model", save)
    found = export(source, tmp_path / "b")
    assert not found.made and found.parity.checked and said in (found.parity.problem or ""), found.parity
    assert not (tmp_path / "b").exists()


def test_what_ends_a_text_is_told_to_other_programs(lm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An end that is known here alone would let another program write on and on."""
    source = shutil.copytree(lm_run, tmp_path / "a", ignore=shutil.ignore_patterns("checkpoints"))
    pipe = headway.load(source)
    prompt = own_texts(pipe.tokenizer, room(pipe.model), 8)[0]
    with torch.no_grad():  # the token that follows a text that will be asked is made the end of texts
        end = int(pipe.model(torch.tensor([pipe.tokenizer.encode(prompt)]))[0, -1].argmax())
    said = json.loads((source / "generation_config.json").read_text())
    edit("config.json", eos_token_id=end)(source)
    (source / "generation_config.json").write_text(json.dumps({**said, "eos_token_id": end}))
    (source / "headway.json").unlink()  # which says what the files were
    assert export(source, tmp_path / "b").parity.passed

    def save(model: nn.Module, path: Path, **entries: object) -> None:
        save_model(model, path, **entries)
        for name in ("config.json", "generation_config.json"):
            edit(name, eos_token_id=None)(path)

    monkeypatch.setattr("headway.formats.hf.export.save_model", save)
    found = export(source, tmp_path / "c")
    assert not found.made and f"goes on behind the token {end}" in (found.parity.problem or ""), found.parity


def test_without_transformers_nothing_is_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = saved(bert_head(), tmp_path / "a", **LABELS)
    monkeypatch.setitem(sys.modules, "transformers", None)
    check = check_export(Subject(headway.load(source)), source, tmp_path / "b")
    assert check.passed is None and "not checked: transformers is not installed" in (check.skipped or "")


def test_without_sentence_transformers_its_door_is_not_checked(
    tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    source = saved(PoolingHead(), tmp_path / "a")
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    status, text, err = in_process("export", source, "--out", tmp_path / "b")
    assert status == 0 and "not checked" in text and "pip install --upgrade sentence-transformers" in text, err


def test_an_export_that_has_changed_is_not_answered_from(tmp_path: Path):
    made = export(saved(bert_head(), tmp_path / "model", **LABELS), tmp_path / "hf").out
    (made / "README.md").write_text("a card of one's own")
    expected = headway.load(made)("the cat")
    weights = load_file(made / "model.safetensors")
    save_file({name: 1.5 * weight for name, weight in weights.items()}, made / "model.safetensors")
    with pytest.raises(headway.InputError, match=r"model\.safetensors: has changed since it was exported .* delete"):
        headway.load(made)
    (made / "headway_export.json").unlink()
    assert headway.load(made)("the cat") != expected
