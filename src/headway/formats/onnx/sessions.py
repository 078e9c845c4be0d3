"""A graph that is ready to run, by ONNX Runtime or OpenVINO, on the CPU.

session = OnnxRuntimeSession(directory / "model.onnx")
session(input_ids=ids, attention_mask=mask)["logits"]
"""

from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

ERRORS = 3
"""The level of ONNX Runtime's log that shows errors only."""
Arrays = dict[str, np.ndarray]


class Session(Protocol):
    """A graph that is ready to run.

    Keys and values of a decoder go from one run to the next as the library's own values, so that they are not copied.
    """

    shapes: dict[str, list[int]]
    """of each input, with -1 for an axis of any size"""

    def __call__(self, **inputs: np.ndarray) -> Arrays:
        """The outputs by name."""

    def step(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays and values of earlier steps: values of the library."""

    def array(self, value: Any) -> np.ndarray:
        """The array of a value."""


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
        self._to_value = onnxruntime.OrtValue.ortvalue_from_numpy
        self.outputs = [output.name for output in self._opened.get_outputs()]
        self.shapes = {
            entry.name: [size if isinstance(size, int) else -1 for size in entry.shape]
            for entry in self._opened.get_inputs()
        }

    def __call__(self, **inputs: np.ndarray) -> Arrays:
        """The outputs by name."""
        return dict(zip(self.outputs, self._opened.run(None, inputs), strict=True))

    def step(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays and values of earlier steps: values of ONNX Runtime."""
        values = {
            name: self._to_value(np.ascontiguousarray(one)) if isinstance(one, np.ndarray) else one
            for name, one in inputs.items()
        }
        return dict(zip(self.outputs, self._opened.run_with_ort_values(self.outputs, values), strict=True))

    def array(self, value: Any) -> np.ndarray:
        """The array of a value."""
        return value if isinstance(value, np.ndarray) else value.numpy()


class OpenVinoSession:
    """A graph that computes in float32, whatever the processor prefers, in as many threads as torch has now."""

    def __init__(self, path: Path):
        how = {
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        }
        opened = _openvino().compile_model(str(path), "CPU", how)
        self._request: Any = opened.create_infer_request()
        self._names = [output.any_name for output in opened.outputs]
        self.shapes = {
            entry.any_name: [size.get_length() if size.is_static else -1 for size in entry.partial_shape]
            for entry in opened.inputs
        }

    def __call__(self, **inputs: np.ndarray) -> Arrays:
        """The outputs by name."""
        return self.step(inputs)

    def step(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The same: its outputs are overwritten by the next run, so they are copied."""
        outputs = self._request.infer(inputs, share_inputs=True, share_outputs=True)
        return {name: np.array(one) for name, one in zip(self._names, outputs.values(), strict=True)}

    def array(self, value: Any) -> np.ndarray:
        """The array itself."""
        return value


@cache
def _openvino() -> Any:
    """OpenVINO, one for the whole process.

    Each new one replaces the stack on which signals are handled, and when it goes brings the former back, which is
    freed by then if several were there at once: the next signal would crash the process.
    """
    import openvino

    return openvino.Core()
