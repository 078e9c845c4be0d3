"""An exported graph holds torch's own operations alone, and answers as the model does."""

import pytest
import torch
from torch import nn

from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.nn.kernels import products
from headway.nn.kernels.products import products_by

SYMBOLIC = {"_operator", "torch"}
"""Arithmetic with the sizes of a graph."""


def model(positions: str) -> nn.Module:
    torch.manual_seed(5)
    return Decoder(TransformerConfig(211, 512, 1, 4, n_kv_heads=2, window=3, positions=positions, qk_norm=True)).eval()


@pytest.mark.parametrize("positions", ["rotary", "alibi", "relative"])
@pytest.mark.parametrize("grad", [False, True])
def test_no_kernel_of_ours_is_in_a_graph(positions: str, grad: bool):
    """Matrices of 512 columns are large enough for oneDNN, which multiplies them outside of a graph."""
    ids, mask = torch.randint(0, 211, (2, 7)), torch.arange(7)[None] < torch.tensor([[7], [5]])
    ours = model(positions)
    axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with torch.set_grad_enabled(grad), products_by("onednn"):
        expected = ours(ids, mask)
        graph = torch.export.export(ours, (ids, mask), dynamic_shapes=(axes, axes))
    called = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    own = {name.split(".")[0] for name in called} - {"aten", "<built-in function getitem>"}
    assert own <= SYMBOLIC, own
    torch.testing.assert_close(graph.module()(ids, mask)[mask], expected[mask], atol=1e-4, rtol=1e-5)
    longer = torch.randint(0, 211, (3, 11))
    whole = torch.ones(3, 11, dtype=torch.bool)
    torch.testing.assert_close(graph.module()(longer, whole), ours(longer, whole), atol=1e-4, rtol=1e-5)


def test_the_kernels_are_used_outside_of_a_graph(monkeypatch: pytest.MonkeyPatch):
    """Else the test above would show nothing."""
    if not products.has_onednn():
        pytest.skip("this torch has no product of oneDNN")
    called = []
    product = torch.ops.mkldnn._linear_pointwise
    monkeypatch.setattr(
        "headway.nn.kernels.dispatch.onednn_linear",
        lambda x, weight, bias=None, activation=None: called.append(1) or product(x, weight, bias, "none", [], ""),
    )
    with torch.no_grad(), products_by("onednn"):
        model("rotary")(torch.randint(0, 211, (2, 7)))
    assert called
