"""Learn the tag of each word."""

import math
import random
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from headway.data.formats.tags import OUTSIDE, labels_for, parts
from headway.data.open.detected import Detected
from headway.data.records.corpus import Corpus
from headway.data.records.rows import counted
from headway.data.records.sample import few
from headway.data.records.table import Table
from headway.data.records.tagged import Sentence, Tagged, read_tagged, sentences
from headway.data.records.words import Words, learnt
from headway.errors import InputError
from headway.models.heads import Gives
from headway.models.transformer import Encoder
from headway.runtime.windows import frame
from headway.tasks.checks import (
    LABEL,
    LONGEST_TEXT,
    ROWS,
    TEXT,
    Material,
    MaterialInputs,
    RandomTexts,
    json_lines,
    token_vectors,
)
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.inputs import usual_longest
from headway.tasks.labels import continued_classes
from headway.tasks.rows import measured_rows
from headway.tasks.rows_data import RowsData
from headway.tasks.task import TaskInputs
from headway.tasks.token_classification.encoding import Rows, WordTags, encoded, nothing_kept
from headway.tasks.token_classification.objective import TokenClassification
from headway.tasks.token_classification.task import Tagger
from headway.training.base import Base
from headway.training.loop.schedule import mean_accumulation
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan

LONGEST = 512
"""Tokens: longer sentences are read in several rows unless ``--length`` says so."""

STEPS, LEAST_PASSES, MOST_PASSES = 200, 4, 20
"""A pretrained model is trained for about so many steps, in so many passes over the sentences."""


class TokenClassificationData(RowsData):
    """An encoder with a classifier of tokens, from scratch or from a base, on sentences with a tag for each word."""

    unit = "sentences"
    held_out_by = "10 %, classes kept, duplicates on one side"
    tokenizer_kind = "wordpiece"
    lowercase = False  # names are often new words, recognised by their spelling
    head = Gives.TOKEN

    def checked(self, base: Base) -> Base:
        if not isinstance(base.model, Encoder):
            raise InputError(f"{base.path}: is not an encoder; name one such as BERT.")
        return base

    def read(self, given: TaskInputs) -> tuple[Tagged, Tagged | None]:
        policy = self.options.data.on_bad_row
        tagged, other = read_tagged(given.source, given.found, policy), None
        if len(tagged.tags) < 2:
            only = next(iter(tagged.tags))
            raise InputError(
                f"{tagged.name}: every tag is {only!r}, so there is nothing to learn; expected two tags or more."
            )
        self.labels, self.new_head = continued_classes(given, labels_for(tagged.tags), Gives.TOKEN)
        if given.held_out is not None:
            other = read_tagged(given.held_out, given.found, policy, whole=tagged.whole)
            other.check_labels(self.labels, "the tags of the training data")
            tagged.warnings.extend(other.warnings)
        self._where = self.held_out_by if given.held_out is None else given.held_out.name
        return tagged, other

    def texts(self, rows: Tagged) -> tuple[Iterable[str], int]:
        return (one.text for one in rows), int(rows.characters.sum(dtype=np.int64))

    def encode(self, train: Tagged, held_out: Tagged) -> None:
        uncut = encoded(train, self.tokenizer, self.labels)
        self.longest = self.reading(usual_longest(uncut.lengths - uncut.around, LONGEST))
        self.train = uncut.cut(self.longest, self.tokenizer, self.labels)
        self.held_out = encoded(held_out, self.tokenizer, self.labels).cut(None, self.tokenizer, self.labels)
        self.encoded = self.train, self.held_out
        if not len(self.train.ids) or not len(self.held_out.ids):
            raise nothing_kept(train.name)
        if cut := uncut.too_long(self.longest).sum():
            self.warnings.append(
                f"{cut:,} sentences exceed {self.longest} tokens and are read in parts (--length to change)"
            )
        if lost := uncut.lost:
            self.warnings.append(f"the tokenizer drops all of {lost:,} words; they are not counted")

    def facts_of(self, rows: Tagged) -> dict[str, Any]:
        train, held_out = self.parts.train, self.parts.held_out
        words = learnt(train)
        self._decision = _words_decision(words, held_out) if words.record else []
        return {
            "classes": _counts(rows),
            "train": f"{len(train):,} sentences with {train.words.sum():,} words",
            "validation": f"{len(held_out):,} sentences with {held_out.words.sum():,} words ({self._where})",
            **({"words": words.record} if words.record else {}),
        }

    def measure_baselines(self) -> None:
        line, units = WordTags(self.train).measured(self.held_out, self.labels)
        self.baselines, self.of_baselines = [line], {str(line["name"]): units}

    def plan(self, seconds: float | None) -> Plan:
        plan = super().plan(seconds)
        if self.base is not None and self.options.run.epochs is None and self.options.run.steps is None:
            step_tokens = plan.batch_tokens * mean_accumulation(plan.accumulate, plan.grow_batch)
            passes = math.ceil(STEPS * step_tokens / int(self.lengths.sum()))
            passes = min(MOST_PASSES, max(LEAST_PASSES, passes))
            why = f"about {STEPS} steps, and at least {LEAST_PASSES} epochs; the run may end before its time"
            decision = asdict(Decision("passes", f"at most {passes}", why, "--epochs"))
            plan = plan.but(epochs=passes, decisions=[*plan.decisions, decision])
        return plan.but(decisions=[*plan.decisions, *self._decision])

    def objective(self, plan: Plan) -> Objective:
        return TokenClassification(
            self.labels,
            label_smoothing=plan.objective.label_smoothing,
            token_dropout=plan.objective.token_dropout,
            hidden_token=self.tokenizer.mask if self.tokenizer.mask is not None else 0,
            protected=sorted(self.tokenizer.special_ids),
            longest=self.longest,
            around=frame(self.tokenizer),
        )


