"""What was computed from a configuration equals what is counted on the model built from it."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.models.config import Patches, Positions, TransformerConfig
from headway.models.heads import (
    ClassificationHead,
    HeadSize,
    MaskedTokenHead,
    Pooler,
    TokenClassificationHead,
    TokenHead,
    VectorHead,
)
from headway.models.size import (
    cache_bytes,
    flops_per_token,
    forward_flops,
    optimizer_bytes,
    parameters,
    training_flops,
    weight_bytes,
)
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.kernels.attention import attend_oracle

B, T, S, V = 3, 7, 11, 31
SMALL = TransformerConfig(V, d_model=13, n_heads=6, n_kv_heads=3, d_head=10, d_ff=17, n_layers=3, max_length=19)
CONFIGS = {
    "plain": SMALL,
    "untied": SMALL.but(tied=False),
    "not gated": SMALL.but(gated=False),
    "default widths": TransformerConfig(V, d_model=20, n_heads=2, n_layers=2),
    "biases": SMALL.but(bias=("qkv", "out", "ff", "head")),
    "post-norm, both": SMALL.but(norm_order="post", norm="layernorm", norm_parameters="both"),
    "layer norm, γ": SMALL.but(norm="layernorm"),
    "no γ": SMALL.but(norm_parameters="none", qk_norm=True),
    "ModernBERT's": SMALL.but(embedding_norm=True, first_norm=False, norm="layernorm", norm_parameters="both"),
    "normalised heads": SMALL.but(qk_norm=True, norm="layernorm", norm_parameters="both"),
    "segments, learned": SMALL.but(segments=2, positions=Positions("learned", start=2)),
    "relative": SMALL.but(positions=Positions("relative", buckets=8)),
    "window": SMALL.but(window=(3, None, 2)),
    "window, alibi": SMALL.but(window=3, positions="alibi"),
}
WIRINGS = ["decoder", "last token", "vectors", "encoder", "masked", "classes", "pooler", "encoder-decoder", "two sizes"]
WIRINGS += ["two tables", "target vectors", "tags", "tags, dense"]


def build(config, wiring):
    """A model, the inputs it takes, and the words by which ``size`` is told the same."""
    ids, source = torch.randint(V, (B, T)), torch.randint(V, (B, S))
    if wiring == "decoder":
        return Decoder(config), (ids,), {}
    if wiring == "last token":
        head = ClassificationHead(config, 5, pooling="last", dense=False, out_bias=False)
        return Decoder(config, head), (ids,), {"head": head.size()}
    if wiring == "vectors":
        return Decoder(config, VectorHead()), (ids,), {"head": HeadSize()}
    if wiring == "encoder-decoder":
        return EncoderDecoder(config), (source, ids), {"wiring": "encoder-decoder"}
    if wiring == "two tables":
        return EncoderDecoder(config, shared=False), (source, ids), {"wiring": "encoder-decoder", "shared": False}
    if wiring == "target vectors":
        model = EncoderDecoder(config)
        model.head = VectorHead()
        return model, (source, ids), {"wiring": "encoder-decoder", "head": HeadSize()}
    if wiring == "two sizes":
        other = config.but(d_model=config.d_model + 4, d_ff=23)
        return EncoderDecoder(config, other), (source, ids), {"wiring": "encoder-decoder", "encoder": other}
    model, words = Encoder(config), {"wiring": "encoder"}
    if wiring == "masked":
        model.head = MaskedTokenHead(config, model.stack.embedding.tokens)
        words["head"] = MaskedTokenHead.size_of(config)
    elif wiring == "classes":
        model.head = ClassificationHead(config, 5, norm=True)
        words["head"] = ClassificationHead.size_of(config, 5)
    elif wiring.startswith("tags"):
        dense = "dense" in wiring
        model.head = TokenClassificationHead(config, 5, dense=dense)
        words["head"] = model.head.size()
    elif wiring == "pooler":
        model.head, model.pooler = ClassificationHead(config, 5, dense=False), Pooler(config)
        words = {**words, "head": ClassificationHead.size_of(config, 5, dense=False), "pooler": True}
    return model, (ids,), words


@pytest.mark.parametrize("name", CONFIGS)
def test_a_planned_head_is_as_large_as_the_head(name):
    """What is computed before a head is built is what the head says of itself, and of its weights."""
    config = CONFIGS[name]
    tokens = Decoder(config).stack.embedding.tokens
    heads = [(ClassificationHead(config, 5, dense=False), ClassificationHead.size_of(config, 5, dense=False))]
    heads += [
        (ClassificationHead(config, 5, norm=True), ClassificationHead.size_of(config, 5)),
        *(
            (MaskedTokenHead(config, tokens, dense_bias=bias), MaskedTokenHead.size_of(config, dense_bias=bias))
            for bias in (True, False)
        ),
        (TokenHead(config, tokens), TokenHead.size_of(config)),
    ]
    for head, planned in heads:
        assert head.size() == planned
        assert planned.matrices + planned.biases + planned.norms == counted(head)
        tied = config.tied and not isinstance(head, ClassificationHead)
        assert planned.shared == (tokens.weight.numel() if tied else 0)
        assert planned.gives.each_token == (not isinstance(head, ClassificationHead))


def counted(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("name", CONFIGS)
def test_parameters(name, wiring):
    model, _, words = build(CONFIGS[name], wiring)
    parts = parameters(CONFIGS[name], **words)
    assert parts["total"] == counted(model)
    assert parts["block"] == counted((model.decoder if "cross" in str(model) else model.stack).blocks[-1])
    assert parts["total"] == sum(count for part, count in parts.items() if part not in ("block", "total"))


def test_parameters_by_part():
    parts, model = parameters(SMALL), Decoder(SMALL)
    blocks = model.stack.blocks
    assert parts["embedding"] == counted(model.stack.embedding)
    assert parts["attention"] == sum(counted(block.attention.layer) for block in blocks)
    assert parts["feedforward"] == sum(counted(block.feedforward.layer) for block in blocks)
    assert parts["norms"] == (2 * 3 + 1) * 13
    assert parts["head"] == parts["cross"] == 0


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("name", ["plain", "default widths", "not gated", "window", "window, alibi"])
def test_flops(name, wiring, monkeypatch):
    """torch's counter does not know a CPU's fused kernel, so the oracle, the same products in the open, stands in."""

    def attention(q, k, v, attn_mask=None, is_causal=False, dropout_p=0.0):
        return attend_oracle(q, k, v, attn_mask, is_causal)[0]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", attention)
    model, inputs, words = build(CONFIGS[name], wiring)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(*inputs)
    source = {"source_length": S} if len(inputs) == 2 else {}
    assert forward_flops(CONFIGS[name], B, T, **words, **source) == counter.get_total_flops()


def test_a_model_that_reads_images(monkeypatch):
    patches = Patches((15, 14), (5, 7), channels=2)
    config = SMALL.but(vocab_size=0, positions="learned", max_length=patches.tokens)
    model = Encoder(config, ClassificationHead(config, 5, dense=False), Pooler(config), patches=patches)
    head = ClassificationHead.size_of(config, 5, dense=False)
    words = {"wiring": "encoder", "head": head, "pooler": True, "patches": patches}
    parts = parameters(config, **words)
    assert parts["total"] == counted(model)
    assert parts["embedding"] == counted(model.stack.embedding)
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda q, k, v, **_: attend_oracle(q, k, v)[0]
    )
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(torch.randn(B, 2, 15, 14))
    assert forward_flops(config, B, patches.tokens, **words) == counter.get_total_flops()


def test_training_takes_about_three_forward_passes(monkeypatch):
    """Exactly twice the forward pass, but that no gradient is needed for the embedding's lookup."""
    config = SMALL.but(positions="none")
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda q, k, v, **_: attend_oracle(q, k, v, causal=True)[0]
    )
    model = Decoder(config)
    with FlopCounterMode(display=False) as counter:
        model(torch.randint(V, (B, T))).sum().backward()
    assert training_flops(forward_flops(config, B, T)) == counter.get_total_flops()
    assert flops_per_token(config, T) * T * B == pytest.approx(forward_flops(config, B, T))


