"""Language modelling: a decoder on running text, or on conversations, of which it learns the replies."""

from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.data.open.columns import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import KEY, Dialogues
from headway.data.records.table import Table
from headway.formats.hf.loaders import pipeline_loader
from headway.hub.generation_config import warn_of_settings
from headway.tasks.checks import ROWS, Material, MaterialInputs, continuations, json_lines
from headway.tasks.language_modeling.pipeline import Generator, as_recorded, kept_ids
from headway.tasks.language_modeling.spec import SPEC
from headway.tasks.losses import LanguageModeling
from headway.tasks.readers import tokenizer_of
from headway.tasks.task import FolderTask, Timed
from headway.training.objective import Objective
from headway.training.options import TrainOptions

PROMPT, COMPARED = 40, 32
"""Characters of a text that it goes on from where its speed is measured, and tokens by which two ways are compared."""


class LanguageModelingTask(FolderTask):
    """A decoder that continues a text."""

    spec = SPEC
    pipeline_tag = "text-generation"
    loader = pipeline_loader(pipeline_tag, continuations, texts=8)

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Generator:
        tokenizer = as_recorded(tokenizer_of(model, directory), facts)
        warn_of_settings(directory)
        return Generator(model, tokenizer, () if facts else kept_ids(model, tokenizer, "bos_token_id"))

    def timed(self, pipe: Any, inputs: Sequence[Any], tokens: int) -> Timed:
        endless = Generator(pipe.model, pipe.tokenizer)
        endless.runtime, endless.ends = pipe.runtime, frozenset()  # all write as many tokens
        answer = partial(endless, max_tokens=tokens, temperature=0)
        return Timed(answer, [text[:PROMPT] or "a" for text in inputs], tokens)

    def reads_conversations(self, pipe: Any) -> bool:
        return pipe.tokenizer.chat_template is not None

    def normalize_answers(self, pipe: Any, inputs: Sequence[Any]) -> list[Any]:
        return list(pipe(list(inputs), max_tokens=COMPARED, temperature=0))

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        following = [[*row[1:], row[0]] for row in inputs]
        return LanguageModeling(), Examples(inputs, following, TargetKind.TOKEN).together()

    def first_rows(
        self, source: Corpus | Table, found: Detected, options: TrainOptions, given: MaterialInputs
    ) -> Material | None:
        if not isinstance(source, Dialogues):
            return super().first_rows(source, found, options, given)
        talks = ({KEY: talk} for talk in islice(source.conversations, ROWS))
        return Material(json_lines(talks, given.folder / "beginning.jsonl"))


TASK = LanguageModelingTask()