def _words_decision(words: Words, held_out: Tagged) -> list[dict[str, str]]:
    """How texts are split into words, for a person."""
    unlike, count = words.unlike(held_out)
    places = {"begin": "at the beginning", "inside": "inside", "end": "at the end"}
    kept = [f"{' '.join(words.record[name])} {place}" for name, place in places.items() if words.record[name]]
    kept += [f"{counted(len(words.known), 'word')} such as {words.known[0]} whole"] if words.known else []
    why = f"{count - unlike:,} of {count:,} held-out words are found in their text"
    return [asdict(Decision("words", f"as in the file: {', '.join(kept)}", why, "headway tag --pretokenized"))]


def _counts(tagged: Tagged) -> dict[str, int]:
    """The number of entities of each type (or of words, if tags are of single words), the most frequent first."""
    counts: Counter[str] = Counter()
    for tag, count in tagged.tags.items():
        begins, kind = parts(tag, whole=tagged.whole)
        if begins in "BS" and kind != OUTSIDE:
            counts[kind] += count
    return dict(counts.most_common())


open_data = TokenClassificationData


def measure(pipe: Tagger, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the words that were counted, in IOB2 or as near to it as the model's own scheme is.

    Raises InputError.
    """
    scheme = _scheme(pipe)
    held_out = given.sampled(_held_out(pipe, given))
    rows = _rows(pipe, held_out)
    if not len(rows.ids):
        raise nothing_kept(given.source.name)
    unlike, words = pipe.words.unlike(held_out)
    if unlike:
        said = f"{unlike:,} of {words:,} words are split otherwise where their sentence is given as text"
        warnings.warn(f"{said}: `headway tag --pretokenized` takes words as they are", stacklevel=3)
    objective = TokenClassification(pipe.labels, longest=pipe.longest, around=frame(pipe.tokenizer))
    metrics = measured_rows(pipe, objective, rows.examples, given.each)
    if not given.same and (learnt := _trained_on(given, scheme)) is not None:
        line, units = WordTags(_rows(pipe, learnt)).measured(rows, pipe.labels)
        given.baselines.append(line)
        given.of_baselines[str(line["name"])] = units
    return {**metrics, "examples": int(rows.words.sum())}


def held_out_inputs(pipe: Tagger, given: EvaluationInputs, count: int) -> list[str]:
    """Some sentences that are held out."""
    return few((one.text for one in _held_out(pipe, given)), count)


def _scheme(pipe: Tagger) -> dict[str, Any]:
    return {"whole": OUTSIDE not in pipe.labels, "labels": pipe.labels}


def _held_out(pipe: Tagger, given: EvaluationInputs) -> Tagged:
    """The sentences to measure.  Raises InputError for tags that the model does not have."""
    tagged = read_tagged(given.source, given.found, given.options.data.on_bad_row, **_scheme(pipe))
    tagged.check_labels(pipe.labels, "the model's tags")
    return given.held_out(tagged)


def _rows(pipe: Tagger, tagged: Tagged) -> Rows:
    return encoded(tagged, pipe.tokenizer, pipe.labels).cut(None, pipe.tokenizer, pipe.labels)


def _trained_on(given: EvaluationInputs, scheme: dict[str, Any]) -> Tagged | None:
    """The training data of the model, if the files still exist."""
    trained = given.trained_on()
    if trained is None:
        return None
    known = read_tagged(trained, given.found_in_training, given.before.get("on_bad_row") or "error", **scheme)
    return given.learnt(known)


def first_rows(source: Corpus | Table, found: Detected, options: TrainOptions, given: MaterialInputs) -> Material:
    """The first sentences.  Raises InputError for one that is wrong where ``options`` do not skip it."""
    read = partial(sentences(source, found, options.data.on_bad_row), [])
    short = list(islice((one for one in read() if len(one.text) <= LONGEST_TEXT), ROWS)) or islice(read(), ROWS)
    return _written([_row(one) for one in short], given)


def synthetic_data(pipe: Any, given: MaterialInputs) -> Material:
    """Random words with the model's tags in turn."""
    words = RandomTexts(pipe.tokenizer, token_vectors(pipe.model), random.Random(0))
    rows = [words.text().split() for _ in range(ROWS)]
    tags = [
        [pipe.labels[(number + at) % len(pipe.labels)] for at in range(len(row))] for number, row in enumerate(rows)
    ]
    return _written(list(zip(rows, tags, strict=True)), given, "made-up texts")


def _row(sentence: Sentence) -> tuple[list[str], list[str]]:
    return [sentence.text[start:end] for start, end in sentence.words], sentence.tags


def _written(rows: Sequence[tuple[list[str], list[str]]], given: MaterialInputs, origin: str = "") -> Material:
    file = json_lines(({TEXT: words, LABEL: tags} for words, tags in rows), given.folder / "rows.jsonl")
    return Material(file, {TEXT: TEXT, LABEL: LABEL}, origin)
