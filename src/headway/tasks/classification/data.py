"""Predict the label of a text."""

import difflib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor, nn

from headway.data.records.label_typing import apart, as_measured, merging, recorded, said
from headway.data.records.labels import Labelled, check_labels, label_counts, labelled
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.fine_tune import adds_layer, for_classification, pools_mean, with_block
from headway.io.quantities import duration
from headway.models.adapt.freeze import first_blocks, freeze
from headway.models.config import TransformerConfig
from headway.models.device import device_of
from headway.models.heads import Gives
from headway.models.transformer import Decoder, Encoder
from headway.tasks import fitting
from headway.tasks.baselines import classification_baselines
from headway.tasks.checks import LABEL, LONGEST_TEXT, ROWS, TEXT, Material, MaterialInputs, table
from headway.tasks.classes import ClassData
from headway.tasks.classification.task import Classifier
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.inspection import telling_rows
from headway.tasks.labels import continued_classes
from headway.tasks.losses import Classification, balanced_weights
from headway.tasks.rows import encoded_texts, measured_rows
from headway.tasks.task import TaskInputs
from headway.training.base import Base, prepared_base
from headway.training.evaluation.comparison import FEW
from headway.training.objective import Objective
from headway.training.options import OF_THE_LOOP, TrainOptions
from headway.training.plan import Plan
from headway.training.sizing import presets
from headway.training.sizing.architecture import architecture, built, family_of_layout, reference

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


class ClassificationData(ClassData):
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
        table: Any = given.source
        held_out, policy = given.held_out, self.options.data.on_bad_row
        columns = given.found.text_column or "", given.found.label_column or ""
        joins, as_text = self.options.for_tasks.merge_labels, self.options.for_tasks.labels_as_text
        written = label_counts(table, columns[1], as_text)
        if isinstance(held_out, Table):
            written += label_counts(held_out, columns[1], as_text)
        merged = merging(joins, written, as_text)
        self.recorded = {"merged_labels": merged.plain(), "merged": said(merged, written)} if joins and merged else {}
        rows, other = labelled(table, *columns, on_bad_row=policy, merging=merged), None
        self.labels, self.new_head, self.counts = rows.classes, True, rows.counts()
        if not self.options.given(("frozen", "contrastive")):
            self.labels, self.new_head = continued_classes(given, rows.classes, Gives.ROW)
        if isinstance(held_out, Table):
            other = labelled(held_out, *columns, on_bad_row=policy, merging=merged, classes=rows.classes)
            check_labels(self.labels, other, other.name)
        return rows, other

    def learn(self, given: TaskInputs, rows: Labelled) -> None:
        """The labels of one of several columns.  Raises InputError where there is nothing to learn."""
        column, count = given.found.label_column, len(rows.classes)
        if count < 2:
            raise InputError(f"{rows.name}: column {column!r} holds one label only.")
        if count > max(2, len(rows) / 2):
            raise InputError(
                f"{rows.name}: column {column!r} has {count:,} values in {len(rows):,} rows, which do not look "
                "like labels; leave it out of --label-column."
            )
        self.labels = rows.classes

    def values(self, rows: Labelled) -> np.ndarray:
        return super().values(rows).astype(np.int32)

    def usual_vocabulary(self, kind: str, rows: Labelled) -> int | None:
        if kind != "word":
            return None
        counts = Counter(word for text in rows for word in set(re.findall(r"\w+|[^\w\s]", text.lower())))
        return 5 + max(2, min(30_000, sum(n >= 2 for n in counts.values())))  # words of one text teach nothing

    def measure_baselines(self) -> None:
        train, held = self.parts.train, self.parts.held_out
        known = train, self.train_targets.astype(np.int32, copy=False), held, self.targets, self.labels
        self.baselines, sampled = classification_baselines(*known, self.of_baselines)
        self.warnings += [sampled] if sampled else []

    def plan(self, seconds: float | None) -> Plan:
        if self.base is None:
            plan = presets.encoder_plan(reference(self.options), self.tokenizer.vocab_size, self.lengths, self.longest)
            return architecture(plan, self.options, "encoder", len(self.labels))
        asked, base = self.options.fine_tuning, self.base.config
        model: Any = self.base.model
        why = self._why_frozen(base, seconds)
        mean = bool(why) or (self.new_head and pools_mean(model))
        grows = mean and adds_layer(model)
        if why:
            depth, contrastive = fitting.kept_blocks(base.n_layers), asked.contrastive or not asked.frozen
            plan = presets.frozen_plan(self.options, base, depth, self.longest, contrastive=contrastive, why=why)
            config = with_block(plan.config) if grows else plan.config
        else:
            config = with_block(base) if grows else base
            plan = presets.fine_tune_classifier_plan(self.options, config, self.lengths, self.longest, seconds)
            plan = self.with_head_decision(plan)
            config = plan.config
        if not mean:
            return plan
        value = "its family's own, on the mean of the token vectors"
        value += f"; layer {config.n_layers} is new and takes it" if grows else ""
        why = f"the vectors of {plan.fine_tuning.base} are averaged"
        return plan.decided("classifier", value, why, "--from", mean=True, model=asdict(config))

    def build(self, plan: Plan) -> nn.Module:
        config, classes = plan.config, len(self.labels)
        if self.base is None:
            return built(plan, "encoder", classes, family_of_layout(self.options))
        base: Any = self.base.model
        if plan.fine_tuning.frozen:
            first_blocks(base, fitting.kept_blocks(base.config.n_layers))
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
        other = self.options.runtime.precision not in (None, presets.FITTED_IN)
        if self.options.given(OF_THE_LOOP) or reads_on or other or not self.new_head:
            return ""
        if len(self.train) < fitting.FEW_ROWS * len(self.labels):
            return f"{len(self.train):,} rows for {len(self.labels)} classes are few"
        needed = presets.pass_seconds(config, self.train.lengths, device_of(self.options.runtime.device))
        if seconds is None or seconds >= LEAST_PASSES * needed:
            return ""
        evaluations = 2 * needed * len(self.validation) / (3 * len(self.train))  # without a gradient
        trained_on = max(0.0, seconds - evaluations) / needed * len(self.train)
        if seconds > LEAST_READ * READING * needed or trained_on < fitting.FEW_ROWS * len(self.labels):
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
        rows, targets = fitting.with_label_rows(self.tokenizer, self.labels, self.train, self.train_targets)
        if plan.fine_tuning.contrastive:
            most = None if seconds is None else TUNING * seconds
            steps = fitting.tune_vectors(
                encoder, rows, targets, plan.seed, show, most, self._row_weights(targets, by_class=False)
            )
            tuning = {"loss": "supervised contrastive", "steps": steps, **fitting.TUNED_BY}
        left = None if seconds is None else seconds - (time.monotonic() - began)
        count, weights = len(self.train), self._row_weights(targets)
        read = fitting.fit_frozen(encoder, rows, targets, count, seed=plan.seed, weights=weights, seconds=left)
        classifier = {"C": fitting.INVERSE_PENALTY, "rows": read, "sentences_of_labels": len(rows) - count}
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

    def _row_weights(self, targets: np.ndarray, *, by_class: bool = True) -> np.ndarray | None:
        """The weights of the rows to train on and of what comes after them, which counts 1: float32 (N,).

        ``by_class`` multiplies each by that of its class.
        """
        own, of_class = self.parts.train.weights, self._class_weights() if by_class else None
        if own is not None:
            own = np.concatenate([own, np.ones(len(targets) - len(own), dtype=np.float32)])
        each = None if of_class is None else of_class.numpy()[targets]
        return own if each is None else each if own is None else own * each

    def telling(self, model: nn.Module, chosen: Sequence[int], texts: Sequence[str]) -> dict[str, Any]:
        return telling_rows(model, [self.validation[at] for at in chosen], self.targets[chosen], texts, self.labels)

    def cross_validation(self, plan: Plan, model: nn.Module, seconds: float | None) -> dict[str, Any] | None:
        train, held_out = self.parts.train, self.parts.held_out
        if len(held_out) >= FEW or len(train) + len(held_out) > fitting.MOST_ROWS:
            return None
        targets, others = np.concatenate([self.train_targets, self.targets]), {}
        if plan.fine_tuning.frozen:
            rows, classes = fitting.with_label_rows(
                self.tokenizer, self.labels, fitting.Joined(self.train, self.validation), targets
            )
            weights, encoder = self._row_weights(classes), model
            guess = fitting.guess_by_vectors(encoder, rows, classes, len(targets), weights)  # type: ignore[arg-type]
            others["pretrained vectors before tuning" if plan.fine_tuning.contrastive else "pretrained vectors"] = guess
        return fitting.cross_validated([*train, *held_out], targets.tolist(), others, seconds=seconds)

    def objective(self, plan: Plan | None) -> Objective:
        if plan is None:  # of a column
            return self.task.measure(self)
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


