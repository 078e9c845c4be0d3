"""No run is saved that nothing can load, or that is another model: limits are those of the readers."""

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from faults_harness import words
from torch import nn

import headway
from headway.errors import InputError
from headway.hub import directory as hub
from headway.models.own import OwnConfig
from headway.tasks.checks import own_model
from headway.tasks.language_modeling.data import LanguageModelData
from headway.text.safe.tokenizer_files import LONGEST_TOKEN
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.store import facts as store
from headway.training.store.facts import FILE, check_labels, read_facts, write_facts

RULER = "=" * 16_400
ODD = ["\u00e9" * 9000, "日" * 6000, " " * 16_400, "ab" * 9000]


def longest(tokenizer: Tokenizer) -> int:
    return max(len(token.encode()) for token in tokenizer.tokens)


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "word", "char"])
@pytest.mark.parametrize("role", ["decoder", "encoder"])
def test_no_trained_tokenizer_has_a_token_that_its_reader_refuses(kind: str, role: str, tmp_path: Path):
    texts = [RULER.replace("=", "a"), RULER, *ODD, "the cat sat"] * 2
    tokenizer = train_tokenizer(texts, kind, 2000, role=role)
    assert longest(tokenizer) <= LONGEST_TOKEN
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.tokens == tokenizer.tokens and again.encode_batch(texts) == tokenizer.encode_batch(texts)


def test_a_token_of_the_limit_is_read_and_a_longer_one_is_neither_read_nor_written(tmp_path: Path):
    spec = json.loads(train_tokenizer(["the cat sat"], "word", 20).to_json())

    def with_token(size: int) -> Tokenizer:
        vocabulary = {**spec["model"]["vocab"], "x" * size: len(spec["model"]["vocab"])}
        (tmp_path / "tokenizer.json").write_text(json.dumps({**spec, "model": {**spec["model"], "vocab": vocabulary}}))
        return Tokenizer.load(tmp_path)

    with_token(LONGEST_TOKEN).save(tmp_path / "again")
    assert longest(Tokenizer.load(tmp_path / "again")) == LONGEST_TOKEN
    with pytest.raises(InputError, match="expected at most 4096"):
        with_token(LONGEST_TOKEN + 1)


def test_a_line_of_one_character_trains_to_a_run_that_every_verb_loads(
    corpus: Path, tmp_path: Path, tiny: dict, in_process: Any
):
    (tmp_path / "text.txt").write_text(f"{RULER}\n{corpus.read_text()}{RULER}\n")
    in_process.passed("train", tmp_path / "text.txt", "--out", tmp_path / "run", *words(tiny))
    for command in (("generate", tmp_path / "run", "the"), ("evaluate", tmp_path / "run")):
        in_process.passed(*command)


def test_learnt_tokens_are_no_longer_than_those_that_are_read(lm_run: Path, tmp_path: Path, tiny: dict):
    (tmp_path / "text.txt").write_text(f"{RULER}\nthe cat sat\n" * 40)
    given = {key: value for key, value in tiny.items() if key not in ("d_model", "layers", "heads")}
    run = tmp_path / "run"
    headway.train(tmp_path / "text.txt", out=run, from_model=str(lm_run), extend_vocab=40, quiet=True, **given)
    assert 1000 < longest(headway.load(run).tokenizer) <= LONGEST_TOKEN


