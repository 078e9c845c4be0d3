"""Predict the next token of running text that is tokenised while it is trained on."""

from dataclasses import asdict, replace

from headway.data.corpus import Corpus
from headway.data.feed import Feed
from headway.data.lanes import Reading
from headway.data.stream_feed import StreamFeed, lane_count
from headway.data.streamed import Streamed
from headway.errors import InputError
from headway.text.sample import MOST_CHARACTERS
from headway.training.plan import Decision, Plan
from headway.training.recipes.language_modeling import LanguageModelRecipe, separator_of
from headway.training.recipes.recipe import Ingredients


class StreamRecipe(LanguageModelRecipe):
    """A decoder on Parquet shards that are never read whole before training.

    Rows are set aside for validation, unless files were named for it.  The tokenizer, the baselines and the number of
    tokens are found on a sample of the others.
    """

    def __init__(self, given: Ingredients):
        corpus, held_out = given.source, given.held_out
        if not isinstance(corpus, Streamed) or not (held_out is None or isinstance(held_out, Corpus)):
            raise TypeError("a stream needs running text in shards")
        self.corpus = corpus
        self.held = corpus.set_aside if held_out is None else [0] * len(corpus.groups)
        sample, n_sampled = corpus.sample(MOST_CHARACTERS, self.held)
        super().__init__(replace(given, source=sample, held_out=held_out or corpus.held_out))
        rows = corpus.n_rows - sum(self.held)
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
            "warnings": [f"{sample.n_empty:,} rows of the sample are empty; such rows are left out"]
            if sample.n_empty
            else [],
            "shards": corpus.known(),
        }
        given.progress.say(f"tokenizer and baselines are from a sample: {self.facts['sample']}")

    def plan(self, seconds: float | None) -> Plan:
        plan = super().plan(seconds)
        groups = sum(group.rows > held for group, held in zip(self.corpus.groups, self.held, strict=True))
        if not groups:
            raise InputError(f"{self.corpus.name}: too few rows to set some aside; name others with --validation.")
        lanes = lane_count(groups, max(1, plan.batch_tokens // plan.length))
        why = f"of {groups:,} row groups, each lane reads some of its own; as many processes can share them"
        decision = Decision("lanes", f"{lanes}", why, "--batch-tokens")
        return replace(plan, lanes=lanes, decisions=[*plan.decisions, asdict(decision)])

    def feed(self, plan: Plan) -> Feed:
        separator = separator_of(self.tokenizer)
        reading = Reading(self.corpus, self.held, self.tokenizer.encode_batch, separator, plan.seed)
        feed = StreamFeed(
            reading,
            self.validation,
            plan.length,
            plan.batch_tokens,
            plan.lanes,
            sample=self.train,
            tokens_per_row=self.tokens_per_row,
        )
        feed.every = plan.validation_every
        return feed
