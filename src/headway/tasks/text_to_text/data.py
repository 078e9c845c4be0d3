"""Text to text: translation, summaries, answers."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from torch import nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import IGNORED, TargetKind
from headway.data.batches.encoded import Rows, row_lengths, unnamed_rows
from headway.data.batches.examples import Examples
from headway.data.open.detected import Detected
from headway.data.records.sample import drawn, few
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs, exchanged_sides, read_text_pairs
from headway.errors import InputError
from headway.hub.generation_config import TargetRules, target_rules
from headway.models.heads import Gives, gives
from headway.models.size import Wiring
from headway.models.transformer import EncoderDecoder
from headway.runtime.runtime import Runtime
from headway.tasks.baselines import unigram_baselines
from headway.tasks.given import Given
from headway.tasks.held_out import EvaluationInputs, in_parts
from headway.tasks.inputs import checked_length, told_once, usual_longest
from headway.tasks.losses import LanguageModeling, bytes_per_token, unknown_in
from headway.tasks.rows import EncodedPairs, base_vocabulary, encoded_pairs, sides_of
from headway.tasks.task import Closing, TaskData, TaskInputs
from headway.tasks.text_to_text.bleu import (
    MISSING,
    UNCHANGED,
    WITHOUT_SPACES,
    against_rivals,
    bleu_scores,
    copied_scores,
    without_spaces,
)
from headway.tasks.text_to_text.objective import Translation
from headway.tasks.text_to_text.pipeline import Translator
from headway.tasks.text_to_text.recognise import RECOGNISER
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
from headway.training.sizing.translator import by_pairs, translator_plan

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


def measure(pipe: Translator, given: EvaluationInputs) -> dict[str, Any]:
    """The loss as in training, of pairs that fit into the model; BLEU and chrF of all that it translates."""
    pairs = _held_out(given)
    if not given.same:
        _warn_of_pairs(pairs, given.source.name, given)
    chosen = given.sampled(pairs)
    rows, longest = _fitting(pipe, given, chosen)
    if len(rows) < len(chosen):
        left_out = f"{len(chosen) - len(rows):,} of {len(chosen):,} pairs"
        warnings.warn(f"{left_out} are longer than {longest:,} tokens: the loss leaves them out", stacklevel=3)
    if not len(rows):
        raise InputError(f"{given.source.name}: no pair fits the maximum length of {longest:,} tokens on each side.")
    if isinstance(pipe.model, EncoderDecoder):
        batches = pipe.runtime.batches(rows.examples.batches(pipe.runtime.tokens))
        task = Translation(pipe.rules.start[0], unknown=pipe.tokenizer.target.unknown)
        metrics = task.evaluate(pipe.model, batches, given.each)
    else:
        batches = pipe.runtime.batches(joined(rows).batches(pipe.runtime.tokens))
        metrics = prefix_task(rows.second, pipe.tokenizer).evaluate(pipe.model, batches, given.each)
    answered = pipe.read(chosen)
    if len(answered) < len(chosen):
        left_out = f"{len(chosen) - len(answered):,} of {len(chosen):,} sources"
        warnings.warn(f"{left_out} have a sentence that is too long for the model: they are left out", stacklevel=3)
    given.counts["measured"] = len(answered)
    with told_once():
        written, targets = pipe(list(answered.sources)), list(answered.targets)
    scores = bleu_scores(written, targets)
    if not scores:
        warnings.warn(MISSING, stacklevel=3)
    else:
        lines, apart = against_rivals(written, answered, _trained_pairs(given))
        scores |= {"written": len(answered), **apart}
        given.baselines.extend(lines)
    if scores and without_spaces(targets):
        warnings.warn(WITHOUT_SPACES, stacklevel=3)
    return {**metrics, **scores, "examples": len(answered)}


def held_out_inputs(pipe: Translator, given: EvaluationInputs, count: int) -> list[str]:
    """Some sources that are held out, of pairs that fit into the model."""
    return few(_fitting(pipe, given, _held_out(given))[0].texts.sources, count)


def _held_out(given: EvaluationInputs) -> TextPairs:
    """The pairs to measure.  Raises InputError for what is no table of pairs."""
    pairs = columns_of(given.table("a translator is measured on pairs of texts"), given.found)
    return given.held_out(pairs, MOST_HELD_OUT)


def _fitting(pipe: Translator, given: EvaluationInputs, pairs: TextPairs) -> tuple[EncodedPairs, int]:
    """The pairs that fit into the model, and how many tokens a side may have."""
    longest = min(pipe.longest_source, pipe.longest_target)
    if isinstance(pipe.model, EncoderDecoder):
        longest = min(longest, int(given.plan.get("length", longest)))
    return encoded_pairs(pairs, pipe.tokenizer).fitting(longest), longest


def _warn_of_pairs(pairs: TextPairs, name: str, given: EvaluationInputs) -> None:
    """Warn of pairs that look wrong, and of pairs that were trained on."""
    for warning in pairs.warnings:
        warnings.warn(f"{name}: {warning}", stacklevel=4)
    if (known := _trained_pairs(given)) is None:
        return
    if exchanged_sides(known, pairs):
        warnings.warn(f"{name}: source and target seem to be swapped, by the words of the training data", stacklevel=4)


def _trained_pairs(given: EvaluationInputs) -> TextPairs | None:
    """The pairs that the run was trained on; None if they are gone or have changed."""
    trained, data = given.trained_on(), given.facts.get("data", {})
    if not isinstance(trained, Table):
        return None
    known = read_text_pairs(trained, data["text_column"], data["second_column"])
    return given.learnt(known, MOST_HELD_OUT)


@dataclass(frozen=True, eq=False)
class Joined(Rows):
    """Each source with its target, less the last id, as input; or what is to be predicted after each of these ids."""

    sources: Sequence[Sequence[int]]
    targets: Sequence[Sequence[int]]
    wanted: bool
    """whether these are the predictions; what is to be predicted of the source is ``IGNORED``"""

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def lengths(self) -> np.ndarray:
        """The ids of each row, int64 (N,)."""
        return row_lengths(self.sources) + row_lengths(self.targets) - 1

    def row(self, at: int) -> list[int]:
        """One row."""
        source, target = self.sources[at], self.targets[at]
        return [*[IGNORED] * (len(source) - 1), *target] if self.wanted else [*source, *target[:-1]]


def joined(pairs: EncodedPairs) -> Examples:
    """Inputs and targets of the same length for each pair."""
    inputs, targets = (Joined(pairs.first, pairs.second, wanted) for wanted in (False, True))
    return Examples(inputs, targets, TargetKind.TOKEN)


def prefix_task(targets: Sequence[list[int]], tokenizer: Tokenizer, label_smoothing: float = 0.0) -> Objective:
    """The task whose bits per byte are those of these targets."""
    n_bytes = sum(len(tokenizer.decode(target).encode("utf-8", "surrogatepass")) for target in targets)
    n_tokens = int(row_lengths(targets).sum())
    return LanguageModeling(bytes_per_token(n_bytes, n_tokens, unknown_in(targets, tokenizer)), label_smoothing)
