"""Graphs of ``headway export --to onnx`` in ONNX Runtime, on the CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.models.transformer import Encoder
from headway.runtime.engines.graph import Arrays, Open
from headway.runtime.engines.graph_engine import GraphEngine
from headway.runtime.engines.onnxruntime_attention import fused

ERRORS = 3
"""The level of its log that shows errors only."""


class OnnxRuntimeSession:
    """A graph, optimised once, that computes in as many threads as torch has now; ``folder`` has its large weights."""

    def __init__(self, graph: Path | bytes, folder: Path | None = None):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        self._opened = onnxruntime.InferenceSession(
            graph if isinstance(graph, bytes) else str(graph), options, providers=["CPUExecutionProvider"]
        )
        self._value = onnxruntime.OrtValue
        self.outputs = [one.name for one in self._opened.get_outputs()]
        self.shapes = {
            one.name: [size if isinstance(size, int) else -1 for size in one.shape] for one in self._opened.get_inputs()
        }

    def __call__(self, **given: np.ndarray) -> Arrays:
        """The outputs by name."""
        return dict(zip(self.outputs, self._opened.run(None, given), strict=True))

    def step(self, given: dict[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays and values of earlier steps: values of ONNX Runtime."""
        values = {
            name: self._value.ortvalue_from_numpy(np.ascontiguousarray(one)) if isinstance(one, np.ndarray) else one
            for name, one in given.items()
        }
        return dict(zip(self.outputs, self._opened.run_with_ort_values(self.outputs, values), strict=True))

    def array(self, value: Any) -> np.ndarray:
        """The array of a value."""
        found: np.ndarray = value if isinstance(value, np.ndarray) else value.numpy()
        return found


def opens(model: Any) -> Open:
    """What opens the graphs of a model: those of an encoder of texts with each attention as one operation."""
    encoder = isinstance(model, Encoder) and model.patches is None
    return (lambda path: OnnxRuntimeSession(fused(path), path.parent)) if encoder else OnnxRuntimeSession


def open_engine(directory: Path, model: Any, precision: str) -> GraphEngine:
    """The engine of an export.  Raises what the library raises for files that it cannot use."""
    return GraphEngine("onnxruntime", precision, directory, model, opens(model))
