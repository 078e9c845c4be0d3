"""How often the intervals that Headway prints contain the true value, by simulation.

For every metric, at 30, 100 and 1,000 units and true values of 0.5, 0.9 and 0.98 (of losses: shapes of their
distribution), data are drawn from a population whose value is known, and the interval is computed as a verdict does.
"covered" should be about 0.95, and between 0.92 and 0.99; 1,000 draws know it to 0.014.  For differences "wrong" is how
often two equal models are told apart, which should be about 0.05 at most.  Two seeds have no interval.

Units of an exponent of cost are rounds of measurements, those of a scaling law runs.  Rows with "said" are printed with
a note that the interval is too narrow (science/scaling/analysis.py), and are not in the summary.

No interval knows of units that are not there: where 3 of 100 units are far harder than the others, a sample of 30 has
none of them in 40 of 100 draws.

    python benchmarks/coverage.py [--draws 1000]

It writes benchmarks/results/coverage.json: rows of metric, units, true value, covered (or wrong), mean width.  There is
no timing in it.
"""

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import facts, write
from sacrebleu.metrics.chrf import CHRF
from scipy.special import ndtri

from headway.science.scaling.analysis import fit_curve, planned
from headway.science.scaling.fit import bootstrap, fit_law
from headway.science.scaling.law import Law, optimal
from headway.tasks.text_to_text.bleu import intervals_of_counts
from headway.training.evaluation import intervals
from headway.training.evaluation.comparison import SCORES, better_over_seeds, over_seeds
from headway.workflows.bench import power

UNITS, VALUES = (30, 100, 1000), (0.5, 0.9, 0.98)
SHAPES = ("gamma, shape 2", "lognormal, sigma 0.5", "near 0: gamma, shape 0.3", "lognormal, sigma 1")
SHAPES += ("a tenth five times as hard",)
LAW = Law(E=1.3, A=30.0, B=90.0, alpha=0.35, beta=0.38)
SPURIOUS = 0.25
"""Entities that are found where there is none, for each one that is missed."""
draw = np.random.default_rng(0)


def entities(n: int, recall: float, clustered: float, models: int = 1, alike: float = 0.0) -> list[np.ndarray]:
    """Sentences with 0, 1, 2, ... entities; mistakes come together (``clustered``) in some of them."""
    wanted, found = draw.poisson(1.5, n), []
    for _ in range(models):
        odds = (1 - clustered) / clustered if clustered else 0.0
        easy = draw.beta(recall * odds, (1 - recall) * odds, n) if clustered else np.full(n, recall)
        right = draw.binomial(wanted, easy)
        extra = draw.binomial(wanted - right, SPURIOUS)
        found.append(np.stack([2.0 * right, wanted + right + extra], axis=1))
        if len(found) > 1:
            same = draw.random(n) < alike
            found[-1][same] = found[0][same]
    return found


def recall_of(f1: float) -> float:
    """The recall at which entities have this F1: 2 r / (1 + r + SPURIOUS (1 - r))."""
    return f1 * (1 + SPURIOUS) / (2 - f1 * (1 - SPURIOUS))


def classified(n: int, accuracy: float, seeds: int, row: float = 2.0, seed: float = 0.3) -> list[np.ndarray]:
    """Rows of different difficulty, which models of several seeds get right; the seeds differ too."""
    middle = float(ndtri(accuracy)) * math.sqrt(row**2 + seed**2 + 1)
    hard = row * draw.standard_normal(n)
    right = [middle + seed * draw.standard_normal() + hard + draw.standard_normal(n) > 0 for _ in range(seeds)]
    return [np.stack([one, np.ones(n)], axis=1).astype(float) for one in right]


