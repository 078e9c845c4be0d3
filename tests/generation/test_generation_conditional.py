"""Targets by the one loop: a batch of sources is what they are alone, whichever rows end first."""

import pytest
import torch

from headway.generation.decode import Conditional, decode
from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import EncoderDecoder

V = 31
SOURCES = [[3, 7, 11], [5], [2, 29, 17, 19, 23, 1, 8], [4, 4, 9, 4]]
GREEDY = Sampling(temperature=0, repetition_penalty=7.0)


@pytest.fixture(scope="module", params=["rotary", "relative", "sinusoidal"])
def model(request) -> EncoderDecoder:
    config = TransformerConfig(V, d_model=26, n_heads=1, n_layers=3, positions=request.param, tied=False)
    encoder = config.but(d_model=22, n_layers=2)
    return initialise(EncoderDecoder(config, encoder), seed=3, embedding_std=1.0, zero_out=False).eval()


def targets(model, sources, starts, n=11, stops=None, **words):
    """The new tokens of each target; ``stops`` says after how many tokens the caller ends a row."""
    found = [[] for _ in sources]
    steps = decode(Conditional(model, sources), starts, GREEDY, max_tokens=n, context=2 * n, **words)
    finished = None
    try:
        while True:
            for row, token in steps.send(finished).items():
                found[row].append(token)
            finished = {row for row, stop in (stops or {}).items() if len(found[row]) == stop}
    except StopIteration:
        return found


@torch.no_grad()
def plain(model, source, start, n=11):
    """Greedy by reading everything anew for each token."""
    text = list(start)
    for _ in range(n):
        logits = model(torch.tensor([source]), torch.tensor([text]))[0, -1]
        seen = torch.zeros(V, dtype=torch.bool)
        seen[text] = True
        text.append(torch.where(seen, torch.where(logits > 0, logits / 7, logits * 7), logits).argmax().item())
    return text[len(start) :]


def test_batches_single_ones_and_the_plain_loop(model):
    expected = [plain(model, source, [1]) for source in SOURCES]
    assert len({tuple(target) for target in expected}) == len(SOURCES)
    assert targets(model, SOURCES, [[1]] * 4) == expected
    assert [targets(model, [source], [[1]])[0] for source in SOURCES] == expected


def test_starts_of_mixed_lengths(model):
    starts = [[1], [1, 5, 6], [2, 2], [1]]
    found = targets(model, SOURCES, starts)
    assert found == [plain(model, source, start) for source, start in zip(SOURCES, starts, strict=True)]


def test_rows_that_end_leave_the_others_as_they_are(model):
    whole = targets(model, SOURCES, [[1]] * 4)
    stops = {0: 2, 2: 5, 3: 1}
    expected = [target[: stops.get(row, 11)] for row, target in enumerate(whole)]
    assert targets(model, SOURCES, [[1]] * 4, stops=stops) == expected


def test_the_end_is_not_part_of_a_target(model):
    whole = targets(model, SOURCES, [[1]] * 4)
    end = whole[1][3]
    expected = [target[: target.index(end)] if end in target else target for target in whole]
    assert targets(model, SOURCES, [[1]] * 4, end=end) == expected


def test_what_cannot_be_written_is_refused(model):
    with pytest.raises(ValueError, match="source 1 has no tokens"):
        Conditional(model, [[3], []])
    with pytest.raises(ValueError, match="2 targets for 4 sources"):
        Conditional(model, SOURCES).next_logits(torch.tensor([[1], [1]]))
