"""Language modelling: a decoder on running text, or on conversations, of which it learns the replies.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from pathlib import Path
from typing import Any

from torch import nn

from headway.data.batches import IGNORED, Batch, pad
from headway.data.dialogues import Dialogues
from headway.data.streamed import Streamed
from headway.hub.directory import model_config
from headway.hub.generation import warn_of_settings
from headway.models.heads import TokenHead
from headway.models.transformer import Decoder
from headway.tasks.common.next_token import LanguageModeling
from headway.tasks.language_modeling.pipeline import Generator
from headway.tasks.language_modeling.spec import SPEC
from headway.tasks.task import EvaluationInputs, Task, TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective


class LanguageModelingTask(Task):
    """A decoder that continues a text."""

    spec = SPEC

    def open_data(self, given: TaskInputs) -> TaskData:
        from headway.tasks.language_modeling.data import LanguageModelData
        from headway.tasks.language_modeling.dialogue import DialogueData
        from headway.tasks.language_modeling.streamed import StreamedLanguageModelData

        if isinstance(given.source, Dialogues):
            return DialogueData(given)
        return StreamedLanguageModelData(given) if isinstance(given.source, Streamed) else LanguageModelData(given)

    def pipeline(self, model: nn.Module, directory: Path, facts: dict[str, Any]) -> Any | None:
        if not isinstance(model, Decoder) or not isinstance(model.head, TokenHead):
            return None
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
        warn_of_settings(directory)
        return Generator(model, tokenizer)

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        from headway.tasks.language_modeling.measure import measure

        return measure(pipe, given)

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        ids, mask = pad(inputs)
        return LanguageModeling(), Batch(ids, mask, pad([[*row[1:], row[0]] for row in inputs], IGNORED)[0])


TASK = LanguageModelingTask()
