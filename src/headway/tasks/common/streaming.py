"""Learn from running text that is tokenised while it is trained on."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from headway.data.batches.tokens import TokenFile
from headway.data.records.corpus import Corpus
from headway.data.stream.batch_source import partition_count
from headway.data.stream.partitions import Reading
from headway.data.stream.streamed import Streamed
from headway.errors import InputError
from headway.tasks.common.running_text import bpe_size
from headway.tasks.task import TaskData, TaskInputs
from headway.text.training_sample import MOST_CHARACTERS
from headway.training.distributed.ranks import Ranks
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan


class Streaming(TaskData):
    """What a recipe for running text becomes on Parquet shards that are never read whole before training.

    Rows are set aside for validation, unless files were named for it.  The recipe itself is given a sample of the
    others, from which are its tokenizer, its baselines and the number of tokens.
    """

    train: TokenFile
    validation: TokenFile
    n_tokens: int

    def __init__(self, given: TaskInputs):
        corpus, held_out = given.source, given.held_out
        if not isinstance(corpus, Streamed) or not (held_out is None or isinstance(held_out, Corpus)):
            raise TypeError("a stream needs running text in shards")
        self.corpus = corpus
        self.held: Sequence[int] = corpus.set_aside if held_out is None else [0] * len(corpus.groups)
        rows = corpus.n_rows - sum(self.held)
        if rows < 1:
            raise InputError(f"{corpus.name}: too few rows to hold some out; name validation files with --validation.")
        sample, n_sampled = corpus.sample(MOST_CHARACTERS, self.held)
        options = _with_vocabulary(given.options, corpus)
        made = replace(given, source=sample, held_out=held_out or corpus.held_out, options=options)
        super().__init__(made)  # type: ignore[safe-super]  # that of the recipe which stands behind this in its bases
        per_character = len(self.train) / sample.n_characters
        self.n_tokens = max(1, round(corpus.n_characters * rows / corpus.n_rows * per_character))
        self.tokens_per_row = self.n_tokens / rows
        aside = f"{sum(self.held):,} rows, set aside" if held_out is None else ", ".join(map(str, held_out.paths))
        self.facts |= {
            "inputs": [shard.name for shard in corpus.shards],
            "fingerprint": corpus.fingerprint,
            "documents": corpus.n_rows,
            "train": f"about {self.n_tokens:,} tokens in {rows:,} rows, read as they are needed",
            "validation": f"{len(self.validation):,} tokens ({aside})",
            "sample": f"{sample.n_characters:,} characters of {n_sampled:,} rows, evenly spread",
            "warnings": [f"{sample.n_empty:,} rows of the sample are empty, and left out"] if sample.n_empty else [],
            "shards": corpus.known(),
        }
        given.progress.say(f"tokenizer and baselines are from a sample: {self.facts['sample']}")

    def plan(self, seconds: float | None) -> Plan:
        plan = super().plan(seconds)  # type: ignore[safe-super]
        groups = sum(group.rows > held for group, held in zip(self.corpus.groups, self.held, strict=True))
        partitions = partition_count(groups, max(1, plan.batch_tokens // plan.length), Ranks.joined().count)
        why = f"of {groups:,} row groups, each partition reads its own; at most as many processes can share them"
        decision = Decision("lanes", f"{partitions}", why, "--batch-tokens")
        return plan.but(lanes=partitions, decisions=[*plan.decisions, asdict(decision)])

    def what_is_read(self, plan: Plan, begin: list[int], separator: int | None) -> dict[str, Any]:
        """What every batch source of a stream is given."""
        return {
            "reading": Reading(self.corpus, self.held, self.tokenizer.encode_batch, separator, plan.seed, begin),
            "validation": self.validation,
            "length": plan.length,
            "batch_tokens": plan.batch_tokens,
            "partitions": plan.lanes,
            "sample": self.train,
            "tokens_per_row": self.tokens_per_row,
        }


def _with_vocabulary(options: TrainOptions, corpus: Streamed) -> TrainOptions:
    """The options with the size of the vocabulary that suits all of the text, not the sample alone."""
    kind = options.data.tokenizer or "bpe"
    if options.data.vocab is not None or options.fine_tuning.from_model is not None or kind not in ("bpe", "wordpiece"):
        return options
    return options.but(vocab=bpe_size(corpus.n_characters))
