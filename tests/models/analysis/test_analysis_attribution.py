"""Gradient times input: against finite differences, and exact where a model is linear in its tokens."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from headway.models.analysis.logits import gradient_times_input
from headway.models.baselines import BaselineConfig, RecurrentDecoder
from headway.models.config import Patches, TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.runtime.precision import available, prepare

B, T, S, V, C = 3, 7, 11, 31, 5
CONFIG = TransformerConfig(V, d_model=20, n_heads=2, n_layers=2)


def made(kind, config=CONFIG):
    torch.manual_seed(0)
    ids, source = torch.randint(V, (B, T)), torch.randint(V, (B, S))
    if kind == "encoder-decoder":
        return EncoderDecoder(config).double().eval(), (source, ids), (4, 13)
    if kind == "decoder":
        return Decoder(config).double().eval(), (ids,), (4, 13)
    model = Encoder(config)
    model.head = ClassificationHead(config, C)
    return model.double().eval(), (ids,), (3,)


def scaled(table, place, size):
    """Token vectors at one place times ``size``."""

    def hook(_module, _given, result):
        factors = torch.ones(result.shape[1], 1, dtype=result.dtype)
        factors[place] = size
        return result * factors

    return table.register_forward_hook(hook)


@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder", "classes"])
def test_finite_differences(kind):
    model, inputs, logit = made(kind)
    found = gradient_times_input(model, *inputs, logit=logit)
    if kind == "encoder-decoder":
        tables = {"source": model.encoder.embedding.tokens, "target": model.decoder.embedding.tokens}
    else:
        tables = {"self": model.stack.embedding.tokens}
    assert set(found) == set(tables)
    step = 1e-5
    for name, table in tables.items():
        assert found[name].shape == (B, S if name == "source" else T)
        for place in range(found[name].shape[1]):
            sides = []
            for size in (1 + step, 1 - step):
                hook = scaled(table, place, size)
                with torch.no_grad():
                    sides.append(model(*inputs)[(slice(None), *logit)])
                hook.remove()
            slope = (sides[0] - sides[1]) / (2 * step)
            torch.testing.assert_close(found[name][:, place], slope, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(("position", "taken"), [("rotary", "norm"), ("learned", "tokens")])
def test_a_norm_that_follows_a_tokens_vector_does_not_hide_it(position, taken):
    """The length before a norm changes nothing: gradient × input there would be 0 for every token."""
    config = replace(CONFIG, embedding_norm=True, positions=position)
    model, inputs, logit = made("decoder", config)
    found = gradient_times_input(model, *inputs, logit=logit)["self"]
    assert found[:, : logit[0] + 1].abs().max() > 1e-3
    step, sides = 1e-5, []
    for size in (1 + step, 1 - step):
        hook = scaled(getattr(model.stack.embedding, taken), 2, size)
        with torch.no_grad():
            sides.append(model(*inputs)[(slice(None), *logit)])
        hook.remove()
    torch.testing.assert_close(found[:, 2], (sides[0] - sides[1]) / (2 * step), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "int8", "int4"])
def test_products_without_gradients_are_refused(precision):
    """bfloat16's would be 0 for every token, without a word."""
    if precision not in available(torch.device("cpu")):
        pytest.skip(f"this processor has no {precision}")
    model = Decoder(replace(CONFIG, d_model=64)).eval()
    prepare(model, precision)
    with pytest.raises(TypeError, match="load the model in float32"):
        gradient_times_input(model, torch.randint(V, (1, T)), logit=(4, 13))


def test_of_a_linear_model_they_add_up_to_the_logit():
    """Without blocks, norms or positions a mean and a matrix are left: each token's part of the logit is exact."""
    model, inputs, logit = made("classes", CONFIG.but(positions="none"))
    model.stack.blocks, model.stack.norm = nn.ModuleList(), nn.Identity()
    model.head = ClassificationHead(CONFIG, C, dense=False).double()
    nn.init.zeros_(model.head.out.bias)
    found = gradient_times_input(model, *inputs, logit=logit)["self"]
    parts = model.stack.embedding.tokens(inputs[0]) @ model.head.out.weight[3] / T  # (B, T)
    torch.testing.assert_close(found, parts)
    torch.testing.assert_close(found.sum(dim=1), model(*inputs)[:, 3])


def test_a_baseline_has_attributions_too():
    torch.manual_seed(0)
    model = RecurrentDecoder(BaselineConfig("lstm", V, d_model=20)).eval()
    found = gradient_times_input(model, torch.randint(V, (B, T)), logit=(4, 13))["self"]
    assert found.shape == (B, T) and (found[:, :5] != 0).all() and (found[:, 5:] == 0).all()


def test_what_cannot_be_seen_has_no_part():
    model, inputs, _ = made("decoder")
    found = gradient_times_input(model, *inputs, logit=(torch.tensor([2, 0, 6]), torch.tensor([1, 2, 3])))["self"]
    for row, last in enumerate((2, 0, 6)):
        assert (found[row, : last + 1] != 0).all() and (found[row, last + 1 :] == 0).all()
    model, inputs, logit = made("classes")
    mask = torch.arange(T)[None] < torch.tensor([[3], [5], [7]])
    found = gradient_times_input(model, *inputs, mask, logit=logit)["self"]
    assert ((found != 0) == mask).all()
    alone = gradient_times_input(model, inputs[0][:1, :3], logit=logit)["self"]
    torch.testing.assert_close(found[:1, :3], alone)


def test_nothing_is_left_behind_and_others_are_refused():
    model, inputs, _ = made("decoder")
    with torch.no_grad():
        found = gradient_times_input(model, *inputs, logit=(-1, 0))
    assert not found["self"].requires_grad and all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    for wrong in ((1,), (T, 0), (0, V)):
        with pytest.raises(ValueError, match="give one index for each, within it"):
            gradient_times_input(model, *inputs, logit=wrong)
    with pytest.raises(TypeError, match="Linear is not"):
        gradient_times_input(nn.Linear(3, 5), torch.zeros(3), logit=(0,))
    images = Encoder(CONFIG.but(vocab_size=0, positions="learned", max_length=5), patches=Patches((10, 10), (5, 5)))
    with pytest.raises(TypeError, match="reads images"):
        gradient_times_input(images, torch.zeros(1, 3, 10, 10), logit=(0,))
