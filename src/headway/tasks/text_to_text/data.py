"""Text to text: translation, summaries, answers."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any
from warnings import catch_warnings, simplefilter

from torch import nn

from headway.data.batches.batch_source import BatchSource, RowBatches
from headway.data.batches.batching import Examples, TargetKind
from headway.data.batches.encoded import unnamed_rows
from headway.data.open.columns import Detected
from headway.data.records.split import drawn, few
from headway.data.records.table import Table
from headway.data.records.text_pairs import TextPairs, exchanged_sides, read_text_pairs
from headway.errors import InputError
from headway.hub.generation_config import TargetRules, target_rules
from headway.models.heads import Gives, gives
from headway.models.size import Wiring
from headway.models.transformer import EncoderDecoder
from headway.runtime.runtime import Runtime
from headway.tasks.count_baselines import unigram_baselines
from headway.tasks.data_facts import DataFacts
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.inputs import told_once, usual_longest
from headway.tasks.losses import modeling_of
from headway.tasks.registry import recogniser, spec
from headway.tasks.rows import EncodedPairs, encoded_pairs, sides_of
from headway.tasks.rows_data import RowsData
from headway.tasks.task import FinalMetrics, TaskInputs
from headway.tasks.text_to_text import bleu
from headway.tasks.text_to_text.objective import Translation, joined
from headway.tasks.text_to_text.pipeline import Translator
from headway.text.bpe_dropout import BPEDropout
from headway.text.tokenizer import Tokenizer
from headway.training.base import Base, prepared_base
from headway.training.evaluation.metric import BLEU
from headway.training.objective import Objective
from headway.training.plan import Plan
from headway.training.sizing.architecture import architecture, built, reference
from headway.training.sizing.presets import fine_tune_rows_plan, given_or, tokens_of_rows
from headway.training.sizing.translator import by_pairs, translator_plan

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
NOT_HERE = ("bpe_dropout", "r_drop")
"""Options of encoder-decoders alone."""


class TextToTextData(RowsData):
    """An encoder-decoder, from scratch or from a base, on pairs of texts.

    From scratch both sides share one tokenizer and one table of token vectors.  Pairs with a text that is longer than
    the model reads are left out: truncated, they would teach it to leave out the end of a text.
    """

    wiring: Wiring = "encoder-decoder"
    unit = "pairs"
    texts_in_row = 2
    tokenizer_kind = "bpe"
    head = None
    held_out_by = "10 %, 2,000 at most, equal sources on one side"
    most_held_out = MOST_HELD_OUT

    def checked(self, base: Base) -> Base:
        """A base that writes texts for texts, between the languages that are asked for."""
        if not isinstance(base.model, EncoderDecoder) or gives(base.model) is not Gives.VOCABULARY:
            raise InputError(
                f"{base.path}: is not an encoder-decoder of text; name one (T5, BART, Marian, M2M-100) with --from."
            )
        asked, tokenizer = self.options.for_tasks, base.tokenizer
        if asked.source_language is not None or asked.target_language is not None:
            tokenizer = tokenizer.with_languages(source=asked.source_language, target=asked.target_language)
        if tokenizer.lacks_target_language:
            raise InputError(f"{base.path}: writes many languages; choose one with --target-language.")
        return replace(base, processor=tokenizer)

    def read(self, given: TaskInputs) -> tuple[TextPairs, TextPairs | None]:
        if not isinstance(given.source, Table):
            raise TypeError("pairs of texts need a table")
        pairs, other = columns_of(given.source, given.found), None
        if isinstance(given.held_out, Table):
            other = columns_of(given.held_out, given.found)
            pairs.warnings.extend(f"{other.table.name}: {warning}" for warning in other.warnings)
        self._other = other
        return pairs, other

    def texts(self, rows: TextPairs) -> tuple[Iterable[str], int]:
        return rows.texts, rows.characters

    def usual_vocabulary(self, kind: str, rows: TextPairs) -> int | None:
        return by_pairs(len(rows)).vocab if kind == "bpe" else None

    def new_tokenizer(self, rows: TextPairs) -> Tokenizer:
        if self.options.data.tokenizer == "wordpiece":
            raise InputError("--tokenizer wordpiece does not keep spaces; for pairs of texts use bpe, word or char.")
        return super().new_tokenizer(rows)

    def encode(self, train: TextPairs, held_out: TextPairs) -> None:
        self.rules = _rules(self.base, self.tokenizer)
        whole, model = encoded_pairs(train, self.tokenizer), self.base and self.base.model
        reads = (model.config, model.encoder_config) if isinstance(model, EncoderDecoder) else ()
        most = min((config.max_length for config in reads), default=None)
        self.longest = self.reading(usual_longest(whole.lengths, LONGEST), most)
        self.train = whole.fitting(self.longest)
        self.validation = encoded_pairs(held_out, self.tokenizer).fitting(self.longest)
        self.encoded = self.train, self.validation
        self.parts.counts.update({"trained": len(self.train), "measured": len(self.validation)})
        for part, name in ((self.train, train.table.name), (self.validation, "the held-out part")):
            if not len(part):
                raise InputError(f"{name}: no pair has at most {self.longest:,} tokens on each side; see --length.")
        if lost := len(train) - len(self.train):
            share = f"{lost:,} pairs, {lost / len(train):.1%} (--length)"
            self.warnings.append(f"longer than {self.longest:,} tokens and left out: {share}")
        if self._other is not None and exchanged_sides(train, held_out):
            name = self._other.table.name
            self.warnings.append(f"{name}: source and target seem to be swapped there, by their words")

    def measure_baselines(self) -> None:
        sources, targets = list(self.validation.texts.sources), list(self.validation.texts.targets)
        unchanged = bleu.copied_scores(sources, targets)
        if not unchanged:
            self.warnings.append(bleu.MISSING)
        elif BLEU in spec(self.found.task).metrics and bleu.without_spaces(targets):
            self.warnings.append(bleu.WITHOUT_SPACES)
        size = self.tokenizer.target.vocab_size
        lines, each = unigram_baselines(self.train.second, self.validation.second, size)
        self.baselines, self.of_baselines = [*lines, {"name": bleu.UNCHANGED, **unchanged}], {"unigram": each}

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
        most = plan.batch_size
        return RowBatches(*self.examples(), plan.batch_tokens, plan.seed, max_examples=most, recut=recut)

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
            hypotheses = writer.search(sources, self.rules, beam=1)
            written = [self.tokenizer.target.decode(one[0].ids) for one in hypotheses]
            return "\n".join(
                f"{source}\n= {target}\n> {text}" for (source, target), text in zip(texts, written, strict=True)
            )

        return sample

    def final_metrics(self, model: nn.Module, limit: float | None) -> FinalMetrics:
        """BLEU and chrF of what is written for held-out sources: for as many as CLOSING of the time allows."""
        writer: Any = model.eval()
        pipe = Translator(writer, self.tokenizer, self.rules)
        pairs = pipe.read(self.parts.held_out)
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
            lines, scores = bleu.against_rivals(written, part, self.train.texts)
            self.baselines[:] = [line for line in self.baselines if line["name"] != bleu.UNCHANGED] + lines
            return {**bleu.bleu_scores(written, list(part.targets)), "written": count, **scores}

        return FinalMetrics(count * each, measure)


class DecoderOnlyData(TextToTextData):
    """A decoder from scratch on pairs of texts, each as ``source </s> target </s>`` (Liu et al. 2018).

    Nothing is asked of the source; its width is that of the encoder-decoder for these pairs, with twice the layers.
    """

    def __init__(self, given: TaskInputs):
        if given.base is not None:
            raise InputError("--model decoder is trained from scratch; leave out --from or --model.")
        for name in NOT_HERE:
            if given.options.value(name):
                raise InputError(
                    f"--{name.replace('_', '-')} is for encoder-decoders; leave out this option or --model decoder."
                )
        super().__init__(given)
        self.rules = TargetRules(start=(), end=self.rules.end)

    wiring: Wiring = "decoder"
    texts_in_row = 1  # both texts, in one sequence

    def preset(self, seconds: float | None) -> Plan:
        plan = super().preset(seconds)
        before = plan.config
        config = before.but(
            n_layers=self.options.architecture.layers or 2 * before.n_layers,
            max_length=2 * before.max_length,
            positions="rotary",
            norm="rmsnorm",
            norm_parameters="weight",
            activation="silu",
            gated=True,
            d_ff=None,
            bias=(),
            embedding_scale=False,
        )
        shape = f"width {config.d_model}, {config.n_layers} layers, {config.n_heads} heads, {config.max_length} tokens"
        first = {**plan.decisions[0], "value": f"a decoder, {shape}"}
        return plan.but(model=asdict(config), length=config.max_length, decisions=[first, *plan.decisions[1:]])

    def examples(self) -> tuple[Examples, Examples]:
        return joined(self.train), joined(self.validation)

    def objective(self, plan: Plan) -> Objective:
        return modeling_of(self.validation.second, self.tokenizer, plan.objective.label_smoothing)


def open_data(given: TaskInputs) -> TextToTextData:
    """The data for the kind of model that is asked for."""
    return DecoderOnlyData(given) if given.options.architecture.model == "decoder" else TextToTextData(given)


def columns_of(table: Table, found: Detected) -> TextPairs:
    """The pairs of the two columns that were found; of a table with other columns, those that are found there."""
    columns = found.text_column or "", found.second_column or ""
    if not set(columns) <= set(table.columns):
        own = recogniser(found.task).columns(DataFacts(table, asked=found.task))
        columns = own.text_column or "", own.second_column or ""
    return read_text_pairs(table, *columns)


def _rules(base: Base | None, tokenizer: Tokenizer) -> TargetRules:
    """What targets begin and end with: as the base's directory says; our own begin with the token that ends them."""
    if base is None:
        end = tokenizer.end_of_text or 0
        return TargetRules(start=(end,), end=(end,))
    rules, after = target_rules(base.path, base.config.vocab_size), tokenizer.target_start
    return replace(rules, start=(*rules.start[:1], *after)) if after else rules


