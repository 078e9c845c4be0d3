"""Products in whole numbers are exact, and no row depends on another."""

import pytest
import torch

from headway.nn import low_precision
from headway.nn.low_precision import LARGEST, ZERO, int8_is_usable, int8_product, laid_out, rounded_rows

needs_it = pytest.mark.skipif(not int8_is_usable(), reason="this processor has no fast products of whole numbers")


def test_a_row_is_off_by_half_a_step_at_most():
    torch.manual_seed(1)
    x = torch.randn(17, 29) * torch.logspace(-6, 6, 17)[:, None]
    numbers, scale = rounded_rows(x)
    assert numbers.dtype == torch.uint8 and scale.shape == (17, 1)
    values = numbers.float() - ZERO
    assert bool((values.abs().amax(dim=1) == LARGEST).all())
    assert bool(((values * scale - x).abs() <= 0.501 * scale).all())


def test_a_row_of_zeros_is_zeros():
    numbers, scale = rounded_rows(torch.zeros(2, 5))
    assert bool((numbers == ZERO).all()) and bool(scale.isfinite().all())


def test_a_row_is_rounded_alone_as_among_others():
    torch.manual_seed(2)
    x = torch.randn(9, 33)
    numbers, scale = rounded_rows(x)
    for i in range(9):
        alone, its = rounded_rows(x[i : i + 1])
        assert torch.equal(alone[0], numbers[i]) and torch.equal(its[0], scale[i])


@needs_it
@pytest.mark.parametrize("rows", [1, 2, 7, 64])
@pytest.mark.parametrize("shape", [(128, 96), (100, 90), (17, 5)])
def test_the_sums_are_exact(rows, shape):
    torch.manual_seed(3)
    weight = torch.randint(-127, 128, shape, dtype=torch.int8)
    numbers = torch.randint(0, 256, (rows, shape[1]), dtype=torch.uint8)
    scale = torch.full(shape[:1], 0.5)
    found = int8_product(numbers, laid_out(weight), scale, torch.zeros(shape[0], dtype=torch.int32))
    expected = (numbers.long() - ZERO) @ weight.t().long()
    assert torch.equal(found, expected.float() / 2)


@needs_it
def test_an_operation_that_fails_or_errs_is_not_used(monkeypatch):
    for broken in (lambda *given: 1 / 0, lambda *given: torch.zeros(3, 32)):

        def product(*given, broken=broken):
            try:
                return broken(*given)
            except ZeroDivisionError:
                raise RuntimeError("not there") from None

        monkeypatch.setattr(low_precision, "int8_product", product)
        assert not low_precision.int8_is_usable.__wrapped__()
