"""Exported graphs made plainer, so that the programs that read them recognise and fuse their operations.

torch's exporter computes the shapes of reshaped tensors while the graph runs, and multiplies a GELU in an order that no
program looks for.
"""

from typing import Any

import numpy as np

SAME = 0
"""In the shape that a Reshape gets: as in its input."""


def simplify(model: Any) -> None:
    """Give each Reshape the shape that is known, and each GELU the usual order; ``model`` is an ``onnx_ir.Model``."""
    from onnxscript import ir
    from onnxscript.rewriter import RewriteRule, RewriteRuleSet

    for node in model.graph:
        if node.op_type == "Reshape" and (shape := _known_shape(node)) is not None:
            node.replace_input_with(1, _constant(ir, model, f"{node.outputs[0].name}_shape", shape))
            node.attributes.pop("allowzero", None)
    RewriteRuleSet([RewriteRule(_exported_gelu, _usual_gelu)]).apply_to_model(model)
    ir.passes.common.RemoveUnusedNodesPass()(model)


def _exported_gelu(op: Any, x: Any, half: Any, root: Any, one: Any) -> Any:
    return op.Mul(x, op.Mul(half, op.Add(op.Erf(op.Div(x, root)), one)))


def _usual_gelu(op: Any, x: Any, half: Any, root: Any, one: Any) -> Any:
    return op.Mul(op.Mul(x, op.Add(op.Erf(op.Div(x, root)), one)), half)


def _known_shape(node: Any) -> list[int] | None:
    """The shape that a Reshape gives, with 0 where it is its input's; None where that does not say all of it."""
    before, after = node.inputs[0].shape, node.outputs[0].shape
    if before is None or after is None:
        return None
    shape = []
    for place, size in enumerate(after):
        if isinstance(size, int):
            shape.append(size)
        elif place < len(before) and size.value is not None and before[place] == size:
            shape.append(SAME)
        else:
            shape.append(-1)
    return shape if shape.count(-1) <= 1 and 0 not in (size for size in after if isinstance(size, int)) else None


def _constant(ir: Any, model: Any, name: str, numbers: list[int]) -> Any:
    value = ir.val(name, const_value=ir.tensor(np.array(numbers, dtype=np.int64), name=name))
    model.graph.register_initializer(value)
    return value
