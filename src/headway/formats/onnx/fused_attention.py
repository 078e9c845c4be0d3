"""An encoder's graph with the one operation that ONNX Runtime has for attention."""

import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 30
"""The largest file that is read; a model of more has its weights in other files."""
DOMAIN, INT32 = "com.microsoft", 6
LEAST = -3.4028234663852886e38
"""Added to the scores of padding: the least number of float32."""


def fused(path: Path) -> Path | bytes:
    """The graph with each self-attention as one operation, or the path of a graph that stays as it is.

    ONNX Runtime 1.32 finds no attention in our exports by itself: the mask that it looks for is made as before opset
    13.  Only attention of BERT's kind is replaced: every query sees all tokens of its text, and positions are in the
    vectors alone.  Letters: B batch, T tokens, D width, H heads, K head width.
    """
    if path.stat().st_size > MOST_BYTES or find_spec("onnxscript") is None:
        return path
    from onnxscript import ir
    from onnxscript.rewriter import RewriteRule, rewrite

    model = ir.load(path)
    before = len(model.graph)
    model = rewrite(
        model, [RewriteRule(spelled, _as_one, _is_of_bert) for spelled in (_spelled_out, _spelled_out_before)]
    )
    if len(model.graph) == before:
        return path
    model.opset_imports[DOMAIN] = 1
    return ir.to_proto(model).SerializeToString()


def _spelled_out(op: Any, x: Any, weight: Any, bias: Any, heads: Any, parts: Any, root: Any, hidden: Any, least: Any,
                 width: Any) -> Any:  # fmt: skip
    """x (B, T, D) and what is hidden from its queries, bool (B, 1, 1, T) -> (B, T, D)."""
    vectors = op.Reshape(op.Add(op.MatMul(x, weight), bias), heads)  # (B, T, 3 H, K)
    qk, v = op.Split(vectors, axis=2, _allow_other_inputs=True, _outputs=2)
    q, k = op.Split(op.Transpose(qk, perm=[0, 2, 1, 3]), parts, axis=1, _outputs=2)  # (B, H, T, K) each
    return _weighed(op, q, op.Transpose(k, perm=[0, 1, 3, 2]), v, root, hidden, least, width)


def _spelled_out_before(op: Any, x: Any, weight: Any, bias: Any, heads: Any, parts: Any, root: Any, hidden: Any,
                        least: Any, width: Any) -> Any:  # fmt: skip
    """As exports of before December 2026 have it."""
    vectors = op.Reshape(op.Add(op.MatMul(x, weight), bias), heads)  # (B, T, 3 H, K)
    q, k, v = op.Split(vectors, parts, axis=2, _outputs=3)
    q, k = op.Transpose(q, perm=[0, 2, 1, 3]), op.Transpose(k, perm=[0, 2, 3, 1])
    return _weighed(op, q, k, v, root, hidden, least, width)


def _weighed(op: Any, q: Any, k: Any, v: Any, root: Any, hidden: Any, least: Any, width: Any) -> Any:
    """q (B, H, T, K), k (B, H, K, T), v (B, T, H, K) -> (B, T, D)."""
    weights = op.Softmax(op.Where(hidden, least, op.Div(op.MatMul(q, k), root)), axis=-1)  # (B, H, T, T)
    y = op.MatMul(weights, op.Transpose(v, perm=[0, 2, 1, 3]))  # (B, H, T, K)
    return op.Reshape(op.Transpose(y, perm=[0, 2, 1, 3]), width)


def _as_one(op: Any, x: Any, weight: Any, bias: Any, parts: Any, hidden: Any, **_: Any) -> Any:
    mask = op.Cast(_seen(hidden), to=INT32)  # (B, T)
    n_heads = int(_numbers(parts)[0])
    return op.Attention(x, weight, bias, mask, num_heads=n_heads, mask_filter_value=LEAST, _domain=DOMAIN)


def _is_of_bert(context: Any, heads: Any, parts: Any, root: Any, hidden: Any, least: Any, **_: Any) -> bool:
    """Whether the numbers are those that the one operation assumes."""
    shape, sizes, root, least = (_numbers(value) for value in (heads, parts, root, least))
    return (
        _seen(hidden) is not None
        and len(shape) == 4
        and sizes == [shape[2] / 3] * len(sizes)
        and len(root) == 1
        and math.isclose(root[0], math.sqrt(shape[3]), rel_tol=1e-6)
        and least == [-math.inf]
    )


def _seen(hidden: Any) -> Any | None:
    """Which tokens are seen (B, T), of which ``hidden`` (B, 1, 1, T) is the opposite; None: it is made otherwise."""
    opposite = hidden.producer()
    if opposite is None or opposite.op_type != "Not" or (spread := opposite.inputs[0].producer()) is None:
        return None
    return spread.inputs[0] if spread.op_type == "Unsqueeze" and _numbers(spread.inputs[1]) == [1, 2] else None


def _numbers(value: Any) -> list[float]:
    """The numbers of a constant; none for another value."""
    return [] if value.const_value is None else [float(number) for number in value.const_value.numpy().ravel()]
