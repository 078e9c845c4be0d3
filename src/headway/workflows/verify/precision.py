"""The precision that a run answers in: its outputs are near those in float32."""

from pathlib import Path

import torch

from headway.runtime.precision import FLOAT32, resolved
from headway.training.store.facts import read_facts
from headway.workflows.load import load
from headway.workflows.verify.check import Check
from headway.workflows.verify.samples import Subject, different_lengths, read

NAME = "precision"
BOUNDS = {"bfloat16": 0.05, "float16": 0.02, "int8": 0.1, "int4": 0.5}
"""The allowed length of the difference over that of the outputs.  Random models of two to twelve layers were seen to
reach a third of it; a wrong scale or a wrong order of weights gives more than 1."""


def check_precision(subject: Subject, place: Path) -> Check:
    """Read texts in float32 and in the precision that the run stores, and compare the outputs as wholes."""
    name = resolved(None, read_facts(place), subject.device)
    if name == FLOAT32:
        return Check(NAME, "the precision that the run answers in", skipped="it answers in float32")
    texts = subject.inputs(different_lengths(subject.longest))
    lower = load(place, device=str(subject.device), precision=name)
    pairs = zip(read(subject, lower.model, texts), read(subject, subject.model, texts), strict=True)
    found = [torch.stack([(one - exact).double().norm(), exact.double().norm()]) for one, exact in pairs]
    apart, whole = torch.stack(found).norm(dim=0).tolist()
    what = f"{name} and float32: the outputs for {len(texts)} inputs"
    return Check(NAME, what, apart / max(whole, 1e-30), BOUNDS[name])
