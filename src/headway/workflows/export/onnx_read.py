"""Run exported graphs in ONNX Runtime or in OpenVINO: arrays in, arrays out.

    session = in_onnxruntime(directory / "model.onnx")
    session(input_ids=ids, attention_mask=mask)["logits"]
    written = Written(session, rows=len(ids))        # of a decoder, whose past it keeps
    written.read(input_ids=ids, attention_mask=mask)

Letters: B batch, T tokens, P past tokens, G key-value heads, K head width, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from headway.workflows.export.onnx_graphs import PAST_NAME, PRESENT_NAME

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Session:
    """A graph that is ready to run."""

    shapes: dict[str, list[int]]
    """of each input, with -1 for an axis of any size"""
    run: Callable[[Arrays], Arrays]

    def __call__(self, **given: np.ndarray) -> Arrays:
        """The outputs by name."""
        return self.run(given)


Open = Callable[[Path], Session]


def in_onnxruntime(path: Path) -> Session:
    """A graph in ONNX Runtime, on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    opened = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    outputs = [one.name for one in opened.get_outputs()]
    shapes = {one.name: [size if isinstance(size, int) else -1 for size in one.shape] for one in opened.get_inputs()}
    return Session(shapes, lambda given: dict(zip(outputs, opened.run(None, given), strict=True)))


def in_openvino(path: Path) -> Session:
    """A graph in OpenVINO, on the CPU, in float32 whatever the processor prefers."""
    opened = _core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    shapes = {
        one.any_name: [size.get_length() if size.is_static else -1 for size in one.partial_shape]
        for one in opened.inputs
    }

    def run(given: Arrays) -> Arrays:
        found: Any = opened(given)
        return {one.any_name: np.array(found[one]) for one in opened.outputs}

    return Session(shapes, run)


@cache
def _core() -> Any:
    """OpenVINO, one for the whole process.

    Each new one replaces the stack on which signals are handled, and when it goes brings the former back, which is
    freed by then if several were there at once: the next signal would crash the process.
    """
    import openvino

    return openvino.Core()


class Written:
    """The texts that a decoder's graph has read so far: their keys and values, and what belongs to their sources."""

    def __init__(self, session: Session, rows: int, **source: np.ndarray):
        self.session, self.source = session, source
        self.past = {
            name: np.zeros((rows, shape[1], 0, shape[3]), np.float32)  # (B, G, P, K)
            for name, shape in session.shapes.items()
            if name.startswith(PAST_NAME) and name not in source
        }

    def read(self, **new: np.ndarray) -> np.ndarray:
        """Read more tokens: input_ids (B, T), and of a decoder alone attention_mask (B, P + T) -> logits (B, T, V)."""
        found = self.session(**new, **self.source, **self.past)
        self.past = {name: found[present(name)] for name in self.past}
        return next(found[name] for name in found if not name.startswith(PRESENT_NAME))


def present(name: str) -> str:
    """The output that holds what the input of that name will be."""
    return name.replace(PAST_NAME, PRESENT_NAME, 1)
