"""BLEU and chrF of what was written against what was wanted, by sacrebleu."""

from collections.abc import Sequence
from typing import Any

MISSING = "BLEU and chrF need sacrebleu: pip install 'headway[metrics]'"

WITHOUT_SPACES = "most targets have no spaces: BLEU counts each of them as one word; go by chrF"
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


def without_spaces(texts: Sequence[str]) -> bool:
    """Whether texts are of a language that is written without spaces, for which BLEU's words are none."""
    long = [text for text in texts if len(text) >= LONG]
    return bool(long) and 2 * sum(" " not in text for text in long) > len(long)
