"""A step of fixed shapes gives what a step of growing shapes does; on a GPU as a graph, here computed each time."""

import pytest
import torch
from test_runtime_batcher import CONTEXT, GREEDY, KINDS, alone, decoder, prompts, together

from headway.generation.sampling import Sampling
from headway.runtime import runtime as runtimes
from headway.runtime.batcher import Batcher
from headway.runtime.runtime import Runtime
from headway.runtime.step_graphs import StepGraphs, power


class Replayed(StepGraphs):
    """Computes at each repetition what a GPU would have recorded, into the place of the first result."""

    def record(self, compute):
        result = compute()
        self.shapes = [*getattr(self, "shapes", []), tuple(result.shape)]
        return lambda: result.copy_(compute()), result


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batcher steps as on a GPU."""
    monkeypatch.setattr("headway.runtime.batcher.StepGraphs", Replayed)
    monkeypatch.setattr(Batcher, "_read", lambda self, tokens: self.graphs(tokens))


@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("more", [*KINDS, {"window": 7, "n_kv_heads": 1}, {"positions": "learned", "n_kv_heads": 2}])
def test_steps_of_fixed_shapes_give_what_a_request_gets_alone(every, more, replayed):
    model, texts, lengths = decoder(**more), [*prompts(6), list(range(60))], [9, 3, 1, 12, 5, 2 * CONTEXT, 20]
    pairs = list(zip(texts, lengths, strict=True))
    given = [{"prompt": text, "sampling": GREEDY, "max_tokens": count} for text, count in pairs]
    expected = [alone(model, text, GREEDY, max_tokens=count) for text, count in pairs]
    batcher = Batcher(model, slots=5)
    assert together(batcher, given, every) == expected
    assert {rows for rows, _ in batcher.graphs.shapes} <= {1, 2, 4, 8} and len(batcher.graphs.shapes) > 1


def test_sampled_tokens_are_those_of_a_request_alone(replayed):
    model, sampling = decoder(), Sampling(1.0, top_k=20, repetition_penalty=1.2)
    given = [
        {"prompt": text, "sampling": sampling, "max_tokens": 15, "seed": seed, "forbidden": [3]}
        for seed, text in enumerate(prompts(4))
    ]
    expected = [alone(model, one["prompt"], sampling, max_tokens=15, seed=one["seed"], forbidden=[3]) for one in given]
    assert together(Batcher(model), given, every=2) == expected


def test_a_runtime_on_a_gpu_keeps_its_steps_until_the_weights_lie_elsewhere(replayed, monkeypatch):
    monkeypatch.setattr(Runtime, "device", torch.device("cuda"))
    made = []
    monkeypatch.setattr(runtimes, "Batcher", lambda model: made.append(Batcher(model)) or made[-1])
    model = decoder()
    runtime, texts = Runtime(model), prompts(3)

    def written(most: int) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in texts]
        for step in runtime.write(texts, GREEDY, max_tokens=most):
            for row, token in step.items():
                found[row].append(token)
        return found

    expected = [alone(model, text, GREEDY, max_tokens=20) for text in texts]
    assert written(20) == written(20) == expected
    assert len(made) == 1 and made[0].graphs.shapes == [(4, 89)], "three texts are computed as four"
    left = runtime.write(texts, GREEDY, max_tokens=20)
    next(left)
    left.close()  # its texts are still in its batcher
    assert written(20) == expected and len(made) == 2
    for weight in model.parameters():
        weight.data = weight.data.clone()
    assert written(20) == expected and len(made) == 3


def test_the_powers_of_two_from_a_least_one():
    assert [power(count, 64) for count in (1, 64, 65, 1000)] == [64, 64, 128, 1024]
