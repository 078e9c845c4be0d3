"""Token classification: a tag for each word, and the spans that the tags make.

What only training and measuring need is imported when they begin, so that answers begin sooner.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from headway.data.batches.batching import Batch, TargetKind
from headway.data.batches.examples import Examples
from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.sample import few
from headway.data.records.table import Table
from headway.data.records.words import Words
from headway.hub.directory import model_config
from headway.models.heads import n_outputs
from headway.tasks.checks import BOUND, Found, Material, MaterialInputs, Original, pipeline_loader, worst
from headway.tasks.labels import labels_of
from headway.tasks.task import FolderTask
from headway.tasks.token_classification.pipeline import Tagger
from headway.tasks.token_classification.spec import SPEC
from headway.text.tokenizer import Tokenizer
from headway.training.objective import Objective


@torch.no_grad()
def tags(original: Original, theirs: Any) -> Found:
    """The likeliest tag of every token but special ones, and its probability."""
    pipe, value, problem = original.pipe, 0.0, None
    special = pipe.tokenizer.special_ids - {pipe.tokenizer.unknown}
    for text in original.texts:
        ids = pipe.tokenizer.encode(text, special=True)
        kept = [place for place, number in enumerate(ids) if number not in special]
        ours = original.model(torch.tensor([ids]))[0].float().softmax(dim=-1)[kept]  # (N, C)
        found = theirs(text, ignore_labels=[], aggregation_strategy="none")
        if len(found) != len(kept):
            return value, f"it tags {len(found)} tokens of {text[:60]!r}, expected {len(kept)}"
        numbers = [pipe.labels.index(one["entity"]) for one in found]
        scores = ours.gather(1, torch.tensor(numbers)[:, None])[:, 0]
        value = worst(value, scores - torch.tensor([float(one["score"]) for one in found]))
        if float((ours.max(dim=-1).values - scores).max()) > BOUND:
            problem = problem or f"it gives tokens of {text[:60]!r} other tags"
    return value, problem


class TokenClassificationTask(FolderTask):
    """An encoder with a head for the classes of tokens."""

    spec = SPEC
    pipeline_tag = "token-classification"
    loader = pipeline_loader(pipeline_tag, tags, aggregation_strategy="first")

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
        from headway.data.records.tagged import sentences

        return few((one.text for one in sentences(source, found, "skip")([])), count)

    def trial(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        from headway.tasks.token_classification.objective import TokenClassification

        tags = [[(row + at) % len(pipe.labels) for at in range(len(ids))] for row, ids in enumerate(inputs)]
        return TokenClassification(pipe.labels), Examples(inputs, tags, TargetKind.TOKEN).together()

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material:
        made: Material = self.file("data").made_up(pipe, given)
        return made


TASK = TokenClassificationTask()
