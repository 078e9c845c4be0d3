"""Loading: what is missing or damaged is one plain line; what was saved, transformers reads too."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from headway.errors import InputError

TEXTS = ["the cat sat on a mat\n", "old dogs ran, é 🙂", "<|endoftext|> [MASK]", "  two  spaces\t"]


def copied(run: Path, to: Path) -> Path:
    names = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    to.mkdir()
    for name in names:
        shutil.copy(run / name, to / name)
    return to


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("how", ["missing", "empty", "truncated", "text", "array"])
def test_damaged_files(classifier_run: Path, tmp_path: Path, name: str, how: str):
    directory = copied(classifier_run, tmp_path / "run")
    content = (directory / name).read_bytes()
    (directory / name).unlink()
    changed = {"empty": b"", "truncated": content[: len(content) // 2], "text": b"not a model\n", "array": b"[]"}
    if (name, how) == ("tokenizer_config.json", "missing"):
        assert headway.load(directory)("great")["label"], "older directories have none"
        return
    if how != "missing":
        (directory / name).write_bytes(changed[how])
    with pytest.raises(InputError) as raised:
        headway.load(directory)
    assert name in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_weights_that_are_no_numbers(classifier_run: Path, tmp_path: Path, dtype: torch.dtype, in_process: Callable):
    directory = copied(classifier_run, tmp_path / "run")
    weights = load_file(directory / "model.safetensors")
    name = "model.embeddings.norm.weight"
    weights[name][1] = torch.nan if dtype.is_floating_point else 1.0
    save_file({**weights, name: weights[name].to(dtype)}, directory / "model.safetensors", metadata={"format": "pt"})
    status, out, err = in_process("classify", directory, "great")
    said = "contains NaN or infinity" if dtype.is_floating_point else "dtype: found I8"
    assert (status, out) == (2, "") and f"model.safetensors: {name}: {said}" in err and err.count("\n") == 1


def change_config(**entries: object) -> Callable[[Path], None]:
    def change(directory: Path) -> None:
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        (directory / "config.json").write_text(json.dumps({**config, **entries}))

    return change


@pytest.mark.parametrize(
    "entries",
    [
        {"model_type": "mamba"},
        {"hidden_size": 18},
        {"hidden_size": -1},
        {"vocab_size": "many"},
        {"num_attention_heads": 3},
        {"id2label": {"0": "neg"}},
        {"id2label": {"0": "neg", "1": "pos", "2": "other"}},
        {"id2label": {"first": "neg", "second": "pos"}},
        {"id2label": {"0": "same", "1": "same"}},
        {"id2label": ["neg", "pos"]},
    ],
)
def test_configurations_that_do_not_fit(classifier_run: Path, tmp_path: Path, entries: dict[str, object]):
    directory = copied(classifier_run, tmp_path / "run")
    change_config(**entries)(directory)
    with pytest.raises(InputError, match=r"config\.json|model\.safetensors") as raised:
        headway.load(directory)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("path", ["nowhere", "empty", "file.txt"])
def test_what_is_no_model_directory(tmp_path: Path, path: str):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("text")
    with pytest.raises(InputError, match=path):
        headway.load(tmp_path / path)


def test_a_run_that_has_saved_no_model_yet_says_so(tmp_path: Path):
    (tmp_path / "headway.json").write_text("{}")
    with pytest.raises(InputError, match="no model has been saved here yet"):
        headway.load(tmp_path)


@pytest.mark.parametrize(
    ("run", "name"),
    [("lm_run", "Qwen3ForCausalLM"), ("char_run", "Qwen3ForCausalLM"),
     ("classifier_run", "ModernBertForSequenceClassification")],
)  # fmt: skip
def test_transformers_loads_what_was_trained(request: pytest.FixtureRequest, run: str, name: str):
    import transformers

    directory = request.getfixturevalue(run)
    ours = headway.load(directory)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == [name]
    theirs = getattr(transformers, name).from_pretrained(directory).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    special = ours.task == "classification"
    for text in TEXTS[:2]:
        expected = ours.tokenizer.encode(text, special=special)
        assert tokenizer(text)["input_ids"] == expected
    ids = torch.tensor([ours.tokenizer.encode(TEXTS[0], special=special)])
    with torch.no_grad():
        assert (ours.model(ids) - theirs(ids).logits).abs().max() <= 1e-4
        spread = torch.randint(5, ours.model.config.vocab_size, (3, 29), generator=torch.Generator().manual_seed(3))
        assert (ours.model(spread) - theirs(spread).logits).abs().max() <= 1e-4


def test_transformers_generates_the_same_greedy_text(lm_run: Path):
    import transformers

    ours = headway.load(lm_run)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(lm_run)
    tokenizer = transformers.AutoTokenizer.from_pretrained(lm_run)
    for prompt in ("the cat", "old dogs ran past"):
        given = tokenizer(prompt, return_tensors="pt")
        n = given["input_ids"].shape[1]
        found = theirs.generate(**given, max_new_tokens=23, do_sample=False, temperature=None)
        assert tokenizer.decode(found[0, n:], skip_special_tokens=True) == ours(prompt, max_tokens=23, temperature=0)


def test_transformers_pipeline_names_the_same_label(classifier_run: Path):
    import transformers

    ours, theirs = headway.load(classifier_run), transformers.pipeline("text-classification", str(classifier_run))
    for text in ("the cat sat on a great mat", "awful dogs"):
        expected = ours(text)
        assert theirs(text)[0]["label"] == expected["label"]
        assert theirs(text)[0]["score"] == pytest.approx(expected["score"], abs=1e-5)


def test_labels_that_are_not_named_are_numbered(classifier_run: Path, tmp_path: Path):
    directory = copied(classifier_run, tmp_path / "run")
    change_config(id2label=None, label2id=None, num_labels=2)(directory)
    assert headway.load(directory).labels == ["LABEL_0", "LABEL_1"]