def test_a_tokenizer_that_would_be_another_one_is_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tokenizer = train_tokenizer(["the cat sat on a mat"], "word", 20)
    tokenizer.save(tmp_path)
    before = (tmp_path / "tokenizer.json").read_bytes()
    monkeypatch.setattr(Tokenizer, "encode_batch", lambda self, texts, **how: [[len(texts), id(self)]])
    with pytest.raises(InputError, match=rf"^{tmp_path}: the tokenizer would be another one"):
        train_tokenizer(["old dogs ran"], "word", 20).save(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == before and not list(tmp_path.glob(".*"))


def test_labels_that_are_too_long_to_be_read_again_are_refused_before_training(tmp_path: Path, tiny: dict, monkeypatch):
    labels = [f"{number}-" + "x" * size for number, size in enumerate([3000, 5000, 7000])]
    data = [f"{label[:1]} text {row}" for row in range(4) for label in labels], labels * 4
    bound = sum(2 * (len(label) + 2 + store.LINE) for label in labels)
    given: dict[str, Any] = {"out": tmp_path / "run", "quiet": True, **tiny, "steps": 2}
    monkeypatch.setattr(store, "MOST_OF_LABELS", bound - 1)
    with pytest.raises(InputError, match=r"the 3 labels would take 30\.1 kB in config\.json.*--label-column"):
        headway.train(data, **given)
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(store, "MOST_OF_LABELS", bound)
    headway.train(data, **given)
    assert sorted(headway.load(tmp_path / "run").labels) == labels


@pytest.mark.parametrize("size", [pytest.param(5, marks=pytest.mark.thorough), 500_000])
def test_labels_of_the_limit_fit_into_both_files(size: int, lm_run: Path, tmp_path: Path):
    """Many short ones and few long ones, with what a finished run says of each."""
    count = store.MOST_OF_LABELS // (2 * (size + 2 + store.LINE))
    labels = [f"{number:x}".rjust(size, "x") for number in range(count)]
    check_labels(labels)
    scores = {"precision": 0.123456789012345, "recall": 0.123456789012345, "f1": 0.123456789012345, "support": 12345}
    metrics = {"per_class": dict.fromkeys(labels, scores)}
    data = {**read_facts(lm_run)["data"], "classes": dict.fromkeys(labels, 12345)}  # type: ignore[index]
    write_facts(tmp_path, {**read_facts(lm_run), "data": data, "labels": labels, "metrics": metrics})  # type: ignore[dict-item]
    assert read_facts(tmp_path)["labels"] == labels  # type: ignore[index]
    model = headway.Decoder(headway.TransformerConfig(7, d_model=8, n_heads=2, n_layers=1, tied=False))
    with pytest.raises(InputError):
        check_labels([*labels, "y" * size])
    names = {str(number): label for number, label in enumerate(labels)}
    headway.save_model(model, tmp_path, id2label=names, label2id={label: number for number, label in enumerate(labels)})


def test_a_record_that_could_not_be_read_is_not_written(lm_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    facts: Any = read_facts(lm_run)
    write_facts(tmp_path, facts)
    before = (tmp_path / FILE).read_bytes()
    for wrong in ({"steps": -1}, {"options": {"seed": "x"}}, {"task": None}):
        with pytest.raises(InputError, match=rf"^{tmp_path / FILE}: "):
            write_facts(tmp_path, {**facts, **wrong})
    monkeypatch.setattr(store, "MOST_FACTS", len(before) - 1)
    with pytest.raises(InputError, match=f"found {len(before)} bytes, expected at most {len(before) - 1}"):
        write_facts(tmp_path, facts)
    assert (tmp_path / FILE).read_bytes() == before and [path.name for path in tmp_path.iterdir()] == [FILE]


class Summed(nn.Module):
    """Attention without a softmax, of the same weights."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.qkv, self.out, self.q_norm, self.k_norm = layer.qkv, layer.out, layer.q_norm, layer.k_norm

    def forward(self, x, **_: Any):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(torch.tril(q @ k.transpose(1, 2)) @ v)


def test_a_run_of_a_changed_model_is_refused_before_it_trains(corpus: Path, tmp_path: Path, tiny: dict, monkeypatch):
    build = LanguageModelData.build

    def changed(self: Any, plan: Any) -> Any:
        model: Any = build(self, plan)
        for block in model.stack.blocks:
            block.attention.layer = Summed(block.attention.layer)
        return model

    monkeypatch.setattr(LanguageModelData, "build", changed)
    with pytest.raises(InputError, match=rf"^{tmp_path}/run: loaded again, this model would be another one"):
        headway.train(corpus, out=tmp_path / "run", quiet=True, **tiny)
    assert not (tmp_path / "run").exists()


class Unsteady(nn.Module):
    """A model of a task of its own that is another one whenever it is built."""

    def __init__(self, vocab_size: int):
        super().__init__()
        self.words = nn.Embedding(vocab_size, 1)
        self.register_buffer("shift", torch.randn(1), persistent=False)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.words(ids).sum(dim=(1, 2)) + self.shift


class Steady(Unsteady):
    def __init__(self, vocab_size: int):
        super().__init__(vocab_size)
        self.shift = torch.ones(1)


@pytest.mark.parametrize("kind", [Unsteady, Steady])
def test_the_model_of_a_task_is_built_again_by_its_task(kind: type, tmp_path: Path):
    task: Any = SimpleNamespace(new_model=lambda config: kind(config.vocab_size))
    with nullcontext() if kind is Steady else pytest.raises(ValueError, match="another one"):
        headway.save_model(own_model(task, OwnConfig("own", 31)), tmp_path / "a")
    assert (tmp_path / "a" / "model.safetensors").exists() == (kind is Steady) == (tmp_path / "a").exists()


def test_a_saved_snapshot_and_a_resumed_run_are_compared_too(corpus: Path, tmp_path: Path, tiny: dict, monkeypatch):
    compared = []
    honest = hub._check_same
    monkeypatch.setattr(hub, "_check_same", lambda *given: (compared.append(1), honest(*given)))
    headway.train(corpus, out=tmp_path / "run", quiet=True, snapshots=True, **tiny)
    first = len(compared)
    assert first >= 2 + 2 + 1, "before training, each snapshot, each best model"
    headway.train(corpus, out=tmp_path / "run", quiet=True, snapshots=True, more_steps=8)
    assert len(compared) > first
