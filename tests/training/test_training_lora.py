"""Low-rank updates: nothing at first, merged exactly, the only thing that is trained, kept and taken up again."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from bases import KINDS
from faults_harness import facts_of, lines_of
from safetensors.torch import load_file

import headway
from headway.hub.directory import load_model
from headway.models.adapt.lora import SCALE, LowRankLinear, add_lora, count_parameters, merged
from headway.models.heads import ClassificationHead
from headway.models.transformer import Encoder
from headway.training.store.checkpoint import newest_checkpoint
from headway.workflows.evaluate import evaluate

R, B, T = 3, 5, 13
LORA = {"lora": R, "steps": 8, "batch_tokens": 128, "threads": 1, "precision": "float32", "evaluations": 2}


def ids() -> torch.Tensor:
    return torch.randint(5, 270, (B, T), generator=torch.Generator().manual_seed(1))


def answer(model: Any) -> torch.Tensor:
    return model(ids(), ids()) if type(model).__name__ == "EncoderDecoder" else model(ids())


def drawn(model: Any) -> Any:
    """The updates as after some training."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, LowRankLinear):
                module.up.normal_(0.0, 0.1, generator=generator)
    return model


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_nothing_at_first_and_merged_as_unmerged(kind: str, bases: dict[str, Path]):
    model = load_model(bases[kind])
    before = answer(model)
    names = [name for name, _ in model.named_parameters()]
    add_lora(model, R)
    assert torch.equal(answer(model), before)
    drawn(model)
    after = answer(model)
    assert (after - before).abs().max() > 0.01
    plain = merged(model)
    assert [name for name, _ in plain.named_parameters()] == names
    assert (answer(plain) - after).abs().max() <= 1e-5
    assert torch.equal(answer(model), after), "training goes on as it was"
    assert any(isinstance(module, LowRankLinear) for module in model.modules())


@torch.no_grad()
def test_each_of_the_stacked_matrices_has_an_update_of_its_own(bases: dict[str, Path]):
    """Four query heads and two of keys and values, each 6 wide; a gate and what it gates."""
    model = drawn(add_lora(load_model(bases["llama"]), R))
    attention, feedforward = (getattr(model.stack.blocks[0], name).layer for name in ("attention", "feedforward"))
    assert attention.qkv.sizes == (24, 12, 12) and feedforward.up.sizes == (17, 17)
    for layer in (attention.qkv, attention.out, feedforward.up, feedforward.out):
        change = layer.merged().weight - layer.weight
        start = 0
        for number, size in enumerate(layer.sizes):
            rows = slice(start, start + size)
            by_hand = SCALE * layer.up[rows] @ layer.down[number * R : (number + 1) * R]
            assert (change[rows] - by_hand).abs().max() <= 1e-6
            assert torch.linalg.matrix_rank(change[rows], atol=1e-5) == R
            start += size
        wanted = R * len(layer.sizes)
        assert torch.linalg.matrix_rank(change, atol=1e-5) == min(wanted, *change.shape)


def test_the_updates_alone_are_trained_and_a_classifier_in_full(bases: dict[str, Path]):
    decoder = add_lora(load_model(bases["llama"]), R)
    assert {n.rsplit(".", 1)[1] for n, p in decoder.named_parameters() if p.requires_grad} == {"down", "up"}
    encoder = load_model(bases["bert"])
    assert isinstance(encoder, Encoder)
    encoder.head = ClassificationHead(encoder.config, 7)
    whole = sum(p.numel() for p in encoder.parameters())
    add_lora(encoder, R, first=1)
    trained = {name for name, p in encoder.named_parameters() if p.requires_grad}
    assert {name for name, _ in encoder.named_parameters() if name.startswith("head.")} <= trained
    assert not any(".0." in name for name in trained), "the first block has none"
    updates = sum(p.numel() for name, p in encoder.named_parameters() if name.endswith((".up", ".down")))
    head = sum(p.numel() for p in encoder.head.parameters())
    assert count_parameters(encoder) == (whole, updates + head)


def test_ranks_and_blocks_that_cannot_be(bases: dict[str, Path]):
    with pytest.raises(ValueError, match="the rank 18 must be from 1 to"):
        add_lora(load_model(bases["llama"]), 18)
    with pytest.raises(ValueError, match="5 blocks cannot be frozen: the model has 3"):
        add_lora(load_model(bases["llama"]), R, first=5)


def test_a_run_is_a_plain_model_and_its_checkpoint_holds_what_is_trained(
    bases: dict[str, Path], corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture
):
    headway.train(corpus, out=tmp_path / "run", from_model=str(bases["llama"]), **LORA)
    shown = capfd.readouterr().err
    facts = facts_of(tmp_path / "run")
    base = load_file(bases["llama"] / "model.safetensors")
    after = load_file(tmp_path / "run" / "model.safetensors")
    assert {name: p.shape for name, p in after.items()} == {name: p.shape for name, p in base.items()}
    same = {name for name in base if torch.equal(base[name], after[name])}
    assert same == {name for name in base if "proj" not in name}
    (tensors, _), _ = newest_checkpoint(tmp_path / "run" / "checkpoints")
    kept = {name for name in tensors if name.startswith(("model.", "best.", "optimizer."))}
    assert kept and all(".up" in name or ".down" in name for name in kept)
    trained = sum(p.numel() for name, p in tensors.items() if name.startswith("model."))
    whole = sum(p.numel() for p in base.values())
    assert (facts["parameters"], facts["trained_parameters"]) == (whole, trained)
    assert f"training {trained:,} of {whole:,} parameters" in shown
    assert facts["plan"]["learning_rate"] == pytest.approx(1e-3) and facts["plan"]["layer_decay"] == 1.0
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "run")
    with torch.no_grad():
        assert (theirs(ids()).logits - load_model(tmp_path / "run")(ids())).abs().max() <= 1e-4
    losses = [line["val_loss"] for line in lines_of(tmp_path / "run") if line["event"] == "evaluation"]
    assert losses[-1] < losses[0]
    assert facts["metrics"]["val_loss"] == pytest.approx(evaluate(tmp_path / "run")["val_loss"], abs=1e-5)


def test_classifiers_too(bases: dict[str, Path], rows: Path, tmp_path: Path):
    found = headway.train(rows, out=tmp_path, from_model=str(bases["bert"]), quiet=True, **LORA)
    assert found["accuracy"] > 0.5
    base, after = (load_file(place / "model.safetensors") for place in (bases["bert"], tmp_path))
    frozen = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(base[frozen], after[frozen])
    assert headway.load(tmp_path)("the cat sat")["label"] in ("pos", "neg")
