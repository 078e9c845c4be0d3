"""A vocabulary that grows before fine-tuning: in every wiring, in the tokenizer and in what a run saves."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from bases import KINDS, V, tokenizer
from faults_harness import facts_of
from safetensors.torch import load_file

import headway
from headway.errors import InputError
from headway.hub.directory import load_model, save_model
from headway.models.adapt.vocabulary import resize_vocabulary, train_new_rows
from headway.models.config import TransformerConfig
from headway.models.transformer import Encoder, EncoderDecoder
from headway.text.chat import with_chat
from headway.text.extend import extend, merged_from
from headway.text.tokenizer import Tokenizer
from headway.training import optimizers as optim
from headway.workflows.evaluate import evaluate

N = V + 6
ROWS = {V: [5, 7], V + 1: [11], 300: [13, 17, 19], V + 3: []}
OPTIONS = {"steps": 6, "batch_tokens": 128, "threads": 1, "precision": "float32", "evaluations": 1, "quiet": True}


def tables(model: Any) -> dict[str, torch.Tensor]:
    """What has a row for each token, every name of it."""
    named = model.named_parameters(remove_duplicate=False)
    ends = ("embedding.tokens.weight", "head.matrix.weight", "token.matrix.weight", "matrix.bias")
    return {name: p for name, p in named if name.endswith(ends)}


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_every_table_of_every_wiring_grows(kind: str, bases: dict[str, Path], tmp_path: Path):
    model = load_model(bases[kind])
    before = {name: p.clone() for name, p in tables(model).items()}
    one_of = {name: id(p) for name, p in tables(model).items()}
    others = {n: p for n, p in model.named_parameters(remove_duplicate=False) if n not in before}
    assert resize_vocabulary(model, N, ROWS) is model
    for name, p in tables(model).items():
        old = before[name]
        assert p.shape == (N, *old.shape[1:])
        kept = [number for number in range(V) if number != 300]
        assert torch.equal(p[kept], old[kept])
        assert torch.allclose(p[V], (old[5] + old[7]) / 2)
        assert torch.allclose(p[300], old[[13, 17, 19]].mean(dim=0))
        assert torch.equal(p[V + 1], old[11])
        for number in (V + 2, V + 3, V + 5):
            assert torch.allclose(p[number], old.mean(dim=0), atol=1e-6)
    for one in before:
        for other in before:
            assert (one_of[one] == one_of[other]) == (tables(model)[one] is tables(model)[other])
    after = dict(model.named_parameters(remove_duplicate=False))
    assert all(after[name] is others[name] for name in others)
    save_model(model, tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["vocab_size"] == N
    again = load_model(tmp_path)
    assert all(torch.equal(p, tables(again)[name]) for name, p in tables(model).items())


@torch.no_grad()
def test_transformers_reads_what_grew_and_old_tokens_mean_what_they_did(bases: dict[str, Path], tmp_path: Path):
    ids = torch.randint(5, 270, (3, 11), generator=torch.Generator().manual_seed(1))
    for kind, cls in (("llama", transformers.LlamaForCausalLM), ("gpt2", transformers.GPT2LMHeadModel)):
        model = load_model(bases[kind])
        before = model(ids)
        save_model(resize_vocabulary(model, N, {V: [5, 7]}), tmp_path / kind)
        after = cls.from_pretrained(tmp_path / kind)(ids).logits
        assert after.shape[-1] == N
        assert (after[..., :V] - before).abs().max() <= 1e-4


def test_what_cannot_be_grown():
    config = TransformerConfig(29, d_model=12, n_layers=1, n_heads=2)
    two = EncoderDecoder(config, config.but(vocab_size=31))
    for model, size, parts, said in (
        (Encoder(config), 23, {}, "23 tokens are fewer than the 29"),
        (Encoder(config), 31, {30: [29]}, "token 30 and its parts"),
        (two, 37, {}, "cannot be grown to one size"),
    ):
        with pytest.raises(ValueError, match=said):
            resize_vocabulary(model, size, parts)


def test_frozen_tables_train_the_new_rows_alone(bases: dict[str, Path]):
    for kind in ("llama", "gpt2"):
        model = resize_vocabulary(load_model(bases[kind]), N, {V: [5, 7]})
        model.requires_grad_(False)
        train_new_rows(model)
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        assert set(trained) == {name for name in tables(model) if name in dict(model.named_parameters())}
        before = {name: p.detach().clone() for name, p in trained.items()}
        optimizer = torch.optim.AdamW(trained.values(), lr=0.1, weight_decay=0.0, fused=True)
        for step in range(3):
            ids = torch.tensor([[5, 7, V, 11, V + 2 + step]])
            model(ids).logsumexp(dim=-1).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        for name, p in trained.items():
            changed = (p != before[name]).any(dim=-1).nonzero()[:, 0].tolist()
            assert changed and min(changed) >= V


def test_of_a_large_table_too(bases: dict[str, Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Large tables have gradients with entries for the rows that were read alone; a batch may have no new token."""
    monkeypatch.setattr(optim, "LARGE_TABLE", 7)
    base = str(bases["llama"])
    headway.train(corpus, out=tmp_path, from_model=base, extend_vocab=3, lora=2, **{**OPTIONS, "batch_tokens": 61})
    name, old = "model.embed_tokens.weight", tokenizer().vocab_size
    before, after = (load_file(place / "model.safetensors")[name] for place in (bases["llama"], tmp_path))
    assert torch.equal(before[:old], after[:old]) and torch.equal(before[old + 3 :], after[old + 3 :])
    assert not torch.equal(before[old : old + 3], after[old : old + 3])
    model = resize_vocabulary(load_model(bases["llama"]), N, {V: [5, 7]}).requires_grad_(False)
    train_new_rows(model)
    chosen = optim.optimizers(model, "adamw", 0.1, 0.1, by_rows=True)
    table = model.stack.embedding.tokens.weight  # type: ignore[union-attr]
    for ids in ([5, 7, 11], [5, V, 11]):
        was = table.detach().clone()
        model(torch.tensor([ids])).logsumexp(dim=-1).sum().backward()
        assert table.grad is not None and table.grad.is_sparse
        for optimizer in chosen:
            optimizer.step()
            optimizer.zero_grad()
        changed = (table != was).any(dim=-1).nonzero()[:, 0].tolist()
        assert changed == [V for number in ids if number == V]


