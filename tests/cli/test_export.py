"""``headway export``: what is written, transformers reads; what differs is not left there."""

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import headway
from headway.errors import InputError
from headway.formats.hf.export import compare
from headway.formats.parity import BOUND, Parity, lines
from headway.formats.registry import FORMATS
from headway.formats.subject import Subject
from headway.hub.directory import load_model, save_model
from headway.reports.wording import decimal
from headway.tasks.registry import task_named
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.workflows.evaluate import given_for
from headway.workflows.export import RECORD, default_out, export

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
KEYS = {"task", "seconds", "out", "max_difference", "checked", "tokens_equal", "door"}
KEYS |= {"target", "precision", "agreement", "seconds_there", "seconds_here"}
MODEL = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "README.md", RECORD}


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def last_line(out: str) -> dict:
    return json.loads(out.splitlines()[-1])


def test_a_language_model(lm_run: Path, tmp_path: Path, in_process: Callable):
    out = tmp_path / "deep" / "model"
    found = in_process.json("export", lm_run, "--to", "hf", "--out", out)
    assert set(found) == KEYS and found["task"] == "language_modeling" and found["out"] == str(out)
    assert found["checked"] is True and found["tokens_equal"] is True and 0 <= found["max_difference"] <= BOUND
    assert names(out) == {*MODEL, "generation_config.json"} and names(out.parent) == {"model"}
    prompt, words = "the cat", {"temperature": 0, "max_tokens": 11}
    assert headway.load(out)(prompt, **words) == headway.load(lm_run)(prompt, **words)

    from transformers import AutoModelForCausalLM, AutoTokenizer

    theirs, tokenizer = AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
    continued = theirs.generate(ids, do_sample=False, max_new_tokens=11, pad_token_id=0)[0, ids.shape[1] :]
    assert tokenizer.decode(continued, skip_special_tokens=True) == headway.load(lm_run)(prompt, **words)


def test_a_classifier_keeps_its_labels(classifier_run: Path, tmp_path: Path, in_process: Callable):
    text, err = in_process.passed("export", classifier_run, "--out", tmp_path / "out")
    assert err == "" and "max_difference" in text and "the same ids for 1,000 lines" in text
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert set(config["id2label"].values()) == {"pos", "neg"} and set(config["label2id"]) == {"pos", "neg"}
    assert headway.load(tmp_path / "out")("great cat") == headway.load(classifier_run)("great cat")
    assert in_process.json("export", tmp_path / "out", "--out", tmp_path / "again")["task"] == "classification"
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / place).iterdir() if path.name != RECORD}
        for place in ("out", "again")
    )
    assert first == second


