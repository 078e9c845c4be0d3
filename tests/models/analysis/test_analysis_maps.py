"""Attention maps: what they show, and that looking changes nothing."""

import pytest
import torch

from headway.models.analysis.maps import attention_maps, fused_difference
from headway.models.config import Positions, TransformerConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.attention import Attention
from headway.nn.kernels.dispatch import attend

B, T, S, V, H = 3, 7, 11, 31, 2


def make(wiring, **changes):
    torch.manual_seed(0)
    config = TransformerConfig(V, **{"d_model": 20, "n_heads": H, "n_layers": 3, **changes})
    model = {"encoder": Encoder, "decoder": Decoder, "encoder-decoder": EncoderDecoder}[wiring](config).eval()
    inputs = [torch.randint(V, (B, T))]
    return model, [torch.randint(V, (B, S)), *inputs] if wiring == "encoder-decoder" else inputs


SHAPES = {
    "encoder": {"self": (B, H, T, T)},
    "decoder": {"self": (B, H, T, T)},
    "encoder-decoder": {"encoder": (B, H, S, S), "decoder": (B, H, T, T), "cross": (B, H, T, S)},
}


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("kind", Positions.KINDS)
@pytest.mark.parametrize("wiring", SHAPES)
@torch.no_grad()
def test_maps_of_every_layer_and_the_same_output(wiring, kind, window):
    model, inputs = make(wiring, positions=kind, window=window)
    expected, seen = model(*inputs), []
    model.register_forward_hook(lambda *given: seen.append(given[2]))
    maps = attention_maps(model, *inputs)
    assert {name: [tuple(layer.shape) for layer in layers] for name, layers in maps.items()} == {
        name: [shape] * 3 for name, shape in SHAPES[wiring].items()
    }
    assert torch.equal(seen[0], expected)
    for layer in (layer for layers in maps.values() for layer in layers):
        torch.testing.assert_close(layer.sum(dim=-1), torch.ones(layer.shape[:-1]), atol=1e-6, rtol=0)
    near = "decoder" if wiring == "encoder-decoder" else "self"
    places = torch.arange(T)
    distance = places[:, None] - places[None]
    allowed = (distance >= 0 if wiring != "encoder" else distance > -T) & (distance.abs() < (window or T))
    assert all(torch.equal(layer > 0, allowed.expand_as(layer)) for layer in maps[near])


@torch.no_grad()
def test_maps_give_the_layers_own_output():
    """Weights times values, projected, is what the layer returned: the map is what was used, not something like it."""
    model, inputs = make("decoder", n_kv_heads=1)
    layer, seen = model.stack.blocks[1].attention.layer, []
    layer.register_forward_hook(lambda *given: seen.append((given[1][0], given[2])))
    weights = attention_maps(model, *inputs)["self"][1]
    x, y = seen[0]
    values = layer.qkv(x)[..., -10:]  # (B, T, K), the one key-value head's
    torch.testing.assert_close(layer.out((weights @ values[:, None]).transpose(1, 2).flatten(2)), y)


@pytest.mark.parametrize("changes", [{}, {"n_kv_heads": 1, "positions": "alibi"}, {"window": 3, "qk_norm": True}])
@pytest.mark.parametrize("wiring", SHAPES)
def test_maps_are_what_the_fused_kernel_weighs_by(wiring, changes, monkeypatch):
    model, inputs = make(wiring, **changes)
    assert 0 < fused_difference(model, *inputs) < 1e-6
    wrong = "headway.models.analysis.maps.attention_weights"
    monkeypatch.setattr(wrong, lambda q, k, mask, causal: torch.full((*q.shape[:3], k.shape[2]), 1 / k.shape[2]))
    assert fused_difference(model, *inputs) > 1e-3


@torch.no_grad()
def test_padding_and_cached_keys_show():
    model, (ids,) = make("decoder")
    mask = torch.ones(B, T).bool()
    mask[1, :3] = False
    state = model.new_state()
    model(ids, mask, state)
    maps = attention_maps(model, ids[:, :2], state=state)
    assert maps["self"][0].shape == (B, H, 2, T + 2)
    assert (maps["self"][0][1, :, :, :3] == 0).all()


def test_what_attends_is_put_back():
    model, inputs = make("encoder-decoder")
    layers = [layer for layer in model.modules() if isinstance(layer, Attention)]
    heard = []
    layers[0].attend = lambda *given: (heard.append(given), attend(*given))[1]
    before = [layer.attend for layer in layers]
    attention_maps(model, *inputs)
    assert len(heard) == 1
    with pytest.raises(TypeError):
        attention_maps(model)
    assert [layer.attend for layer in layers] == before


def test_other_modules_are_refused():
    with pytest.raises(TypeError, match="Linear is not an Encoder, a Decoder or an EncoderDecoder"):
        attention_maps(torch.nn.Linear(3, 5), torch.zeros(3))
