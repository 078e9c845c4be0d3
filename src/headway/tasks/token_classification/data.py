"""Learn the tag of each word."""

import math
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import nn

from headway.data.batches.batch_source import Feed, RowFeed
from headway.data.records.corpus import Corpus
from headway.data.records.repeats import leaks
from headway.data.records.split import HELD_OUT, split_indices
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.fine_tune import for_token_classification
from headway.models.heads import TokenClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.common.lengths import usual_longest
from headway.tasks.common.vocabulary import base_vocabulary
from headway.tasks.task import TaskData, TaskInputs
from headway.tasks.token_classification.encoding import Rows, WordTags, encoded
from headway.tasks.token_classification.objective import TokenClassification
from headway.tasks.token_classification.schemes import OUTSIDE, entities, labels_for
from headway.tasks.token_classification.sentences import Sentence, Tagged, read_tagged
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import Base, prepared_base
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan
from headway.training.sizing.presets import encoder_plan, fine_tune_rows_plan

LONGEST = 512
"""Tokens: longer sentences are read in several rows unless ``--length`` says so."""

STEPS, LEAST_PASSES, MOST_PASSES = 200, 4, 20
"""A pretrained model is trained for about so many steps, in so many passes over the sentences."""


class TokenClassificationData(TaskData):
    """An encoder with a classifier of tokens, from scratch or from a base, on sentences with a tag for each word."""

    unit = "sentences"

    def __init__(self, given: TaskInputs):
        self.options, self.base = given.options, given.base
        if self.base is not None and not isinstance(self.base.model, Encoder):
            raise InputError(f"{self.base.path}: is not an encoder; name one such as BERT.")
        tagged = read_tagged(given.source, given.found, self.options.data.on_bad_row)
        whole = tagged.whole
        tagged = tagged.in_iob2(whole=whole)
        if len(tagged.tags) < 2:
            only = next(iter(tagged.tags))
            raise InputError(
                f"{tagged.name}: every tag is {only!r}, so there is nothing to learn; expected two or more."
            )
        self.labels = known_labels(self.base, labels_for(tagged.tags))
        self.new_head = self.base is None or self.labels != labels_of(self.base.model)
        warnings = list(tagged.warnings)
        if given.held_out is not None:
            other = read_tagged(given.held_out, given.found, self.options.data.on_bad_row).in_iob2(whole=whole)
            other.check_labels(self.labels, "the tags of the training data")
            train, held_out = tagged.sentences, other.sentences
            warnings += [*other.warnings, *_leak_warning(train, held_out)]
        else:
            train, held_out = split(tagged, self.options.seed_of_split)
        vocabulary = base_vocabulary(given, [one.text for one in train])
        self.tokenizer = vocabulary.tokenizer or _tokenizer(train, self.options)
        places = [self.tokenizer.encode_places([one.text for one in part]) for part in (train, held_out)]
        self.longest = self.options.data.length or usual_longest([len(ids) for ids, _ in places[0]], LONGEST)
        if self.base is not None:
            self.longest = min(self.longest, _checked_length(self.options, self.base))
        self.train, self.held_out = (
            encoded(part, found, self.tokenizer, self.labels, self.longest)
            for part, found in zip((train, held_out), places, strict=True)
        )
        if not self.train.words or not self.held_out.words:
            raise InputError(f"{given.source.name}: the tokenizer drops all characters of these texts.")
        warnings += _encoding_warnings(self.train, self.longest)
        counted = _counts(tagged.sentences, whole=whole)
        source, where = given.source, "10 %, classes kept, duplicates on one side"
        where = where if given.held_out is None else given.held_out.name
        self.facts: dict[str, Any] = {
            "inputs": source.inputs if isinstance(source, Table) else [str(path) for path in source.paths],
            "fingerprint": source.fingerprint,
            **({} if isinstance(source, Corpus) else _columns(given)),
            "classes": counted,
            "train": f"{len(train):,} sentences with {_words(train):,} words",
            "validation": f"{len(held_out):,} sentences with {_words(held_out):,} words ({where})",
            "warnings": warnings,
            **vocabulary.facts,
        }
        line, units = WordTags(self.train).measured(self.held_out, self.labels)
        self.baselines = [line]
        self._each = {str(line["name"]): np.array(units, dtype=np.float64)}
        self.train.words.clear()

    def plan(self, seconds: float | None) -> Plan:
        lengths = [len(ids) for ids in self.train.ids]
        if self.base is not None:
            if self.options.run.epochs is not None or self.options.run.steps is not None:
                return fine_tune_rows_plan(self.options, self.base.config, lengths, self.longest)
            plan = fine_tune_rows_plan(self.options.but(epochs=1), self.base.config, lengths, self.longest)
            passes = min(MOST_PASSES, max(LEAST_PASSES, math.ceil(STEPS * plan.batch_tokens / sum(lengths))))
            why = f"about {STEPS} steps, and at least {LEAST_PASSES} epochs; the run may end before its time"
            decision = asdict(Decision("passes", f"at most {passes}", why, "--epochs"))
            return plan.but(epochs=passes, decisions=[*plan.decisions, decision])
        return encoder_plan(self.options, self.tokenizer.vocab_size, lengths, len(self.labels), self.longest)

    def build(self, plan: Plan) -> nn.Module:
        config, classes = plan.config, len(self.labels)
        if self.base is None:
            head = TokenClassificationHead(config, classes, dense=True, dropout=config.dropout)
            return initialise(Encoder(config, head), plan.seed)
        base: Any = self.base.model
        if self.new_head:
            for_token_classification(base, classes, dropout=config.dropout, seed=plan.seed)
        return prepared_base(base, plan)

    def feed(self, plan: Plan) -> Feed:
        held_out = self.held_out
        return RowFeed(
            *(self.train.ids, self.train.targets, held_out.ids, held_out.targets),
            plan.batch_tokens,
            plan.seed,
            max_examples=plan.max_examples,
        )

    def objective(self, plan: Plan) -> Objective:
        return TokenClassification(
            self.labels,
            label_smoothing=plan.objective.label_smoothing,
            token_dropout=plan.objective.token_dropout,
            hidden_token=self.tokenizer.mask if self.tokenizer.mask is not None else 0,
            protected=sorted(self.tokenizer.special_ids),
        )

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        return self._each


