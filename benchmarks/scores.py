"""Figures computed from answers alone, with scikit-learn, sacrebleu and NumPy; nothing of Headway is imported.

Letters: N rows, D width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sacrebleu
from sklearn.metrics import accuracy_score, f1_score

Span = tuple[int, int, str]
"""first character, the one after the last, label"""


def of_classes(true: Sequence[str], answers: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Accuracy and macro F1 of answers {"label": ...}; a label of None is a wrong answer of no class."""
    given = [answer["label"] or "" for answer in answers]
    known = sorted({*true, *given} - {""})
    macro = f1_score(true, given, labels=known, average="macro", zero_division=0)
    return {"accuracy": float(accuracy_score(true, given)), "macro_f1": float(macro)}


def of_spans(true: Sequence[Sequence[Span]], answers: Sequence[Sequence[dict[str, Any]]]) -> dict[str, float]:
    """Entity F1: spans that agree in label and in both ends, over all texts together."""
    hits = found = wanted = 0
    for spans, answer in zip(true, answers, strict=True):
        given = {(span["start"], span["end"], span["label"]) for span in answer}
        hits, found, wanted = hits + len(given & set(spans)), found + len(given), wanted + len(spans)
    return {"entity_f1": 2 * hits / (found + wanted) if found + wanted else 0.0}


def of_texts(references: Sequence[str], answers: Sequence[str]) -> dict[str, float]:
    """BLEU and chrF as sacrebleu gives them by default."""
    bleu = sacrebleu.corpus_bleu(list(answers), [list(references)], force=True)
    return {"bleu": bleu.score, "chrf": sacrebleu.corpus_chrf(list(answers), [list(references)]).score}


def of_pairs(pairs: Sequence[tuple[str, str]], first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """How often a second text (N, D) is nearest to its own first (N, D), and the mean of 1 / its rank.

    Other pairs that share a text with a pair are left out for it; a wrong text as near as the right one is nearer.
    """
    ranks = []
    for row, (one, other) in enumerate(pairs):
        near = second @ first[row]
        rivals = [at for at, pair in enumerate(pairs) if at != row and pair[0] != one and pair[1] != other]
        ranks.append(1 + int((near[rivals] >= near[row]).sum()))
    rank = np.array(ranks)
    return {"accuracy": float((rank == 1).mean()), "mrr": float((1 / rank).mean())}