SIZES = {"vocab_size": 331, "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 2}
STACKS = {"vocab_size": 331, "d_model": 42, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 3}
STACKS |= {"decoder_attention_heads": 3, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17}
KINDS = {
    "T5ForConditionalGeneration": ("translation", {"d_model": 42, "d_kv": 7, "d_ff": 17, "num_layers": 2}),
    "M2M100ForConditionalGeneration": ("translation", STACKS),
    "LlamaForCausalLM": ("language_modeling", {**SIZES, "num_attention_heads": 3}),
    "GPT2ForSequenceClassification": ("classification", {"n_embd": 42, "n_layer": 2, "n_head": 3, "num_labels": 5}),
    "BertModel": ("embedding", {**SIZES, "num_attention_heads": 3}),
    "RobertaForMaskedLM": ("masked_lm", {**SIZES, "num_attention_heads": 3}),
}


@pytest.mark.thorough
def test_the_card_of_an_ensemble_has_the_figures_of_the_member(rows: Path, tmp_path: Path, in_process: Callable):
    run, out = tmp_path / "run", tmp_path / "hf"
    words = ("--steps", "6", "--seeds", "3", "--d-model", "16", "--length", "16", "--batch-tokens", "64", "--json")
    together = in_process.json("train", rows, *words, "--out", run, "--threads", "1")
    facts = json.loads((run / "headway.json").read_text())
    in_process.passed("export", run, "--to", "hf", "--out", out)
    alone = in_process.json("evaluate", out, _held_out(rows, run, tmp_path))
    member = json.loads((run / facts["best_member"] / "headway.json").read_text())["metrics"]
    assert alone["val_loss"] == pytest.approx(member["val_loss"], abs=1e-6), "the member is what is exported"
    assert abs(together["val_loss"] - member["val_loss"]) > 1e-4
    card = (out / "README.md").read_text()
    (row,) = [line for line in card.splitlines() if line.startswith("| **this model**")]
    assert decimal(member["val_loss"]) in row and decimal(together["val_loss"]) not in row
    assert f"value: {member['val_loss']}" in card and f"value: {together['val_loss']}" not in card
    assert "lowest validation loss of 3 models; the run answers with the mean" in card
    assert decimal(together["val_loss"]) in card
    one = sum(p.numel() for p in load_model(out).parameters())
    assert together["parameters"] == 3 * one and f"{one:,} parameters" in card


def _held_out(rows: Path, run: Path, folder: Path) -> Path:
    """A file of the rows that a run holds out."""
    pipe = headway.load(run)
    texts = task_named(pipe.task).held_out_inputs(pipe, given_for(run, pipe), 10_000)
    with rows.open(newline="") as file:
        labels = {row["text"]: row["label"] for row in csv.DictReader(file)}
    with (folder / "held-out.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((text, labels[text]) for text in texts)])
    return folder / "held-out.csv"


@pytest.mark.parametrize("kind", KINDS)
def test_other_families(kind: str, tmp_path: Path):
    import transformers

    cls, (task, settings) = getattr(transformers, kind), KINDS[kind]
    torch.manual_seed(3)
    model = cls(cls.config_class(**{"vocab_size": 331, **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=0.2)
    model.save_pretrained(tmp_path / "theirs")
    train_tokenizer(["the cat sat on a mat while old dogs ran\n"] * 7, "bpe", 300).save(tmp_path / "theirs")
    found = export(tmp_path / "theirs", tmp_path / "out")
    assert found.task == task and found.parity.passed, found.parity
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [kind]


def test_pickles_are_read_when_that_is_allowed(lm_run: Path, tmp_path: Path, in_process: Callable):
    source = shutil.copytree(
        lm_run, tmp_path / "run", ignore=shutil.ignore_patterns("model.safetensors", "headway.json")
    )
    torch.save(load_file(lm_run / "model.safetensors"), source / "pytorch_model.bin")
    assert in_process("export", source, "--out", tmp_path / "out")[0] == 2
    in_process.passed("export", source, "--out", tmp_path / "out", "--allow-pickle")
    assert (tmp_path / "out" / "model.safetensors").exists() and "pytorch_model.bin" not in names(tmp_path / "out")


def test_a_model_of_images_has_no_tokenizer(tmp_path: Path):
    import transformers

    torch.manual_seed(3)
    settings = {"hidden_size": 42, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17}
    config = transformers.ViTConfig(**settings, image_size=14, patch_size=7, num_labels=5)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "theirs")
    (tmp_path / "theirs" / "preprocessor_config.json").write_text('{"do_resize": true}')
    found = export(tmp_path / "theirs", tmp_path / "out")
    assert found.task == "image_classification" and found.parity.passed and found.parity.tokens_equal is None
    assert names(tmp_path / "out") == {*MODEL, "preprocessor_config.json"} - {"tokenizer.json", "tokenizer_config.json"}


def save_spoilt(wrong: str, model: torch.nn.Module, path: Path, **entries: object) -> None:
    save_model(model, path, **entries)
    weights = load_file(path / "model.safetensors")
    first = next(name for name in weights if name.endswith("v_proj.weight"))
    changed = weights.pop(first) * 1.5
    weights |= {} if wrong == "missing" else {first: changed}
    save_file(weights, path / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(("wrong", "said"), [("larger", "the answers differ by"), ("missing", "missing keys")])
def test_a_difference_is_status_one_and_leaves_nothing(
    wrong: str, said: str, lm_run: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headway.formats.hf.export.save_model", partial(save_spoilt, wrong))
    status, text, err = in_process("export", lm_run, "--out", tmp_path / "out", "--json")
    found = last_line(text)
    assert status == 1 and said in err and err.startswith("headway: ") and err.count("\n") == 1
    assert set(found) == KEYS and found["out"] is None and found["checked"] is True
    assert found["max_difference"] is None or found["max_difference"] > BOUND
    assert not any(tmp_path.iterdir())


def test_other_ids_are_status_one(lm_run: Path, tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch):
    other = Tokenizer.load(lm_run)
    monkeypatch.setattr("headway.workflows.export.Tokenizer.load", lambda *_, **__: other)

    def save(to: Path, **_: object) -> None:
        shutil.copy(lm_run / "tokenizer_config.json", to)
        spec = json.loads((lm_run / "tokenizer.json").read_text())
        spec["normalizer"] = {"type": "Lowercase"}
        (to / "tokenizer.json").write_text(json.dumps(spec))

    monkeypatch.setattr(other, "save", save)
    status, text, err = in_process("export", lm_run, "--out", tmp_path / "out", "--json")
    assert status == 1 and last_line(text)["tokens_equal"] is False and "different ids for" in err
    assert last_line(text)["max_difference"] <= BOUND and not any(tmp_path.iterdir())


def test_without_transformers_it_says_so(lm_run: Path, tmp_path: Path, in_process, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    status, text, err = in_process("export", lm_run, "--out", tmp_path / "out")
    assert status == 0 and "not checked" in text and "pip install --upgrade transformers" in text, err
    found = in_process.json("export", lm_run, "--out", tmp_path / "out")
    assert (found["checked"], found["max_difference"], found["tokens_equal"]) == (False, None, None)
    assert found["out"] == str(tmp_path / "out") and (tmp_path / "out" / "model.safetensors").exists()


def test_what_is_there_is_not_written_over(lm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    out = tmp_path / "out"
    out.mkdir()
    export(lm_run, out)
    (out / "config.json").write_text("{}")
    export(lm_run, out)
    assert json.loads((out / "config.json").read_text())["architectures"], "an earlier export is replaced"
    (out / "notes.txt").write_text("mine")
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    foreign = shutil.copytree(lm_run, tmp_path / "run")
    file = tmp_path / "file"
    file.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(lm_run)
    for place, said in (
        (out, "notes.txt"), (foreign, "not from an export"),
        (file, "not a directory"), (link, "a symbolic link"), (file / "out", "cannot be written"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            export(lm_run, place)
    with pytest.raises(InputError, match="model itself"):
        export(foreign, foreign)
    assert before == {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert names(tmp_path) == {"out", "run", "file", "link"}
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (".", tmp_path / "here"):
        with pytest.raises(InputError, match="this is the working directory"):
            export(lm_run, place)


def test_what_a_killed_export_left_is_removed(lm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """In a container, the next command often has the number of the one that was killed."""
    monkeypatch.setitem(sys.modules, "transformers", None)
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    left = [f".out.{os.getpid()}.tmp", f".out.{int(ended.stdout)}.tmp", f".out.{int(ended.stdout)}.old.tmp"]
    kept = [f".out.{os.getppid()}.tmp", ".out.notes.tmp", ".outer.1.tmp"]
    for name in (*left, *kept):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("")
    export(lm_run, tmp_path / "out")
    assert names(tmp_path) == {"out", *kept}


def test_an_export_that_fails_leaves_no_directory_above_it(lm_run: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("headway.formats.hf.export.compare", lambda *_: Parity(problem="it differs", version="1"))
    assert not export(lm_run, tmp_path / "new" / "deep" / "out").made and not names(tmp_path)


def test_a_library_that_cannot_be_imported_is_one_message(lm_run: Path, tmp_path: Path, in_process, monkeypatch):
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "__init__.py").write_text("raise OSError('libgguf.so.1: cannot open')")
    for name in [name for name in sys.modules if name.partition(".")[0] == "gguf"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    said = "gguf is installed, but cannot be imported (libgguf.so.1: cannot open)"
    in_process.refused("export", lm_run, "--to", "gguf", "--out", tmp_path / "out", said=said, lines=1)


FULL = OSError(28, "No space left on device"), OSError("32768 requested and 1824 written"), SafetensorError("I/O error")
"""A full disk as the system says it, and as numpy and safetensors do, without its number."""


@pytest.mark.parametrize(("error", "of"), zip(FULL, ["write_whole", "save_file", "save_file"], strict=True))
def test_a_full_disk_is_said_of_the_place_that_was_named(
    error: Exception, of: str, lm_run: Path, tmp_path, monkeypatch
):
    monkeypatch.setattr(f"headway.hub.safe.weights.{of}", Mock(side_effect=error))
    with pytest.raises(InputError) as raised:
        export(lm_run, tmp_path / "out")
    what = getattr(error, "strerror", None) or error
    assert str(raised.value).startswith(f"{tmp_path / 'out'}: cannot be written ({what}); ")
    if of == "write_whole":
        assert str(raised.value).endswith(" are free there; name another directory with --out.")
        assert not any(tmp_path.iterdir())


@pytest.mark.thorough
def test_only_what_exists_is_offered(lm_run: Path, tmp_path: Path, in_process: Callable, headway_command: Callable):
    """Every target of the help writes an export or says which models it takes, and no other is named."""
    shown = headway_command("export", "--help").stdout
    targets = re.search(r"--to \[([^\]]*)\]", shown)[1].split("|")
    assert targets == list(FORMATS)
    for target in targets:
        status, _, err = in_process("export", lm_run, "--to", target, "--out", tmp_path / target)
        if status == 2:  # the library is missing, or it has other families
            assert target != "hf" and any(
                words in err for words in ("pip install", "families gpt2, llama", "not trained with --lora")
            )
        assert (tmp_path / target).exists() == (status == 0)
    said = f"'papyrus' is not one of {', '.join(map(repr, targets))}"
    in_process.refused("export", lm_run, "--to", "papyrus", said=said)
    with pytest.raises(InputError, match=r"--to papyrus: a model can be exported to hf, "):
        export(lm_run, tmp_path / "out", to="papyrus")


def test_an_export_has_a_directory_of_its_own_in_the_run(tmp_path: Path):
    assert default_out(str(tmp_path), "hf") == tmp_path / "exports" / "hf"
    assert default_out(f"{tmp_path}/", "gguf", "float32") == tmp_path / "exports" / "gguf"
    assert default_out(str(tmp_path), "onnx", "int8") == tmp_path / "exports" / "onnx-int8"
    assert default_out("org/notes@main", "hf") == Path("exports/notes-hf"), "a model of the hub has none here"


def test_no_model_and_no_connection(tmp_path: Path, in_process: Callable, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    in_process.refused("export", "nowhere", said="nowhere", lines=1)
    assert not any(tmp_path.iterdir())


def test_the_comparison_opens_no_socket_and_sees_small_differences(lm_run: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, Mock(side_effect=AssertionError("a socket was opened")))
    model = load_model(lm_run)
    subject = Subject(model, Tokenizer.load(lm_run), None, lm_run)
    assert compare(subject, lm_run, "float32").passed
    with torch.no_grad():
        next(model.parameters())[5, 3] += 1
    found = compare(subject, lm_run, "float32")
    assert not found.passed and found.tokens_equal and "differ by" in found.problem


def test_the_lines_are_many_scripts_and_spell_no_special_token(lm_run: Path):
    tokenizer = Tokenizer.load(lm_run)
    texts = lines(tokenizer)
    assert texts == lines(tokenizer) and len(texts) == 1000
    assert not any(tokenizer.tokens[number] in text for text in texts for number in tokenizer.special_ids)
    everything = "".join(texts)
    assert all(character in everything for character in "ïПשعह日한🙂\u00a0\u3000\t\u200d")
