"""The loop with a cache against a loop without one, for one prompt or many, within the context and beyond it."""

import pytest
import torch

from headway.generation.decode import decode
from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Decoder

V, CONTEXT = 31, 13
PROMPTS = [[3, 7, 11], [5], [2, 29, 17, 19, 23, 1, 8], [4, 4, 4, 4, 4]]


@pytest.fixture(scope="module")
def model() -> Decoder:
    config = TransformerConfig(vocab_size=V, d_model=22, n_heads=1, n_layers=3, max_length=CONTEXT, tied=False)
    return initialise(Decoder(config), seed=3, embedding_std=1.0, zero_out=False).eval()


def together(model: Decoder, prompts: list[list[int]], sampling: Sampling, **options) -> list[list[int]]:
    """The new tokens of each prompt, all in one batch."""
    found: list[list[int]] = [[] for _ in prompts]
    for step in decode(model, prompts, sampling, **{"context": CONTEXT, **options}):
        for row, token in step.items():
            found[row].append(token)
    return found


@torch.no_grad()
def plain(model: Decoder, prompt: list[int], n: int, context: int = CONTEXT) -> list[int]:
    """Greedy by reading everything anew for each token; of a full context the older half is forgotten."""
    window, new = prompt[-context:], []
    for _ in range(n):
        token = model(torch.tensor([window]))[0, -1].argmax().item()
        new.append(token)
        if len(window) == context:
            window = window[context - context // 2 :]
        window = [*window, token]
    return new


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("n", [1, 5, 41])
def test_greedy_is_the_plain_loop(model: Decoder, prompt: list[int], n: int):
    assert together(model, [prompt], Sampling(temperature=0), max_tokens=n) == [plain(model, prompt, n)]


@pytest.mark.parametrize("context", [1, 2, 3, 5])
def test_also_in_a_very_short_context(model: Decoder, context: int):
    found = together(model, [PROMPTS[2]], Sampling(temperature=0), max_tokens=11, context=context)
    assert found == [plain(model, PROMPTS[2], 11, context)]


def test_a_prompt_beyond_the_context_is_read_from_its_end(model: Decoder):
    prompt = [n % V for n in range(3, 60)]
    found = together(model, [prompt], Sampling(temperature=0), max_tokens=7)
    assert found == [plain(model, prompt, 7)]
    assert found == together(model, [prompt[-CONTEXT:]], Sampling(temperature=0), max_tokens=7)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0),
        Sampling(temperature=1.0),
        Sampling(top_k=5),
        Sampling(top_p=0.9, repetition_penalty=1.3),
    ],
)
@pytest.mark.parametrize("n", [5, 41])
def test_many_prompts_are_each_as_if_alone(model: Decoder, sampling: Sampling, n: int):
    batch = together(model, PROMPTS, sampling, max_tokens=n, seed=7)
    assert batch == [together(model, [prompt], sampling, max_tokens=n, seed=7)[0] for prompt in PROMPTS]
    assert all(len(row) == n for row in batch)


@torch.no_grad()
def test_logits_with_a_cache_are_those_without(model: Decoder):
    ids = torch.tensor([PROMPTS[2]])
    state, parts = model.new_state(), []
    for start, stop in ((0, 3), (3, 4), (4, 7)):
        parts.append(model.next_logits(ids[:, start:stop], None, state))
    whole = model(ids)
    for part, place in zip(parts, (2, 3, 6), strict=True):
        assert (part - whole[:, place]).abs().max() <= 1e-5


def test_the_end_ends_its_row_alone_and_never_appears(model: Decoder):
    free = together(model, PROMPTS, Sampling(temperature=0), max_tokens=11)
    end = free[0][4]
    found = together(model, PROMPTS, Sampling(temperature=0), max_tokens=11, end=end)
    for row, tokens in zip(free, found, strict=True):
        assert tokens == (row[: row.index(end)] if end in row else row)
    assert len(found[0]) <= 4


def test_forbidden_tokens_never_appear(model: Decoder):
    free = together(model, PROMPTS, Sampling(temperature=0), max_tokens=11)
    forbidden = sorted({token for row in free for token in row})
    found = together(model, PROMPTS, Sampling(temperature=3.0), max_tokens=41, forbidden=forbidden, seed=3)
    assert not {token for row in found for token in row} & set(forbidden)


def test_a_row_that_is_sent_back_ends_and_the_others_go_on_as_before(model: Decoder):
    free = together(model, PROMPTS, Sampling(temperature=0), max_tokens=7)
    steps = decode(model, PROMPTS, Sampling(temperature=0), max_tokens=7, context=CONTEXT)
    found: list[list[int]] = [[] for _ in PROMPTS]
    step = next(steps)
    with pytest.raises(StopIteration):
        while True:
            for row, token in step.items():
                found[row].append(token)
            step = steps.send({1, 2} if len(found[0]) == 3 else set())
    assert found == [free[0], free[1][:3], free[2][:3], free[3]]


def test_a_seed_reproduces_and_another_differs(model: Decoder):
    runs = [together(model, PROMPTS[:1], Sampling(), max_tokens=23, seed=seed) for seed in (3, 3, 5)]
    assert runs[0] == runs[1] != runs[2]


def test_a_prompt_without_tokens_is_refused(model: Decoder):
    with pytest.raises(ValueError, match="prompt 1 has no tokens"):
        together(model, [[3], []], Sampling(), max_tokens=3)


def test_a_repetition_penalty_counts_the_prompt_too(model: Decoder):
    strong = Sampling(temperature=0, repetition_penalty=100.0)
    found = together(model, [[3, 7, 11]], strong, max_tokens=9)[0]
    assert len({3, 7, 11, *found}) == 3 + len(found)
