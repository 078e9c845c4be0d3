"""The precision of a runtime: which there is where, which a run stores, and what loading does to the weights."""

import pytest
import torch
from torch import nn

import headway
from headway.errors import InputError
from headway.hub.directory import load_model
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.nn.kernels.products import has_onednn, products_by
from headway.runtime import precision
from headway.runtime.precision import PRECISIONS, available, check_precision, prepare, resolved

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def every(monkeypatch):
    monkeypatch.setattr(precision, "available", lambda device: PRECISIONS)


def small() -> Decoder:
    torch.manual_seed(1)
    return Decoder(TransformerConfig(67, d_model=64, n_layers=2, n_heads=2, max_length=32)).eval()


@pytest.mark.parametrize("name", ["int3", "", 8, None, "FLOAT32"])
def test_what_is_no_precision_is_named(name):
    with pytest.raises(
        InputError, match=r"--precision is .*; it can be float32, bfloat16, float16, int8, int4 or auto\."
    ):
        check_precision(name, CPU)


def test_what_is_not_there_is_refused_with_what_is(monkeypatch):
    with pytest.raises(InputError, match=r"--precision float16: .* on this processor; use float32.*\."):
        check_precision("float16", CPU)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    assert available(CUDA) == ("float32", "float16")
    with pytest.raises(InputError, match=r"on a GPU \(cuda\); use float32 or float16\."):
        check_precision("bfloat16", CUDA)


def test_the_run_s_own_precision_is_taken_unless_another_is_named(every):
    facts = {"precision": {"chosen": "int8", "best": "bfloat16"}}
    assert resolved(None, facts, CPU) == "int8" and resolved("auto", facts, CPU) == "bfloat16"
    assert resolved("float32", facts, CPU) == "float32"
    for nothing in (None, {}, {"precision": {}}, {"precision": None}):
        assert resolved(None, nothing, CPU) == resolved("auto", nothing, CPU) == "float32"


def test_a_stored_precision_that_is_not_there_is_float32(monkeypatch):
    monkeypatch.setattr(precision, "available", lambda device: ("float32",))
    assert resolved(None, {"precision": {"chosen": "int8"}}, CPU) == "float32"
    with pytest.raises(InputError):
        resolved("int8", None, CPU)


@pytest.mark.skipif(not has_onednn(), reason="this torch has no product of oneDNN")
def test_float32_changes_the_order_in_memory_alone():
    model, other = small(), small()
    with products_by("onednn"):
        prepare(model, "float32")
    assert not model.stack.blocks[0].feedforward.layer.out.weight.is_contiguous()
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert one.shape == two.shape and torch.equal(one, two)
    ids = torch.randint(67, (2, 9))
    torch.testing.assert_close(model(ids), other(ids), rtol=1e-5, atol=1e-5)
    with products_by("torch"):
        prepare(other, "float32")
    assert all(one.is_contiguous() for one in other.parameters())


def test_a_model_laid_out_by_columns_is_saved_as_it_was(tmp_path):
    with products_by("onednn" if has_onednn() else "torch"):
        headway.save_model(small(), tmp_path / "a")
        model = headway.load_model(tmp_path / "a")
        prepare(model, "float32")
        headway.save_model(model, tmp_path / "b")
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "ab")
    assert one == other


@pytest.mark.skipif(not has_onednn(), reason="this torch has no product of oneDNN")
def test_weights_of_a_file_are_laid_out_while_they_are_read(tmp_path):
    """Only for answers: a model that is loaded to be trained has its weights by rows."""
    headway.save_model(small(), tmp_path / "a")
    with products_by("onednn"):
        plain, laid_out = headway.load_model(tmp_path / "a"), load_model(tmp_path / "a", precision="float32")
    assert all(one.is_contiguous() for one in plain.parameters())
    matrices = [part.weight for part in laid_out.modules() if isinstance(part, nn.Linear)]
    assert len(matrices) > 4 and all(one.t().is_contiguous() for one in matrices)
    assert all(torch.equal(*both) for both in zip(plain.parameters(), laid_out.parameters(), strict=True))


def test_a_gpu_takes_the_whole_model(monkeypatch):
    model = small()
    monkeypatch.setattr(precision, "model_device", lambda model: CUDA)
    prepare(model, "float16")
    assert {weight.dtype for weight in model.parameters()} == {torch.float16}