def labels_of(model: nn.Module) -> list[str] | None:
    """The tags of a model that was loaded, by its directory's names; None for a model that has no such head."""
    named = getattr(model, "kept", {}).get("config.json", {}).get("id2label")
    head = getattr(model, "head", None)
    if not isinstance(head, TokenClassificationHead) or not isinstance(named, dict):
        return None
    return [str(named.get(str(i))) for i in range(head.out.out_features)]


def known_labels(base: Base | None, labels: list[str]) -> list[str]:
    """The labels in the order of a base that has all of them, and goes on with its head; else as they are."""
    known = labels_of(base.model) if base is not None else None
    return known if known is not None and set(labels) <= set(known) else labels


def split(tagged: Tagged, seed: int) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences for training and those that are held out: of each type of entity a part, duplicates together."""
    counts = tagged.tags
    rarest = [min(one.tags, key=lambda tag: (counts[tag], tag)) for one in tagged.sentences]
    texts = [one.text for one in tagged.sentences]
    train, held_out = (set(index.tolist()) for index in split_indices(texts, rarest, HELD_OUT, seed))
    parts = ([one for i, one in enumerate(tagged.sentences) if i in part] for part in (train, held_out))
    return next(parts), next(parts)


def _tokenizer(sentences: list[Sentence], options: TrainOptions) -> Tokenizer:
    """Pieces of words, capitals kept: names are new words, and are told by how they are written."""
    kind = options.data.tokenizer or "wordpiece"
    return train_tokenizer([one.text for one in sentences], kind, options.data.vocab, role="encoder", lowercase=False)


def _checked_length(options: TrainOptions, base: Base) -> int:
    """How many tokens the base reads.  Raises InputError when --length asks for more."""
    most: int = base.config.max_length
    if options.data.length is not None and options.data.length > most:
        raise InputError(
            f"--length is {options.data.length:,}, but {options.fine_tuning.from_model} reads {most:,} tokens at most."
        )
    return most


def _columns(given: TaskInputs) -> dict[str, str | None]:
    return {"text_column": given.found.text_column, "label_column": given.found.label_column}


def _counts(sentences: list[Sentence], *, whole: bool) -> dict[str, int]:
    """How many entities there are of each type (of tags of words, how many words), the most frequent first."""
    counts = Counter(kind for one in sentences for kind, _, _ in entities(one.tags, whole=whole) if kind != OUTSIDE)
    return dict(counts.most_common())


def _words(sentences: list[Sentence]) -> int:
    return sum(len(one.words) for one in sentences)


def _leak_warning(train: list[Sentence], held_out: list[Sentence]) -> list[str]:
    both = leaks([one.text for one in train], [one.text for one in held_out])
    if not both:
        return []
    share = f"{len(both):,} of {len(held_out):,} validation sentences ({len(both) / len(held_out):.0%})"
    return [f"{share} also occur in training: their scores will be too high"]


def _encoding_warnings(rows: Rows, longest: int) -> list[str]:
    found = []
    if rows.cut:
        found.append(f"{rows.cut:,} sentences exceed {longest} tokens and are read in parts (--length to change)")
    if rows.lost:
        found.append(f"the tokenizer drops all of {rows.lost:,} words; they are not counted")
    return found
