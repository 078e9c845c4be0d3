"""Text to text: translation, summaries, answers."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from torch import nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import TargetKind
from headway.data.batches.encoded import unnamed_rows
from headway.data.batches.examples import Examples
from headway.data.open.detected import Detected
from headway.data.records.sample import drawn
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs, exchanged_sides, read_text_pairs
from headway.errors import InputError
from headway.hub.generation_config import TargetRules, target_rules
from headway.models.heads import Gives, gives
from headway.models.size import Wiring
from headway.models.transformer import EncoderDecoder
from headway.runtime.runtime import Runtime
from headway.tasks.common.given import Given
from headway.tasks.common.lengths import checked_length, usual_longest
from headway.tasks.common.ngram import unigram_baselines
from headway.tasks.common.parts import in_parts
from headway.tasks.common.rows import encoded_pairs, sides_of
from headway.tasks.common.vocabulary import base_vocabulary
from headway.tasks.task import Closing, TaskData, TaskInputs
from headway.tasks.translation.bleu import MISSING, WITHOUT_SPACES, bleu_scores, chrf_intervals, without_spaces
from headway.tasks.translation.objective import Translation
from headway.tasks.translation.pipeline import Translator
from headway.tasks.translation.preset import by_pairs, translator_plan
from headway.tasks.translation.recognise import RECOGNISER
from headway.text.bpe_dropout import BPEDropout
from headway.text.tokenizer import Tokenizer
from headway.text.train import train_tokenizer
from headway.training.base import Base, prepared_base
from headway.training.objective import Objective
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.architecture import architecture, built
from headway.training.sizing.baseline_models import reference
from headway.training.sizing.presets import fine_tune_rows_plan, given_or, tokens_of_rows

TASK = "translation"
LONGEST = 1024
"""Tokens: longer texts are not trained on unless ``--length`` says so."""
MOST_HELD_OUT = 2000
"""Pairs: of a large file no more are held out."""
CLOSING = 0.02
"""The share of the time in which targets are written at the end, to be compared with those that are wanted."""
MOST_WRITTEN, PROBED = 2000, 8
"""Held-out sources for which that is done at most, and for which it is timed."""
SHOWN = 3
"""Held-out sources whose targets are shown at each evaluation."""

UNCHANGED, COMMONEST, NEAREST = (
    "the source, unchanged",
    "the commonest target",
    "the target of the nearest source (TF-IDF)",
)
MOST_COMPARED = 10_000
"""Training pairs among which the nearest source is looked for, at most."""


class TranslationData(TaskData):
    """An encoder-decoder, from scratch or from a base, on pairs of texts.

    From scratch both sides share one tokenizer and one table of token vectors.  Pairs with a text that is longer than
    the model reads are left out: truncated, they would teach it to leave out the end of a text.
    """

    wiring: Wiring = "encoder-decoder"
    unit = "pairs"
    texts_in_row = 2

    def __init__(self, given: TaskInputs):
        table, other = given.source, given.held_out
        if not isinstance(table, Table):
            raise TypeError("pairs of texts need a table")
        self.options, self.base, self.labels = given.options, given.base, []
        if self.base is not None:
            self.base = _between(self.base, self.options)
            given = replace(given, base=self.base)
        named = columns_of(other, given.found) if isinstance(other, Table) else None
        pairs = columns_of(table, given.found)
        self.parts = in_parts(given, pairs, named, MOST_HELD_OUT)
        train, held_out = self.parts.train, self.parts.held_out
        vocabulary = base_vocabulary(given, train.texts, out_of=train.characters)
        self.tokenizer = vocabulary.tokenizer or _tokenizer(train, self.options)
        self.rules = _rules(self.base, self.tokenizer)
        encoded = encoded_pairs(train, self.tokenizer)
        self.longest = _longest_pair(encoded.lengths, self.options, self.base)
        self.train = encoded.fitting(self.longest)
        self.held_out, self.validation = held_out, encoded_pairs(held_out, self.tokenizer).fitting(self.longest)
        self.parts.counts.update({"trained": len(self.train), "measured": len(self.validation)})
        for part, name in ((self.train, table.name), (self.validation, "the held-out part")):
            if not len(part):
                raise InputError(f"{name}: no pair has at most {self.longest:,} tokens on each side; see --length.")
        warnings = [*pairs.warnings, *_warnings(train, held_out, len(self.train), self.longest), *self.parts.warnings]
        if isinstance(other, Table) and named is not None:
            warnings += [f"{other.name}: {warning}" for warning in named.warnings]
            if exchanged_sides(train, held_out):
                warnings.append(f"{other.name}: source and target seem to be swapped there, by their words")
        self.facts = {
            **self.parts.facts(given, "pairs", "10 %, 2,000 at most, equal sources on one side"),
            "warnings": warnings,
            **vocabulary.facts,
        }
        sources, targets = list(self.validation.texts.sources), list(self.validation.texts.targets)
        unchanged = copied_scores(sources, targets)
        if not unchanged:
            warnings.append(MISSING)
        elif without_spaces(targets):
            warnings.append(WITHOUT_SPACES)
        size = self.tokenizer.target.vocab_size
        lines, each = unigram_baselines(self.train.second, self.validation.second, size)
        self.baselines, self.of_baselines = [*lines, {"name": UNCHANGED, **unchanged}], {"unigram": each}

    def plan(self, seconds: float | None) -> Plan:
        if self.base is not None:
            plan = fine_tune_rows_plan(self.options, self.base.config, self.train.second.lengths, self.longest)
            smoothing = self.options.optimisation.label_smoothing
            size = tokens_of_rows(self.options, self.texts_in_row * self.longest, 1024)
            return plan.but(batch_tokens=size, label_smoothing=given_or(smoothing, 0.1))
        return architecture(self.preset(seconds), self.options, self.wiring)

    def preset(self, seconds: float | None) -> Plan:
        """The plan from scratch, before parts of it are changed."""
        tokens = int(self.train.first.lengths.sum()), int(self.train.second.lengths.sum())
        size = self.tokenizer.vocab_size
        return translator_plan(reference(self.options), size, len(self.train), tokens, self.longest, seconds)

    def build(self, plan: Plan) -> nn.Module:
        if self.base is not None:
            return prepared_base(self.base.model, plan)
        return built(plan, self.wiring)

    def batch_source(self, plan: Plan) -> BatchSource:
        recut = self._recut(plan.objective.bpe_dropout, plan.seed) if plan.objective.bpe_dropout else None
        most = plan.max_examples
        train, held_out = self.train.examples, self.validation.examples
        return RowBatches(train, held_out, plan.batch_tokens, plan.seed, max_examples=most, recut=recut)

    def _recut(self, share: float, seed: int) -> Callable[[int], Examples]:
        """The pairs of an epoch with BPE dropout on both sides; a text that becomes too long keeps its usual tokens."""
        train, keep = self.train, partial(unnamed_rows, vocab_size=1 << 32)
        size = max(self.tokenizer.vocab_size, self.tokenizer.target.vocab_size)
        first = BPEDropout(self.tokenizer, train.texts.sources, share, seed, keep)
        second = BPEDropout(self.tokenizer.target, train.texts.targets, share, seed + 1, keep)

        def rows(epoch: int) -> Iterator[list[int]]:
            wholes = zip(train.first, train.second, strict=True)
            for pair, whole in zip(zip(first.encode(epoch), second.encode(epoch), strict=True), wholes, strict=True):
                yield from pair if max(map(len, pair)) <= self.longest else whole

        return lambda epoch: Examples(*sides_of(unnamed_rows(rows(epoch), size)), TargetKind.SEQUENCE)

    def objective(self, plan: Plan) -> Objective:
        return Translation(
            self.rules.start[0],
            label_smoothing=plan.objective.label_smoothing,
            r_drop=plan.objective.r_drop,
            unknown=self.tokenizer.target.unknown,
        )

    def sampler(self, model: nn.Module) -> Callable[[], str]:
        """The first held-out sources with their targets and what the model writes."""
        writer = Runtime(model)
        sources, texts = self.validation.first[:SHOWN], list(self.validation.texts.part(slice(SHOWN)))

        def sample() -> str:
            found = writer.search(sources, self.rules, beam=1)
            written = [self.tokenizer.target.decode(one[0].ids) for one in found]
            return "\n".join(
                f"{source}\n= {target}\n> {text}" for (source, target), text in zip(texts, written, strict=True)
            )

        return sample

    def closing(self, model: nn.Module, limit: float | None) -> Closing:
        """BLEU and chrF of what is written for held-out sources: for as many as CLOSING of the time allows."""
        writer: Any = model.eval()
        pipe = Translator(writer, self.tokenizer, self.rules)
        pairs = pipe.read(self.held_out)
        probed = drawn(len(self.validation), PROBED)
        lengths = self.validation.second.lengths[probed].tolist()  # what is not trained yet does not end itself
        began = time.perf_counter()
        pipe.runtime.search(self.validation.first.part(probed)[:], self.rules, most=lengths)
        each = (time.perf_counter() - began) / len(probed)
        count = min(len(pairs), MOST_WRITTEN)
        count = count if limit is None else max(1, min(count, int(CLOSING * limit / each)))
        part = pairs.part(drawn(len(pairs), count))

        def measure() -> dict[str, Any]:
            with catch_warnings():
                simplefilter("ignore")  # of translations that are cut off
                written = pipe(list(part.sources))
            lines, scores = against_rivals(written, part, self.train.texts)
            self.baselines[:] = [line for line in self.baselines if line["name"] != UNCHANGED] + lines
            return {**bleu_scores(written, list(part.targets)), "written": count, **scores}

        return Closing(count * each, measure)


def copied_scores(sources: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
    """BLEU and chrF of the sources as they are, without the signatures."""
    found = bleu_scores(sources, targets)
    return {name: value for name, value in found.items() if name != "signatures"}


def against_rivals(
    written: Sequence[str], pairs: TextPairs, train: TextPairs | None
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Baselines on the same pairs, and ``intervals`` of what was written against the best of them.

    They are the source as it is and, where the training pairs are known, one answer for all and the nearest source's.
    """
    sources, wanted = list(pairs.sources), list(pairs.targets)
    rivals = {UNCHANGED: sources}
    if train is not None and len(train):
        known = train.part(np.linspace(0, len(train) - 1, min(len(train), MOST_COMPARED)).astype(np.int64))
        targets = list(known.targets)
        common, count = Counter(targets).most_common(1)[0]
        rivals |= {COMMONEST: [common] * len(wanted)} if count > 1 else {}
        rivals |= {NEAREST: [targets[at] for at in _nearest(list(known.sources), sources)]}
    lines = [{"name": name, **copied_scores(texts, wanted)} for name, texts in rivals.items()]
    best = max(lines, key=lambda line: line.get("chrf", 0.0))
    apart = chrf_intervals(written, rivals[str(best["name"])], wanted)
    return lines, {"intervals": apart} if apart else {}


