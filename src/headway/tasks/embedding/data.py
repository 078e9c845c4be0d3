"""Vectors of texts, from pairs of them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from torch import nn

from headway.data.batches.batching import Examples
from headway.data.open.columns import Detected
from headway.data.records.split import few
from headway.data.records.table import Table
from headway.data.records.text_pairs import PairReading, TextPairs
from headway.data.records.text_rows import FIRST
from headway.errors import InputError, shown
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.embedding.objective import Embedding, embedding_baselines, texts_of
from headway.tasks.embedding.task import Embedder
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.inputs import cut_warning
from headway.tasks.rows import encoded_pairs
from headway.tasks.rows_data import RowsData
from headway.tasks.running_text import bpe_size
from headway.tasks.task import TaskInputs
from headway.training.base import Base, prepared_base
from headway.training.evaluation.comparison import in_order
from headway.training.objective import Objective
from headway.training.plan import Plan
from headway.training.sizing.presets import given_or, tokens_of_rows

LONGEST = 128
"""Tokens of a text, unless --length says otherwise."""
BATCH_TOKENS = 4096
"""Both texts of a pair counted: the more pairs in a batch, the more wrong answers each must be told from."""
MOST_HELD_OUT = 10_000
"""Pairs: of a large table no more are held out.  Each is compared with all others."""


class EmbeddingData(RowsData):
    """An encoder with a pooling head, from scratch or from a base, on pairs of texts.

    Without scores every pair belongs together (InfoNCE among the pairs of a batch); with scores their order is learned
    (CoSENT).  A base keeps its own pooling; else token vectors are averaged.
    """

    unit = "pairs"
    texts_in_row = 2
    tokenizer_kind = "wordpiece"
    head = Gives.VECTOR

    def checked(self, base: Base) -> Base:
        if not isinstance(base.model, Encoder):
            raise InputError(f"{base.path}: is not an encoder, so it cannot be trained for embeddings.")
        return base

    def read(self, given: TaskInputs) -> tuple[TextPairs, TextPairs | None]:
        if not isinstance(given.source, Table):
            raise TypeError("pairs of texts need a table")
        self.most_held_out, policy = most_held_out(given.earlier), self.options.data.on_bad_row
        limit = "" if self.most_held_out is None else f", {self.most_held_out:,} at most"
        self.held_out_by = f"10 %{limit}, equal first texts on one side"
        pairs, other = read_pairs(given.source, given.found, policy), given.held_out
        self.kind = "pairs" if pairs.scores is None else "scores"
        self.recorded = {"most_held_out": self.most_held_out} if limit and other is None else {}
        return pairs, read_pairs(other, given.found, policy) if isinstance(other, Table) else None

    def texts(self, rows: TextPairs) -> "tuple[Texts, int]":
        return Texts(rows), rows.characters

    def usual_vocabulary(self, kind: str, rows: TextPairs) -> int | None:
        return bpe_size(rows.characters) if kind in ("bpe", "wordpiece") else None

    def encode(self, train: TextPairs, held_out: TextPairs) -> None:
        if self.kind == "pairs" and len(held_out) < 2:
            many = f"{len(held_out)} held-out pair"
            raise InputError(f"{train.table.name}: {many}; ranking needs at least two. Add rows.")
        self.longest = self.reading(LONGEST)
        whole, ends = encoded_pairs(train, self.tokenizer), self.tokenizer.special_ids
        lengths = np.concatenate([side.lengths for side in (whole.first, whole.second)])
        self.warnings += cut_warning(lengths, self.longest)
        held = encoded_pairs(held_out, self.tokenizer)
        self.encoded = whole.cut(self.longest, ends), held.cut(self.longest, ends)

    def measure_baselines(self) -> None:
        parts = self.parts.train, self.parts.held_out
        self.baselines, sampled = embedding_baselines(*parts, each=self.of_baselines)
        self.warnings += [sampled] if sampled else []

    def plan(self, seconds: float | None) -> Plan:
        why = "every pair belongs together" if self.kind == "pairs" else "pairs have scores"
        loss = "InfoNCE among the pairs of a batch" if self.kind == "pairs" else "CoSENT: the order of the scores"
        if self.base is None:
            self.options = self.options.but(dropout=given_or(self.options.optimisation.dropout, 0.1))
        plan, rate = super().plan(seconds), 1e-3 if self.base is None else 5e-5
        return plan.decided(
            *("loss", loss, why, "--label-column"),
            batch_tokens=tokens_of_rows(self.options, self.texts_in_row * self.longest, BATCH_TOKENS),
            learning_rate=self.options.optimisation.learning_rate or rate,
            token_dropout=0.0,
            label_smoothing=0.0,
        )

    def build(self, plan: Plan) -> nn.Module:
        if self.base is None:
            return initialise(Encoder(plan.config, PoolingHead()), plan.seed)
        if gives(model := self.base.model) is not Gives.VECTOR:
            model.head = PoolingHead()  # type: ignore[assignment]
        return prepared_base(model, plan)

    def examples(self) -> tuple[Examples, Examples]:
        train, held_out = (pairs.scored(scores_of(pairs.texts)) for pairs in self.encoded)
        return train, held_out

    def objective(self, plan: Plan) -> Objective:
        order = self.batch_source(plan).validation_order()
        texts = None if self.kind == "scores" else texts_of(self.parts.held_out, order)
        return Embedding(self.kind, texts=texts)  # type: ignore[arg-type]


class Texts:
    """The texts of pairs: all first ones, then all second ones."""

    def __init__(self, pairs: TextPairs):
        self.pairs = pairs

    def __iter__(self) -> Iterator[str]:
        return chain(self.pairs.sources, self.pairs.targets)


def read_pairs(table: Table, found: Detected, on_bad_row: str) -> TextPairs:
    """The pairs of a table.  Raises InputError for rows without a text or a number, unless they are to be skipped."""
    label = found.label_column
    reading = PairReading(table, (found.text_column or "", found.second_column or ""), label)
    lacking = reading.half, reading.empty, reading.unscored
    count, first = sum(one.count for one in lacking), sorted(row for one in lacking for row in one.first)[:FIRST]
    if count and on_bad_row == "error":
        lack = "row lacks" if count == 1 else "rows lack"
        what, value = "a text", ""
        if label:
            what += f", or a number as score in column {label!r}"
            value = f", score {shown(next(table.texts(label, np.array(first[:1]))))}"
        raise InputError(
            f"{table.name}: {count:,} {lack} {what} ({table.places(first)}{value}). "
            "Fill them in, or pass --on-bad-row skip."
        )
    scores = reading.pairs.scores
    if scores is not None and len(np.unique(scores)) < 2:
        raise InputError(
            f"{table.name}: every pair has the score {scores[0] if len(scores) else 'nothing'}; "
            "leave the column out of the file to train on pairs that belong together."
        )
    return replace(reading.pairs, warnings=[f"{count:,} rows without a text or a score left out"] if count else [])


def most_held_out(earlier: dict[str, Any] | None) -> int | None:
    """How many pairs are held out at most; earlier versions, whose headway.json does not say so, had no limit."""
    return MOST_HELD_OUT if earlier is None else earlier.get("data", {}).get("most_held_out")


def scores_of(pairs: TextPairs) -> np.ndarray:
    """The score of each pair (N,): 1 where the table has none."""
    return np.broadcast_to(1.0, len(pairs)) if pairs.scores is None else pairs.scores


open_data = EmbeddingData


def measure(pipe: Embedder, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the pairs that were counted; they are cut as in training."""
    pairs = given.sampled(_held_out(given))
    rows = encoded_pairs(pairs, pipe.tokenizer).cut(pipe.max_length, pipe.tokenizer.special_ids)
    examples = rows.scored(scores_of(pairs))
    order = np.concatenate(examples.order(pipe.runtime.tokens))
    texts = texts_of(pairs, order) if pairs.scores is None else None
    task, each = Embedding("scores" if texts is None else "pairs", texts=texts), list[np.ndarray]()
    metrics = task.evaluate(pipe.pooled, pipe.runtime.batches(examples.batches(pipe.runtime.tokens)), each)
    given.each.append(in_order(each, order))
    known = None if given.same else given.trained_rows(read_pairs, most_held_out(given.facts))
    if known is not None:
        given.baselines.extend(embedding_baselines(known, pairs, given.of_baselines)[0])
    return {**metrics, "examples": len(pairs)}


def held_out_inputs(pipe: Embedder, given: EvaluationInputs, count: int) -> list[str]:
    """The first texts of some pairs that are held out."""
    return few(_held_out(given).sources, count)


def _held_out(given: EvaluationInputs) -> TextPairs:
    """The pairs to measure.  Raises InputError for what is no table of pairs."""
    table = given.source_as(Table, "an encoder of texts is measured on a table of pairs of texts")
    pairs = read_pairs(table, given.found, given.options.data.on_bad_row)
    return given.held_out(pairs, most_held_out(given.facts))
