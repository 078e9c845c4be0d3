"""Several processes that train one model together, as ``torchrun`` starts them; or a single one."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from headway.data.batches.batching import Batch
from headway.errors import InputError, RunFailed

TIMEOUT = timedelta(minutes=5)
"""How long a rank waits for the others in training; then it ends, and ``torchrun`` ends the rest."""
PREPARING = timedelta(days=7)
"""How long a rank waits for the first one to read and tokenise the data."""
LOST = (
    *("gloo", "ncclremoteerror", "nccl communicator was aborted", "connection reset by peer"),
    *("connection closed by peer", "timed out waiting"),
)
"""Parts of torch's error messages when a rank cannot be reached any more."""
BUCKET = 1 << 23
"""Numbers that are added up at a time."""


@dataclass(frozen=True)
class Ranks:
    """This process among ``count``; ``rank`` 0 decides, writes files and shows messages for all.

    Each takes its share of the rows of the same batches.  Losses, targets and gradients are summed over all and divided
    once, so that the result does not depend on the number of ranks.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def joined(cls, device: torch.device | None = None) -> "Ranks":
        """The ranks that ``torchrun`` started, each with its ``device``; otherwise a single one.

        CPUs communicate by gloo, GPUs by NCCL.  Raises InputError when the others cannot be reached.
        """
        gpu = device is not None and device.type == "cuda"
        if gpu:
            torch.cuda.set_device(device)
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls()
        if not dist.is_initialized():
            try:
                dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo", timeout=TIMEOUT)
            except (ValueError, RuntimeError) as error:
                raise InputError(f"the other processes cannot be reached ({error}); start all with torchrun.") from None
        return cls(dist.get_rank(), count)

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which decides, writes files and shows messages."""
        return self.rank == 0

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Turn torch's errors where another rank is lost, or silent for TIMEOUT, into RunFailed."""
        try:
            yield
        except RuntimeError as error:
            if self.count == 1 or not any(sign in str(error).lower() for sign in LOST):
                raise
            raise RunFailed(
                f"another of the {self.count} processes was lost, so this one ends too. The checkpoints are "
                "unchanged: run the same command again to resume."
            ) from None

    def signal(self, what: str) -> None:
        """Signal to the ranks that ``wait_for`` something that it is done."""
        if self.count > 1:
            dist.distributed_c10d._get_default_store().set(what, "done")

    def wait(self, what: str) -> None:
        """Wait until the first rank signals that something is done."""
        if self.count > 1 and not self.first:
            dist.distributed_c10d._get_default_store().wait([what], PREPARING)

    def barrier(self) -> None:
        if self.count > 1:
            dist.barrier()

    def all_reduce_max(self, *values: float) -> list[float]:
        """The maximum of each value over all ranks."""
        return self._all_reduce(values, dist.ReduceOp.MAX)

    def all_reduce_sum(self, *values: float) -> list[float]:
        """The sum of each value over all ranks."""
        return self._all_reduce(values, dist.ReduceOp.SUM)

    def _all_reduce(self, values: Sequence[float], how: Any) -> list[float]:
        if self.count == 1:
            return list(values)
        gathered = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(gathered, how)
        return gathered.tolist()

    def gathered(self, value: Any) -> list[Any]:
        """The value of each rank, in the order of the ranks."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, value)
        return found

    def part(self, batch: Batch) -> Batch:
        """This rank's rows of a batch: every ``count``-th, so that all ranks have rows of similar lengths.

        Where a batch has fewer rows than there are ranks, others have an idle one.
        """
        if self.count == 1:
            return batch
        index = torch.arange(len(batch))[self.rank :: self.count]
        return batch.rows(index) if len(index) else replace(batch.rows(torch.tensor([0])), idle=True)

    def add_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Set every ``grad`` to the sum over all ranks; a missing one counts as zero."""
        if self.count == 1:
            return
        learning = list(parameters)
        somewhere = self.all_reduce_max(*(p.grad is not None for p in learning))
        for p, there in zip(learning, somewhere, strict=True):
            if there and p.grad is None:
                p.grad = torch.zeros_like(p)
        for bucket in _buckets([p.grad for p in learning if p.grad is not None]):
            flat = torch.cat([gradient.flatten() for gradient in bucket])
            dist.all_reduce(flat)
            for gradient, part in zip(bucket, flat.split([gradient.numel() for gradient in bucket]), strict=True):
                gradient.copy_(part.view_as(gradient))

    def broadcast(self, model: nn.Module) -> None:
        """Give every rank the first one's weights."""
        if self.count > 1:
            for tensor in (*model.parameters(), *model.buffers()):
                dist.broadcast(tensor.detach(), 0)


def is_first() -> bool:
    """Whether this process shows messages for all, by the environment of ``torchrun``."""
    return int(os.environ.get("RANK", "0")) == 0


def _buckets(gradients: Sequence[Tensor]) -> list[list[Tensor]]:
    found: list[list[Tensor]] = []
    size = BUCKET
    for gradient in gradients:
        if size + gradient.numel() > BUCKET:
            found.append([])
            size = 0
        found[-1].append(gradient)
        size += gradient.numel()
    return found
