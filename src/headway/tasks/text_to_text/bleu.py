"""BLEU and chrF of translations against references, by sacrebleu."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from headway.data.records.text_pairs import TextPairs
from headway.training.evaluation import intervals

UNCHANGED, COMMONEST, NEAREST = (
    "the source, unchanged",
    "the commonest target",
    "the target of the nearest source (TF-IDF)",
)
MOST_COMPARED = 10_000
"""Training pairs among which the nearest source is looked for, at most."""

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

    ``answers`` is how many different texts were written.

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
    return {**intervals_of_counts(*counts), "answers": len(set(written))} if len(written) > 1 else {}


def intervals_of_counts(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """``chrf_intervals`` from the counts of each text, (N, K) each."""
    from sacrebleu.metrics.chrf import CHRF

    metric: Any = CHRF()

    def score(sums: np.ndarray) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score) / 100

    one, other = (intervals.of_each(partial(intervals.of_sums, score), [counts]) for counts in (ours, theirs))
    interval, apart = intervals.of_seeds(*one, 0, 1), intervals.of_paired_seeds(one, other, 0, 1)
    return {"interval": [100 * end for end in interval], "difference_interval": [100 * end for end in apart]}


def without_spaces(texts: Sequence[str]) -> bool:
    """Whether texts are of a language that is written without spaces, for which BLEU's words are none."""
    long = [text for text in texts if len(text) >= LONG]
    return bool(long) and 2 * sum(" " not in text for text in long) > len(long)


def copied_scores(sources: Sequence[str], targets: Sequence[str]) -> dict[str, Any]:
    """BLEU and chrF of the sources as they are, without the signatures."""
    scores = bleu_scores(sources, targets)
    return {name: value for name, value in scores.items() if name != "signatures"}


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
    wanted = vectors.transform(texts)
    return [int((wanted[at] @ rows).toarray().argmax()) for at in range(len(texts))]
