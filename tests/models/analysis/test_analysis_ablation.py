"""Heads switched off, and the residual stream."""

import pytest
import torch

from headway.models.analysis import heads_off, logit_lens, residual_stream
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

IDS = torch.tensor([[3, 5, 7, 11, 13]])
CONFIG = TransformerConfig(31, d_model=24, n_layers=2, n_heads=3, n_kv_heads=1, max_length=17)


def spread(model: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model.eval()


@torch.no_grad()
def test_a_head_off_is_a_head_without_output_weights():
    model = spread(Decoder(CONFIG))
    whole = model(IDS)
    with heads_off(model, [("self", 1, 2)]):
        off = model(IDS)
    out = model.stack.blocks[1].attention.layer.out.weight
    kept = out.clone()
    out[:, 16:24] = 0
    assert (off - model(IDS)).abs().max() < 1e-5 and (off - whole).abs().max() > 1e-3
    out.copy_(kept)
    assert torch.equal(model(IDS), whole)


@torch.no_grad()
def test_cross_attention_and_wrong_heads():
    model = spread(EncoderDecoder(CONFIG))
    whole = model(IDS, IDS)
    for kind in ("encoder", "decoder", "cross"):
        with heads_off(model, [(kind, 0, 1)]):
            assert (model(IDS, IDS) - whole).abs().max() > 1e-4
    for wrong in (("self", 0, 0), ("cross", 2, 0), ("cross", 0, 3), ("cross", -1, 0)):
        with pytest.raises(ValueError, match="there is no head"), heads_off(model, [("decoder", 0, 0), wrong]):
            pass
    assert torch.equal(model(IDS, IDS), whole)
    with pytest.raises(TypeError), heads_off(torch.nn.Linear(2, 2), [("self", 0, 0)]):
        pass


@torch.no_grad()
def test_the_stream_is_what_the_lens_reads():
    model = spread(Decoder(CONFIG))
    stream = residual_stream(model, IDS)
    assert stream.shape == (3, 1, 5, 24)
    assert torch.equal(model.head(model.stack.norm(stream[-1])), model(IDS))
    assert torch.equal(torch.stack([model.head(model.stack.norm(x)) for x in stream]), logit_lens(model, IDS))
    assert residual_stream(spread(Encoder(CONFIG)), IDS).shape == (3, 1, 5, 24)
