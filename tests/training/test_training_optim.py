"""Muon against torch's, the groups of the optimisers, clipping, and the average of the weights."""

import pytest
import torch
from torch import nn

from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Decoder, Encoder
from headway.training.loop.state import WeightAverage
from headway.training.loop.trainer import divide_and_clip
from headway.training.optimizers import Muon, optimizers, orthogonal, set_rate
from headway.training.plan import MUON_RATE, MuonPlan


def decoder(**fields: object) -> Decoder:
    config = TransformerConfig(vocab_size=23, d_model=14, n_layers=2, n_heads=1, **{"tied": False, **fields})
    return initialise(Decoder(config), seed=7, zero_out=False)


def encoder() -> Encoder:
    config = TransformerConfig(vocab_size=23, d_model=14, n_layers=2, n_heads=1, norm="layernorm", bias=("qkv", "out"))
    head = ClassificationHead(config, 3, norm=True, dropout=0.0)
    return initialise(Encoder(config, head), seed=7, zero_out=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(13, 29), (29, 13), (17, 17)])
def test_muon_is_torchs_muon(shape: tuple[int, int], dtype: torch.dtype):
    random = torch.Generator().manual_seed(3)
    start = torch.randn(shape, generator=random)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    chosen = [Muon([ours], lr=0.02, momentum=0.95, weight_decay=0.1, dtype=dtype)]
    chosen.append(torch.optim.Muon([theirs], lr=0.02, momentum=0.95, weight_decay=0.1))
    for _ in range(5):
        gradient = torch.randn(shape, generator=random)
        for p, optimizer in zip((ours, theirs), chosen, strict=True):
            p.grad = gradient.clone()
            optimizer.step()
    assert (ours - theirs).norm() < 0.05 * (ours - start).norm(), "torch's is in bfloat16, which has three digits"


def test_matrices_of_one_shape_and_stacked_matrices_are_each_orthogonalised_by_itself():
    random = torch.Generator().manual_seed(5)
    parts = [torch.randn(7, 11, generator=random) for _ in range(4)]
    stacked, single = nn.Parameter(torch.zeros(21, 11)), nn.Parameter(torch.zeros(7, 11))
    stacked.stacked = 3
    stacked.grad, single.grad = torch.cat(parts[:3]), parts[3].clone()
    Muon([stacked, single], lr=1.0, momentum=0.0).step()
    for found, gradient in zip([*stacked.split(7), single], parts, strict=True):
        alone = nn.Parameter(torch.zeros(7, 11))
        alone.grad = gradient
        Muon([alone], lr=1.0, momentum=0.0).step()
        torch.testing.assert_close(found, alone, atol=0.02, rtol=0)


@pytest.mark.parametrize("shape", [(3, 5, 19), (2, 19, 5), (1, 7, 7)])
def test_orthogonal_brings_every_singular_value_near_one(shape: tuple[int, ...]):
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    values = torch.linalg.svdvals(orthogonal(matrices))
    assert values.min() > 0.3 and values.max() < 1.4
    assert torch.isfinite(orthogonal(torch.zeros(shape))).all()
    assert torch.isfinite(orthogonal(torch.zeros(shape, dtype=torch.bfloat16))).all()


@pytest.mark.parametrize("shape", [(2, 6, 12), (2, 24, 6), (1, 128, 512)])
def test_the_iteration_on_long_matrices_is_the_same_polynomial(shape: tuple[int, ...]):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    plain = x / x.norm(dim=(-2, -1), keepdim=True)
    for _ in range(5):
        gram = plain @ plain.mT
        plain = 3.4445 * plain + (-4.7750 * gram + 2.0315 * gram @ gram) @ plain
    torch.testing.assert_close(orthogonal(x), plain, atol=1e-5, rtol=0)
    torch.testing.assert_close(orthogonal(x.float()).double(), plain, atol=1e-4, rtol=0)


def test_muons_rate_over_adams_is_as_asked():
    muon, adam = optimizers(decoder(), "muon", 0.003, 0.0, muon=MuonPlan(muon_rate=2.0, momentum=0.9))
    assert muon.param_groups[0]["momentum"] == 0.9
    assert muon.param_groups[0]["peak"] == pytest.approx(0.006) and adam.param_groups[0]["peak"] == 0.003


