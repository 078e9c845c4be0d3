"""The rate of products is measured so that one slow product does not decide how a run computes."""

import pytest
import torch

from headway.training.hardware import precision

USUAL = 1e-3


class Products:
    """A clock, and matrices whose products move it: the first by ``first`` seconds, each further one by USUAL."""

    def __init__(self, first: float):
        self.now, self.next, self.count = 0.0, first, 0

    def perf_counter(self) -> float:
        return self.now

    def randn(self, *size: int, device: torch.device) -> "Products":
        return self

    def to(self, dtype: torch.dtype) -> "Products":
        return self

    def __matmul__(self, other: "Products") -> None:
        self.now, self.next, self.count = self.now + self.next, USUAL, self.count + 1


def rate(monkeypatch: pytest.MonkeyPatch, products: Products, seconds: float) -> float:
    monkeypatch.setattr(precision.time, "perf_counter", products.perf_counter)
    monkeypatch.setattr(precision.torch, "randn", products.randn)
    monkeypatch.setattr(precision, "linear", lambda one, other: one @ other)
    return precision._rate(torch.float32, torch.device("cpu"), 8, seconds)


@pytest.mark.parametrize("first", [USUAL, 0.05, 3.0])
def test_one_slow_product_does_not_count(monkeypatch: pytest.MonkeyPatch, first: float):
    assert rate(monkeypatch, Products(first), 0.015) == pytest.approx(2 * 8**3 / USUAL)


def test_products_are_counted_until_the_time_is_used(monkeypatch: pytest.MonkeyPatch):
    products = Products(USUAL)
    rate(monkeypatch, products, 0.5)
    assert 500 <= products.count <= 501
