"""Language models that begin from a base: every family, what is trained, how it is saved, and whose run it is."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from bases import tokenizer
from faults_harness import facts_of
from safetensors.torch import load_file, save_file

import headway
from headway.data.open.read import read
from headway.data.records.corpus import TextPart
from headway.errors import InputError
from headway.hub.directory import load_model
from headway.hub.fingerprint import fingerprint
from headway.io.file_lock import cache_directory
from headway.tasks.running_text import encode_text, text_parts
from headway.text.tokenizer import Tokenizer
from headway.training.base import load_base
from headway.training.optimizers import optimizers
from headway.training.options import TrainOptions
from headway.training.sizing.presets import MOST_LOGITS, fine_tune_text_plan
from headway.training.store.checkpoint import newest_checkpoint
from headway.workflows.evaluate import evaluate

OPTIONS = {"steps": 6, "batch_tokens": 128, "threads": 1, "precision": "float32", "evaluations": 1, "quiet": True}
DECODERS = ["llama", "gpt2", "gpt2-bare", "qwen3", "nanochat"]


@pytest.mark.parametrize("kind", DECODERS)
def test_every_family_goes_on_as_itself(kind: str, bases: dict[str, Path], corpus: Path, tmp_path: Path):
    found = headway.train(corpus, out=tmp_path, from_model=str(bases[kind]), **OPTIONS)
    assert found["parameters"] == sum(p.numel() for p in load_model(bases[kind]).parameters())
    before, after = (json.loads((place / "config.json").read_text()) for place in (bases[kind], tmp_path))
    assert before["model_type"] == after["model_type"]
    assert "LMHead" in after["architectures"][0] or "CausalLM" in after["architectures"][0]
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "vocab_size"):
        assert after[key] == before[key]
    cls = getattr(transformers, after["architectures"][0])
    ids = torch.randint(5, 270, (3, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert (cls.from_pretrained(tmp_path)(ids).logits - load_model(tmp_path)(ids)).abs().max() <= 1e-4
    assert load_model(tmp_path).config.max_length == 61, "the context stays that of the base"
    assert facts_of(tmp_path)["plan"]["length"] == 61
    assert evaluate(tmp_path)["val_loss"] == pytest.approx(facts_of(tmp_path)["metrics"]["val_loss"], abs=1e-5)
    assert isinstance(headway.load(tmp_path)("the cat", max_tokens=3), str)


def test_a_shorter_length_is_that_of_training_alone(bases: dict[str, Path], corpus: Path, tmp_path: Path):
    headway.train(corpus, out=tmp_path, from_model=str(bases["llama"]), length=17, **OPTIONS)
    assert load_model(tmp_path).config.max_length == 61
    assert evaluate(tmp_path)["val_loss"] == pytest.approx(facts_of(tmp_path)["metrics"]["val_loss"], abs=1e-5)
    with pytest.raises(InputError, match=r"--length is 62, but .*llama reads 61 tokens at most"):
        headway.train(corpus, out=tmp_path / "other", from_model=str(bases["llama"]), length=62, **OPTIONS)
    assert not (tmp_path / "other").exists()


def test_what_cannot_go_on_with_a_text_is_refused(bases: dict[str, Path], files: Path, corpus: Path, tmp_path: Path):
    for data in (corpus, files / "talk.jsonl"):
        for kind, said in (("t5", "is an encoder-decoder.*name a decoder with --from"), ("bert", "is not a decoder")):
            with pytest.raises(InputError, match=f"{kind}: {said}"):
                headway.train(data, out=tmp_path / "run", from_model=str(bases[kind]), **OPTIONS)
    assert not (tmp_path / "run").exists()


def test_what_ends_a_text_is_the_bases(bases: dict[str, Path], tmp_path: Path):
    """Between documents stands the end of a text, or else its beginning."""
    chunks = [("the cat", True), ("sat on", True)]
    words = tokenizer()
    end = words.end_of_text
    beginning = Tokenizer(words.backend, {"bos_token": words.special_tokens["bos_token"]})
    assert beginning.end_of_text is None and beginning.begin_of_text == end
    assert cache_directory().is_dir()
    for number, each in enumerate((words, beginning)):
        ids = encode_text(TextPart(lambda: iter(chunks), (f"{tmp_path}{number}", "all")), each).tolist()
        assert ids == [*words.encode("the cat"), end, *words.encode("sat on"), end]


def test_all_of_a_file_is_not_taken_for_its_training_part(corpus: Path, tmp_path: Path):
    (tmp_path / "other.txt").write_text("old dogs sang on a mat\n" * 9)
    source, words = read(corpus), tokenizer()
    part, whole = (encode_text(text_parts(source, other)[0], words) for other in (None, read(tmp_path / "other.txt")))
    assert len(part) < len(whole) == len(words.encode(corpus.read_text()))


def test_what_a_base_says_of_how_to_generate_is_kept(bases: dict[str, Path], corpus: Path, tmp_path: Path):
    base = shutil.copytree(bases["llama"], tmp_path / "base")
    end = tokenizer().end_of_text
    said = {"eos_token_id": [7, end], "temperature": 0.3, "do_sample": True, "repetition_penalty": 1.1}
    (base / "generation_config.json").write_text(json.dumps(said))
    headway.train(corpus, out=tmp_path / "run", from_model=str(base), **OPTIONS)
    after = json.loads((tmp_path / "run" / "generation_config.json").read_text())
    assert {key: after[key] for key in said} == said
    assert after["pad_token_id"] == tokenizer().pad


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_layer_decay_and_freeze(kind: str, bases: dict[str, Path], corpus: Path, tmp_path: Path):
    model = load_model(bases[kind])
    rates: dict[str, float] = {}
    names = {id(p): name for name, p in model.named_parameters()}
    for optimizer in optimizers(model, "adamw", 1.0, 0.0, layer_decay=0.5):
        for group in optimizer.param_groups:
            rates |= {names[id(p)]: group["lr"] for p in group["params"]}
    assert [rates[f"stack.blocks.{i}.feedforward.layer.up.weight"] for i in range(3)] == [0.25, 0.5, 1.0]
    assert rates["stack.embedding.tokens.weight"] == 0.125 and rates["stack.norm.weight"] == 1.0
    headway.train(corpus, out=tmp_path, from_model=str(bases[kind]), freeze=1, layer_decay=0.5, **OPTIONS)
    after = dict(load_model(tmp_path).named_parameters())
    same = {name for name, p in load_model(bases[kind]).named_parameters() if torch.equal(p, after[name])}
    frozen = ("stack.embedding.", "stack.blocks.0.")
    assert same == {name for name in after if name.startswith(frozen)}
    whole = sum(p.numel() for p in after.values())
    trained = sum(p.numel() for name, p in after.items() if name not in same)
    assert (facts_of(tmp_path)["parameters"], facts_of(tmp_path)["trained_parameters"]) == (whole, trained)
    (tensors, _), _ = newest_checkpoint(tmp_path / "checkpoints")
    kept = [name for name in tensors if name.startswith(("model.", "best."))]
    assert kept and not any(part in name for name in kept for part in frozen)


def test_batches_fit_a_large_vocabulary(bases: dict[str, Path]):
    base = load_base(str(bases["llama"]))
    options = TrainOptions(from_model="base")
    plan = fine_tune_text_plan(options, base.config.but(vocab_size=151_936, max_length=2048), 10**6, None)
    assert plan.length == 256 and plan.batch_tokens % 256 == 0 and 256 <= plan.batch_tokens <= MOST_LOGITS / 151_936
    assert fine_tune_text_plan(options, base.config.but(max_length=2048), 10**6, None).batch_tokens == 4096


def other_weights(base: Path) -> None:
    weights = load_file(base / "model.safetensors")
    save_file({name: p * 1.01 for name, p in weights.items()}, base / "model.safetensors", metadata={"format": "pt"})


def other_config(base: Path) -> None:
    theirs = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**theirs, "rms_norm_eps": 1e-3}))


@pytest.mark.parametrize("change", [other_weights, other_config])
def test_a_run_goes_on_from_its_own_base_alone(
    change: Any, bases: dict[str, Path], corpus: Path, tmp_path: Path, stop_at: Callable
):
    base = shutil.copytree(bases["llama"], tmp_path / "base")
    options = {**OPTIONS, "from_model": str(base)}
    stop_at(4)
    with pytest.raises(KeyboardInterrupt):
        headway.train(corpus, out=tmp_path / "run", **options)
    before = facts_of(tmp_path / "run")["base"]
    assert before == {"path": str(base), "fingerprint": fingerprint(bases["llama"])}
    change(base)
    with pytest.raises(InputError, match=r"base: has changed since the run in .*run began from it"):
        headway.train(corpus, out=tmp_path / "run", **options)
    assert facts_of(tmp_path / "run")["finished"] is False
    shutil.rmtree(base)
    with pytest.raises(InputError, match="no such model directory"):
        headway.train(corpus, out=tmp_path / "run", **options)
    shutil.copytree(bases["llama"], base)
    assert headway.train(corpus, out=tmp_path / "run", **options)["steps"] == 6


def test_a_fingerprint_is_of_the_model_alone(bases: dict[str, Path], tmp_path: Path):
    base = shutil.copytree(bases["gpt2"], tmp_path / "base")
    (base / "tokenizer_config.json").write_text("{}")
    assert fingerprint(base) == fingerprint(bases["gpt2"])
    weights = load_file(base / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] += 1
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    assert fingerprint(base) != fingerprint(bases["gpt2"])