def measure(pipe: Translator, given: EvaluationInputs) -> dict[str, Any]:
    """The loss as in training, of pairs that fit into the model; BLEU and chrF of all that it translates."""
    pairs, name = _held_out(given), given.source.name
    trained = given.trained_rows(_read_trained, MOST_HELD_OUT)
    if not given.same:
        for warning in pairs.warnings:
            warnings.warn(f"{name}: {warning}", stacklevel=3)
        if trained is not None and exchanged_sides(trained, pairs):
            swapped = "source and target seem to be swapped, by the words of the training data"
            warnings.warn(f"{name}: {swapped}", stacklevel=3)
    chosen = given.sampled(pairs)
    rows, longest = _fitting(pipe, given, chosen)
    if len(rows) < len(chosen):
        left_out = f"{len(chosen) - len(rows):,} of {len(chosen):,} pairs"
        warnings.warn(f"{left_out} are longer than {longest:,} tokens: the loss leaves them out", stacklevel=3)
    if not len(rows):
        raise InputError(f"{name}: no pair fits the maximum length of {longest:,} tokens on each side.")
    task: Objective
    if isinstance(pipe.model, EncoderDecoder):
        examples, task = rows.examples, Translation(pipe.rules.start[0], unknown=pipe.tokenizer.target.unknown)
    else:
        examples, task = joined(rows), modeling_of(rows.second, pipe.tokenizer)
    batches = pipe.runtime.batches(examples.batches(pipe.runtime.tokens))
    metrics = task.evaluate(pipe.model, batches, given.each)
    answered = pipe.read(chosen)
    if len(answered) < len(chosen):
        left_out = f"{len(chosen) - len(answered):,} of {len(chosen):,} sources"
        warnings.warn(f"{left_out} have a sentence that is too long for the model: they are left out", stacklevel=3)
    given.counts["measured"] = len(answered)
    with told_once():
        written, targets = pipe(list(answered.sources)), list(answered.targets)
    scores = bleu.bleu_scores(written, targets)
    if not scores:
        warnings.warn(bleu.MISSING, stacklevel=3)
    else:
        lines, apart = bleu.against_rivals(written, answered, trained)
        scores |= {"written": len(answered), **apart}
        given.baselines.extend(lines)
    if scores and BLEU in spec(pipe.task).metrics and bleu.without_spaces(targets):
        warnings.warn(bleu.WITHOUT_SPACES, stacklevel=3)
    return {**metrics, **scores, "examples": len(answered)}


def held_out_inputs(pipe: Translator, given: EvaluationInputs, count: int) -> list[str]:
    """Some sources that are held out, of pairs that fit into the model."""
    return few(_fitting(pipe, given, _held_out(given))[0].texts.sources, count)


def _held_out(given: EvaluationInputs) -> TextPairs:
    """The pairs to measure.  Raises InputError for what is no table of pairs."""
    pairs = columns_of(given.source_as(Table, "a translator is measured on pairs of texts"), given.found)
    return given.held_out(pairs, MOST_HELD_OUT)


def _fitting(pipe: Translator, given: EvaluationInputs, pairs: TextPairs) -> tuple[EncodedPairs, int]:
    """The pairs that fit into the model, and how many tokens a side may have."""
    longest = min(pipe.longest_source, pipe.longest_target)
    if isinstance(pipe.model, EncoderDecoder):
        longest = min(longest, int(given.plan.get("length", longest)))
    return encoded_pairs(pairs, pipe.tokenizer).fitting(longest), longest


def _read_trained(table: Table, found: Detected, policy: str) -> TextPairs:
    """The pairs of the files that a run was trained on."""
    return read_text_pairs(table, found.text_column or "", found.second_column or "")
