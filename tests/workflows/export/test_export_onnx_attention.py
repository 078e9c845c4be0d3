"""What ONNX Runtime is given by ``--engine onnxruntime``: an encoder's attention as the one operation that it has."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from export_kit import BERT, PIECES, classifier_head, encoder

from headway.formats.onnx import fused_attention as attention
from headway.formats.onnx.fused_attention import fused
from headway.formats.onnx.sessions import OnnxRuntimeSession
from headway.models.heads import PoolingHead
from headway.nn.attention import Attention
from headway.workflows.export import export

INPUTS = "input_ids", "attention_mask", "token_type_ids"


def operations(graph: Path | bytes) -> list[str]:
    model = onnx.load_from_string(graph) if isinstance(graph, bytes) else onnx.load(graph)
    return [node.op_type for node in model.graph.node]


def forward_of_before(self: Attention, x: torch.Tensor, mask: Any = None, *_: Any, **__: Any) -> torch.Tensor:
    """What exports of before December 2026 hold: queries, keys and values by one split."""
    heads = self.qkv(x).unflatten(-1, (-1, self.d_head))
    q, k, v = (part.transpose(1, 2) for part in heads.split([self.n_heads] * 3, dim=2))
    return self.out(self.attend(q, k, v, mask, False, 0.0, None).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("head", [classifier_head, PoolingHead, None], ids=["classes", "vectors", "before"])
def test_berts_attention_is_one_operation_with_the_same_answers(
    head: Callable | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if head is None:
        head = classifier_head
        monkeypatch.setattr(Attention, "forward", forward_of_before)
    path = export(encoder(tmp_path / "a", head()), tmp_path / "b", to="onnx").out / "model.onnx"
    whole = fused(path)
    assert isinstance(whole, bytes)
    assert operations(whole).count("Attention") == BERT["n_layers"] and "Softmax" not in operations(whole)
    random = np.random.default_rng(0)
    theirs, ours = OnnxRuntimeSession(path), OnnxRuntimeSession(whole)
    for rows, length in ((1, 1), (1, 9), (4, 17)):
        ids = random.integers(0, PIECES.vocab_size, (rows, length))
        mask = np.ones_like(ids)
        if rows > 1:
            mask[1, 3:], mask[2, :4], mask[3] = 0, 0, 0  # padding behind a text, before it, and no text at all
        given = dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))
        seen = mask.astype(bool)
        for name, there in theirs(**given).items():
            here = ours(**given)[name]
            assert np.isfinite(here).all()
            chosen = seen if name == "last_hidden_state" else seen.any(axis=1)
            assert np.abs(there[chosen] - here[chosen]).max() < 1e-6, name


def test_what_has_other_attention_stays_as_it_is(exported: Callable, tmp_path: Path):
    path = exported("vectors")[1].out / "model.onnx"  # ModernBERT's is rotated
    assert fused(path) is path
    source = encoder(tmp_path / "a", classifier_head())
    path = export(source, tmp_path / "b", to="onnx", precision="int8").out / "model.onnx"
    assert fused(path) is path


def test_numbers_that_the_operation_does_not_assume_are_left_alone(tmp_path: Path):
    """Scores that are divided by something else than the root of the head's width."""
    path = export(encoder(tmp_path / "a", classifier_head()), tmp_path / "b", to="onnx").out / "model.onnx"
    model = onnx.load(path)
    makers = {name: node for node in model.graph.node for name in node.output}
    hidden = next(node for node in model.graph.node if node.op_type == "Softmax").input[0]
    divisor = makers[makers[hidden].input[2]].input[1]
    other = onnx.numpy_helper.from_array(np.array(2.5, np.float32), divisor)
    for constant in model.graph.initializer:
        if constant.name == divisor:
            constant.CopyFrom(other)
    onnx.save(model, path)
    assert "Attention" not in operations(fused(path))


def test_an_export_is_checked_with_this_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The check reads a graph as its users do, and as ``--engine onnxruntime`` does."""

    def of_one_head(op: Any, x: Any, weight: Any, bias: Any, hidden: Any, **_: Any) -> Any:
        mask = op.Cast(attention._seen(hidden), to=attention.INT32)
        return op.Attention(x, weight, bias, mask, num_heads=1, _domain=attention.DOMAIN)

    source = encoder(tmp_path / "a", classifier_head())
    monkeypatch.setattr(attention, "_as_one", of_one_head)
    found = export(source, tmp_path / "b", to="onnx")
    assert not found.made and found.parity.problem.startswith("by --engine onnxruntime the answers differ by")
