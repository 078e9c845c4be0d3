"""The logit lens: its last row is what the model says, its first what its embeddings say."""

import pytest
import torch

from headway.models.analysis.logits import logit_lens
from headway.models.baselines import BaselineConfig, RecurrentDecoder
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, MaskedTokenHead, PoolingHead, VectorHead
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

B, T, S, V, L = 3, 7, 11, 31, 3
CONFIG = TransformerConfig(V, d_model=20, n_heads=2, n_layers=L)


def made(kind, config=CONFIG):
    torch.manual_seed(0)
    if kind == "encoder-decoder":
        return EncoderDecoder(config).eval(), (torch.randint(V, (B, S)), torch.randint(V, (B, T))), (B, T, V)
    if kind == "decoder":
        return Decoder(config).eval(), (torch.randint(V, (B, T)),), (B, T, V)
    model = Encoder(config)
    if kind == "masked":
        model.head = MaskedTokenHead(config, model.stack.embedding.tokens)
    else:
        model.head = ClassificationHead(config, 5)
    return model.eval(), (torch.randint(V, (B, T)),), (B, T, V) if kind == "masked" else (B, 5)


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("kind", ["decoder", "encoder-decoder", "masked", "classes"])
@torch.no_grad()
def test_the_last_row_is_the_models_own_answer(kind, order):
    model, inputs, shape = made(kind, CONFIG.but(norm_order=order))
    mask = torch.arange(inputs[0].shape[1])[None] < torch.tensor([[3], [5], [7]])
    given = {"source_mask" if kind == "encoder-decoder" else "mask": mask}
    found = logit_lens(model, *inputs, **given)
    assert found.shape == (L + 1, *shape) and not found.requires_grad
    assert torch.equal(found[-1], model(*inputs, **given))
    assert not torch.allclose(found[-1], found[-2], atol=1e-3)


@torch.no_grad()
def test_rows_are_those_of_shorter_models():
    """Row l is what the model says when its later blocks are taken away."""
    model, inputs, _ = made("decoder")
    found = logit_lens(model, *inputs)
    blocks = model.stack.blocks
    for layer in range(L + 1):
        model.stack.blocks = blocks[:layer]
        assert torch.equal(model(*inputs), found[layer])


def test_hooks_are_taken_away_and_others_are_refused():
    model, inputs, _ = made("masked")
    with pytest.raises(TypeError):
        logit_lens(model)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with pytest.raises(TypeError, match="Linear is not an Encoder, a Decoder or an EncoderDecoder"):
        logit_lens(torch.nn.Linear(3, 5), torch.zeros(3))
    with pytest.raises(TypeError, match=r"RecurrentDecoder is not .* of Transformer blocks"):
        logit_lens(RecurrentDecoder(BaselineConfig("lstm", V, d_model=20)), *inputs)
    with pytest.raises(ValueError, match="the model has no head"):
        logit_lens(Encoder(CONFIG), *inputs)
    with pytest.raises(ValueError, match="a PoolingHead"):
        logit_lens(Encoder(CONFIG, PoolingHead()), *inputs)
    with pytest.raises(ValueError, match="a VectorHead"):
        logit_lens(Decoder(CONFIG, VectorHead()), *inputs)
