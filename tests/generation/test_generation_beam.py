"""Beam search: against all continuations there are, against greedy decoding and against single prompts."""

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from headway.generation.beam import beam_search
from headway.generation.decode import Conditional, decode
from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Decoder, EncoderDecoder

V, END = 5, 2
SOURCES = [[3, 4, 1], [4, 4, 3, 1, 3], [1, 3]]


class Table:
    """A model whose next token depends on the last one alone, and whose state is the tokens themselves."""

    class State:
        def __init__(self) -> None:
            self.ids: Tensor | None = None

        def reorder(self, rows: Tensor) -> None:
            assert self.ids is not None
            self.ids = self.ids[rows]

    def __init__(self, logits: Tensor):
        self.logits = logits  # (V, V)

    def new_state(self) -> "Table.State":
        return Table.State()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: "Table.State | None" = None) -> Tensor:
        assert state is not None
        state.ids = ids if state.ids is None else torch.cat([state.ids, ids], dim=1)
        return self.logits[state.ids[:, -1]]


def table(seed: int) -> Table:
    return Table(2 * torch.randn(V, V, generator=torch.Generator().manual_seed(seed)))


def every_hypothesis(model: Table, prompt: Sequence[int], most: int, penalty: float) -> list[tuple[float, tuple]]:
    """(score, ids) of all continuations that end within ``most`` tokens or are cut off there, best first."""
    steps = model.logits.log_softmax(dim=-1)
    others = [token for token in range(V) if token != END]
    found = []
    for n in range(most):
        for ids in itertools.product(others, repeat=n):
            path = [prompt[-1], *ids, END]
            p = sum(float(steps[a, b]) for a, b in itertools.pairwise(path))
            found.append((p / (n + 1) ** penalty, ids))
    for ids in itertools.product(others, repeat=most):
        p = sum(float(steps[a, b]) for a, b in itertools.pairwise([prompt[-1], *ids]))
        found.append((p / most**penalty, ids))
    return sorted(found, key=lambda one: -one[0])


@pytest.mark.parametrize("penalty", [0.0, 0.7, 1.0, -0.5])
@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_what_trying_everything_finds(seed: int, penalty: float):
    model, most = table(seed), 4
    found = beam_search(model, [[1]], beam=V**most, max_tokens=most, end=END, n_best=7, length_penalty=penalty)[0]
    expected = every_hypothesis(model, [1], most, penalty)
    true = {ids: score for score, ids in expected}
    scores = [one.score for one in found]
    assert scores == pytest.approx([score for score, _ in expected[:7]], abs=1e-5)  # which of two equal ones is open
    assert scores == pytest.approx([true[one.ids] for one in found], abs=1e-5)
    assert len({one.ids for one in found}) == 7


def translator(seed: int = 0) -> EncoderDecoder:
    config = TransformerConfig(vocab_size=23, d_model=20, n_heads=2, n_layers=2, max_length=64, norm_order="pre")
    model = initialise(EncoderDecoder(config), seed, zero_out=False)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(5 if p.dim() > 1 else 1)
    return model.eval()


def test_a_beam_of_one_is_greedy():
    model = translator()
    greedy = [[] for _ in SOURCES]
    made = Conditional(model, SOURCES)
    for step in decode(made, [[1]] * 3, Sampling(temperature=0), max_tokens=13, context=64, end=END):
        for row, token in step.items():
            greedy[row].append(token)
    found = beam_search(Conditional(model, SOURCES), [[1]] * 3, beam=1, max_tokens=13, end=END)
    assert [list(one[0].ids) for one in found] == greedy


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_batch_is_what_its_rows_are_alone(beam: int):
    model = translator(1)
    options = {"beam": beam, "end": END, "n_best": beam}
    together = beam_search(Conditional(model, SOURCES), [[1]] * 3, max_tokens=[13, 7, 9], **options)
    for source, most, found in zip(SOURCES, [13, 7, 9], together, strict=True):
        alone = beam_search(Conditional(model, [source]), [[1]], max_tokens=most, **options)[0]
        assert [one.ids for one in found] == [one.ids for one in alone]
        assert [one.score for one in found] == pytest.approx([one.score for one in alone], abs=1e-5)
        assert all(len(one.ids) <= most for one in found)


class Anew:
    """A translator without any cache: every step reads the sources and all of the targets so far."""

    class State:
        ids: Tensor
        sources: Tensor

        def __init__(self) -> None:
            self.length = 0

        def reorder(self, rows: Tensor) -> None:
            self.ids, self.sources = self.ids[rows], self.sources[rows]

    def __init__(self, model: EncoderDecoder, sources: Sequence[Sequence[int]]):
        self.model, self.sources = model, sources

    def new_state(self) -> "Anew.State":
        return Anew.State()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: "Anew.State | None" = None) -> Tensor:
        assert state is not None
        if state.length == 0:
            state.ids, state.sources = ids, torch.arange(len(self.sources))
        else:
            state.ids = torch.cat([state.ids, ids], dim=1)
        state.length += 1
        rows = zip(state.sources.tolist(), state.ids, strict=True)
        return torch.stack([self.model(torch.tensor([self.sources[n]]), ids[None])[0, -1] for n, ids in rows])


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_caches_change_nothing(beam: int):
    model = translator(4)
    options = {"beam": beam, "end": END, "n_best": beam, "max_tokens": [13, 7, 9]}
    cached = beam_search(Conditional(model, SOURCES), [[1]] * 3, **options)
    anew = beam_search(Anew(model, SOURCES), [[1]] * 3, **options)
    assert [[one.ids for one in found] for found in cached] == [[one.ids for one in found] for found in anew]
    for found, expected in zip(cached, anew, strict=True):
        assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-5)


