"""Continuous batching: a request gets the tokens that it gets alone, whoever joins or leaves beside it."""

import random

import pytest
import torch

from headway.generation.decode import decode
from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.runtime import batcher as module
from headway.runtime.batcher import Batcher
from headway.runtime.runtime import Runtime
from headway.runtime.slots import SlotState

GREEDY = Sampling(temperature=0.0)
VOCAB, CONTEXT = 89, 48
KINDS = [{}, {"positions": "learned"}, {"positions": "alibi"}, {"n_kv_heads": 2}, {"window": 7}]


def decoder(**more) -> Decoder:
    torch.manual_seed(3)
    config = TransformerConfig(VOCAB, d_model=32, n_layers=2, n_heads=4, max_length=CONTEXT, **more)
    return Decoder(config).double().eval()  # double: no rounding decides between two tokens


def prompts(count: int, seed: int = 1) -> list[list[int]]:
    draw = random.Random(seed)
    return [[draw.randrange(VOCAB) for _ in range(draw.randint(1, 23))] for _ in range(count)]


def alone(model: Decoder, prompt: list[int], sampling: Sampling, **options) -> list[int]:
    steps = decode(model, [prompt], sampling, context=CONTEXT, **options)
    return [token for step in steps for token in step.values()]


def together(batcher: Batcher, given: list[dict], every: int = 0) -> list[list[int]]:
    """The tokens of requests of which a new one is submitted after each ``every`` steps."""
    requests, found, steps = [], {}, 0
    while len(requests) < len(given) or batcher.busy:
        while len(requests) < len(given) and steps >= every * len(requests):
            requests.append(batcher.submit(**given[len(requests)]))
        for request, token in batcher.step():
            if token is not None:
                found.setdefault(id(request), []).append(token)
        steps += 1
    assert all(request.over for request in requests) and not batcher.state.lengths
    return [found.get(id(request), []) for request in requests]


@pytest.mark.parametrize("every", [0, 1, 3])
@pytest.mark.parametrize("slots", [64, 3, 1])
@pytest.mark.parametrize(
    "more", [{}, {"positions": "learned"}, {"positions": "alibi"}, {"n_kv_heads": 2}, {"window": 7}]
)
def test_every_request_gets_what_it_gets_alone(every, slots, more):
    model, texts = decoder(**more), prompts(7)
    lengths = [9, 3, 1, 12, 5, 9, 20]
    given = [
        {"prompt": text, "sampling": GREEDY, "max_tokens": count} for text, count in zip(texts, lengths, strict=True)
    ]
    expected = [alone(model, text, GREEDY, max_tokens=count) for text, count in zip(texts, lengths, strict=True)]
    assert together(Batcher(model, slots=slots), given, every) == expected


def test_each_has_its_own_settings():
    model = decoder()
    samplings = [
        GREEDY,
        Sampling(1.0, top_k=5),
        Sampling(0.7, repetition_penalty=1.3),
        Sampling(1.0, top_p=0.5),
        GREEDY,
    ]
    ends = [{1, 2, 3}, set(range(40)), set(), {5}, set()]
    given, expected = [], []
    for number, (text, sampling, stop) in enumerate(zip(prompts(5), samplings, ends, strict=True)):
        forbidden = [number, number + 9]
        options = {"max_tokens": 15, "forbidden": forbidden, "seed": number}
        given.append({"prompt": text, "sampling": sampling, "ends": stop, **options})
        expected.append(alone(model, text, sampling, end=stop, **options))
    assert together(Batcher(model), given, every=2) == expected


@pytest.mark.parametrize("piece", [1, 4, 7])
def test_a_long_prompt_is_read_in_pieces(piece):
    model, texts = decoder(), prompts(5)
    given = [{"prompt": text, "sampling": GREEDY, "max_tokens": 6} for text in texts]
    expected = [alone(model, text, GREEDY, max_tokens=6) for text in texts]
    assert together(Batcher(model, piece=piece), given, every=1) == expected


def test_a_text_that_outgrows_the_model_goes_on_with_its_newer_half():
    model = decoder()
    texts = [*prompts(2), list(range(60))]  # the last is longer than the model reads
    given = [{"prompt": text, "sampling": GREEDY, "max_tokens": 2 * CONTEXT} for text in texts]
    expected = [alone(model, text, GREEDY, max_tokens=2 * CONTEXT) for text in texts]
    assert together(Batcher(model), given, every=2) == expected


def test_a_text_that_outgrows_the_model_loses_no_token():
    """The token with which a text outgrows the model, and the one after it, come in two steps."""
    model, texts = decoder(), [[3, 5, 7], [11] * (CONTEXT - 2), [2]]
    found: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for step in Runtime(model).write(texts, GREEDY, max_tokens=3 * CONTEXT):
        for row, token in step.items():
            found[row].append(token)
    for row, text in enumerate(texts):
        assert found[row] == alone(model, text, GREEDY, max_tokens=3 * CONTEXT) and len(found[row]) == 3 * CONTEXT


def test_what_prompts_share_is_computed_once(monkeypatch):
    monkeypatch.setattr(module, "SHARED", 4)
    model, common = decoder(), list(range(20))
    read = []
    own = model.next_logits

    def counted(ids, *given):
        read.append(ids.numel())
        return own(ids, *given)

    monkeypatch.setattr(model, "next_logits", counted)
    texts = [[*common, 30], [*common, 31, 32], common[:3]]
    given = [{"prompt": text, "sampling": GREEDY, "max_tokens": 4} for text in texts]
    found = together(Batcher(model), given, every=1)
    assert read[:3] == [21, 1, 2], "the first prompt, its next token, and what is new in the second prompt"
    assert found == [alone(model, text, GREEDY, max_tokens=4) for text in texts]


def test_who_leaves_early_disturbs_nobody():
    model, texts = decoder(), prompts(4)
    batcher = Batcher(model, slots=3)
    requests = [batcher.submit(text, GREEDY, max_tokens=10) for text in texts]
    found = {id(request): [] for request in requests}
    for number in range(30):
        if number == 3:
            batcher.cancel(requests[0])
            batcher.cancel(requests[0])
        for request, token in batcher.step():
            found[id(request)].append(token)
    assert len(found[id(requests[0])]) == 3 and requests[0].over
    for request, text in zip(requests[1:], texts[1:], strict=True):
        assert found[id(request)] == alone(model, text, GREEDY, max_tokens=10)
    waiting = batcher.submit(texts[0], GREEDY, max_tokens=1)
    batcher.cancel(waiting)
    assert not batcher.busy and batcher.step() == []


def test_a_prompt_needs_a_token():
    with pytest.raises(ValueError, match="no tokens"):
        Batcher(decoder()).submit([], GREEDY, max_tokens=1)


def test_slots_read_one_token_each():
    state = SlotState(2)
    with pytest.raises(ValueError, match="1 texts of 2 tokens for 0 slots"):
        state.place(None, 1, 2, torch.device("cpu"))
    with pytest.raises(ValueError, match="empty"):
        state.layers[0].read()
