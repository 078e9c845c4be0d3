"""Predict the label of a text."""

import difflib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from torch import Tensor, nn

from headway.data.records.label_typing import apart, as_measured, merging, recorded, said
from headway.data.records.labels import Labelled, check_labels, label_counts, labelled
from headway.data.records.split import few
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.fine_tune import adds_layer, for_classification, pools_mean, with_block
from headway.io.quantities import duration
from headway.models.adapt.freeze import first_blocks, freeze
from headway.models.config import TransformerConfig
from headway.models.device import device_of
from headway.models.heads import Gives
from headway.models.transformer import Decoder, Encoder
from headway.tasks.baselines import classification_baselines
from headway.tasks.checks import LABEL, LONGEST_TEXT, ROWS, TEXT, Material, MaterialInputs, table
from headway.tasks.classification.examples import telling_rows
from headway.tasks.classification.task import Classifier
from headway.tasks.fitting import (
    FEW_ROWS,
    INVERSE_PENALTY,
    MOST_ROWS,
    TUNED_BY,
    Joined,
    cross_validated,
    fit_frozen,
    guess_by_vectors,
    kept_blocks,
    tune_vectors,
    with_label_rows,
)
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.labels import Classification, balanced_weights, continued_classes, head_decision
from headway.tasks.rows import encoded_texts, measured_rows
from headway.tasks.rows_data import TextData
from headway.tasks.task import TaskInputs
from headway.training.base import Base, prepared_base
from headway.training.evaluation.comparison import FEW
from headway.training.objective import Objective
from headway.training.options import OF_THE_LOOP, TrainOptions
from headway.training.plan import Plan, decision_of
from headway.training.sizing.architecture import architecture, built, family_of_layout, reference
from headway.training.sizing.presets import (
    FITTED_IN,
    encoder_plan,
    fine_tune_classifier_plan,
    frozen_plan,
    pass_seconds,
)

LEAST_PASSES = 1.0
"""A pretrained model is trained as a whole where the time is enough for so many passes over the rows."""
READING = 0.35
"""The share of a pass of training that it takes to read the rows once with the blocks that are kept."""
LEAST_READ = 0.2
"""The share of the rows that there must be time to read, for a classifier on vectors; else the model is trained, if the
time is enough to train on rows that are not few."""
TUNING = 0.6
"""The share of the time that tuning the vectors may take; the rest is for reading all rows with the tuned model."""
MOST_FITTED = 20_000
"""Training rows on which a linear model is fitted again to be compared with on other data."""