def test_a_window_makes_the_cost_linear_in_the_length():
    near, far = SMALL.but(window=2), SMALL
    assert forward_flops(near, 1, 808) == 2 * forward_flops(near, 1, 404)
    assert forward_flops(far, 1, 808) > 2.5 * forward_flops(far, 1, 404)


@pytest.mark.parametrize(("dtype", "bytes_each"), [(torch.float32, 4), (torch.bfloat16, 2)])
def test_bytes_of_weights_and_cache(dtype, bytes_each):
    model = Decoder(SMALL).to(dtype).eval()
    real = sum(parameter.nbytes for parameter in model.parameters())
    assert weight_bytes(parameters(SMALL)["total"], bytes_each) == real
    state = model.new_state()
    with torch.no_grad():
        model(torch.randint(V, (B, T)), state=state)
    real = sum(part.nbytes for cache in state.layers for part in cache.read())
    assert cache_bytes(SMALL, B, T, bytes_each=bytes_each) == real


def test_bytes_of_a_cache_with_a_source():
    model = EncoderDecoder(SMALL).eval()
    state = model.new_state()
    with torch.no_grad():
        model.decode(torch.randint(V, (B, T)), model.encode(torch.randint(V, (B, S))), None, state)
    real = sum(part.nbytes for cache in [*state.layers, *state.cross] for part in cache.read())
    assert cache_bytes(SMALL, B, T, source_length=S) == real


def test_bytes_of_training():
    model = Decoder(SMALL)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randint(V, (B, T))).sum().backward()
    optimizer.step()
    states = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    real = sum(p.nbytes + p.grad.nbytes for p in model.parameters()) + sum(state.nbytes for state in states)
    total = parameters(SMALL)["total"]
    assert 8 * total + optimizer_bytes(total, 0, "adamw") == real


@pytest.mark.parametrize(
    "words",
    [
        {"wiring": "cross"},
        {"encoder": SMALL},
        {"head": MaskedTokenHead.size_of(SMALL)},
        {"wiring": "encoder-decoder", "head": ClassificationHead.size_of(SMALL, 5)},
        {"pooler": True},
        {"patches": Patches()},
        {"wiring": "encoder", "encoder": SMALL},
    ],
)
def test_what_cannot_be_built_is_refused(words):
    with pytest.raises(ValueError, match="wiring"):
        parameters(SMALL, **words)
