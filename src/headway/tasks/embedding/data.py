"""Vectors of texts, from pairs of them."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from torch import nn

from headway.data.batches.batch_source import Feed, PairFeed, pair_lengths
from headway.data.open.columns import number
from headway.data.open.detected import Detected
from headway.data.records.split import HELD_OUT, split_indices
from headway.data.records.table import Table
from headway.errors import InputError, shown
from headway.models.heads import PoolingHead
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.tasks.common.lengths import cut_warning, shortened
from headway.tasks.common.running_text import bpe_size
from headway.tasks.common.vocabulary import base_vocabulary
from headway.tasks.embedding.objective import Embedding, embedding_baselines
from headway.tasks.task import TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import prepared_base
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan
from headway.training.sizing.presets import encoder_plan, fine_tune_rows_plan

LONGEST = 128
"""Tokens of a text, unless --length says otherwise."""
BATCH_TOKENS = 4096
"""Both texts of a pair counted: the more pairs in a batch, the more wrong answers each must be told from."""


@dataclass(frozen=True)
class Pairs:
    """Two texts in each row, and a score where the table has one."""

    first: list[str]
    second: list[str]
    scores: list[float] | None
    left_out: int = 0

    def at(self, index: Sequence[int]) -> "Pairs":
        """Some of the pairs."""
        scores = None if self.scores is None else [self.scores[i] for i in index]
        return Pairs([self.first[i] for i in index], [self.second[i] for i in index], scores)

    def __len__(self) -> int:
        return len(self.first)


class EmbeddingData(TaskData):
    """An encoder with a pooling head, from scratch or from a base, on pairs of texts.

    Without scores every pair belongs together (InfoNCE among the pairs of a batch); with scores their order is learned
    (CoSENT).  A base keeps its own pooling; else token vectors are averaged.
    """

    unit = "pairs"

    def __init__(self, given: TaskInputs):
        table = given.source
        if not isinstance(table, Table):
            raise TypeError("pairs of texts need a table")
        self.options, self.base, self.labels = given.options, given.base, []
        if self.base is not None and not isinstance(self.base.model, Encoder):
            raise InputError(f"{self.base.path}: is not an encoder, so it cannot be trained for embeddings.")
        pairs = read_pairs(table, given.found, on_bad_row=self.options.data.on_bad_row)
        if isinstance(given.held_out, Table):
            train, held_out = pairs, read_pairs(given.held_out, given.found, on_bad_row=self.options.data.on_bad_row)
            origin = f" ({given.held_out.name})"
        else:
            train, held_out = split_pairs(pairs, self.options.run.seed)
            origin = " (10 %, equal first texts on one side)"
        self.kind = "pairs" if pairs.scores is None else "scores"
        if self.kind == "pairs" and len(held_out) < 2:
            raise InputError(f"{table.name}: {len(held_out)} held-out pair; ranking needs at least two. Add rows.")
        vocabulary = base_vocabulary(given, [*train.first, *train.second])
        self.tokenizer = vocabulary.tokenizer or _tokenizer([*train.first, *train.second], self.options)
        longest = self.options.data.length or LONGEST
        self.longest = longest if self.base is None else min(longest, self.base.config.max_length)
        rows = [self.tokenizer.encode_batch(texts, special=True) for texts in (train.first, train.second)]
        self.train = token_pairs(train, self.tokenizer, self.longest)
        self.validation = token_pairs(held_out, self.tokenizer, self.longest)
        self.train_scores, self.scores = (part.scores or [1.0] * len(part) for part in (train, held_out))
        warnings = cut_warning([*rows[0], *rows[1]], self.longest)
        if pairs.left_out:
            warnings.append(f"{pairs.left_out:,} rows without a text or a score left out")
        self.facts = {
            "inputs": table.inputs,
            "fingerprint": table.fingerprint,
            "text_column": given.found.text_column,
            "second_column": given.found.second_column,
            "label_column": given.found.label_column,
            "train": f"{len(train):,} pairs",
            "validation": f"{len(held_out):,} pairs{origin}",
            "warnings": warnings,
            **vocabulary.facts,
        }
        texts = [*train.first, *train.second]
        self._each: dict[str, np.ndarray] = {}
        known = texts, held_out.first, held_out.second, held_out.scores
        self.baselines = embedding_baselines(*known, each=self._each)

    def plan(self, seconds: float | None) -> Plan:
        lengths = [length // 2 for length in pair_lengths(self.train)]
        why = "every pair belongs together" if self.kind == "pairs" else "pairs have scores"
        loss = "InfoNCE among the pairs of a batch" if self.kind == "pairs" else "CoSENT: the order of the scores"
        decision = asdict(Decision("loss", loss, why, "--label-column"))
        if self.base is not None:
            plan = fine_tune_rows_plan(self.options, self.base.config, lengths, self.longest)
            rate = self.options.optimisation.learning_rate or 5e-5
        else:
            options = self.options.but(
                dropout=0.1 if self.options.optimisation.dropout is None else self.options.optimisation.dropout
            )
            plan = encoder_plan(options, self.tokenizer.vocab_size, lengths, 0, self.longest)
            rate = self.options.optimisation.learning_rate or 1e-3
        return plan.but(
            batch_tokens=self.options.optimisation.batch_tokens or BATCH_TOKENS,
            learning_rate=rate,
            token_dropout=0.0,
            label_smoothing=0.0,
            decisions=[*plan.decisions, decision],
        )

    def build(self, plan: Plan) -> nn.Module:
        if self.base is not None:
            return prepared_base(self._with_head(self.base.model), plan)
        return initialise(Encoder(plan.config, PoolingHead()), plan.seed)

    def baseline_units(self, plan: Plan) -> dict[str, np.ndarray]:
        return self._each

    def feed(self, plan: Plan) -> Feed:
        return PairFeed(
            self.train,
            self.train_scores,
            self.validation,
            self.scores,
            plan.batch_tokens,
            plan.seed,
            max_examples=plan.max_examples,
        )

    def objective(self, plan: Plan) -> Objective:
        return Embedding(self.kind)  # type: ignore[arg-type]

    @staticmethod
    def _with_head(model: Any) -> nn.Module:
        if not isinstance(model.head, PoolingHead):
            model.head = PoolingHead()
        return model


def read_pairs(table: Table, found: Detected, *, on_bad_row: str) -> Pairs:
    """The pairs of a table.  Raises InputError for rows without a text or a number, unless they are to be skipped."""
    first, second = table.column(found.text_column or ""), table.column(found.second_column or "")
    written = table.column(found.label_column) if found.label_column else None
    scores = None if written is None else [number(value) for value in written]
    bad = [
        row
        for row in range(len(first))
        if not first[row].strip() or not second[row].strip() or (scores is not None and math.isnan(scores[row]))
    ]
    if bad and on_bad_row == "error":
        lack = "row lacks" if len(bad) == 1 else "rows lack"
        what, value = "a text", ""
        if written is not None:
            what += f", or a number as score in column {found.label_column!r}"
            value = f", score {shown(written[bad[0]])}"
        raise InputError(
            f"{table.name}: {len(bad):,} {lack} {what} ({table.places(bad)}{value}). "
            "Fill them in, or pass --on-bad-row skip."
        )
    wrong = set(bad)
    kept = [row for row in range(len(first)) if row not in wrong]
    pairs = Pairs(first, second, scores).at(kept)
    if pairs.scores is not None and len(set(pairs.scores)) < 2:
        raise InputError(
            f"{table.name}: every pair has the score {pairs.scores[0] if pairs.scores else 'nothing'}; "
            "leave the column out of the file to train on pairs that belong together."
        )
    return replace(pairs, left_out=len(bad))


def split_pairs(pairs: Pairs, seed: int) -> tuple[Pairs, Pairs]:
    """Pairs to train on and pairs held out; those with the same first text are on one side."""
    train, held_out = split_indices(pairs.first, [""] * len(pairs), HELD_OUT, seed)
    return pairs.at(train.tolist()), pairs.at(held_out.tolist())


def token_pairs(pairs: Pairs, tokenizer: Tokenizer, longest: int) -> list[tuple[list[int], list[int]]]:
    """The ids of both texts of each pair, of at most ``longest`` tokens."""
    first, second = (
        shortened(tokenizer.encode_batch(texts, special=True), longest, tokenizer)
        for texts in (pairs.first, pairs.second)
    )
    return [(one or [0], other or [0]) for one, other in zip(first, second, strict=True)]


def _tokenizer(texts: list[str], options: TrainOptions) -> Tokenizer:
    kind = options.data.tokenizer or "wordpiece"
    vocab = options.data.vocab
    if vocab is None and kind in ("bpe", "wordpiece"):
        vocab = bpe_size(sum(map(len, texts)))
    return train_tokenizer(texts, kind, vocab, role="encoder")
