"""Rows that are read together: every one once, as many at once as the model's size allows."""

import pytest
import torch

from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.transformer import Encoder
from headway.runtime.precision import available
from headway.runtime.runtime import LEAST, MOST, ON_A_GPU, Runtime, tokens_at_once, tokens_for_each

WIDE = TransformerConfig(vocab_size=99, d_model=4096, n_heads=4, n_layers=1, d_ff=16384)


def test_the_wider_a_model_the_fewer_tokens_it_reads_at_once():
    here, gpu = torch.device("cpu"), torch.device("cuda")
    assert [tokens_at_once(WIDE.but(d_ff=width), here) for width in (64, 1536, 3072, 16384)] == [MOST, 682, 341, LEAST]
    assert tokens_at_once(BaselineConfig("lstm", vocab_size=99), here) == MOST
    assert tokens_at_once(WIDE, gpu) == ON_A_GPU


class Still(torch.nn.Module):
    """What has a device and a configuration, and is not called."""

    config = WIDE

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))


def test_every_row_is_read_once_beside_those_of_like_length():
    rows = [[1 + n] * (1 + 37 * n % 100) for n in range(60)]
    places = []

    def answer(output, ids, mask, index):
        assert not torch.is_grad_enabled()
        assert ids.numel() <= LEAST and len(index) == len(ids)
        places.append(ids.numel())
        return (ids if mask is None else ids * mask).sum(dim=1), ids[:, :1]

    found = Runtime(Still()).read(rows, answer)
    assert [(int(total), int(first)) for total, first in found] == [(sum(row), row[0]) for row in rows]
    assert sum(places) < 1.1 * sum(map(len, rows))


def test_a_long_row_is_read_alone_without_a_mask_and_nothing_is_read_of_nothing():
    seen = []
    Runtime(Still()).read([[1] * 300], lambda output, ids, mask, index: seen.append((ids.shape, mask)) or ids)
    assert seen == [((1, 300), None)]
    assert Runtime(Still()).read([], lambda *given: 1) == []


def test_inputs_of_one_size_are_made_when_their_turn_comes():
    asked = []

    def make(numbers):
        asked.append(len(numbers))
        return torch.tensor(list(numbers)).float()[:, None]

    found = Runtime(Still()).read_equal(11, LEAST // 4, make, lambda output, inputs: 2 * inputs)
    assert [float(one) for one in found] == [2.0 * n for n in range(11)]
    assert asked == [4, 4, 3]
    assert Runtime(Still()).read_equal(0, 7, make, lambda output, inputs: inputs) == []


def test_threads_divide_what_would_be_one_batch():
    sizes = []

    def answer(output, ids, mask, index):
        sizes.append(tuple(ids.shape))
        return ids[:, 0]

    rows = [[n] * (5 + n % 3) for n in range(16)]
    threads = torch.get_num_threads()
    for count, batches in ((1, 1), (2, 2)):
        sizes.clear()
        torch.set_num_threads(count)
        try:
            assert [int(one) for one in Runtime(Still()).read(rows, answer)] == list(range(16))
        finally:
            torch.set_num_threads(threads)
        assert len(sizes) == batches
    assert tokens_for_each([10] * 7, 999, 2) == 999 and tokens_for_each([10] * 8, 999, 2) == 60
    assert tokens_for_each([10] * 80, 99, 2) == 99


@pytest.mark.parametrize("precision", available(torch.device("cpu"))[1:])
@pytest.mark.parametrize("count", [1, 2])
def test_below_float32_an_answer_depends_on_no_other_row(precision, count):
    torch.manual_seed(3)
    runtime = Runtime(
        Encoder(TransformerConfig(99, d_model=128, n_layers=2, n_heads=4, d_ff=512, max_length=64)).eval()
    )
    runtime.prepare(precision)
    rows = [[1 + (7 * n + place) % 98 for place in range(2 + 11 * n % 40)] for n in range(50)]

    def answer(output, ids, mask, index):
        return output(ids, mask).mean(dim=1)

    threads = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        together = runtime.read(rows, answer)
        alone = [runtime.read([row], answer)[0] for row in rows]
    finally:
        torch.set_num_threads(threads)
    assert max(float((one - other).abs().max()) for one, other in zip(together, alone, strict=True)) < 1e-6
