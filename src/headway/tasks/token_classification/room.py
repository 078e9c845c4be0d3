"""Token classification: a tag for each word, and the spans that the tags make.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.examples import Examples
from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.sample import few
from headway.data.records.table import Table
from headway.hub.directory import model_config
from headway.models.heads import n_outputs
from headway.tasks.common.folder_task import FolderTask
from headway.tasks.common.labels import labels_of
from headway.tasks.common.material import Material, MaterialInputs
from headway.tasks.token_classification.pipeline import Tagger
from headway.tasks.token_classification.spec import SPEC
from headway.tasks.token_classification.words import Words
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective
from headway.training.options import TrainOptions


class TokenClassificationTask(FolderTask):
    """An encoder with a head for the classes of tokens."""

    spec = SPEC
    pipeline_tag = "token-classification"

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Tagger:
        tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
        labels, words = (
            labels_of(directory, n_outputs(model)),
            Words.of(facts.get("data", {}).get("words", {})),
        )
        return Tagger(model, tokenizer, labels, longest=facts.get("plan", {}).get("length"), words=words)

    def comparable(self, pipe: Any, inputs: Sequence[Any]) -> list[Any]:
        return [[(span["label"], span["start"], span["end"]) for span in spans] for spans in pipe(list(inputs))]

    def some_inputs(self, source: Corpus | Table, found: Detected, count: int) -> list[Any]:
        from headway.tasks.token_classification.sentences import sentences

        return few((one.text for one in sentences(source, found, "skip")([])), count)

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        from headway.tasks.token_classification.objective import TokenClassification

        tags = [[(row + at) % len(pipe.labels) for at in range(len(ids))] for row, ids in enumerate(inputs)]
        return TokenClassification(pipe.labels), Examples(inputs, tags, TargetKind.TOKEN).together()

    def beginning(
        self, source: Corpus | Table, found: Detected, options: TrainOptions, given: MaterialInputs
    ) -> Material:
        from headway.tasks.token_classification.material import beginning

        return beginning(source, found, options, given)

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material:
        from headway.tasks.token_classification.material import made_up

        return made_up(pipe, given)


TASK = TokenClassificationTask()
