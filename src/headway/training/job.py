"""One training run: what is trained, on what, how, and where it is kept."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn

from headway.data.batches.batch_source import BatchSource
from headway.training.health import DataProfile
from headway.training.objective import Objective
from headway.training.options import TrainOptions, time_limit
from headway.training.plan import Plan
from headway.training.progress import NoProgress, Progress
from headway.training.ranks import Ranks
from headway.training.store.run_directory import RunDirectory


@dataclass(kw_only=True)
class Job:
    """A run from its options to its end; what is without a default is there once the run is set up."""

    options: TrainOptions
    progress: Progress = field(default_factory=NoProgress)
    started: float = field(default_factory=time.monotonic)
    """when the command began, by time.monotonic; its limit of time counts from there"""
    run: RunDirectory = field(default_factory=lambda: RunDirectory(Path()))
    """where the results go; of a run that is only decided, nowhere"""
    ranks: Ranks = field(default_factory=Ranks)
    """the processes that train it together"""
    plan: Plan = field(init=False)
    model: nn.Module = field(init=False)
    batch_source: BatchSource = field(init=False)
    objective: Objective = field(init=False)
    batch_seconds: float = 0.0
    """what an evaluation takes on a batch; measured where time limits the run"""
    cycle: int = 0
    """how often the run was continued: the budget is the latest one; 0 for a run that never was"""
    keep_best: Callable[[], None] = lambda: None
    """saves the model as it is now"""
    snapshot: Callable[[int], None] = lambda step: None
    """saves a snapshot of an evaluation's model, by its step"""
    sample: Callable[[], str] | None = None
    """shows a sample of the model's output"""
    known: DataProfile = field(default_factory=DataProfile)
    """the data profile by which the run is judged"""
    min_units: int = 0
    """with fewer held-out units, weights are kept only where they are clearly better than the kept ones"""
    saved: bool = False
    """whether this command wrote the weights that are kept"""

    @property
    def seconds(self) -> float:
        """How long the command has taken so far."""
        return time.monotonic() - self.started

    @property
    def limit(self) -> float | None:
        """Seconds for the whole command; None where the run is bounded by steps."""
        return time_limit(self.options)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the limit of the command; below 0 behind it, None without one."""
        return None if self.limit is None else self.limit - self.seconds

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters that have a gradient."""
        return [p for p in self.model.parameters() if p.requires_grad]
