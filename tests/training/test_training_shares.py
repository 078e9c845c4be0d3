"""A batch in shares, each computed by a thread of its own: the same gradient, and the same run every time."""

import itertools
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from faults_harness import facts_of
from torch import Tensor, nn

import headway
from headway.data.batches.batching import IGNORED, Batch, TargetKind, pad
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Decoder, Encoder
from headway.tasks.embedding.objective import Embedding
from headway.tasks.losses import Classification, LanguageModeling
from headway.tasks.masked_lm.objective import MaskedLM
from headway.training.loop import thread_parallel as shares
from headway.training.loop.thread_parallel import ThreadParallel, share_count

LABELS = ["a", "b", "c"]
ROWS = [[5, 6, 7], [8, 9, 10, 11, 12], [13, 4], [5, 9, 4, 7], [6]]


def classifier(dropout: float = 0.0, sparse: bool = False) -> nn.Module:
    config = TransformerConfig(vocab_size=23, d_model=20, n_heads=2, n_layers=2, max_length=16, dropout=dropout)
    head = ClassificationHead(config, len(LABELS), norm=True, dropout=dropout)
    model = initialise(Encoder(config, head), seed=3, zero_out=False)
    model.stack.embedding.tokens.sparse = sparse
    return model.train()


def batch_of_rows() -> Batch:
    ids, mask = pad(ROWS)
    return Batch({"ids": ids}, mask, torch.tensor([0, 2, 1, 1, 0]), TargetKind.ROW)


def gradient(count: int, model: nn.Module, task: Any, batch: Batch, times: int = 1) -> tuple[float, int, list[Tensor]]:
    """Loss, number of targets and every parameter's gradient, of so many passes over the batch."""
    parameters = list(model.parameters())
    for p in parameters:
        p.grad = None
    torch.manual_seed(0)
    with ThreadParallel(count) as made:
        for _ in range(times):
            loss, n = made.add_gradient(model, task, batch, "float32", parameters)
    return loss.item(), n, [p.grad.to_dense() for p in parameters if p.grad is not None]


@pytest.mark.parametrize("count", [2, 3, 9])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_shares_give_the_gradient_of_the_whole_batch(count: int, sparse: bool):
    model, task = classifier(sparse=sparse), Classification(LABELS, weights=torch.tensor([1.0, 2.0, 0.5]))
    whole, divided = (gradient(n, model, task, batch_of_rows(), times=2) for n in (1, count))
    assert divided[0] == pytest.approx(whole[0], rel=1e-5)
    assert divided[1] == whole[1] == len(ROWS)
    assert len(divided[2]) == len(whole[2]) > 0
    for one, other in zip(divided[2], whole[2], strict=True):
        assert torch.allclose(one, other, atol=1e-5, rtol=1e-4), "whatever the number of threads before"


def test_shares_of_a_decoder_count_the_targets_that_are_asked_for():
    config = TransformerConfig(vocab_size=23, d_model=20, n_heads=2, n_layers=2, max_length=16)
    model = initialise(Decoder(config), seed=3, zero_out=False).train()
    ids, mask = pad(ROWS)
    batch = Batch({"ids": ids}, mask, pad([[*row[1:], IGNORED] for row in ROWS], IGNORED)[0], TargetKind.TOKEN)
    whole, divided = (gradient(n, model, LanguageModeling(), batch) for n in (1, 2))
    assert divided[1] == whole[1] == sum(len(row) - 1 for row in ROWS)
    assert divided[0] == pytest.approx(whole[0], rel=1e-5)
    assert all(torch.allclose(a, b, atol=1e-6, rtol=1e-4) for a, b in zip(divided[2], whole[2], strict=True))


class Waiting:
    """A matrix that is read three times, and once in bfloat16: there one thread, the ``last``, waits for the other."""

    by_rows = True

    def __init__(self, last: int):
        self.last, self.others, self.both = last, threading.Event(), threading.Barrier(2)

    def loss(self, model: nn.Module, batch: Batch) -> tuple[Tensor, int]:
        scales = torch.arange(1, 33).sqrt()  # so that sums are rounded
        x = sum(F.embedding(batch.ids.roll(n, dims=1), model.weight) * scales for n in range(2))
        if threading.get_ident() == self.last:
            self.others.wait(10)
        logits = F.linear(x, model.weight)
        self.others.set()
        self.both.wait(10)
        return F.cross_entropy(logits.float().flatten(0, 1), batch.targets.flatten()), 1


