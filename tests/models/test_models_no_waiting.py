"""No step waits for an accelerator: tensors without values, which cannot be looked at, go through every model.

A tensor on the device "meta" has a shape alone.  What turns one into a number, or makes a shape of its values, raises.
"""

import pytest
import torch

from headway.models.config import Patches, Positions, RopeScaling, TransformerConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.kernels.dispatch import cross_entropy

B, S, T, V = 3, 5, 7, 31
KINDS = {kind: Positions(kind) for kind in Positions.KINDS}  # type: ignore[arg-type]
KINDS |= {f"rotary, {kind}": Positions("rotary", scaling=RopeScaling(kind, 2.0)) for kind in RopeScaling.KINDS}  # type: ignore[arg-type]


def meta(*shape: int, dtype: torch.dtype = torch.long) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def config(kind: str, **changes) -> TransformerConfig:
    sizes = {"d_model": 24, "n_heads": 4, "n_kv_heads": 2, "n_layers": 2, "max_length": 2 * T, "dropout": 0.1}
    return TransformerConfig(V, positions=KINDS[kind], **{**sizes, **changes})


def test_looking_at_one_raises():
    with pytest.raises(RuntimeError):
        int(meta(3).max())
    with pytest.raises((RuntimeError, NotImplementedError)):
        meta(3, dtype=torch.bool).nonzero()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step(kind, window, padded):
    real, source_real = (meta(B, n, dtype=torch.bool) if padded else None for n in (T, S))
    for model, given in (
        (Decoder(config(kind, window=window)), (meta(B, T), real)),
        (Encoder(config(kind, window=window)), (meta(B, T), real)),
        (EncoderDecoder(config(kind, window=window)), (meta(B, S), meta(B, T), source_real)),
    ):
        logits = model.to("meta")(*given).flatten(0, 1)
        cross_entropy(logits, meta(len(logits)), 0.1).backward()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_reading_on_from_a_state(kind, padded):
    model = Decoder(config(kind)).to("meta").eval()
    state = model.new_state()
    with torch.no_grad():
        model.next_logits(meta(B, T), meta(B, T, dtype=torch.bool) if padded else None, state)
        state.reorder(torch.tensor([2, 0]))  # the rows are known on the host
        assert model.next_logits(meta(2, 1), None, state).shape == (2, V)


def test_a_source_is_looked_at_once():
    model = EncoderDecoder(config("learned")).to("meta").eval()
    state, real = model.new_state(), meta(B, S, dtype=torch.bool)
    model.next_logits(meta(B, 1), model.encode(meta(B, S), real), real, state)  # with a gradient: unchecked
    with torch.no_grad():
        for rows in ([0, 0, 1, 1], [1, 0, 2, 2], [2, 3]):
            state.reorder(torch.tensor(rows))
            model.next_logits(meta(len(rows), 1), meta(B, S, 24, dtype=torch.float32), None, state)


def test_images():
    patches = Patches((8, 6), (2, 2), 3)
    shape = {"d_model": 24, "n_heads": 4, "n_layers": 2, "max_length": patches.tokens, "positions": "learned"}
    model = Encoder(TransformerConfig(0, **shape), patches=patches)  # type: ignore[arg-type]
    model.to("meta")(meta(B, 3, 8, 6, dtype=torch.float32)).sum().backward()
