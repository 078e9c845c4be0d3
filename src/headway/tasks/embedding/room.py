"""Vectors of texts: an encoder whose tokens are pooled.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from pathlib import Path
from typing import Any

from torch import nn

from headway.hub.directory import model_config
from headway.models.heads import PoolingHead
from headway.models.transformer import Encoder
from headway.tasks.embedding.pipeline import Embedder
from headway.tasks.embedding.spec import SPEC
from headway.tasks.task import EvaluationInputs, Task, TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer


class EmbeddingTask(Task):
    """An encoder that gives one vector for each text."""

    spec = SPEC

    def open_data(self, given: TaskInputs) -> TaskData:
        from headway.tasks.embedding.data import EmbeddingData

        return EmbeddingData(given)

    def pipeline(self, model: nn.Module, directory: Path, facts: dict[str, Any]) -> Any | None:
        if not isinstance(model, Encoder) or getattr(model, "patches", None) is not None:
            return None
        if model.head is not None and not isinstance(model.head, PoolingHead):
            return None
        return Embedder(model, Tokenizer.load(directory, rows=model_config(model).vocab_size))

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        from headway.tasks.embedding.measure import measure

        return measure(pipe, given)

    def made_up(self, facts: dict[str, Any], pipe: Any, number: int, text: str, target: str) -> dict[str, str]:
        scored = facts.get("data", {}).get("label_column") is not None
        return {"text_column": text, "second_column": target, **({"label_column": str(number % 5)} if scored else {})}


TASK = EmbeddingTask()