def test_a_share_uses_nothing_that_another_converted_whatever_came_before_in_its_thread():
    torch.manual_seed(0)
    model, found = nn.Linear(32, 50, bias=False), []
    ids = torch.randint(50, (32, 8))
    for before in (0, 1000):
        model.weight.grad = None
        with ThreadParallel(2) as made:
            number = made._threads._pool.submit(operations, before).result()
            made.add_gradient(
                model, Waiting(number), Batch({"ids": ids}, ids >= 0, ids, TargetKind.TOKEN), "bfloat16", [model.weight]
            )
        found.append(model.weight.grad)
    assert torch.equal(*found), "the order in which a matrix's gradients are added up is that of torch's counter"


def operations(count: int) -> int:
    """So many operations that torch counts, and the number of their thread."""
    x = torch.ones(1, requires_grad=True)
    for _ in range(count):
        x + 1
    return threading.get_ident()


def test_a_share_leaves_out_columns_of_padding():
    part = batch_of_rows().rows(torch.tensor([0, 2, 4]))
    assert part.ids.tolist() == [[5, 6, 7], [13, 4, 0], [6, 0, 0]]
    assert part.targets.tolist() == [0, 1, 0]
    alone = batch_of_rows().rows(torch.tensor([1]))
    assert alone.mask is None and alone.ids.tolist() == [ROWS[1]]


LENGTHS = [[3], [2, 2], [9, 9, 9, 9], [1, 2, 3, 4, 5, 6], [30, 4, 4, 4, 5, 4, 4, 4], [5, 50], [7, 1, 7, 1, 7, 1, 7]]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_largest_share_is_as_small_as_can_be(lengths: list[int], count: int):
    ids, mask = pad([[1] * length for length in lengths])
    parts = shares.equal_shares(
        Batch({"ids": ids}, None if bool(mask.all()) else mask, torch.zeros(len(ids)), TargetKind.ROW), count
    )
    assert sorted(torch.cat(parts).tolist()) == list(range(len(lengths)))
    assert 1 <= len(parts) <= count and all(len(part) for part in parts)
    found = max(len(part) * max(lengths[i] for i in part) for part in parts)
    by_length = sorted(lengths)
    cuts = [c for n in range(count) for c in itertools.combinations(range(1, len(lengths)), n)]
    pieces = [[by_length[a:b] for a, b in itertools.pairwise([0, *cut, len(lengths)])] for cut in cuts]
    assert found == min(max(len(piece) * max(piece) for piece in each) for each in pieces)


def test_what_is_drawn_does_not_depend_on_which_thread_is_first():
    model = classifier(dropout=0.3)
    found = [gradient(2, model, Classification(LABELS), batch_of_rows(), times=3) for _ in range(5)]
    assert len({loss for loss, _, _ in found}) == 1
    assert all(torch.equal(a, b) for _, _, each in found[1:] for a, b in zip(found[0][2], each, strict=True))
    assert found[0][0] != gradient(3, model, Classification(LABELS), batch_of_rows(), times=3)[0]


def test_an_error_in_a_share_comes_out_and_threads_are_as_before():
    before = torch.get_num_threads()
    batch = batch_of_rows()
    broken = replace(batch, inputs={"ids": batch.ids + 100})
    with pytest.raises(IndexError), ThreadParallel(2) as made:
        made.add_gradient(classifier(), Classification(LABELS), broken, "float32", [])
    assert torch.get_num_threads() == before


def test_shares_are_for_large_steps_of_tasks_whose_rows_are_apart(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 16)
    model, task = classifier(), Classification(LABELS)
    assert share_count(model, task, 10) == 1
    assert share_count(model, task, 10**7) == shares.MOST_SHARES
    assert share_count(model, Embedding(), 10**7) == 1
    monkeypatch.setattr(shares, "MOST_GRADIENT", 0)
    assert share_count(model, task, 10**7) == 1, "a gradient that is large for its batch is computed once"
    assert shares.most_shares(model, task, 10**7) == shares.MOST_SHARES
    assert MaskedLM.by_rows and LanguageModeling.by_rows
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert share_count(model, task, 10**7) == 1


def test_a_run_in_shares_is_the_same_every_time(rows: Path, tmp_path: Path, tiny: dict, monkeypatch):
    monkeypatch.setattr(shares, "LEAST_WORK", 0)
    options = {**tiny, "threads": 2, "dropout": 0.2, "token_dropout": 0.2, "quiet": True}
    for name in ("one", "other"):
        headway.train(rows, out=tmp_path / name, **options)
    plan = facts_of(tmp_path / "one")["plan"]
    assert plan["shares"] == 2
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "other"))
    assert one == other
