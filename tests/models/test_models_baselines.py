"""Baselines in the Transformers' wirings: causal, cached, searched, padded and saved as those are."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.errors import InputError
from headway.generation.beam import beam_search
from headway.generation.decode import Conditional, decode
from headway.generation.sampling import Sampling
from headway.models.baselines import (
    KINDS,
    BaselineClassificationHead,
    BaselineConfig,
    BaselineEncoder,
    RecurrentDecoder,
    RecurrentEncoderDecoder,
)
from headway.models.initialise import initialise
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.baselines import CELLS, AdditiveAttention, Convolutions

B, T, D, V, C = 3, 7, 10, 29, 3


def config(kind: str, **changes: Any) -> BaselineConfig:
    layers = 2 if kind in CELLS else 1
    return BaselineConfig(kind, **{"vocab_size": V, "d_model": D, "n_layers": layers, "max_length": 17, **changes})


def drawn(model: Any) -> Any:
    return initialise(model, 3, embedding_std=1.0).eval()


def classifier(kind: str) -> BaselineEncoder:
    return drawn(BaselineEncoder(config(kind), BaselineClassificationHead(config(kind), C)))


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(5))


def test_each_is_a_wiring_of_the_transformers():
    assert isinstance(classifier("cnn"), Encoder) and isinstance(drawn(RecurrentDecoder(config("gru"))), Decoder)
    assert isinstance(drawn(RecurrentEncoderDecoder(config("rnn"))), EncoderDecoder)


@pytest.mark.parametrize("kind", CELLS)
def test_a_language_model_never_sees_a_later_token(kind: str):
    model = drawn(RecurrentDecoder(config(kind)))
    x = model.stack.embedding(ids(B, T)).detach().requires_grad_()
    model.stack.embedding.forward = lambda ids: x
    logits = model(ids(B, T))
    assert logits.shape == (B, T, V)
    logits[:, 3].sum().backward()
    assert not x.grad[:, 4:].any() and x.grad[:, :4].abs().sum(dim=(0, 2)).min() > 0


@pytest.mark.parametrize("kind", CELLS)
def test_what_is_written_with_the_state_is_what_is_written_without(kind: str):
    model = drawn(RecurrentDecoder(config(kind)))
    prompts = [[1, 2, 3], [4], [5, 6]]
    steps = list(decode(model, prompts, Sampling(temperature=0.0), max_tokens=6, context=17))
    for row, prompt in enumerate(prompts):
        text = list(prompt)
        for taken in steps:
            assert taken[row] == model(torch.tensor([text]))[0, -1].argmax().item()
            text.append(taken[row])


@pytest.mark.parametrize("kind", CELLS)
def test_beam_search_finds_the_same_for_each_source_alone(kind: str):
    model = drawn(RecurrentEncoderDecoder(config(kind)))
    sources = [[1, 2, 3, 4], [5, 6], [7, 8, 9]]
    words = {"beam": 3, "n_best": 3, "max_tokens": 6, "end": 2}
    together = beam_search(Conditional(model, sources), [[2]] * 3, **words)
    for source, found in zip(sources, together, strict=True):
        (alone,) = beam_search(Conditional(model, [source]), [[2]], **words)
        assert [one.ids for one in alone] == [one.ids for one in found]
        for one, other in zip(alone, found, strict=True):
            written = [*one.ids, 2] if len(one.ids) < 6 else list(one.ids)  # with what ended it
            logits = model(torch.tensor([source]), torch.tensor([[2, *written[:-1]]]))[0].log_softmax(dim=-1)
            total = logits.gather(1, torch.tensor(written)[:, None]).sum().item()
            assert one.score * len(written) == pytest.approx(total, abs=1e-4)
            assert other.score == pytest.approx(one.score, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_is_classified_in_a_batch_as_it_is_alone(kind: str):
    model = classifier(kind)
    read, mask = ids(B, T), torch.tensor([[True] * T, [True] * 4 + [False] * 3, [True] + [False] * 6])
    together = model(read, mask)
    assert together.shape == (B, C)
    for row in range(B):
        torch.testing.assert_close(together[row], model(read[row][mask[row]][None])[0], rtol=1e-5, atol=1e-6)


def test_order_means_nothing_to_a_bag_of_words_and_much_to_the_others():
    read = ids(1, T)
    for kind in KINDS:
        model = classifier(kind)
        apart = (model(read) - model(read.flip(1))).abs().max().item()
        assert (apart < 1e-6) == (kind == "bow"), kind


def test_segments_are_refused():
    with pytest.raises(ValueError, match="lstm has no embedding of segments"):
        classifier("lstm")(ids(B, T), None, torch.zeros(B, T, dtype=torch.int64))


def test_a_convolution_is_the_sum_over_neighbours():
    layer, x = Convolutions(5, 7, (2, 3)), torch.randn(2, T, 5)
    found = layer(x)
    assert found.shape == (2, T, 7)
    widths = [conv.weight.shape for conv in layer.filters]
    assert [tuple(shape) for shape in widths] == [(4, 5, 2), (3, 5, 3)]
    around = torch.nn.functional.pad(x, (0, 0, 1, 1))  # zeros before and after
    expected = sum(around[:, n : n + T] @ layer.filters[1].weight[:, :, n].T for n in range(3)) + layer.filters[1].bias
    torch.testing.assert_close(found[..., 4:], expected.relu(), rtol=1e-5, atol=1e-6)


def test_additive_attention_by_hand():
    torch.manual_seed(1)
    attend = AdditiveAttention(3, 5, 7)
    queries, keys, mask = (
        torch.randn(2, 4, 3),
        torch.randn(2, 6, 5),
        torch.tensor([[True] * 6, [True] * 2 + [False] * 4]),
    )
    sums, weights = attend(queries, keys, mask)
    assert sums.shape == (2, 4, 5) and not weights[1, :, 2:].any()
    score = [attend.score(torch.tanh(attend.query(queries[1, 3]) + attend.key(keys[1, s]))).item() for s in range(2)]
    expected = torch.tensor(score).softmax(dim=0)
    torch.testing.assert_close(weights[1, 3, :2], expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(sums[1, 3], expected @ keys[1, :2], rtol=1e-5, atol=1e-6)


def made() -> dict[str, Any]:
    found: dict[str, Any] = {f"classifier-{kind}": classifier(kind) for kind in KINDS}
    found |= {f"decoder-{kind}": drawn(RecurrentDecoder(config(kind, tied=kind != "rnn"))) for kind in CELLS}
    return found | {f"translator-{kind}": drawn(RecurrentEncoderDecoder(config(kind))) for kind in CELLS}


@pytest.mark.parametrize("name", sorted(made()))
def test_what_is_saved_is_what_is_loaded(name: str, tmp_path: Path):
    model = made()[name]
    headway.save_model(model, tmp_path)
    loaded = headway.load_model(tmp_path)
    assert type(loaded) is type(model) and asdict(loaded.config) == asdict(model.config)
    given = (ids(2, T), ids(2, 5)) if name.startswith("translator") else (ids(2, T),)
    assert torch.equal(loaded(*given), model(*given))
    tied = [id(p) for p in loaded.parameters()]
    assert len(tied) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("d_model", 12, "does not fit config.json in"),
        ("d_model", 1 << 20, "does not fit config.json|more weights than any baseline"),
        ("n_layers", 0, "n_layers is 0, but must be a whole number"),
        ("widths", ["x"], "widths is"),
        ("wiring", "both", "wiring is 'both'"),
        ("vocab_size", None, "vocab_size is None"),
        ("num_labels", 5, "head.out"),
    ],
)
def test_a_config_that_does_not_fit_is_one_message(name: str, value: Any, said: str, tmp_path: Path):
    headway.save_model(classifier("lstm"), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(InputError, match=said):
        headway.load_model(tmp_path)


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("sru", {}, "one of rnn, lstm, gru, cnn, bow"),
        ("cnn", {"n_layers": 2}, "1 for cnn"),
        ("lstm", {"d_model": 9}, "even"),
        ("lstm", {"dropout": 1.0}, "from 0 to below 1"),
        ("cnn", {"widths": ()}, "whole numbers from 1"),
    ],
)
def test_impossible_sizes_are_refused(kind: str, changes: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said):
        config(kind, **changes)


def test_those_that_read_all_at_once_write_nothing():
    for wiring in (RecurrentDecoder, RecurrentEncoderDecoder):
        with pytest.raises(ValueError, match="reads all tokens at once"):
            wiring(config("cnn"))
