"""BLEU and chrF of translations against references, by sacrebleu."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.training.evaluation import intervals

MISSING = "BLEU and chrF need sacrebleu: pip install 'headway[metrics]'"

WITHOUT_SPACES = "most targets have no spaces: BLEU counts each of them as one word; use chrF"
LONG = 30
"""Characters: shorter texts may well be one word."""


def bleu_scores(written: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
    """``bleu`` and ``chrf``, from 0 to 100, of texts as they are, and ``bleu_lowercase``, with all in lower case.

    BLEU (Papineni et al. 2002) is cased and of detokenised text, tokenised by sacrebleu's 13a (Post 2018); lower-cased
    it is what papers on small corpora report.  chrF: Popović 2015.  ``signatures`` has that of each.  Without sacrebleu
    there is nothing (``MISSING`` says so).
    """
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        return {}
    scores, signatures = {}, {}
    for name, metric in (("bleu", BLEU()), ("bleu_lowercase", BLEU(lowercase=True)), ("chrf", CHRF())):
        scores[name] = float(metric.corpus_score(list(written), [list(wanted)]).score)
        signatures[name] = str(metric.get_signature())
    return {**scores, "signatures": signatures}


def chrf_intervals(written: Sequence[str], rivals: Sequence[str], wanted: Sequence[str]) -> dict[str, Any]:
    """``interval`` of the chrF of what was written, and ``difference_interval`` of that less the chrF of ``rivals``.

    From the counts that sacrebleu keeps of each text (``intervals.of_sums``); nothing where it is not installed, keeps
    none, or there is a single text.
    """
    try:
        from sacrebleu.metrics.chrf import CHRF

        metric: Any = CHRF()
        counts = [
            np.array(metric._extract_corpus_statistics(list(texts), [list(wanted)])) for texts in (written, rivals)
        ]
    except (ImportError, AttributeError):
        return {}
    if len(written) < 2:
        return {}

    def score(sums: np.ndarray) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score) / 100

    ours, theirs = (tuple([each] for each in intervals.of_sums(score, part)) for part in counts)
    interval, apart = intervals.of_seeds(*ours, 0, 1), intervals.of_paired_seeds(*ours, *theirs, 0, 1)
    return {"interval": [100 * end for end in interval], "difference_interval": [100 * end for end in apart]}


def without_spaces(texts: Sequence[str]) -> bool:
    """Whether texts are of a language that is written without spaces, for which BLEU's words are none."""
    long = [text for text in texts if len(text) >= LONG]
    return bool(long) and 2 * sum(" " not in text for text in long) > len(long)
