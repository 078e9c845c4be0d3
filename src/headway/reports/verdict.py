"""The sentence at the top: is the model better than the simple thing? A loss is said as plainly as a win."""

import math
from collections.abc import Iterable
from typing import Any

from headway.reports.record import Record, not_numbers
from headway.reports.wording import LOSS_UNITS, LOWER_IS_BETTER, decimal, listing, metric_name, number, short_name

HEADLINES = ("accuracy", "spearman", "chrf", "bleu", "val_loss")
"""The metrics by which models are compared; the first one that the model has."""

WRITTEN = ("chrf", "bleu", "val_loss")
"""Those of a model that writes a text for a text: its accuracy is that of tokens, and BLEU is 0 for single words."""

FEW_EXAMPLES = 30
NORMAL_95 = 1.96


def verdict(record: Record) -> str:
    """One sentence, or two where the second says what to do or where the metrics disagree."""
    metrics = record.metrics
    headlines = WRITTEN if record.task == "translation" else HEADLINES
    key = next((key for key in headlines if number(metrics.get(key)) is not None), None)
    if key is None:
        return _without_metrics(record)
    model = float(metrics[key])
    name = f"{metric_name(key)}" if key != "val_loss" else "a validation loss of"
    unit = f" {LOSS_UNITS[record.task]}" if key == "val_loss" and record.task in LOSS_UNITS else ""
    best = best_baseline(record.baselines, key)
    if best is None:
        return f"The Transformer reaches {name} {decimal(model)}{unit}; no baseline was measured."
    other, rival = float(best[key]), _called(best)
    ours, theirs = _apart(model, other)
    if ours == theirs:
        first = f"A tie: the Transformer and {rival} both reach {name} {ours}{unit}. {_advice(record)}"
    elif (model < other) == (key in LOWER_IS_BETTER):
        behind = f"{rival}'s {theirs}" if rival.endswith(" baseline") else f"{rival}, which reaches {theirs}"
        first = f"The Transformer reaches {name} {ours}{unit}, ahead of {behind}."
    else:
        first = (
            f"{rival[0].upper()}{rival[1:]} wins: {metric_name(key)} {theirs} against the Transformer's {ours}. "
            f"{_advice(record)}"
        )
    return " ".join([first, *_disagreement(record, key, model, other), *_too_few(record)])


def _called(baseline: dict[str, Any]) -> str:
    """A baseline in a sentence: "the linear model baseline"; a name that has its article stands alone."""
    name = short_name(baseline.get("name", "best"))
    return name if name.startswith("the ") else f"the {name} baseline"


def _too_few(record: Record) -> list[str]:
    """A sentence where so few rows were held out that one of them decides."""
    examples = validation_examples(record)
    if not 0 < examples < FEW_EXAMPLES:
        return []
    held_out = "1 held-out row is" if examples == 1 else f"{examples} held-out rows are"
    return [f"But {held_out} too few to tell: measure it on others with `headway evaluate`."]


def best_baseline(baselines: Iterable[dict[str, Any]], key: str) -> dict[str, Any] | None:
    """The baseline with the best finite value of ``key``, or None."""
    known = [line for line in baselines if number(line.get(key)) is not None]
    sign = 1 if key in LOWER_IS_BETTER else -1
    return min(known, key=lambda line: sign * line[key], default=None)


def uncertainty(record: Record) -> str:
    """How far the accuracy can be trusted, given the number of validation examples; empty where that is unknown.

    The interval is the normal approximation, 1.96 sqrt(p (1 - p) / n), with p kept half an example away from 0 and 1.
    """
    accuracy, examples = number(record.metrics.get("accuracy")), validation_examples(record)
    if accuracy is None or not examples or not 0 <= accuracy <= 1:
        return ""
    share = min(max(accuracy, 0.5 / examples), 1 - 0.5 / examples)
    half = NORMAL_95 * math.sqrt(share * (1 - share) / examples)
    text = f"Measured on {examples:,} validation examples, which fixes the accuracy to about ±{max(half, 0.001):.2g}"
    best = best_baseline(record.baselines, "accuracy")
    if best is not None and abs(accuracy - best["accuracy"]) < half:
        return f"{text}: a difference this small may be chance."
    return f"{text}."


def validation_examples(record: Record) -> int:
    """How many examples were written, or the confusion matrix or the per-class table counts; 0 where none is there."""
    if (written := number(record.metrics.get("written"))) is not None:
        return int(written)
    rows = [listing(row) for row in listing(record.metrics.get("confusion"))]
    counted = sum(int(number(cell) or 0) for row in rows for cell in row)
    classes = record.metrics.get("per_class")
    if counted or not isinstance(classes, dict):
        return counted
    return sum(int(number(line.get("support")) or 0) for line in classes.values() if isinstance(line, dict))


def _without_metrics(record: Record) -> str:
    broken = not_numbers(record.evaluations, "val_loss") or not_numbers(record.steps, "loss")
    if broken:
        return (
            f"Training failed: from step {broken[0]['step']:,} on the loss was not a number. "
            "A lower learning rate usually cures it."
        )
    losses = [number(line.get("loss")) for line in record.steps]
    last = losses[-1] if losses else None
    if last is None:
        return "Nothing was measured yet."
    return (
        f"Not evaluated yet: after {record.last_step:,} steps the training loss is {decimal(last)}, "
        "which says nothing about new text."
    )


def _apart(model: float, other: float) -> tuple[str, str]:
    """Both numbers with two decimals, or with three where two would print the same."""
    two = decimal(model, 2), decimal(other, 2)
    return two if two[0] != two[1] else (decimal(model, 3), decimal(other, 3))


def _advice(record: Record) -> str:
    if record.info.get("base"):
        return "For this data use that baseline, or try another pretrained model."
    if record.task == "translation":  # its baseline is to write nothing new
        return "Train longer, on more pairs, or start from a pretrained model."
    if record.task in {"language_modeling", "masked_lm"}:
        return "For this data use that baseline, train longer, or start from a pretrained model."
    return "For this data use that baseline, or start from a pretrained model."


def _disagreement(record: Record, key: str, model: float, other: float) -> list[str]:
    """A sentence where accuracy does not lose but macro F1, which weighs rare classes like common ones, does."""
    ours, best = number(record.metrics.get("macro_f1")), best_baseline(record.baselines, "macro_f1")
    if key != "accuracy" or model < other or ours is None or best is None or ours >= best["macro_f1"]:
        return []
    mine, theirs = _apart(ours, float(best["macro_f1"]))
    if mine == theirs:
        return []
    return [f"By macro F1, which counts rare classes like common ones, {_called(best)} wins: {theirs} against {mine}."]
