"""Graphs of ``headway export --to onnx`` in OpenVINO, on the CPU."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.runtime.engines.graph_engine import Arrays, GraphEngine


class OpenVinoSession:
    """A graph that computes in float32, whatever the processor prefers, in as many threads as torch has now."""

    def __init__(self, path: Path):
        how = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        opened = _core().compile_model(str(path), "CPU", how)
        self._request: Any = opened.create_infer_request()
        self._names = [one.any_name for one in opened.outputs]
        self.shapes = {
            one.any_name: [size.get_length() if size.is_static else -1 for size in one.partial_shape]
            for one in opened.inputs
        }

    def __call__(self, **given: np.ndarray) -> Arrays:
        """The outputs by name."""
        return self.step(given)

    def step(self, given: dict[str, Any]) -> dict[str, Any]:
        """The same: its outputs are overwritten by the next run, so they are copied."""
        found = self._request.infer(given, share_inputs=True, share_outputs=True)
        return {name: np.array(one) for name, one in zip(self._names, found.values(), strict=True)}

    def array(self, value: Any) -> np.ndarray:
        """The array itself."""
        return value


@cache
def _core() -> Any:
    """OpenVINO, one for the whole process.

    Each new one replaces the stack on which signals are handled, and when it goes brings the former back, which is
    freed by then if several were there at once: the next signal would crash the process.
    """
    import openvino

    return openvino.Core()


def open_engine(directory: Path, model: Any, precision: str) -> GraphEngine:
    """The engine of an export.  Raises what the library raises for files that it cannot use."""
    return GraphEngine("openvino", precision, directory, model, OpenVinoSession)
