"""Which tokens may be chosen, on distributions small enough to work out by hand."""

import math

import pytest
import torch
from torch import Tensor

from headway.errors import InputError
from headway.generation.sampling import Sampling, allowed, choose

P = [0.4, 0.3, 0.15, 0.1, 0.05]


def logits(probabilities: list[float] = P) -> Tensor:
    return torch.tensor([probabilities]).log()


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"top_k": 1}, [0]),
        ({"top_k": 3}, [0, 1, 2]),
        ({"top_k": 5}, [0, 1, 2, 3, 4]),
        ({"top_k": 99}, [0, 1, 2, 3, 4]),
        ({"top_k": -1}, [0, 1, 2, 3, 4]),
        ({"top_p": 0}, [0]),
        ({"top_p": 0.3}, [0]),
        ({"top_p": 0.39}, [0]),
        ({"top_p": 0.41}, [0, 1]),
        ({"top_p": 0.71}, [0, 1, 2]),
        ({"top_p": 1e-9}, [0]),
        ({"top_p": 5e-324}, [0]),  # 0 in float32
        ({"min_p": 0.3}, [0, 1, 2]),
        ({"min_p": 0.5}, [0, 1]),
        ({"min_p": 1.0}, [0]),
        ({"top_k": 3, "top_p": 0.9}, [0, 1, 2]),  # of 0.4, 0.3 and 0.15 alone, 0.7 is less than nine tenths
        ({"top_k": 2, "min_p": 0.1}, [0, 1]),
        ({"top_p": 0.8, "min_p": 0.35}, [0, 1, 2]),  # top-p comes first: of 0.4, 0.3 and 0.15 alone it would cut 0.15
    ],
)
def test_what_is_left(options: dict[str, float], kept: list[int]):
    order = torch.tensor([3, 0, 4, 1, 2])
    for shuffled in (torch.arange(5), order):
        found = allowed(logits()[:, shuffled], Sampling(**options))
        assert sorted(shuffled[i].item() for i in range(5) if found[0, i] > -math.inf) == kept
        assert torch.equal(found[found > -math.inf], logits()[:, shuffled][found > -math.inf]), "the rest is unchanged"


def test_every_row_is_cut_by_itself():
    both = torch.cat([logits(), logits(P[::-1])])
    found = allowed(both, Sampling(top_k=2))
    assert (found > -math.inf).tolist() == [[True, True, False, False, False], [False, False, False, True, True]]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_follow_the_distribution(temperature: float):
    n = 20_011
    rows = logits().expand(n, 5)
    random = torch.Generator().manual_seed(3)
    counts = choose(rows, Sampling(temperature=temperature), None, [random] * n).bincount(minlength=5) / n
    expected = torch.tensor(P) ** (1 / temperature)
    assert (counts - expected / expected.sum()).abs().max() < 0.015


def test_temperature_zero_takes_the_likeliest_and_needs_no_chance():
    both = torch.cat([logits(), logits(P[::-1])])
    assert choose(both, Sampling(temperature=0), None, [None, None]).tolist() == [0, 4]


def test_a_very_low_temperature_is_greedy_and_a_very_high_one_does_not_overflow():
    for temperature, expected in ((1e-6, [0]), (100.0, None)):
        found = choose(logits() * 1e4, Sampling(temperature=temperature), None, [None]).tolist()
        assert expected is None or found == expected


def test_a_repetition_penalty_divides_positive_logits_and_multiplies_negative_ones():
    given, seen = torch.tensor([[2.0, 1.5, -1.0, -1.5]]), torch.tensor([[True, False, True, False]])
    greedy = Sampling(temperature=0, repetition_penalty=2.0)
    assert choose(given, greedy, seen, [None]).item() == 1, "2.0 became 1.0"
    assert choose(given[:, 2:], greedy, seen[:, 2:], [None]).item() == 1, "-1.0 became -2.0"
    assert choose(given, Sampling(temperature=0), None, [None]).item() == 0


def test_what_a_row_draws_does_not_depend_on_its_neighbours():
    rows = torch.cat([logits(), logits(P[::-1]), logits()])
    together = choose(rows, Sampling(), None, [torch.Generator().manual_seed(seed) for seed in (3, 5, 7)])
    alone = [
        choose(rows[i : i + 1], Sampling(), None, [torch.Generator().manual_seed(s)]) for i, s in enumerate((3, 5, 7))
    ]
    assert together.tolist() == [one.item() for one in alone]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (-0.1, math.nan, math.inf, 101, "hot", None, True)),
        *(("top_k", value) for value in (-2, 1.5, math.nan, math.inf, "3", None)),
        *(("top_p", value) for value in (-0.1, 1.1, math.nan, "all", None)),
        *(("min_p", value) for value in (-0.1, 1.1, math.nan, None)),
        *(("repetition_penalty", value) for value in (0, -1, math.nan, math.inf, None)),
    ],
)
def test_values_that_mean_nothing(name: str, value: object):
    with pytest.raises(InputError, match=f"^{name} is .*it must be"):
        Sampling(**{name: value})