class ClassificationData(TextData):
    """An encoder with a classifier, from scratch or from a base (a decoder too), on texts with one label each."""

    held_out_by = "10 %, classes kept, duplicates on one side"

    def checked(self, base: Base) -> Base:
        if not isinstance(base.model, Encoder | Decoder):
            raise InputError(f"{base.path}: is an encoder-decoder; a classifier starts from an encoder or a decoder.")
        for way in ("frozen", "contrastive"):
            if self.options.value(way) and isinstance(base.model, Decoder):
                raise InputError(f"{base.path}: is a decoder, and --{way} needs an encoder.")
        return base

    def read(self, given: TaskInputs) -> tuple[Labelled, Labelled | None]:
        table, held_out = given.source, given.held_out
        if not isinstance(table, Table):
            raise TypeError("a classifier needs a table")
        columns = given.found.text_column or "", given.found.label_column or ""
        joins, as_text = self.options.for_tasks.merge_labels, self.options.for_tasks.labels_as_text
        written = label_counts(table, columns[1], as_text)
        if isinstance(held_out, Table):
            written += label_counts(held_out, columns[1], as_text)
        merged = merging(joins, written, as_text)
        self._merged = {"merged_labels": merged.plain(), "merged": said(merged, written)} if joins and merged else {}
        rows, other = labelled(table, *columns, on_bad_row=self.options.data.on_bad_row, merging=merged), None
        self.labels, self.new_head = rows.classes, True
        if not self.options.given(("frozen", "contrastive")):
            self.labels, self.new_head = continued_classes(given, rows.classes, Gives.ROW)
        if isinstance(held_out, Table):
            policy = self.options.data.on_bad_row
            other = labelled(held_out, *columns, on_bad_row=policy, merging=merged, classes=rows.classes)
            check_labels(self.labels, other, other.name)
        return rows, other

    def values(self, rows: Labelled) -> np.ndarray:
        return rows.numbered(self.labels)

    def usual_vocabulary(self, kind: str, rows: Labelled) -> int | None:
        if kind != "word":
            return None
        counts = Counter(word for text in rows for word in set(re.findall(r"\w+|[^\w\s]", text.lower())))
        return 5 + max(2, min(30_000, sum(n >= 2 for n in counts.values())))  # words of one text teach nothing

    def facts_of(self, rows: Labelled) -> dict[str, Any]:
        return {"classes": rows.counts(), **self._merged}

    def measure_baselines(self) -> None:
        train, held = self.parts.train, self.parts.held_out
        known = train, self.train_targets, held, self.targets, self.labels
        self.baselines, sampled = classification_baselines(*known, self.of_baselines)
        self.warnings += [sampled] if sampled else []

    def plan(self, seconds: float | None) -> Plan:
        lengths = self.lengths
        model: Any = None if self.base is None else self.base.model
        if self.base is not None and (why := self._why_frozen(self.base.config, seconds)):
            depth = kept_blocks(self.base.config.n_layers)
            contrastive = self.options.fine_tuning.contrastive or not self.options.fine_tuning.frozen
            plan = frozen_plan(self.options, self.base.config, depth, self.longest, contrastive=contrastive, why=why)
            grows = adds_layer(model)
            return _reading_mean(plan, with_block(plan.config) if grows else plan.config, grows=grows)
        if self.base is not None:
            mean = self.new_head and pools_mean(model)
            grows = mean and adds_layer(model)
            config = with_block(self.base.config) if grows else self.base.config
            plan = fine_tune_classifier_plan(self.options, config, lengths, self.longest, seconds)
            decision = head_decision(self.base, self.labels, new=self.new_head, task=self.found.task)
            plan = plan.but(decisions=[*plan.decisions, decision])
            return _reading_mean(plan, plan.config, grows=grows) if mean else plan
        options, classes = reference(self.options), len(self.labels)
        plan = encoder_plan(options, self.tokenizer.vocab_size, lengths, self.longest)
        return architecture(plan, self.options, "encoder", classes)

    def build(self, plan: Plan) -> nn.Module:
        config, classes = plan.config, len(self.labels)
        if self.base is None:
            return built(plan, "encoder", classes, family_of_layout(self.options))
        base: Any = self.base.model
        if plan.fine_tuning.frozen:
            first_blocks(base, kept_blocks(base.config.n_layers))
            base.stack.requires_grad_(plan.fine_tuning.contrastive)
            freeze(base, 0)
        elif not self.new_head:
            return prepared_base(base, plan)  # it goes on with its own
        model = for_classification(base, classes, dropout=config.dropout, seed=plan.seed, mean=plan.fine_tuning.mean)
        return model if plan.fine_tuning.frozen else prepared_base(model, plan)

    def _why_frozen(self, config: TransformerConfig, seconds: float | None) -> str:
        """The reason for a linear classifier alone, or nothing."""
        if self.options.fine_tuning.frozen or self.options.fine_tuning.contrastive:
            return "--contrastive" if self.options.fine_tuning.contrastive else "--frozen"
        reads_on = self.base is not None and isinstance(self.base.model, Decoder)
        other = self.options.runtime.precision not in (None, FITTED_IN)
        if self.options.given(OF_THE_LOOP) or reads_on or other or not self.new_head:
            return ""
        if len(self.train) < FEW_ROWS * len(self.labels):
            return f"{len(self.train):,} rows for {len(self.labels)} classes are few"
        needed = pass_seconds(config, self.train.lengths, device_of(self.options.runtime.device))
        if seconds is None or seconds >= LEAST_PASSES * needed:
            return ""
        evaluations = 2 * needed * len(self.validation) / (3 * len(self.train))  # without a gradient
        trained_on = max(0.0, seconds - evaluations) / needed * len(self.train)
        if seconds > LEAST_READ * READING * needed or trained_on < FEW_ROWS * len(self.labels):
            return f"{duration(seconds)} are too short to train on {len(self.train):,} rows"
        return ""

    def fit(
        self, plan: Plan, model: nn.Module, show: Callable[[float, float], None], seconds: float | None = None
    ) -> bool:
        if not plan.fine_tuning.frozen:
            return False
        encoder: Any = model
        began = time.monotonic()
        tuning: dict[str, Any] | None = None
        rows, targets = with_label_rows(self.tokenizer, self.labels, self.train, self.train_targets)
        if plan.fine_tuning.contrastive:
            most = None if seconds is None else TUNING * seconds
            steps = tune_vectors(encoder, rows, targets, plan.seed, show, most, self._own_weights(len(targets)))
            tuning = {"loss": "supervised contrastive", "steps": steps, **TUNED_BY}
        left = None if seconds is None else seconds - (time.monotonic() - began)
        count, weights = len(self.train), self._row_weights(targets)
        read = fit_frozen(encoder, rows, targets, count, seed=plan.seed, weights=weights, seconds=left)
        classifier = {"C": INVERSE_PENALTY, "rows": read, "sentences_of_labels": len(rows) - count}
        self.fitted = {"tuning": tuning, "classifier": classifier}
        if read < len(self.train):
            self.used = read
            enough = f"{read:,} of {len(self.train):,} rows"
            self.progress.warn(f"the time was enough for {enough}; more --time would help")
        return True

    def _class_weights(self) -> Tensor | None:
        """The weight of a row of each class, with --balance."""
        own = self.parts.train.weights
        return balanced_weights(self.train_targets, len(self.labels), own) if self.options.for_tasks.balance else None

    def _own_weights(self, count: int) -> np.ndarray | None:
        """The weights of the rows to train on and of what comes after them, which counts 1: float32 (count,)."""
        own = self.parts.train.weights
        return None if own is None else np.concatenate([own, np.ones(count - len(own), dtype=np.float32)])

    def _row_weights(self, targets: np.ndarray) -> np.ndarray | None:
        """The same times the weight of the class of each, float32 (N,)."""
        own, of_class = self._own_weights(len(targets)), self._class_weights()
        each = None if of_class is None else of_class.numpy()[targets]
        return own if each is None else each if own is None else own * each

    def telling(self, model: nn.Module, chosen: Sequence[int], texts: Sequence[str]) -> dict[str, Any]:
        return telling_rows(model, [self.validation[at] for at in chosen], self.targets[chosen], texts, self.labels)

    def cross_validation(self, plan: Plan, model: nn.Module, seconds: float | None) -> dict[str, Any] | None:
        train, held_out = self.parts.train, self.parts.held_out
        if len(held_out) >= FEW or len(train) + len(held_out) > MOST_ROWS:
            return None
        targets, others = np.concatenate([self.train_targets, self.targets]), {}
        if plan.fine_tuning.frozen:
            rows, classes = with_label_rows(self.tokenizer, self.labels, Joined(self.train, self.validation), targets)
            weights, encoder = self._row_weights(classes), model
            guess = guess_by_vectors(encoder, rows, classes, len(targets), weights)  # type: ignore[arg-type]
            others["pretrained vectors before tuning" if plan.fine_tuning.contrastive else "pretrained vectors"] = guess
        return cross_validated([*train, *held_out], targets.tolist(), others, seconds=seconds)

    def objective(self, plan: Plan) -> Objective:
        return Classification(
            self.labels,
            weights=self._class_weights(),
            label_smoothing=plan.objective.label_smoothing,
            token_dropout=plan.objective.token_dropout,
            hidden_token=self.tokenizer.mask if self.tokenizer.mask is not None else 0,
            protected=sorted(self.tokenizer.special_ids),
            r_drop=plan.objective.r_drop,
            by_accuracy=self.base is not None,
            silent=self.tokenizer.silent_ids,
        )


