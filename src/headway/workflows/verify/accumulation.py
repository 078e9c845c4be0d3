"""Gradient accumulation: the gradient of a batch equals the sum of the gradients of its parts."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.models.device import model_device
from headway.models.transformer import EncoderDecoder
from headway.tasks.registry import room
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.loop.trainer import divide_and_clip
from headway.training.objective import Objective
from headway.workflows.verify.check import Check, difference
from headway.workflows.verify.samples import Subject, different_lengths

NAME = "accumulation"
BOUND = 1e-5
"""The largest allowed difference between two float32 gradients, as a fraction of the largest entry."""
PARTS = ([0], [1, 2, 3], [4])
"""The rows of each part: chosen so that their numbers of targets differ as much as possible."""
LONGEST = 48
"""Tokens of a text: a gradient costs three times as much as an answer."""


def check_accumulation(subject: Subject) -> Check:
    """Compute the gradient of a batch of five texts, and that of its three parts, each divided once."""
    what = f"the gradient of a batch against the sum over its {len(PARTS)} parts of different sizes, without dropout"
    trial = _trial(subject)
    if trial is None:
        why = "its loss of a batch is not the sum over its rows, so the parts of a batch are another task"
        return Check(NAME, what, skipped=why)
    task, batch = trial
    whole = _gradient(subject.one, task, [batch])
    parts = _gradient(subject.one, task, [_rows(batch, rows) for rows in PARTS])
    largest = max(float(gradient.abs().max()) for gradient in whole)
    apart = torch.tensor([difference(one, other) for one, other in zip(whole, parts, strict=True)]).max()
    value = float(apart) / largest if largest else float("nan")
    problem = None if largest else "the gradient is zero"
    return Check(NAME, what, value, BOUND, problem)


def _gradient(model: nn.Module, task: Objective, batches: list[Batch]) -> list[Tensor]:
    """The gradient of each parameter over some batches, divided by all their targets."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    targets = 0
    with ThreadParallel(1) as shares:
        for batch in batches:
            targets += shares.add_gradient(model, task, batch.to(model_device(model)), "float32", parameters)[1]
    divide_and_clip(parameters, targets, 0.0)
    found = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    return found


def _rows(batch: Batch, rows: list[int]) -> Batch:
    """Some rows, with their padding: the effect of padding has its own check."""
    mask = None if batch.mask is None else batch.mask[rows]
    return replace(batch, ids=batch.ids[rows], mask=mask, targets=batch.targets[rows])


def _trial(subject: Subject) -> tuple[Objective, Batch] | None:
    """The model's training objective, and five inputs with their targets."""
    model: Any = subject.one
    inputs = subject.inputs(different_lengths(min(LONGEST, subject.longest)))
    written = []
    if isinstance(model, EncoderDecoder):
        written = subject.targets(different_lengths(min(LONGEST, model.config.max_length))[::-1])
    return room(subject.pipe.task).trial(subject.pipe, inputs, written)
