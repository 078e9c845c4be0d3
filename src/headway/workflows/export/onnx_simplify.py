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

    for node in model.graph:
        if node.op_type == "Reshape" and (shape := known_shape(node)) is not None:
            node.replace_input_with(1, _constant(ir, model, f"{node.outputs[0].name}_shape", shape))
            node.attributes.pop("allowzero", None)
        elif node.op_type == "Mul" and (parts := _gelu(node)) is not None:
            x, half, erf = parts
            product = ir.node("Mul", [x, erf])
            model.graph.insert_before(node, product)
            node.replace_input_with(0, product.outputs[0])
            node.replace_input_with(1, half)
    ir.passes.common.RemoveUnusedNodesPass()(model)


def known_shape(node: Any) -> list[int] | None:
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


def _gelu(node: Any) -> tuple[Any, Any, Any] | None:
    """x, 1/2 and 1 + erf(x / √2) of the last product of x · (1/2 · (1 + erf(x / √2))); None: it is no such product."""
    x, scaled = node.inputs
    inner = scaled.producer()
    if inner is None or inner.op_type != "Mul":
        return None
    half, erf = inner.inputs
    added = erf.producer()
    if half.const_value is None or added is None or added.op_type != "Add":
        return None
    sources = [one.producer() for one in added.inputs]
    return (x, half, erf) if any(one is not None and one.op_type == "Erf" for one in sources) else None


def _constant(ir: Any, model: Any, name: str, numbers: list[int]) -> Any:
    value = ir.val(name, const_value=ir.tensor(np.array(numbers, dtype=np.int64), name=name))
    model.graph.register_initializer(value)
    return value
