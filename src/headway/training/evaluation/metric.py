"""What a metric is: plain data, by which runs are compared and results are worded."""

from dataclasses import dataclass

UNITS = ("loss", "class", "correlation", "area", "quotient", "text")
"""What the results of the held-out units are, arrays (N, 2), and so how two models are compared:

    loss           (sum of the loss, number of targets): the mean, lower is better
    class          (predicted, true) class, or (rank of the right text, 1): the share of equal pairs
    correlation    (predicted, true) number: Spearman's rank correlation
    area           (score, 1 or 0): the area under the ROC curve
    quotient       Σ first numbers / Σ second numbers; F1 is 2 × found rightly over found + wanted
    text           no units: ``evaluate`` gives an interval, and as ``written`` the number of texts
"""


@dataclass(frozen=True)
class Metric:
    """One number by which models are measured."""

    key: str
    """its name in headway.json and in ``--json``"""
    name: str
    """its name for people"""
    lower_is_better: bool = False
    units: str = ""
    """one of UNITS; nothing for a metric by which models are not compared"""

    def __post_init__(self) -> None:
        if self.units not in ("", *UNITS):
            raise ValueError(f"units is {self.units!r}, but must be one of {', '.join(UNITS)}")

    def better(self, one: float, other: float) -> float:
        """By how much ``one`` is better than ``other``; below 0 where it is worse."""
        return other - one if self.lower_is_better else one - other


VAL_LOSS = Metric("val_loss", "validation loss", lower_is_better=True, units="loss")
BITS_PER_BYTE = Metric("bits_per_byte", "bits per byte", lower_is_better=True)
PERPLEXITY = Metric("perplexity", "perplexity", lower_is_better=True)
ACCURACY = Metric("accuracy", "accuracy", units="class")
MACRO_F1 = Metric("macro_f1", "macro F1")
AVERAGE_PRECISION = Metric("average_precision", "average precision")
BLEU = Metric("bleu", "BLEU", units="text")
CHRF = Metric("chrf", "chrF", units="text")
REPORTED = (VAL_LOSS, BITS_PER_BYTE, PERPLEXITY, ACCURACY, MACRO_F1, BLEU, CHRF)
"""Metrics that every run reports, as None where they do not apply; a task's spec lists those that it has."""