def same_rows(n: int, accuracy: float, seeds: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Two equal models, each with its seeds, on the same rows."""
    found = classified(n, accuracy, 2 * seeds)
    return found[:seeds], found[seeds:]


def ranked(n: int, value: float, kind: str, models: int = 1) -> list[np.ndarray]:
    """Numbers and the scores wanted: normal, with few different scores, or equal but for wild mistakes."""
    if kind == "wild":
        wanted = draw.standard_normal(n)
        wild = [draw.random(n) < value for _ in range(models)]
        return [np.stack([np.where(kept, wanted, draw.standard_normal(n)), wanted], axis=1) for kept in wild]
    rho = 2 * math.sin(math.pi * value / 6)
    wanted = draw.standard_normal(n)
    numbers = [rho * wanted + math.sqrt(1 - rho * rho) * draw.standard_normal(n) for _ in range(models)]
    scores = np.clip(np.round(wanted + 2.5), 0, 5) if kind == "six scores" else wanted
    return [np.stack([one, scores], axis=1) for one in numbers]


def two_kinds(n: int, value: float, share: float, models: int = 1) -> list[np.ndarray]:
    """Scores of pairs that belong together, a ``share`` of all, and of those that do not."""
    positive = draw.random(n) < share
    apart = math.sqrt(2) * float(ndtri(value))
    return [np.stack([apart * positive + draw.standard_normal(n), positive], axis=1) for _ in range(models)]


def classes(n: int, value: float, models: int = 1) -> list[np.ndarray]:
    """A common and a rare class, one row of five, each answered right in the same share of its rows."""
    true = (draw.random(n) < 0.2).astype(float)
    return [np.stack([np.where(draw.random(n) < value, true, 1 - true), true], axis=1) for _ in range(models)]


def losses(n: int, shape: str, models: int = 1) -> list[np.ndarray]:
    """Windows or conversations of 20 to 80 tokens; ``shape`` is how their losses are spread."""
    tokens = draw.integers(20, 80, n).astype(float)
    spread: dict[str, Callable[[], np.ndarray]] = {
        "gamma, shape 2": lambda: draw.gamma(2, 0.5, n),
        "lognormal, sigma 0.5": lambda: draw.lognormal(-0.125, 0.5, n),
        "near 0: gamma, shape 0.3": lambda: draw.gamma(0.3, 1 / 0.3, n),
        "lognormal, sigma 1": lambda: draw.lognormal(-0.5, 1, n),
        "a tenth five times as hard": lambda: (
            np.where(draw.random(n) < 0.1, 5, 1) * draw.lognormal(-0.02, 0.2, n) / 1.4
        ),
    }
    return [np.stack([tokens * spread[shape](), tokens], axis=1) for _ in range(models)]


def population(make: Callable[[int], list[np.ndarray]], kind: str) -> float:
    """The value of a metric over very many units."""
    return float(np.mean([SCORES[kind][0](make(200_000)[0])[0] for _ in range(3)]))


def covered(draws: int, true: float, interval: Callable[[], Any]) -> dict[str, Any]:
    found = [interval() for _ in range(draws)]
    there = np.array([ends for ends in found if ends is not None])
    inside = ((there[:, 0] <= true) & (true <= there[:, 1])).mean()
    figures = {"covered": round(float(inside), 3), "width": round(float(np.ptp(there, axis=1).mean()), 4)}
    return {**figures, **({"none": len(found) - len(there)} if len(there) < len(found) else {})}


def wrong(draws: int, interval: Callable[[], Any]) -> dict[str, Any]:
    """How often an interval of the difference of two equal models leaves out zero."""
    found = covered(draws, 0.0, interval)
    return {"wrong": round(1 - found.pop("covered"), 3), **found}


def texts(pool: int, bad: float, often: float) -> tuple[list[str], list[str], list[str]]:
    """Written, other written and wanted sentences: a share ``bad`` of the written ones has wrong words."""
    words = ["".join(draw.choice(list("abcdefghijklmnoprstu"), draw.integers(2, 9))) for _ in range(300)]
    wanted = [list(draw.choice(words, draw.integers(3, 14))) for _ in range(pool)]

    def spoiled(line: list[str]) -> str:
        if draw.random() >= bad:
            return " ".join(line)
        kept = [draw.choice(words) if draw.random() < often else word for word in line]
        return " ".join(kept[: max(1, len(kept) // 2)] if draw.random() < 0.3 else kept)

    one, other = ([spoiled(line) for line in wanted] for _ in range(2))
    return one, other, [" ".join(line) for line in wanted]


def of_chrf(draws: int, add: Callable[..., None]) -> None:
    for bad, often in ((1.0, 0.3), (0.25, 0.2), (0.05, 0.2)):
        written, others, wanted = texts(4000, bad, often)
        true = CHRF().corpus_score(written, [wanted]).score
        counts = [np.array(CHRF()._extract_corpus_statistics(side, [wanted])) for side in (written, others)]
        for n in UNITS:
            found = []
            for _ in range(draws):
                at = draw.integers(0, len(wanted), n)
                found.append(intervals_of_counts(*(side[at] for side in counts)))
            ends = iter([one["interval"] for one in found])
            add("chrF", n, round(true, 1), covered(draws, true, lambda ends=ends: next(ends)))
            apart = CHRF().corpus_score(others, [wanted]).score
            ends = iter([one["difference_interval"] for one in found])
            figures = covered(draws, true - apart, lambda ends=ends: next(ends))
            add("chrF, difference", n, round(true, 1), {"wrong": round(1 - figures.pop("covered"), 3), **figures})


def of_cross_validation(draws: int, add: Callable[..., None]) -> None:
    """Repeated 5-fold cross-validation of nearest class means on two normal classes, as small tables are judged."""
    for n in UNITS:
        for value in VALUES:
            found, means = [], []
            for _ in range(draws if n < 1000 else draws // 4):
                y, right = np.arange(n) % 2, np.zeros(n)
                x = draw.standard_normal((n, 3))
                x[:, 0] += float(ndtri(value)) * (2 * y - 1)
                for _ in range(10):
                    for rest in np.array_split(draw.permutation(n), 5):
                        train = np.ones(n, dtype=bool)
                        train[rest] = False
                        low, high = (x[train & (y == one)].mean(axis=0) for one in (0, 1))
                        right[rest] += ((x[rest] - (low + high) / 2) @ (high - low) > 0) == y[rest]
                means.append(right.mean() / 10)
                found.append(intervals.wilson(means[-1] * n, n, intervals.student(n)))
            true, ends = float(np.mean(means)), iter(found)  # that of the method, on four fifths of so many rows
            figures = covered(len(found), true, lambda ends=ends: next(ends))
            add("accuracy by cross-validation", n, round(true, 3), figures)


def of_exponents(draws: int, add: Callable[..., None]) -> None:
    """Times of sizes that double, with noise of 3 %, rare pauses, and phases that slow a whole round."""
    for rounds in (2, 3, 5):
        for many in (3, 6):
            sizes = [128 * 2**i for i in range(many)]

            def interval(sizes: list[int] = sizes, shape: tuple[int, int] = (many, rounds)) -> Any:
                noise = 0.03 * draw.standard_normal(shape) + 0.05 * draw.standard_normal((1, shape[1]))
                noise += np.where(draw.random(shape) < 0.1, 0.3 * draw.random(shape), 0)
                return power(sizes, (np.array(sizes)[:, None] ** 1.4 * np.exp(noise)).tolist())["interval"]

            add(f"exponent of cost, {many} sizes", rounds, 1.4, covered(draws, 1.4, interval))


def of_laws(draws: int, add: Callable[..., None]) -> None:
    """Scaling laws through runs of sizes and tokens that double, with noise of 0.3 % or 1 %."""
    noises = np.random.default_rng(1)
    for sizes, tokens, noise in ((4, 3, 0.003), (4, 4, 0.003), (5, 4, 0.003), (5, 4, 0.01), (5, 5, 0.01)):
        n, d = (one.ravel() for one in np.meshgrid(4e4 * 2.0 ** np.arange(sizes), 7.5e5 * 2.0 ** np.arange(tokens)))
        flops, larger = 60 * n.max() * d.max(), (2 * n.max(), 2 * d.max())
        best = optimal(LAW, flops)
        true = {**LAW.plain(), "best N": float(best[0]), "best D": float(best[1]), "best loss": LAW.loss(*best)}
        true |= {"loss of a larger run": 1.0, "exponent of L(N)": LAW.alpha, "exponent of L(D)": LAW.beta}
        found: dict[str, list[Any]] = {name: [] for name in true}
        for seed in range(draws):
            loss = LAW.loss(n, d) * np.exp(noise * noises.standard_normal(len(n)))
            fit = fit_law(n, d, loss)
            drawn = bootstrap(fit, n, d, loss, draws=200, seed=seed)
            once = planned(fit.law, drawn, flops)
            ends: dict[str, Any] = drawn.intervals()
            ends |= {"best N": once.get("parameters_interval"), "best D": once.get("tokens_interval")}
            one = LAW.loss(*larger) * np.exp(noise * noises.standard_normal())
            ends |= {"best loss": once.get("loss_interval")}
            ends["loss of a larger run"] = [end / one for end in drawn.of_a_run(*larger)]
            for name, (x, groups) in {"exponent of L(N)": (n, d), "exponent of L(D)": (d, n)}.items():
                ends[name] = (fit_curve(x, loss, groups) or {}).get("exponent_interval")
            for name in true:
                found[name].append(ends[name])
        said = len(n) < 16 or (noise > 0.005 and len(n) < 25)
        for name, each in found.items():
            if any(each):
                ends = iter(each)
                figures = covered(draws, float(true[name]), lambda ends=ends: next(ends))
                figures |= {"said": "too narrow"} if said else {}
                add(
                    f"scaling law, {sizes} x {tokens}, noise {noise:.1%}: {name}",
                    len(n),
                    float(f"{true[name]:.4g}"),
                    figures,
                )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    rows: list[dict[str, Any]] = []

    def add(metric: str, n: int, true: float | str, figures: dict[str, Any]) -> None:
        rows.append({"metric": metric, "units": n, "true": true, **figures})
        print(rows[-1], flush=True)

    known_values: dict[tuple[str, float | str], float] = {}

    def one(name: str, kind: str, n: int, value: float | str, make: Callable[..., list[np.ndarray]]) -> None:
        true = float(value) if isinstance(value, float) else 1.0
        if kind in ("correlation", "macro"):
            true = known_values.get((name, value)) or population(make, kind)
            known_values[name, value] = true
        shown = value if isinstance(value, str) else round(true, 3)
        add(name, n, shown, covered(draws, true, lambda: over_seeds(kind, make(n))))

        def apart() -> Any:
            ours, theirs = make(n, models=2)
            return better_over_seeds(kind, [ours], [theirs])

        add(f"{name}, difference", n, shown, wrong(draws, apart))

    for n in UNITS:
        for value in VALUES:
            add("accuracy", n, value, covered(draws, value, lambda v=value, n=n: _accuracy(n, v)))
            for seeds in (1, 3, 5):
                if seeds > 1:
                    make = lambda s=seeds, v=value, n=n: over_seeds("class", classified(n, v, s))  # noqa: E731
                    add(f"accuracy over {seeds} seeds", n, value, covered(draws, value, make))
                pair = lambda s=seeds, v=value, n=n: better_over_seeds("class", *same_rows(n, v, s))  # noqa: E731
                seed = "" if seeds == 1 else f" over {seeds} seeds"
                add(f"accuracy{seed}, difference", n, value, wrong(draws, pair)) if seeds > 1 else None
            add("accuracy, difference", n, value, wrong(draws, lambda v=value, n=n: _paired(n, v)))
            unpaired = lambda v=value, n=n: intervals.of_shares(  # noqa: E731
                draw.binomial(n, v) / n, n, draw.binomial(n, v) / n, n
            )
            add("accuracy, difference, not paired", n, value, wrong(draws, unpaired))
            for clustered in (0.0, 0.3):
                name = "entity F1" + ", mistakes in clusters" * bool(clustered)

                def make_entities(n: int, models: int = 1, v: float = value, c: float = clustered) -> list[np.ndarray]:
                    return entities(n, recall_of(v), c, models, alike=0.5)

                one(name, "quotient", n, value, make_entities)
            for kind in ("normal", "six scores", "wild"):

                def make_ranked(n: int, models: int = 1, v: float = value, k: str = kind) -> list[np.ndarray]:
                    return ranked(n, v, k, models)

                one(f"rank correlation, {kind}", "correlation", n, value, make_ranked)
            for share in (0.5, 0.2):

                def make_kinds(n: int, models: int = 1, v: float = value, s: float = share) -> list[np.ndarray]:
                    return two_kinds(n, v, s, models)

                one(f"area under the curve, {share:.0%} positive", "area", n, value, make_kinds)

            def make_classes(n: int, models: int = 1, v: float = value) -> list[np.ndarray]:
                return classes(n, v, models)

            if n > 30:  # of fewer rows a class has too few to be judged by
                one("macro F1, a class of 20 %", "macro", n, value, make_classes)
        for shape in SHAPES:

            def make_losses(n: int, models: int = 1, s: str = shape) -> list[np.ndarray]:
                return losses(n, s, models)

            one("loss", "loss", n, shape, make_losses)
    of_chrf(draws, add)
    of_cross_validation(draws, add)
    of_exponents(draws, add)
    of_laws(draws // 4, add)
    shares = [row["covered"] for row in rows if "covered" in row and "said" not in row]
    false = [row["wrong"] for row in rows if "wrong" in row]
    known = {"draws": draws, "least_covered": min(shares), "most_covered": max(shares), "most_wrong": max(false)}
    print(known)
    print(write("coverage", {**facts(), "note": "run beside other work; no timing in it", **known, "rows": rows}))


def _accuracy(n: int, value: float) -> Any:
    return intervals.wilson(draw.binomial(n, value), n)


def _paired(n: int, value: float) -> Any:
    ours, theirs = classified(n, value, 2, seed=0.0)
    return better_over_seeds("class", [ours], [theirs])


if __name__ == "__main__":
    main()