def first_rows(source: Table, found: Any, options: TrainOptions, given: MaterialInputs) -> Material:
    """The first texts with each label, each once.

    Raises InputError for a row that is wrong where ``options`` do not skip it.
    """
    labels = _as_recorded(given.facts, source, found, options.data.on_bad_row)
    most, counts, chosen = max(4, ROWS // len(labels.classes)), Counter[str](), dict[str, str]()
    for text, label in zip(labels.texts, labels.labels, strict=True):
        if text not in chosen and counts[label] < most:
            counts[label] += 1
            chosen[text] = label
    return table([{TEXT: text[:LONGEST_TEXT], LABEL: label} for text, label in chosen.items()], given.folder)


def measure(pipe: Classifier, given: EvaluationInputs) -> dict[str, Any]:
    """Metrics with ``examples``, the rows that were counted; texts are cut as in training.  Raises InputError."""
    rows = held_out(pipe, given)
    known = None if given.same else given.trained_rows(partial(_as_recorded, given.facts))
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


def _as_recorded(facts: dict[str, Any], source: Any, found: Any, policy: str) -> Labelled:
    """The rows of a table, their labels read and joined as headway.json of a run says."""
    return labelled(source, found.text_column, found.label_column, on_bad_row=policy, merging=recorded(facts))


def held_out(pipe: Classifier, given: EvaluationInputs) -> Labelled:
    """The rows to measure.  Raises InputError for what is no table of texts and labels."""
    table, found = given.source_as(Table, "a classifier is measured on a table of texts and labels"), given.found
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
