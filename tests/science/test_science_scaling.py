"""Scaling laws: a known law is found again, as sure as is said; what cannot be known is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from headway.errors import InputError
from headway.science.scaling import fit as fitting
from headway.science.scaling.analysis import analyse, fit_curve, lowest, planned
from headway.science.scaling.fit import (
    Draws,
    Frame,
    bootstrap,
    fit_law,
    objective,
    objective_and_gradient,
    refit,
    variable_projection,
)
from headway.science.scaling.law import CONSTANTS, PUBLISHED, Law, Run, check_varied, compute, optimal, read_points

LAW = Law(E=1.3, A=30.0, B=90.0, alpha=0.35, beta=0.38)


def grid(n_sizes: int = 5, n_lengths: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """N and D of every pair of some sizes and numbers of tokens."""
    n, d = np.meshgrid(np.geomspace(5e4, 1.6e6, n_sizes), np.geomspace(4e5, 1.2e7, n_lengths))
    return n.ravel(), d.ravel()


def noisy(seed: int, n: np.ndarray, d: np.ndarray, size: float = 0.005) -> np.ndarray:
    """Losses of LAW, each off by half a hundredth or so."""
    return LAW.loss(n, d) * np.exp(size * np.random.default_rng(seed).standard_normal(len(n)))


def runs_of(n: np.ndarray, d: np.ndarray, loss: np.ndarray) -> list[Run]:
    return [Run(float(a), float(b), float(c), f"run {i}") for i, (a, b, c) in enumerate(zip(n, d, loss, strict=True))]


@pytest.mark.parametrize("law", [LAW, *list(PUBLISHED.values())[1:]], ids=["small", "Hoffmann", "Besiroglu"])
def test_a_law_without_noise_is_found_exactly(law: Law):
    n, d = grid(5, 4)
    if law is not LAW:
        n, d = n * 1e3, d * 1e3
    found = fit_law(n, d, law.loss(n, d))
    assert list(found.law.plain().values()) == pytest.approx(list(law.plain().values()), rel=1e-3)
    assert found.starts >= 100 and found.spread < 1e-6
    check = variable_projection(n, d, law.loss(n, d))
    assert list(check.plain().values()) == pytest.approx(list(law.plain().values()), rel=0.02)


def test_intervals_cover_each_constant_as_often_as_they_say():
    """A 95 % interval holds the true constant in 88 to 99 of 100 draws of the noise."""
    n, d = grid()
    held = dict.fromkeys(CONSTANTS, 0)
    foretold = 0
    for seed in range(100):
        loss = noisy(seed, n, d)
        fit = fit_law(n, d, loss)
        drawn = bootstrap(fit, n, d, loss, draws=150, seed=seed)
        for name, (low, high) in drawn.intervals(fit.law).items():
            held[name] += low <= LAW.plain()[name] <= high
        low, high = drawn.of_a_run(2.3e6, 1.9e7)
        foretold += low <= noisy(1000 + seed, np.array([2.3e6]), np.array([1.9e7]))[0] <= high
    assert all(88 <= count <= 99 for count in held.values()), held
    assert 88 <= foretold <= 100


def test_no_interval_leaves_out_its_own_figure():
    """Also where all draws lie on one side of the law."""
    n, d = grid()
    drawn = bootstrap(fit_law(n, d, noisy(1, n, d)), n, d, noisy(1, n, d), draws=50)
    drawn.laws[:, 0] = LAW.E * 1.3
    found = planned(LAW, drawn, 1e18)
    for name in ("loss", "parameters", "tokens"):
        assert found[f"{name}_interval"][0] <= found[name] <= found[f"{name}_interval"][1]
    assert found["loss_interval"][0] == found["loss"]
    assert drawn.intervals(LAW)["E"] == pytest.approx([LAW.E, LAW.E * 1.3])


def test_the_quick_fit_is_the_slow_one():
    """Batched steps end where L-BFGS does, on runs weighed as in the bootstrap."""
    n, d = grid(5, 4)
    frame, random = Frame.of(n, d), np.random.default_rng(3)
    x, y, target = np.log(n) - frame.n, np.log(d) - frame.d, np.log(noisy(7, n, d))
    counts = random.exponential(size=(7, len(n)))
    begin = frame.theta(LAW)
    quick = refit(x, y, np.broadcast_to(target, counts.shape), np.broadcast_to(begin, (7, 5)), counts=counts)
    for theta, weights in zip(quick, counts, strict=True):

        def slow(theta: np.ndarray, weights: np.ndarray = weights) -> float:
            return float((weights * fitting.huber(fitting.predicted(theta[None], x, y)[0] - target)).sum()) * 1e3

        best = minimize(slow, begin, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9})
        assert slow(theta) <= best.fun * (1 + 1e-4)


def test_the_gradient_is_that_of_the_objective():
    n, d = grid(3, 5)
    frame = Frame.of(n, d)
    x, y, target = np.log(n) - frame.n, np.log(d) - frame.d, np.log(noisy(1, n, d, 0.0008))
    theta = frame.theta(Law(1.2, 25.0, 70.0, 0.33, 0.36))
    value, gradient = objective_and_gradient(theta, x, y, target)
    assert value == pytest.approx(objective(theta[None], x, y, target)[0] / fitting.DELTA)
    for i in range(5):
        step = np.eye(5)[i] * 1e-6
        ends = [objective_and_gradient(theta + sign * step, x, y, target)[0] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(gradient[i], rel=1e-3, abs=1e-3)


def test_a_run_that_went_astray_does_not_pull_the_law():
    n, d = grid()
    loss = noisy(2, n, d, 0.001)
    loss[12] *= 1.3
    assert fit_law(n, d, loss).law.loss(2e6, 2e7) == pytest.approx(LAW.loss(2e6, 2e7), rel=0.003)
    assert variable_projection(n, d, loss).loss(2e6, 2e7) != pytest.approx(LAW.loss(2e6, 2e7), rel=0.003)


def test_the_best_sizes_for_a_budget_are_those_of_a_search():
    for flops in (3e12, 7e14):
        n, d = optimal(LAW, flops)
        assert compute(n, d) == pytest.approx(flops)
        tried = np.geomspace(n / 30, n * 30, 4001)
        best = tried[LAW.loss(tried, flops / 6 / tried).argmin()]
        assert n == pytest.approx(best, rel=0.005)


def test_a_law_without_one_of_its_terms_has_no_best_sizes():
    for law in (replace(LAW, beta=0.0), replace(LAW, A=0.0), replace(LAW, alpha=0.0, beta=0.0)):
        n, d = optimal(law, np.array([1e15, 1e18]))
        assert np.isnan(n).all() and np.isnan(d).all()
    n, d = grid()
    loss = LAW.loss(n, 1e6)  # tokens change nothing
    found = analyse(runs_of(n, d, loss), "total", budgets=[1e18], draws=50)
    assert found["fit"]["E"] > 0 and found["predicted"][0]["compute"] == 1e18


def test_published_laws_say_what_was_published():
    kaplan, hoffmann, besiroglu = PUBLISHED.values()
    assert hoffmann.loss(70e9, 1.4e12) == pytest.approx(1.936, abs=0.002)  # Chinchilla, by the law
    n, d = optimal(besiroglu, 5.76e23)
    assert 15 < d / n < 25  # about twenty tokens for each parameter
    assert kaplan.loss(1.5e9, 2.2e10) < kaplan.loss(1.5e8, 2.2e10)


def test_curves_find_the_exponent_with_a_floor_for_each_group():
    n, d = grid(5, 4)
    loss = LAW.loss(n, d)
    of_n, of_d = fit_curve(n, loss, d), fit_curve(d, loss, n)
    assert of_n["exponent"] == pytest.approx(LAW.alpha, rel=0.02) and of_d["exponent"] == pytest.approx(
        LAW.beta, rel=0.02
    )
    assert of_n["K"] == pytest.approx(LAW.A, rel=0.2) and len(of_n["floors"]) == 4 and len(of_d["floors"]) == 5
    low, high = of_n["exponent_interval"]
    assert low <= of_n["exponent"] <= high
    assert fit_curve(n[:3], loss[:3]) is None
    assert lowest(np.array([1, 2, 3, 3.0]), np.array([5, 6, 4, 3.0])).tolist() == [True, False, False, True]


def test_the_largest_run_is_left_out_foretold_and_compared():
    n, d = grid()
    n, d = np.append(n, 2.3e6), np.append(d, 1.9e7)
    runs = runs_of(n, d, noisy(5, n, d))
    found = analyse(runs, "total", budgets=[1e18], draws=100)
    last = found["held_out"]
    assert last["name"] == "run 25" and last["measured"] == runs[-1].loss and found["fit"]["runs"] == 25
    assert last["error"] < 0.02 and last["better_than_naive"] and last["far_enough"]
    assert last["naive"] == runs[24].loss and last["times_compute"] == pytest.approx(2.3 * 1.9 / 1.6 / 1.2)
    assert last["interval"][0] < last["predicted"] < last["interval"][1]
    (far,) = found["predicted"]
    assert far["runs"] == 25 and far["loss_interval"][0] <= far["loss"] <= far["loss_interval"][1]
    assert compute(far["parameters"], far["tokens"]) == pytest.approx(1e18)
    # what was measured of it has no part in the fit
    other = [*runs[:-1], Run(2.3e6, 1.9e7, 9.0, "run 25")]
    assert analyse(other, "total", draws=100)["fit"]["E"] == found["fit"]["E"]
    marked = [Run(run.parameters, run.tokens, run.loss, run.name, run.name == "run 7") for run in runs]
    assert analyse(marked, "total", draws=100)["held_out"]["name"] == "run 7"
    two = [replace(run, held_out=run.name in ("run 3", "run 25")) for run in runs]
    found = analyse(two, "total", draws=100)
    assert found["held_out"]["name"] == "run 25" and found["fit"]["runs"] == 24
    assert [row["name"] for row in found["rows"] if row["held_out"]] == ["run 3", "run 25"]


def test_an_exponent_is_refused_where_n_and_d_were_not_varied_independently():
    sizes = np.geomspace(1e5, 1e7, 11)
    with pytest.raises(InputError, match=r"varied together .* alpha and beta are refused"):
        check_varied(runs_of(sizes, 20 * sizes, LAW.loss(sizes, 20 * sizes)))
    with pytest.raises(InputError, match=r"1 different numbers of tokens, so beta cannot be known"):
        check_varied(runs_of(sizes, np.full(11, 1e7), LAW.loss(sizes, 1e7)))
    with pytest.raises(InputError, match=r"2 different numbers of parameters, so alpha"):
        check_varied(runs_of(np.tile([1e5, 1e6], 5), np.repeat(sizes[:5], 2), np.full(10, 2.0)))
    with pytest.raises(InputError, match="5 runs to fit are too few"):
        analyse(runs_of(*grid(1, 5), np.full(5, 2.0)), "total")


def test_points_of_others(tmp_path: Path):
    path = tmp_path / "points.csv"
    path.write_text("Params,Training Tokens,val_loss,who\n1e5,2e6,3.5,me\n2e5,4e6,3.25,you\n")
    runs, count = read_points(path)
    assert count == "total" and [run.loss for run in runs] == [3.5, 3.25]
    assert runs[1].compute == 6 * 2e5 * 4e6 and runs[1].more["who"] == "you"
    path.write_text("parameters,parameters_without_embeddings,tokens,loss,held_out\n7,5,11,3,true\n")
    assert read_points(path)[0][0].parameters == 7 and read_points(path, "blocks")[0][0].parameters == 5
    assert read_points(path)[0][0].held_out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no runs"),
        ("parameters,tokens\n1,2\n", r"no column for loss; found parameters, tokens"),
        ("tokens,loss\n1,2\n", "no column for parameters"),
        ("N,D,L\n1,2,3\n1,-2,3\n", r"points.csv, row 3: D is '-2'; expected a number above 0"),
        ("N,D,L\n1,2,high\n", r"row 2: L is 'high'"),
        ("N,D,L\n1,2\n", r"row 2: L is missing"),
        ("N,D,L\n1,2,nan\n", r"row 2: L is 'nan'"),
    ],
)
def test_points_that_cannot_be_used(text: str, said: str, tmp_path: Path):
    (tmp_path / "points.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_points(tmp_path / "points.csv")
    with pytest.raises(InputError, match="cannot be read"):
        read_points(tmp_path / "none.csv")


@pytest.mark.parametrize("noise", [0.0, 0.003])
def test_a_term_that_is_not_in_the_losses_has_no_best_sizes(noise: float):
    n, d = grid()
    loss = replace(LAW, B=0.0).loss(n, d) * np.exp(noise * np.random.default_rng(5).standard_normal(len(n)))
    found = analyse(runs_of(n, d, loss), "total", budgets=[1e15], draws=20)
    assert all(one["parameters"] is None for one in [*found["optimal"], *found["predicted"]])
    assert any(note.startswith("with tokens the loss does not fall by more than chance") for note in found["notes"])
    assert found["curves"]["D"] is None and found["curves"]["N"]["exponent"] == pytest.approx(0.35, rel=0.2)


def test_runs_that_follow_no_law_are_named_so():
    n, d = grid()
    loss = noisy(3, n, d, 0.002)
    assert analyse(runs_of(n, d, loss), "total", draws=20)["notes"] == []
    few = slice(5, 19)  # 14 runs
    notes = analyse(runs_of(n[few], d[few], loss[few]), "total", draws=20)["notes"]
    assert notes and "the intervals are too narrow: runs so few" in notes[-1]
    assert (
        "the intervals are too narrow" in analyse(runs_of(n, d, noisy(3, n, d, 0.03)), "total", draws=20)["notes"][-1]
    )
    loss[7] *= 3  # one run of 25: the law stays, the least squares do not
    found = analyse(runs_of(n, d, loss), "total", draws=20)
    assert found["optimal"][0]["parameters"] is not None
    assert "not all of them follow it" in found["notes"][0] and "the two ways to fit disagree" in found["notes"][1]
    rising = analyse(runs_of(n, d, 5 - LAW.loss(n, d)), "total", draws=20)
    assert rising["curves"] == {"N": None, "D": None, "C": None} and rising["optimal"][0]["parameters"] is None


def test_laws_without_a_best_size_leave_the_intervals_of_the_others():
    flat = [LAW.E, LAW.A, LAW.B, 0.0, 0.0]
    drawn = Draws(np.array([[*LAW.plain().values()]] * 7 + [flat] * 3), np.zeros(10))
    found = planned(LAW, drawn, 1e12)
    assert all(np.isfinite(found[f"{name}_interval"]).all() for name in ("parameters", "tokens", "loss"))
    drawn = Draws(np.array([[*LAW.plain().values()]] * 3 + [flat] * 7), np.zeros(10))
    assert planned(LAW, drawn, 1e12)["parameters"] is None
