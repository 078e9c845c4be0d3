"""Running text, as language models and masked language models both read it: its parts, its tokens, its size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from unicodedata import normalize

from headway.data.batches.cache import cache_key, tokenised
from headway.data.batches.tokens import TokenFile
from headway.data.records.corpus import Corpus
from headway.data.records.split import HELD_OUT, split_text
from headway.data.stream.batch_source import partition_count
from headway.data.stream.partitions import Reading
from headway.data.stream.streamed import Streamed
from headway.errors import InputError
from headway.io.cache_directory import cache_directory
from headway.runtime.windows import frame
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.losses import bytes_per_token, unknown_in
from headway.tasks.task import TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.text.training_sample import MOST_CHARACTERS
from headway.training.distributed.ranks import Ranks
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan

FEW = 10
"""A line of at most so many characters is left out where lines are inputs."""


@dataclass(frozen=True)
class Text:
    """All or a part of a corpus as chunks, (text, whether its document ends), as often as they are asked for."""

    chunks: Callable[[], Iterator[tuple[str, bool]]]
    key: tuple[str, str]
    """The fingerprint of the corpus, and which part this is."""
    begins_inside: Callable[[], bool] = lambda: False
    """Whether it begins in the middle of a document."""

    def __iter__(self) -> Iterator[tuple[str, bool]]:
        return self.chunks()


def whole(corpus: Corpus) -> Text:
    """All of a corpus."""
    return Text(corpus.chunks, (corpus.fingerprint, "all"))


def held_out_part(corpus: Corpus) -> Text:
    """What a run on this text holds out where no validation file is named."""
    key = (corpus.fingerprint, "validation")
    if isinstance(corpus, Streamed):
        return Text(corpus.held_out.chunks, key)
    part = split_text(corpus, HELD_OUT)[1]
    return Text(part.__iter__, key, part.begins_inside)


def held_out_text(given: EvaluationInputs, what: str) -> Text:
    """The text to measure on.  Raises InputError, with ``what`` a model is measured on, for data that are no text."""
    corpus = given.corpus(what)
    return held_out_part(corpus) if given.same else whole(corpus)


def text_lines(text: Text) -> Iterator[str]:
    """The lines of a text that have more than a few characters."""
    for chunk, _ in text:
        yield from (line for line in chunk.splitlines() if len(line.strip()) > FEW)


def text_parts(corpus: Corpus, held_out: Corpus | None) -> tuple[Text, Text]:
    """Training and validation text."""
    if held_out is not None:
        return whole(corpus), whole(held_out)
    return Text(split_text(corpus, HELD_OUT)[0].__iter__, (corpus.fingerprint, "train")), held_out_part(corpus)


def text_facts(corpus: Corpus, held_out: Corpus | None, n_train: int, n_validation: int) -> dict[str, Any]:
    """What headway.json says of running text, by its numbers of tokens."""
    origin = " (the last 10 % of the text)" if held_out is None else f" ({', '.join(map(str, held_out.paths))})"
    return {
        "inputs": [str(path) for path in corpus.paths],
        "fingerprint": corpus.fingerprint,
        "documents": corpus.n_documents,
        "train": f"{n_train:,} tokens",
        "validation": f"{n_validation:,} tokens{origin}",
        "warnings": [f"{corpus.n_empty} empty documents were left out"] if corpus.n_empty else [],
    }


def measured_bytes(text: Text, tokens: TokenFile, tokenizer: Tokenizer) -> float | None:
    """The bytes of UTF-8 for each token of a text, in NFC where the tokenizer writes that; None with unknown tokens."""
    parts = (normalize("NFC", part) if tokenizer.composes else part for part, _ in text)
    n_bytes = sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    unknown = unknown_in([tokens[1:]], tokenizer)  # the first, which may be half a word, is not predicted
    return bytes_per_token(n_bytes, len(tokens), unknown)


def around_documents(tokenizer: Tokenizer) -> tuple[list[int], int | None]:
    """(the ids before every document, the id after it): as the tokenizer writes a text, with the token that ends one.

    Where nothing ends a text, the token that begins one stands between documents.  Raises InputError for a tokenizer
    that puts several tokens after a text.
    """
    begin, after = frame(tokenizer)
    if len(after) > 1:
        tokens = " ".join(tokenizer.tokens[number] for number in after)
        raise InputError(f"the tokenizer ends each text with {tokens}; a language model's ends it with one token.")
    end = after[0] if after else tokenizer.end_of_text
    return begin, tokenizer.begin_of_text if end is None and not begin else end


def encode_text(text: Text, tokenizer: Tokenizer) -> TokenFile:
    """Tokens of running text, read from the cache, with those around each document (``around_documents``)."""
    begin, end = around_documents(tokenizer)
    changed = (
        (begin, end) if begin or tokenizer.marks_beginnings else ()
    )  # in caches of before, nothing began a document
    return tokenised(
        text,
        tokenizer.encode_batch,
        end_of_text=end,
        vocab_size=tokenizer.vocab_size,
        key=cache_key(text.key[0], tokenizer.to_json(), text.key[1], HELD_OUT, *changed),
        directory=cache_directory(),
        begin=begin,
        begins_inside=bool(begin) and text.begins_inside(),
    )


def bpe_size(n_characters: int) -> int:
    """How many subwords a text of that length supports: about one for each 1,000 characters, 512 to 16,384."""
    size = 512
    while size < 16384 and size * 1500 < n_characters:
        size *= 2
    return size


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
