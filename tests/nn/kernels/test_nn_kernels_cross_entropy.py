"""The loss of every task with a vocabulary, against its oracle and torch's."""

import pytest
import torch
import torch.nn.functional as F

from headway.data.batches.batching import IGNORED
from headway.nn.kernels import closed_form as kernel
from headway.nn.kernels.closed_form import cross_entropy_oracle
from headway.nn.kernels.dispatch import cross_entropy, unsmoothed

N, V = 13, 29


def torchs(logits: torch.Tensor, targets: torch.Tensor, smoothing: float) -> torch.Tensor:
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing, ignore_index=IGNORED)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_equals_the_oracle_and_torch_in_values_and_gradients(smoothing: float, scale: float):
    random = torch.Generator().manual_seed(3)
    start = scale * torch.randn(N, V, generator=random, dtype=torch.float64)
    targets = torch.randint(V, (N,), generator=random)
    targets[[0, 7]] = IGNORED
    found = {}
    for f in (cross_entropy, cross_entropy_oracle, torchs):
        logits = start.clone().requires_grad_()
        loss = f(logits, targets, smoothing)
        (2.5 * loss).backward()
        found[f] = loss.detach(), logits.grad
    for other in (cross_entropy_oracle, torchs):
        torch.testing.assert_close(found[cross_entropy], found[other], atol=1e-10, rtol=1e-12)
    assert found[cross_entropy][1][0].abs().max() == 0, "what is ignored has no gradient"
    shown = unsmoothed(found[cross_entropy][0], start, targets, smoothing)
    torch.testing.assert_close(shown, torchs(start, targets, 0.0), atol=1e-10, rtol=1e-12)


def test_without_gradients_it_is_the_same():
    logits = torch.randn(N, V, generator=torch.Generator().manual_seed(5))
    targets = torch.arange(N)
    with torch.no_grad():
        plain = cross_entropy(logits, targets, 0.1)
    torch.testing.assert_close(cross_entropy(logits.requires_grad_(), targets, 0.1), plain)


def test_all_ignored_gives_zero_and_no_gradient():
    logits = torch.randn(N, V, requires_grad=True)
    loss = cross_entropy(logits, torch.full((N,), IGNORED), 0.1)
    loss.backward()
    assert loss == 0 and logits.grad.abs().max() == 0


def test_logits_that_are_not_finite_give_a_loss_that_is_not():
    logits = torch.zeros(2, V)
    logits[0, 3] = float("nan")
    assert not torch.isfinite(cross_entropy(logits.requires_grad_(), torch.zeros(2, dtype=torch.long)))


def test_a_gradient_is_taken_once():
    loss = cross_entropy(torch.randn(N, V, requires_grad=True), torch.arange(N))
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError):
        loss.backward()


def test_the_number_of_a_target_that_counts_nothing_is_that_of_the_data():
    assert kernel.IGNORED == IGNORED