TEXTS = ["underground overground wandering free the wombles of wimbledon common are we"] * 20


@pytest.mark.parametrize(("kind", "role"), [("bpe", "decoder"), ("wordpiece", "encoder")])
def test_of_what_a_new_token_was_made(kind: str, role: str):
    old = tokenizer(kind, role)
    new = extend(old, TEXTS, 17).tokenizer
    parts = merged_from(old, new)
    assert list(parts) == list(range(old.vocab_size, new.vocab_size)) and len(parts) == 17
    for number, ids in parts.items():
        assert len(ids) > 1 and old.unknown not in ids
        spelt = "".join(old.tokens[one].removeprefix("##" if i else "") for i, one in enumerate(ids))
        assert spelt == new.tokens[number]


def test_special_tokens_are_made_of_nothing():
    old = tokenizer()
    new = with_chat(old)
    assert merged_from(old, new) == {old.vocab_size: [], old.vocab_size + 1: []}
    assert merged_from(old, old) == {}


def test_a_language_model(bases: dict[str, Path], corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture):
    base = str(bases["llama"])
    headway.train(corpus, out=tmp_path, from_model=base, extend_vocab=83, **{**OPTIONS, "quiet": False})
    shown = capfd.readouterr().err
    facts = facts_of(tmp_path)["data"]
    n, before, after = (facts[key] for key in ("added_tokens", "tokens_per_word_before", "tokens_per_word_after"))
    assert f"learnt {n} new tokens: {before:.3f} tokens per word before, {after:.3f}" in shown
    assert 5 < n <= 83 and after < before / 1.5
    grown = Tokenizer.load(tmp_path)
    old = tokenizer()
    assert grown.vocab_size == old.vocab_size + n
    text, ids = "the cat sat on a mat", grown.encode("the cat sat on a mat")
    assert len(ids) < len(old.encode(text)) and grown.decode(ids) == text
    assert transformers.AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"] == ids
    rows = len(load_file(tmp_path / "model.safetensors")["model.embed_tokens.weight"])
    assert rows == max(V, grown.vocab_size) == json.loads((tmp_path / "config.json").read_text())["vocab_size"]
    assert evaluate(tmp_path)["val_loss"] == pytest.approx(facts_of(tmp_path)["metrics"]["val_loss"], abs=1e-5)


def test_a_classifier_and_a_masked_language_model(bases: dict[str, Path], rows: Path, corpus: Path, tmp_path: Path):
    base = str(bases["bert"])
    headway.train(rows, out=tmp_path / "classes", from_model=base, extend_vocab=19, **OPTIONS)
    headway.train(corpus, out=tmp_path / "masked", from_model=base, task="masked_lm", extend_vocab=19, **OPTIONS)
    for name in ("classes", "masked"):
        facts = facts_of(tmp_path / name)["data"]
        assert 0 < facts["added_tokens"] <= 19
        assert facts["tokens_per_word_after"] < facts["tokens_per_word_before"]
        grown = Tokenizer.load(tmp_path / name)
        assert grown.vocab_size == tokenizer("wordpiece", "encoder").vocab_size + facts["added_tokens"]
    assert headway.load(tmp_path / "classes")("the cat sat")["label"] in ("pos", "neg")
    assert len(headway.load(tmp_path / "masked")("the [MASK] sat", k=3)) == 3


def test_what_cannot_learn_tokens_is_refused(corpus: Path, char_run: Path, tmp_path: Path):
    with pytest.raises(InputError, match=r"--extend-vocab: .*'char', expected 'bpe' or 'wordpiece'"):
        headway.train(corpus, out=tmp_path, from_model=str(char_run), extend_vocab=5, **OPTIONS)
