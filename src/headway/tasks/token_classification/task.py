"""Token classification: a tag for each word, and the spans that the tags make."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.data.formats.tags import OUTSIDE, entities
from headway.data.open.columns import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.split import few
from headway.data.records.table import Table
from headway.data.records.words import PLAIN, Place, Words, first_tokens, joined
from headway.errors import InputError, shown
from headway.formats.hf.loaders import Original, pipeline_loader
from headway.formats.parity import BOUND, worst
from headway.models.transformer import Encoder
from headway.runtime.runtime import Output, Runtime
from headway.runtime.windows import frame, read_in_windows
from headway.tasks.answers import Span
from headway.tasks.checks import Found, Material, MaterialInputs
from headway.tasks.frames import FrameAnswers
from headway.tasks.inputs import as_list
from headway.tasks.readers import label_parts
from headway.tasks.task import FolderTask
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
        theirs_of = theirs(text, ignore_labels=[], aggregation_strategy="none")
        if len(theirs_of) != len(kept):
            return value, f"it tags {len(theirs_of)} tokens of {text[:60]!r}, expected {len(kept)}"
        numbers = [pipe.labels.index(one["entity"]) for one in theirs_of]
        scores = ours.gather(1, torch.tensor(numbers)[:, None])[:, 0]
        value = worst(value, scores - torch.tensor([float(one["score"]) for one in theirs_of]))
        if float((ours.max(dim=-1).values - scores).max()) > BOUND:
            problem = problem or f"it gives tokens of {text[:60]!r} other tags"
    return value, problem


class Tagger(FrameAnswers):
    """An encoder with a classifier of tokens, its tokenizer and the names of its tags."""

    task = "token_classification"

    def __init__(
        self,
        model: Encoder,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        longest: int | None = None,
        words: Words = PLAIN,
    ):
        """``longest``: tokens read at once, with special ones (default: the model's context)."""
        self.model, self.tokenizer, self.labels, self.words = model, tokenizer, list(labels), words
        self.longest = min(model.config.max_length, longest or model.config.max_length)
        self.runtime = Runtime(model)

    @overload
    def __call__(self, text: str) -> list[Span]: ...  # type: ignore[overload-overlap]  # a str is an Iterable[str]

    @overload
    def __call__(self, text: Iterable[str | Sequence[str]]) -> list[list[Span]]: ...

    def __call__(self, text: str | Iterable[str | Sequence[str]]) -> Any:
        """The spans of a text in order, {"text", "label", "start", "end", "score"}; of several texts a list for each.

        ``start`` and ``end`` are characters [start, end) of the text; a word has the tag of its first token; ``score``
        is the mean probability of the tags of the span's words.  Texts are split into words as the training data are.
        A list of words in place of a text gives the words instead: the text is then the words joined by blanks.  A text
        longer than the run was trained on is read in overlapping windows, each word in the one where it is farthest
        from an end.
        """
        given, alone = as_list(text, lambda value: isinstance(value, str), "a text")
        worded = [self._worded(one, number) for number, one in enumerate(given)]
        encoded = list(self.tokenizer.encode_places(one for one, _ in worded))

        def answer(output: Output, ids: Tensor, mask: Tensor | None, _: np.ndarray) -> Tensor:
            return output(ids, mask).float().softmax(dim=-1)  # (B, T, C)

        read = partial(self.runtime.read, answer=answer)
        likely = read_in_windows([ids for ids, _ in encoded], self.longest, frame(self.tokenizer), read)
        whole = OUTSIDE not in self.labels
        each = zip(worded, encoded, likely, strict=True)
        results = [self._spans(*one, places, tags, whole) for one, (_, places), tags in each]
        return results[0] if alone else results

    def _worded(self, given: Any, number: int) -> tuple[str, list[Place]]:
        """A text and where its words are.  Raises InputError."""
        if isinstance(given, list | tuple) and all(isinstance(word, str) for word in given):
            return joined(given)
        if not isinstance(given, str):
            what = f"text {number} is {type(given).__name__}"
            raise InputError(f"{what}; expected a text or a list of words, not {shown(given)}.")
        return given, self.words.split(given)

    def _spans(self, text: str, words: list[Place], places: list[Place], likely: Tensor, whole: bool) -> list[Span]:
        """The spans of a text by the probabilities of its tokens (N, C)."""
        firsts = first_tokens(words, places)
        if not firsts:
            return []
        best = likely[[token for token, _, _ in firsts]].max(dim=-1)
        scores: list[float] = best.values.tolist()
        spans: list[Span] = []
        for kind, first, last in entities([self.labels[number] for number in best.indices.tolist()], whole=whole):
            start, end = words[firsts[first][1]][0], words[firsts[last - 1][2] - 1][1]
            score = sum(scores[first:last]) / (last - first)
            spans.append({"text": text[start:end], "label": kind, "start": start, "end": end, "score": score})
        return spans


class TokenClassificationTask(FolderTask):
    """An encoder with a head for the classes of tokens."""

    spec = SPEC
    pipeline_tag = "token-classification"
    loader = pipeline_loader(pipeline_tag, tags, aggregation_strategy="first")

    def pipeline(self, model: Any, directory: Path, facts: dict[str, Any]) -> Tagger:
        words = Words.of(facts.get("data", {}).get("words", {}))
        longest = facts.get("plan", {}).get("length")
        return Tagger(model, *label_parts(model, directory), longest=longest, words=words)

    def normalize_answers(self, pipe: Any, inputs: Sequence[Any]) -> list[Any]:
        return [[(span["label"], span["start"], span["end"]) for span in spans] for spans in pipe(list(inputs))]

    def some_inputs(self, source: Corpus | Table, found: Detected, count: int) -> list[Any]:
        from headway.data.records.tagged import sentences

        return few((one.text for one in sentences(source, found, "skip")([])), count)

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[Objective, Batch]:
        from headway.tasks.token_classification.objective import TokenClassification

        tags = [[(row + at) % len(pipe.labels) for at in range(len(ids))] for row, ids in enumerate(inputs)]
        return TokenClassification(pipe.labels), Examples(inputs, tags, TargetKind.TOKEN).together()

    def synthetic_data(self, pipe: Any, given: MaterialInputs) -> Material:
        return self.file("data").synthetic_data(pipe, given)


TASK = TokenClassificationTask()
