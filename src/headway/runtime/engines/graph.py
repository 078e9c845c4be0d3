"""Exported graphs that are ready to run, whatever library runs them: arrays in, arrays out.

    session = OnnxRuntimeSession(directory / "model.onnx")
    session(input_ids=ids, attention_mask=mask)["logits"]
    written = Written(session, rows=len(ids))        # of a decoder, whose past it keeps
    written.read(input_ids=ids, attention_mask=mask)

Letters: B batch, T tokens, P past tokens, G key-value heads, K head width, V vocabulary.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

MODEL, ENCODER, DECODER = "model.onnx", "encoder.onnx", "decoder.onnx"
PAST_NAME, PRESENT_NAME = "past_key_values", "present"

Arrays = dict[str, np.ndarray]


class Session(Protocol):
    """A graph that is ready to run.

    Keys and values of a decoder go from one run to the next as the library's own values, so that they are not copied.
    """

    shapes: dict[str, list[int]]
    """of each input, with -1 for an axis of any size"""

    def __call__(self, **given: np.ndarray) -> Arrays:
        """The outputs by name."""

    def step(self, given: dict[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays and values of earlier steps: values of the library."""

    def array(self, value: Any) -> np.ndarray:
        """The array of a value."""


Open = Callable[[Path], Session]


class Written:
    """The texts that a decoder's graph has read so far: their keys and values, and what belongs to their sources."""

    def __init__(self, session: Session, rows: int, **source: Any):
        self.session, self.source = session, source
        self.past: dict[str, Any] = {
            name: np.zeros((rows, shape[1], 0, shape[3]), np.float32)  # (B, G, P, K)
            for name, shape in session.shapes.items()
            if name.startswith(PAST_NAME) and name not in source
        }

    def read(self, **new: np.ndarray) -> np.ndarray:
        """Read more tokens: input_ids (B, T), and of a decoder alone attention_mask (B, P + T) -> logits (B, T, V)."""
        found = self.session.step({**new, **self.source, **self.past})
        self.past = {name: found[present(name)] for name in self.past}
        return self.session.array(next(found[name] for name in found if not name.startswith(PRESENT_NAME)))

    def reorder(self, rows: np.ndarray) -> None:
        """Keep the given rows, int64 (B',), in that order; rows may repeat or be left out.  Sources are left alone."""
        self.past = {name: self.session.array(value)[rows] for name, value in self.past.items()}


def present(name: str) -> str:
    """The output that holds what the input of that name will be."""
    return name.replace(PAST_NAME, PRESENT_NAME, 1)