def test_keys_of_a_source_are_computed_once():
    model, calls = translator(), []
    for block in model.decoder.blocks:
        block.cross.layer.kv.register_forward_hook(lambda *given: calls.append(tuple(given[2].shape[:2])))
    beam_search(Conditional(model, SOURCES), [[1]] * 3, beam=4, max_tokens=13, end=END)
    assert calls == [(3, 5)] * len(model.decoder.blocks)  # each of 3 sources, as long as the longest, in each layer


def test_a_decoder_with_prompts_of_different_lengths():
    config = TransformerConfig(vocab_size=23, d_model=20, n_heads=2, n_layers=2, max_length=64)
    model = initialise(Decoder(config), 3, zero_out=False).eval()
    prompts = [[5, 6, 7], [8], [9, 10]]
    together = beam_search(model, prompts, beam=3, max_tokens=6, end=END, n_best=3)
    for prompt, found in zip(prompts, together, strict=True):
        alone = beam_search(model, [prompt], beam=3, max_tokens=6, end=END, n_best=3)[0]
        assert [one.ids for one in found] == [one.ids for one in alone]
        for one in found:
            ids = torch.tensor([[*prompt, *one.ids]])
            steps = model(ids)[0].detach().log_softmax(dim=-1)[len(prompt) - 1 :]
            wanted = [*one.ids, END][: len(steps)]
            ended = sum(float(step[token]) for step, token in zip(steps, wanted, strict=False))
            cut = ended - float(steps[len(one.ids)][END]) if len(steps) > len(one.ids) else ended
            assert min(abs(one.log_probability - ended), abs(one.log_probability - cut)) < 1e-4


def test_scores_are_in_order_and_finished_hypotheses_stay():
    n_ended = 0
    for seed in range(20):
        options = {"beam": 4, "n_best": 4, "end": END, "length_penalty": 1.0}
        shorter, longer = (beam_search(table(seed), [[1]], max_tokens=most, **options)[0] for most in (5, 9))
        assert [one.score for one in shorter] == sorted((one.score for one in shorter), reverse=True)
        ended = [one for one in shorter if not one.cut]
        assert all(len(one.ids) < 5 for one in ended)
        assert all(one in longer or one.score <= longer[-1].score for one in ended)
        n_ended += len(ended)
    assert n_ended > 8


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("most", [1, 2, 3, 5])
def test_the_best_is_the_same_however_many_are_asked_for(most: int, penalty: float):
    for seed in range(8):
        options = {"beam": 4, "max_tokens": most, "end": END, "length_penalty": penalty}
        together = beam_search(table(seed), [[1], [3, 4]], n_best=4, **options)
        for n_best in (1, 2, 3):
            found = beam_search(table(seed), [[1], [3, 4]], n_best=n_best, **options)
            assert found == [each[:n_best] for each in together]


def test_at_the_limit_a_better_one_that_goes_on_beats_one_that_ended():
    chances = torch.full((V, V), 0.01)
    chances[1, 3], chances[1, END], chances[3, 4] = 0.66, 0.31, 0.96
    found = beam_search(Table(chances.log()), [[1]], beam=2, max_tokens=2, end=END, n_best=2)[0]
    assert found[0].cut and not found[1].cut
    assert found[0].ids == (3, 4) and found[0].score == pytest.approx(math.log(0.66 * 0.96) / 2, abs=1e-4)


def test_what_may_not_be_chosen_is_not_and_several_tokens_end():
    model = table(1)
    found = beam_search(model, [[1]], beam=4, max_tokens=5, end=[END, 3], n_best=4, forbidden=[0])[0]
    assert found and all(not {0, END, 3} & set(one.ids) for one in found)
    assert all(math.isfinite(one.score) for one in found)


def test_a_beam_goes_on_though_every_end_is_likelier_and_no_text_is_found_twice():
    logits, ends = torch.zeros(12, 12), [2, 3, 4, 5, 6, 7]
    logits[:, ends] = 5.0
    found = beam_search(Table(logits), [[1]], beam=2, max_tokens=9, end=ends, n_best=2)[0]
    assert found[0].ids == () and len(found[1].ids) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [({"n_best": 3, "beam": 2}, "n_best is 3 and beam 2"), ({"n_best": 0, "beam": 2}, "n_best is 0"), ({}, "prompt 1")],
)
def test_what_cannot_be_is_refused(options: dict, said: str):
    with pytest.raises(ValueError, match=said):
        beam_search(table(0), [[1], [] if not options else [1]], **{"beam": 2, "max_tokens": 3, "end": END, **options})