@pytest.mark.parametrize(("kind", "expected"), [("muon", (0.8, 0.95)), ("adamw", (0.9, 0.99))])
def test_adam_beside_muon_has_betas_of_its_own(kind: str, expected: tuple[float, float]):
    adam = optimizers(decoder(), kind, 0.003, 0.0, muon=MuonPlan(betas=(0.8, 0.95)))[-1]
    assert isinstance(adam, torch.optim.AdamW) and adam.param_groups[0]["betas"] == expected


@pytest.mark.parametrize(("tied", "kind"), [(False, "muon"), (True, "muon"), (False, "adamw")])
def test_embeddings_that_are_not_tied_have_a_rate_of_their_own_beside_muon(tied: bool, kind: str):
    model = decoder(tied=tied)
    rates = {
        id(p): group["peak"]
        for optimizer in optimizers(model, kind, 0.003, 0.0, muon=MuonPlan(muon_rate=1.0, embedding_rate=10.0))
        for group in optimizer.param_groups
        for p in group["params"]
    }
    embeddings = id(model.stack.embedding.tokens.weight)
    assert rates.pop(embeddings) == pytest.approx(0.03 if kind == "muon" and not tied else 0.003)
    assert set(rates.values()) == {0.003}


def test_the_iteration_is_in_the_runs_precision():
    for precision in ("float32", "bfloat16"):
        muon = optimizers(decoder(), "muon", 0.003, 0.0, precision=precision)[0]
        assert isinstance(muon, Muon) and muon.dtype == getattr(torch, precision)


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("make", [decoder, encoder, lambda: decoder(tied=True), lambda: decoder(norm="layernorm")])
def test_every_parameter_is_in_exactly_one_group_and_matrices_alone_decay(kind: str, make):
    model = make()
    chosen = optimizers(model, kind, 0.003, 0.1)
    groups = [group for optimizer in chosen for group in optimizer.param_groups]
    assert sorted(id(p) for group in groups for p in group["params"]) == sorted(map(id, model.parameters()))
    decayed = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    for name, p in model.named_parameters():
        assert (id(p) in decayed) == (".blocks." in name and p.dim() == 2), name
    assert {type(optimizer).__name__ for optimizer in chosen} <= {"Muon", "Adam" if kind == "adam" else "AdamW"}
    if kind == "muon":
        assert {id(p) for p in chosen[0].param_groups[0]["params"]} == decayed
        assert chosen[0].param_groups[0]["lr"] == pytest.approx(0.003 * MUON_RATE)


def test_stacked_matrices_of_the_blocks_are_marked():
    model = decoder(gated=True)
    optimizers(model, "muon", 0.003, 0.0)
    for block in model.stack.blocks:
        marks = {name: p.stacked for name, p in block.named_parameters() if hasattr(p, "stacked")}
        assert sorted(marks.values()) == [2, 3], marks


def test_set_rate_is_a_share_of_each_groups_highest():
    chosen = optimizers(decoder(), "muon", 0.003, 0.0)
    for share in (0.5, 0.25):
        set_rate(chosen, share)
        found = [group["lr"] for optimizer in chosen for group in optimizer.param_groups]
        assert found == pytest.approx([0.003 * MUON_RATE * share, 0.003 * share])


@pytest.mark.parametrize(("longest", "expected"), [(0.0, 2.5), (1.0, 1.0), (7.0, 2.5)])
def test_the_gradient_is_divided_once_and_then_shortened(longest: float, expected: float):
    p, unused = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(3))
    p.grad = torch.tensor([3.0, 4.0])
    assert divide_and_clip([p, unused], 2, longest) == pytest.approx(2.5)
    assert p.grad.norm().item() == pytest.approx(expected)
    torch.testing.assert_close(p.grad / p.grad.norm(), torch.tensor([0.6, 0.8]))


def test_the_average_by_hand():
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(1.0)
        average = WeightAverage(model, 0.9)
        expected = 1.0
        for step, value in enumerate((3.0, 5.0, 7.0), start=1):
            model.weight.fill_(value)
            average.update()
            decay = min(0.9, (1 + step) / (10 + step))
            expected = decay * expected + (1 - decay) * value
    assert average.values["weight"].item() == pytest.approx(expected)


def test_swapping_twice_changes_nothing():
    model = decoder()
    average = WeightAverage(model, 0.5)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1.0)
    before = {name: p.clone() for name, p in model.named_parameters()}
    kept = {name: p.clone() for name, p in average.values.items()}
    average.swap()
    assert all(torch.equal(p, kept[name]) for name, p in model.named_parameters())
    average.swap()
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    assert all(torch.equal(p, kept[name]) for name, p in average.values.items())