def _reading_mean(plan: Plan, config: TransformerConfig, *, grows: bool) -> Plan:
    """A plan whose classifier reads the mean of the vectors, in a model of this configuration; the plan says so."""
    value = "its family's own, on the mean of the token vectors"
    value += f"; layer {config.n_layers} is new and takes it" if grows else ""
    decision = decision_of("classifier", value, f"the vectors of {plan.fine_tuning.base} are averaged", "--from")
    return plan.but(mean=True, model=asdict(config), decisions=[*plan.decisions, decision])


def first_rows(source: Table, found: Any, options: TrainOptions, given: MaterialInputs) -> Material:
    """The first texts with each label.  Raises InputError for a row that is wrong where ``options`` do not skip it."""
    labels = labelled(
        source, found.text_column, found.label_column, on_bad_row=options.data.on_bad_row, merging=recorded(given.facts)
    )
    most = max(4, ROWS // len(labels.classes))
    chosen = _first_of_each(zip(labels.texts, labels.labels, strict=True), most)
    return table([{TEXT: text[:LONGEST_TEXT], LABEL: label} for text, label in chosen], given.folder)


def _first_of_each(rows: Iterable[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """The first ``most`` texts with each label, in their order; a text that was there before is left out."""
    counts: dict[str, int] = {}
    seen: set[str] = set()
    chosen = []
    for text, label in rows:
        if text not in seen and counts.get(label, 0) < most:
            seen.add(text)
            counts[label] = counts.get(label, 0) + 1
            chosen.append((text, label))
    return chosen


open_data = ClassificationData


def measure(pipe: Classifier, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the rows that were counted; texts are cut as in training.  Raises InputError."""
    rows = _held_out(pipe, given)
    known = None if given.same else _trained_rows(given)
    rows = given.sampled(rows)
    used = {rows.classes[at] for at in np.unique(rows.targets)}
    strange = sorted(used - set(pipe.labels))
    if strange:
        raise InputError(
            f"{given.source.name}: has labels that the model does not know: "
            f"{', '.join(_with_nearest(label, pipe.labels) for label in strange[:5])}; "
            f"known: {', '.join(pipe.labels[:20])}{', ...' * (len(pipe.labels) > 20)}. "
            "Correct them, or join spellings with --merge-labels."
        )
    targets = rows.numbered(pipe.labels)
    examples = encoded_texts(rows, pipe.tokenizer).cut(pipe.max_length).examples(targets)
    metrics = measured_rows(pipe, Classification(pipe.labels, silent=pipe.tokenizer.silent_ids), examples, given.each)
    if known is not None and len(known) <= MOST_FITTED and set(known.classes) <= set(pipe.labels):
        learnt = known, known.numbered(pipe.labels)
        lines, _ = classification_baselines(*learnt, rows, targets, pipe.labels, given.of_baselines)
        given.baselines.extend(lines)
    return {**metrics, "examples": len(rows)}


def held_out_inputs(pipe: Classifier, given: EvaluationInputs, count: int) -> list[str]:
    """Some texts that are held out."""
    return few(_held_out(pipe, given), count)


def _held_out(pipe: Classifier, given: EvaluationInputs) -> Labelled:
    """The rows to measure.  Raises InputError for what is no table of texts and labels."""
    table, found = given.table("a classifier is measured on a table of texts and labels"), given.found
    columns = found.text_column or "", found.label_column or ""
    asked, policy = given.options.for_tasks, given.options.data.on_bad_row
    as_text = asked.labels_as_text or given.before.get("labels_as_text") is True
    counts = label_counts(table, columns[1], as_text)
    merged = as_measured(given.facts, asked.merge_labels, as_text, counts, pipe.labels)
    rows = labelled(table, *columns, on_bad_row=policy, to_learn=False, merging=merged, classes=pipe.labels)
    return given.held_out(rows)


def _with_nearest(label: str, labels: Sequence[str]) -> str:
    """An unknown label, with the known label of the most similar spelling."""
    written = {known.casefold(): known for known in labels}
    near = difflib.get_close_matches(label.casefold(), list(written), n=1, cutoff=0.75)
    nearest = f" (did you mean {written[near[0]]!r}?)" if near else ""
    return f"{label!r}{apart(label, labels) or nearest}"


def _trained_rows(given: EvaluationInputs) -> Labelled | None:
    """The training rows of a classifier, if the files still exist."""
    trained = given.trained_on()
    if not isinstance(trained, Table):
        return None
    data = given.facts["data"]
    policy = given.before.get("on_bad_row") or "error"
    rows = labelled(
        trained, data["text_column"], data["label_column"], on_bad_row=policy, merging=recorded(given.facts)
    )
    return given.learnt(rows)
