"""Computations side by side: their order, their errors, and torch's threads afterwards."""

import threading
import time

import pytest
import torch

from headway.nn.threads import Threads


@pytest.mark.parametrize("count", [1, 3])
def test_answers_come_in_order_whoever_is_ready_first(count: int):
    def after(seconds: float, name: str) -> str:
        time.sleep(seconds)
        return name

    with Threads(count) as threads:
        assert threads.map(after, [0.05, 0.0, 0.02], "abc") == ["a", "b", "c"]
        assert threads.map(after, [], []) == []


def test_each_has_its_share_of_torchs_threads_which_are_given_back():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        with Threads(2) as threads:
            assert threads.map(lambda _: (torch.get_num_threads(), threading.get_ident()), range(3))[0][0] == 2
            with pytest.raises(ZeroDivisionError):
                threads.map(lambda n: 1 // n, [1, 0, 1])
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
