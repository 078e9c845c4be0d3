"""Tasks of running text: all but the model, the objective and the baselines of a language model."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar
from unicodedata import normalize

import numpy as np

from headway.data.batches.batch_source import BatchSource, Frame, TextBatches
from headway.data.batches.batching import Batch
from headway.data.batches.cache import cache_key, tokenised
from headway.data.batches.tokens import TokenFile
from headway.data.records.corpus import Corpus, TextPart, split_text
from headway.data.records.split import HELD_OUT
from headway.data.stream.batch_source import Reading, StreamBatches, partition_count
from headway.data.stream.streamed import Streamed
from headway.errors import InputError
from headway.io.file_lock import cache_directory
from headway.runtime.windows import frame
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.losses import bytes_per_token, unknown_in
from headway.tasks.rows import tokenizer_for
from headway.tasks.task import TaskData, TaskInputs
from headway.text.tokenizer import Tokenizer
from headway.text.train import MOST_CHARACTERS, train_tokenizer
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.ranks import Ranks
from headway.training.sizing.presets import decoder_plan, fine_tune_text_plan


def whole(corpus: Corpus) -> TextPart:
    """All of a corpus."""
    return TextPart(corpus.chunks, (corpus.fingerprint, "all"))


def held_out_part(corpus: Corpus) -> TextPart:
    """What a run on this text holds out where no validation file is named."""
    if isinstance(corpus, Streamed):
        return TextPart(corpus.held_out.chunks, (corpus.fingerprint, "validation"))
    return split_text(corpus)[1]


def held_out_text(given: EvaluationInputs, what: str) -> TextPart:
    """The text to measure on.  Raises InputError, with ``what`` a model is measured on, for data that are no text."""
    corpus = given.source_as(Corpus, what)
    return held_out_part(corpus) if given.same else whole(corpus)


def text_parts(corpus: Corpus, held_out: Corpus | None) -> tuple[TextPart, TextPart]:
    """Training and validation text."""
    if held_out is not None:
        return whole(corpus), whole(held_out)
    return split_text(corpus)[0], held_out_part(corpus)


def measured_bytes(text: TextPart, tokens: TokenFile, tokenizer: Tokenizer) -> float | None:
    """The bytes of UTF-8 for each token of a text, in NFC where the tokenizer writes that; None with unknown tokens."""
    parts = (normalize("NFC", part) if tokenizer.composes else part for part, _ in text)
    n_bytes = sum(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    unknown = unknown_in([tokens[1:]], tokenizer)  # the first, which may be half a word, is not predicted
    return bytes_per_token(n_bytes, len(tokens), unknown)


def around_documents(tokenizer: Tokenizer, *, framed: bool = False) -> tuple[list[int], int | None]:
    """(the ids before every document, the id after it): as the tokenizer writes a text, with the token that ends one.

    Where nothing ends a text, the token that begins one stands between documents.  Where windows are ``framed`` as
    whole texts are, [SEP] alone does.  Raises InputError for a tokenizer that puts several tokens after a text.
    """
    if framed:
        return [], tokenizer.sep
    begin, after = frame(tokenizer)
    if len(after) > 1:
        tokens = " ".join(tokenizer.tokens[number] for number in after)
        raise InputError(f"the tokenizer ends each text with {tokens}; a language model's ends it with one token.")
    end = after[0] if after else tokenizer.end_of_text
    return begin, tokenizer.begin_of_text if end is None and not begin else end


def encode_text(text: TextPart, tokenizer: Tokenizer, *, framed: bool = False) -> TokenFile:
    """Tokens of running text, read from the cache, with those around each document (``around_documents``)."""
    begin, end = around_documents(tokenizer, framed=framed)
    marks: tuple[Any, ...] = ("between", end) if framed else (begin, end)
    if not (framed or begin or tokenizer.marks_beginnings):
        marks = ()  # in caches of before, nothing began a document
    return tokenised(
        text,
        tokenizer.encode_batch,
        end_of_text=end,
        vocab_size=tokenizer.vocab_size,
        key=cache_key(text.key[0], tokenizer.to_json(), text.key[1], HELD_OUT, *marks),
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


def new_tokenizer(
    texts: Iterable[str], options: TrainOptions, role: str, *, n_characters: int, out_of: int, reserved: int = 0
) -> Tokenizer:
    """The tokenizer of a new model, BPE by default, from texts of ``out_of`` characters.

    The default size of its vocabulary suits ``n_characters``.  Raises InputError for a kind that cannot restore the
    text that a decoder writes.
    """
    kind, vocab = options.data.tokenizer or "bpe", options.data.vocab
    if kind == "wordpiece" and role == "decoder":
        raise InputError("--tokenizer wordpiece does not keep spaces; for a language model use bpe, word or char.")
    if vocab is None and kind in ("bpe", "wordpiece"):
        vocab = bpe_size(n_characters)
    return train_tokenizer(texts, kind, vocab, role=role, out_of=out_of, reserved=reserved)


class Stream:
    """Parquet shards that are never read whole before training.

    Rows are set aside for validation, unless files were named for it.  A sample of the others gives the tokenizer, the
    baselines and the number of tokens.
    """

    def __init__(self, corpus: Streamed, held_out: Corpus | None):
        self.corpus, self.named = corpus, held_out
        self.held: Sequence[int] = corpus.set_aside if held_out is None else [0] * len(corpus.groups)
        self.rows = corpus.n_rows - sum(self.held)
        if self.rows < 1:
            raise InputError(f"{corpus.name}: too few rows to hold some out; name validation files with --validation.")
        self.n_sampled = 0

    def sample(self) -> Corpus:
        """A part of the text to train on, held in memory."""
        corpus, self.n_sampled = self.corpus.sample(MOST_CHARACTERS, self.held)
        return corpus

    def count(self, sample: Corpus, n_tokens: int) -> int:
        """How many tokens all rows have, about, by those of a sample."""
        per_character = n_tokens / sample.n_characters
        return max(1, round(self.corpus.n_characters * self.rows / self.corpus.n_rows * per_character))

    def facts(self, sample: Corpus, n_train: int, n_validation: int) -> dict[str, Any]:
        """What headway.json says of it, by its numbers of tokens."""
        corpus, named = self.corpus, self.named
        aside = f"{sum(self.held):,} rows, set aside" if named is None else ", ".join(map(str, named.paths))
        return {
            "inputs": [shard.name for shard in corpus.shards],
            "fingerprint": corpus.fingerprint,
            "documents": corpus.n_rows,
            "train": f"about {n_train:,} tokens in {self.rows:,} rows, read as they are needed",
            "validation": f"{n_validation:,} tokens ({aside})",
            "sample": f"{sample.n_characters:,} characters of {self.n_sampled:,} rows, evenly spread",
            "warnings": [f"{sample.n_empty:,} rows of the sample are empty, and left out"] if sample.n_empty else [],
            "shards": corpus.known(),
        }

    def in_partitions(self, plan: Plan) -> Plan:
        """The plan with the number of partitions that are read side by side."""
        groups = sum(group.rows > held for group, held in zip(self.corpus.groups, self.held, strict=True))
        partitions = partition_count(groups, max(1, plan.batch_tokens // plan.length), Ranks.joined().count)
        why = f"of {groups:,} row groups, each partition reads its own; at most as many processes can share them"
        return plan.decided("lanes", f"{partitions}", why, "--batch-tokens", partitions=partitions)


class RunningTextData(TaskData):
    """A model, new or from a base, on running text as one sequence of tokens in windows.

    The text is read, split and tokenised; text in shards is read while the model is trained.
    """

    unit = "windows"
    framed: ClassVar[bool] = False
    """whether an encoder reads windows that look like whole texts, between [CLS] and [SEP]"""
    stream: Stream | None = None
    """the shards, where they are read while the model is trained"""

    def __init__(self, given: TaskInputs):
        self.options, self.base, self.labels = given.options, given.base, []
        self.read(given)

    def read(self, given: TaskInputs) -> None:
        """Read, split and tokenise the data, and measure the baselines.  Raises InputError."""
        corpus: Any = given.source
        held_out: Any = given.held_out
        if isinstance(corpus, Streamed):
            self.stream = stream = Stream(corpus, held_out)
            corpus, held_out = stream.sample(), held_out or stream.corpus.held_out
        train, self.held_out_text = parts = text_parts(corpus, held_out)
        new = partial(self._new_tokenizer, corpus, train)
        self.tokenizer, made = tokenizer_for(given, (text for text, _ in train), new)
        self.train, self.validation = (encode_text(text, self.tokenizer, framed=self.framed) for text in parts)
        self.n_tokens, n_validation = len(self.train), len(self.validation)
        if self.stream is None:
            origin = "the last 10 % of the text" if held_out is None else ", ".join(map(str, held_out.paths))
            facts = {
                "inputs": [str(path) for path in corpus.paths],
                "fingerprint": corpus.fingerprint,
                "documents": corpus.n_documents,
                "train": f"{self.n_tokens:,} tokens",
                "validation": f"{n_validation:,} tokens ({origin})",
                "warnings": [f"{corpus.n_empty} empty documents were left out"] if corpus.n_empty else [],
            }
        else:
            self.n_tokens = self.stream.count(corpus, self.n_tokens)
            facts = self.stream.facts(corpus, self.n_tokens, n_validation)
            given.progress.say(f"tokenizer and baselines are from a sample: {facts['sample']}")
        self.facts = {**facts, **made}

    def _new_tokenizer(self, corpus: Corpus, train: TextPart) -> Tokenizer:
        """The tokenizer of a new model; one of characters knows those of the held-out part too."""
        chunks = corpus.chunks() if self.options.data.tokenizer == "char" else train
        whole = corpus if self.stream is None else self.stream.corpus
        role = "encoder" if self.framed else "decoder"
        sizes = {"n_characters": whole.n_characters, "out_of": corpus.n_characters}
        return new_tokenizer((text for text, _ in chunks), self.options, role, **sizes)

    def plan(self, seconds: float | None) -> Plan:
        if self.base is not None:
            plan = fine_tune_text_plan(self.options, self.base.config, self.n_tokens, seconds)
        else:
            plan = self.new_plan(seconds)
        plan = self.completed(plan)
        return plan if self.stream is None else self.stream.in_partitions(plan)

    @abstractmethod
    def new_plan(self, seconds: float | None) -> Plan:
        """The plan of a new model, for ``seconds`` of training or for the requested steps."""

    def decoder_plan(self, options: TrainOptions, seconds: float | None) -> Plan:
        """The plan of a new decoder on as many tokens."""
        return decoder_plan(options, self.tokenizer.vocab_size, self.n_tokens, seconds, options.run.steps)

    def completed(self, plan: Plan) -> Plan:
        """The plan with what only this task decides."""
        return plan

    def batch_source(self, plan: Plan) -> BatchSource:
        frame = frame_of(self.tokenizer) if self.framed else None
        sizes = plan.length, plan.batch_tokens
        source: TextBatches | StreamBatches
        if self.stream is None:
            source = TextBatches(self.train, self.validation, *sizes, plan.seed, frame)
        else:
            begin, end = around_documents(self.tokenizer, framed=self.framed)
            corpus, held, encode = self.stream.corpus, self.stream.held, self.tokenizer.encode_batch
            reading = Reading(corpus, held, encode, end, plan.seed, begin)
            known: dict[str, Any] = {
                "sample": self.train,
                "tokens_per_row": self.n_tokens / self.stream.rows,
                "frame": frame,
            }
            source = StreamBatches(reading, self.validation, *sizes, plan.partitions, **known)
        source.every = plan.evaluating.validation_every
        return source


def frame_of(tokenizer: Tokenizer) -> Frame:
    """What stands before and after a window: [CLS] and [SEP], where the tokenizer has them."""
    first, last = ([] if number is None else [number] for number in (tokenizer.cls, tokenizer.sep))
    return first, last


def measured(pipe: Any, objective: Objective, batches: Iterable[Batch], each: list[np.ndarray]) -> dict[str, Any]:
    """The metrics of a pipeline's model, with ``examples``, the targets that were counted.

    ``each`` receives the result of each unit, as ``Objective.evaluate`` says.
    """
    results: list[np.ndarray] = []
    metrics = objective.evaluate(pipe.model, pipe.runtime.batches(batches), results)
    each += results
    return {**metrics, "examples": int(sum(part[:, 1].sum() for part in results))}
