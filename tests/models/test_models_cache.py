"""Reading piece by piece, in a batch, or with padding changes only the speed."""

import itertools

import pytest
import torch

from headway.models.config import Positions, RopeScaling, TransformerConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder

B, T, S, V = 3, 7, 11, 31
KINDS = Positions.KINDS
EXACT = {"atol": 1e-5, "rtol": 0}


def config(positions="rotary", **changes):
    """Thirteen wide, six heads of ten in three groups, two layers: no two sizes alike."""
    sizes = {"d_model": 13, "n_heads": 6, "n_kv_heads": 3, "d_head": 10, "d_ff": 17, "n_layers": 2, "max_length": 19}
    return TransformerConfig(V, positions=Positions(positions, buckets=8, max_distance=16), **{**sizes, **changes})


def redraw(model):
    """Every weight from a normal, so that no part is invisible; in eval mode."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0.0, 0.5, generator=generator)
    return model.eval()


def make_ids(*shape):
    return torch.randint(V, shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture(
    params=itertools.product(KINDS, ("layernorm", "rmsnorm"), ("pre", "post"), (None, 3), (False, True)),
    ids=lambda values: "-".join(map(str, values)),
)
def varied(request):
    """Every position encoding × norm × norm order × window × normalised queries and keys."""
    kind, norm, order, window, qk_norm = request.param
    windows = None if window is None else (window, None)
    return config(kind, norm=norm, norm_order=order, window=windows, qk_norm=qk_norm)


def test_decoder_cached_padded_and_batched_equal_single(varied):
    check_decoder(varied)


@torch.no_grad()
def check_decoder(varied):
    """Read in pieces, or in a batch with padding on either side, a decoder gives what it gives a text alone."""
    model, ids = redraw(Decoder(varied)), make_ids(B, T)
    whole = model(ids)
    state = model.new_state()
    pieces = [model(piece, state=state) for piece in ids.split([3, 1, 2, 1], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, **EXACT)
    assert torch.equal(torch.cat(pieces, dim=1).argmax(-1), whole.argmax(-1))
    assert state.length == T

    lengths = (T, 2, 5)
    for side in ("left", "right"):
        padded, mask = pad(ids, lengths, side)
        together = model(padded, mask)
        for row, length in enumerate(lengths):
            torch.testing.assert_close(together[row, mask[row]], model(ids[row : row + 1, :length])[0], **EXACT)


def pad(ids, lengths, side):
    """Rows cut to ``lengths``, with padding on one side, and the mask of what is a token."""
    padded, mask = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for row, length in enumerate(lengths):
        place = slice(0, length) if side == "right" else slice(ids.shape[1] - length, None)
        padded[row, place], mask[row, place] = ids[row, :length], True
    return padded, mask


@pytest.mark.parametrize("kind", RopeScaling.KINDS)
@torch.no_grad()
def test_a_stretched_rotation_cached_padded_and_batched_equals_single(kind):
    """Past the original length of 5 too, but for "dynamic" with a cache, which is exact up to that length alone."""
    scaling = RopeScaling(kind, 3.0, T if kind == "dynamic" else 5, slow=0.1, fast=1.3, size=1.2)
    varied = config().but(positions=Positions(base=101.0, scaling=scaling))
    check_decoder(varied)
    shorter = RopeScaling(kind, 3.0, 4, slow=0.1, fast=1.3)
    model, ids = redraw(Decoder(config().but(positions=Positions(base=101.0, scaling=shorter)))), make_ids(B, T)
    padded, mask = pad(ids, (T, 2, 5), "left")
    for row, length in enumerate((T, 2, 5)):
        torch.testing.assert_close(model(padded, mask)[row, mask[row]], model(ids[row : row + 1, :length])[0], **EXACT)
    state = model.new_state()
    cached = torch.cat([model(piece, state=state) for piece in ids.split([3, 1, 3], dim=1)], dim=1)
    assert ((cached - model(ids)).abs().max() < 1e-5) == (kind != "dynamic")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_encoder_batch_equals_single(kind, window, order, side):
    model, ids, lengths = redraw(Encoder(config(kind, window=window, norm_order=order))), make_ids(B, T), (T, 2, 5)
    padded, mask = pad(ids, lengths, side)
    together = model(padded, mask)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(together[row, mask[row]], model(ids[row : row + 1, :length])[0], **EXACT)


def greedy(model, ids, mask, n_new):
    """Continue every row by its most likely token."""
    state, found = model.new_state(), []
    logits = model.next_logits(ids, mask, state)
    for _ in range(n_new):
        found.append(logits.argmax(dim=-1))
        logits = model.next_logits(found[-1][:, None], state=state)
    return torch.stack(found, dim=1)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_greedy_continuation_of_prompts_of_mixed_lengths(kind, window):
    model, ids, lengths = redraw(Decoder(config(kind, window=window))), make_ids(B, T), (T, 2, 5)
    padded, mask = pad(ids, lengths, "left")
    found = greedy(model, padded, mask, 5)
    for row, length in enumerate(lengths):
        text = ids[row : row + 1, :length]
        for _ in range(5):  # without a cache and without padding
            text = torch.cat([text, model(text)[:, -1:].argmax(dim=-1)], dim=1)
        assert found[row].tolist() == text[0, length:].tolist()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_padding_may_come_between_pieces(kind):
    """A batch whose pieces have padding here and there reads as the tokens alone would."""
    model, ids = redraw(Decoder(config(kind))), make_ids(1, T)
    expected = model(ids)[0]
    padded = torch.cat([ids[:, :2], ids[:, :1], ids[:, 2:4], ids[:, :1], ids[:, 4:]], dim=1)
    mask = torch.tensor([[1, 1, 0, 1, 1, 0, 1, 1, 1]]).bool()
    state, found = model.new_state(), []
    for piece, given in zip(padded.split([2, 3, 2, 2], 1), (None, mask[:, 2:5], mask[:, 5:7], None), strict=True):
        found.append(model(piece, given, state))
    torch.testing.assert_close(torch.cat(found, dim=1)[0, mask[0]], expected, **EXACT)


@torch.no_grad()
def test_a_reordered_state_continues_the_rows_it_keeps():
    model, ids, rows = redraw(Decoder(config())), make_ids(B, T), torch.tensor([2, 0, 0, 1])
    padded, mask = pad(ids, (T, 2, 5), "left")
    state, more = model.new_state(), make_ids(4, 2)
    model(padded, mask, state)
    state.reorder(rows)
    mask = torch.cat([mask[rows], torch.ones(4, 2).bool()], dim=1)
    expected = model(torch.cat([padded[rows], more], dim=1), mask)[:, T:]
    torch.testing.assert_close(model(more, state=state), expected, **EXACT)


def translator(kind="rotary", **changes):
    return redraw(EncoderDecoder(config(kind, **changes), config(kind, d_model=17, n_layers=3, **changes)))


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("qk_norm", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_encoder_decoder_cached_equals_uncached_and_reads_the_source_once(kind, qk_norm, order):
    model = translator(kind, norm_order=order, qk_norm=qk_norm)
    source, target = make_ids(B, S), make_ids(B, T)
    source, source_mask = pad(source, (S, 5, 2), "right")
    whole = model(source, target, source_mask)
    calls = []
    for block in model.decoder.blocks:
        block.cross.layer.kv.register_forward_hook(lambda *_: calls.append(1))
    state, encoded = model.new_state(), model.encode(source, source_mask)
    pieces = [model.decode(piece, encoded, source_mask, state) for piece in target.split([1, 1, 3, 2], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, **EXACT)
    assert len(calls) == len(model.decoder.blocks)

    alone = model(source[1:2, :5], target[1:2])  # the source mask: padding of the source changes nothing
    torch.testing.assert_close(whole[1:2], alone, **EXACT)


@torch.no_grad()
def test_an_encoder_decoder_state_reorders_the_source_too():
    model, rows = translator(), torch.tensor([2, 2, 0])
    source, source_mask = pad(make_ids(B, S), (S, 5, 2), "right")
    target, state, encoded = make_ids(B, T), model.new_state(), model.encode(source, source_mask)
    model.decode(target[:, :3], encoded, source_mask, state)
    state.reorder(rows)
    expected = model.decode(target[rows], encoded[rows], source_mask[rows])[:, 3:]
    torch.testing.assert_close(model.decode(target[rows, 3:], encoded, None, state), expected, **EXACT)


@torch.no_grad()
def test_a_source_without_tokens_is_refused():
    with pytest.raises(ValueError, match="source 2 of the batch has no tokens"):
        translator()(make_ids(B, S), make_ids(B, T), torch.tensor([[True] * S, [True] * S, [False] * S]))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_learned_positions_alone_end_at_the_trained_length(kind):
    model = redraw(Decoder(config(kind)))
    model(make_ids(1, 19))
    if kind == "learned":
        with pytest.raises(ValueError, match="20 tokens, but this model has learned positions for 19"):
            model(make_ids(1, 20))
        state = model.new_state()
        model(make_ids(1, 19), state=state)
        with pytest.raises(ValueError, match="20 tokens"):
            model(make_ids(1, 1), state=state)
    else:
        assert model(make_ids(1, 29)).isfinite().all()


@torch.no_grad()
def test_learned_positions_count_tokens_and_not_padding():
    model, state = redraw(Decoder(config("learned"))), None
    ids, mask = make_ids(2, 23), torch.arange(23) >= torch.tensor([[4], [12]])  # 19 tokens and 11, with left padding
    torch.testing.assert_close(model(ids, mask)[0, 4:], model(ids[:1, 4:])[0], **EXACT)
    state = model.new_state()
    model(ids, mask, state)
    with pytest.raises(ValueError, match="20 tokens, but this model has learned positions for 19"):
        model(make_ids(2, 1), state=state)
    state = model.new_state()
    model(ids[1:], mask[1:], state)
    longer = torch.cat([ids[1:], make_ids(1, 1)], dim=1)
    expected = model(longer[:, 12:])[:, -1:]
    torch.testing.assert_close(model(longer[:, -1:], state=state), expected, **EXACT)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("cached", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_token_never_sees_a_later_one(kind, cached, window):
    """The gradient of each token's logits with respect to a later token's vector is exactly zero."""
    model, ids, state, seen = redraw(Decoder(config(kind, window=window))), make_ids(1, T), None, []
    if cached:
        state = model.new_state()
        with torch.no_grad():
            model(ids[:, :cached], state=state)
    model.stack.embedding.register_forward_hook(lambda *given: seen.append(given[2].requires_grad_()) or given[2])
    logits = model(ids[:, cached:], state=state)
    for t in range(T - cached):
        (grad,) = torch.autograd.grad(logits[0, t].square().sum(), seen[0], retain_graph=True)
        reached = grad[0].abs().sum(dim=-1) > 0
        assert reached.nonzero().flatten().max() == t


@torch.no_grad()
def test_hypotheses_of_one_source_share_its_keys():
    """Whatever is kept, repeated and moved: each row reads on as if it had been alone with its source."""
    model, sources, start = redraw(EncoderDecoder(config())), make_ids(B, S), make_ids(B, 1)
    mask = torch.arange(S) < torch.tensor([[S], [4], [7]])
    state, source = model.new_state(), model.encode(sources, mask)
    model.next_logits(start, source, mask, state)
    of, read = torch.arange(B), start  # by row, its source and what it has read
    moves = [  # rows kept, and how many sources are cached after it
        ([0, 0, 1, 1, 2, 2], 3),
        ([1, 0, 2, 2, 5, 4], 3),
        ([2, 3, 4, 5], 2),
        ([0, 1, 2], 3),
        ([2, 0], 2),
        ([1, 1, 1], 1),
    ]
    for rows, cached in moves:
        kept = torch.tensor(rows)
        state.reorder(kept)
        assert state.cross[0].rows == cached
        token = make_ids(len(rows), 1)
        of, read = of[kept], torch.cat([read[kept], token], dim=1)
        logits = model.next_logits(token, source, mask, state)
        for row, one in enumerate(of.tolist()):
            length = int(mask[one].sum())
            alone = model(sources[one : one + 1, :length], read[row : row + 1])[:, -1]
            torch.testing.assert_close(logits[row : row + 1], alone, **EXACT)