def _nearest(known: list[str], texts: list[str]) -> list[int]:
    """The number of the most similar known text of each, by the words and characters that they share."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectors = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), sublinear_tf=True)
    try:
        rows = vectors.fit_transform(known).T.tocsr()
    except ValueError:  # no text has a character
        return [0] * len(texts)
    found = vectors.transform(texts)
    return [int((found[at] @ rows).toarray().argmax()) for at in range(len(texts))]


def columns_of(table: Table, found: Detected) -> TextPairs:
    """The pairs of the two columns that were found; of a table with other columns, those that are found there."""
    columns = found.text_column or "", found.second_column or ""
    if not set(columns) <= set(table.columns):
        own = RECOGNISER.columns(Given(table, asked=TASK))
        columns = own.text_column or "", own.second_column or ""
    return read_text_pairs(table, *columns)


def _longest_pair(lengths: np.ndarray, options: TrainOptions, base: Base | None) -> int:
    """How many tokens a source or a target may have, from the longer side of each pair.

    Raises InputError when --length asks for more than is read.
    """
    usual = usual_longest(lengths, LONGEST)
    if base is None:
        return options.data.length or usual
    model: Any = base.model
    most = checked_length(options, min(model.config.max_length, model.encoder_config.max_length))
    return min(options.data.length or usual, most)


def _warnings(train: TextPairs, held_out: TextPairs, kept: int, longest: int) -> list[str]:
    found = []
    if kept < len(train):
        share = (len(train) - kept) / len(train)
        found.append(
            f"longer than {longest:,} tokens and left out: {len(train) - kept:,} pairs, {share:.1%} (--length)"
        )
    return found


def _between(base: Base, options: TrainOptions) -> Base:
    """A base that writes texts for texts, between the languages that are asked for.  Raises InputError for another."""
    if not isinstance(base.model, EncoderDecoder) or gives(base.model) is not Gives.VOCABULARY:
        raise InputError(
            f"{base.path}: is not an encoder-decoder of text; name one (T5, BART, Marian, M2M-100) with --from."
        )
    tokenizer = base.tokenizer
    if options.for_tasks.source_language is not None or options.for_tasks.target_language is not None:
        tokenizer = tokenizer.with_languages(
            source=options.for_tasks.source_language, target=options.for_tasks.target_language
        )
    if tokenizer.lacks_target_language:
        raise InputError(f"{base.path}: writes many languages; choose one with --target-language.")
    return replace(base, processor=tokenizer)


def _rules(base: Base | None, tokenizer: Tokenizer) -> TargetRules:
    """What targets begin and end with: as the base's directory says; our own begin with the token that ends them."""
    if base is None:
        end = tokenizer.end_of_text or 0
        return TargetRules(start=(end,), end=(end,))
    rules, after = target_rules(base.path, base.config.vocab_size), tokenizer.target_start
    return replace(rules, start=(*rules.start[:1], *after)) if after else rules


def _tokenizer(train: TextPairs, options: TrainOptions) -> Tokenizer:
    kind = options.data.tokenizer or "bpe"
    if kind == "wordpiece":
        raise InputError("--tokenizer wordpiece does not keep spaces; for pairs of texts use bpe, word or char.")
    vocab = options.data.vocab
    if vocab is None and kind == "bpe":
        vocab = by_pairs(len(train)).vocab
    return train_tokenizer(train.texts, kind, vocab, role="translator", out_of=train.characters)
