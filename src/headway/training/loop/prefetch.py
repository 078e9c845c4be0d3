"""Batches prepared by worker processes while training computes; of several ranks, each makes its own rows."""

import os
import signal
import warnings
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from headway.data.batches.batch_source import BatchSource, Position
from headway.data.batches.batching import Batch
from headway.data.stream.batch_source import Cursor, StreamBatches, StreamPosition
from headway.errors import InputError, RunFailed
from headway.training.ranks import Ranks

PATIENCE = 300.0
"""Seconds without a batch after which a worker counts as lost."""
EACH = 2
"""Batches that each worker has ready."""

Made = tuple[Batch | None, int, Position]
"""This rank's rows of a batch, or None; the tokens of the whole batch; the position after it."""


class Prefetch:
    """The batches of a source: several workers make them in turn; without workers, they are made when asked for.

    What it gives depends on the position alone, as with the source itself, so their number changes nothing but speed.
    """

    def __init__(self, batch_source: BatchSource, ranks: Ranks | None = None, workers: int = 0):
        self.batch_source, self.ranks = batch_source, ranks or Ranks()
        self.workers = min(workers, 1) if isinstance(batch_source, StreamBatches) else workers  # a stream has an order
        self._made: Iterator[Made | str] | None = None
        self._at: tuple[int, int] | None = None
        self._asked = Position()

    def __enter__(self) -> "Prefetch":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._made = None  # which ends the workers
        if isinstance(error, RuntimeError) and "DataLoader worker" in str(error):  # it was lost while others computed
            raise self._lost(self._asked, _said(error)) from None

    def next(self, position: Position) -> Made:
        """This rank's part of the batch at a position, as ``own_part`` returns it.

        Raises InputError for data that changed in the meantime, and ReadFailed where a worker died or does not answer.
        """
        if not self.workers:
            return own_part(self.batch_source, position, self.ranks)
        self._asked = position
        if self._made is None or self._at != (position.epoch, position.consumed):
            self._made = self._begin(position)
        self._at, problem = None, ""  # after an error the workers start over
        try:
            made = next(self._made)
        except RuntimeError as error:
            problem = _said(error)
        if problem:
            self._made = None  # no frame of that error holds the workers any more, so they end
            raise self._lost(position, problem)
        if isinstance(made, str):
            raise InputError(f"{made} It was read for {self._examples(position)}.")
        part, tokens, after = made
        self._at = after.epoch, after.consumed
        return None if part is None else part.each(torch.from_numpy), tokens, after

    def _begin(self, position: Position) -> Iterator[Made | str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # more workers than processors are for the user to choose
            loader: DataLoader[Made | str] = DataLoader(
                _Making(self.batch_source, position, self.ranks),
                batch_size=None,
                num_workers=self.workers,
                collate_fn=_as_it_is,
                prefetch_factor=EACH,
                timeout=PATIENCE,
                worker_init_fn=_begin_worker,
                generator=torch.Generator(),  # separate, so that the run's random numbers are not used up
            )
            return iter(loader)

    def _lost(self, position: Position, said: str) -> "ReadFailed":
        return ReadFailed(
            f"a worker (--workers {self.workers}) returned no batch for {self._examples(position)}: "
            f"{said}. The checkpoints are unchanged: run the same command again to resume; --workers 0 uses "
            "no workers."
        )

    def _examples(self, position: Position) -> str:
        numbers = self.batch_source.examples(position)
        listed = ", ".join(map(str, numbers[:5]))
        more, epoch = " ..." if len(numbers) > 5 else "", int(self.batch_source.epochs(position)) + 1
        return f"examples {listed}{more} of pass {epoch}"


class ReadFailed(RunFailed):
    """The next batch could not be read; what is saved is unchanged."""


class _Making(IterableDataset[Made | str]):
    """The batches from a position on, without end, in each worker every n-th; a message, where one cannot be made."""

    def __init__(self, batch_source: BatchSource, position: Position, ranks: Ranks):
        self.batch_source, self.position, self.ranks = batch_source, position, ranks

    def __iter__(self) -> Iterator[Made | str]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        position, turn = self.position, 0
        try:
            while True:
                if turn % count == number:
                    part, tokens, position = own_part(self.batch_source, position, self.ranks)
                    # as arrays, which are handed over as bytes: torch would share tensors by a server in each worker
                    yield None if part is None else part.each(torch.Tensor.numpy), tokens, position
                else:
                    position = self.batch_source.after(position)
                turn += 1
        except (InputError, OSError) as error:
            yield f"{error}"


def _said(error: RuntimeError) -> str:
    """Torch's message about a lost worker.  Raises the error again where it is a mistake in our code."""
    if "DataLoader" not in str(error).split("\n")[0] or str(error).startswith("Caught"):
        raise error
    return str(error).split("\n")[0].split(". ")[0].rstrip(".")


def _as_it_is(made: Any) -> Any:
    return made


def _begin_worker(number: int) -> None:
    """Ignore Ctrl-C and the like, which a shell sends to all processes; SIGTERM ends a worker."""
    for name in ("SIGINT", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # else the tokenizer warns that it was forked


def own_part(batch_source: BatchSource, position: Position, ranks: Ranks) -> tuple[Batch | None, int, Position]:
    """This rank's rows of the batch at a position, or None; the tokens of the whole batch; the position after it.

    Each rank reads only its own partitions of a stream, and only knows their positions; see ``together``.
    """
    if isinstance(batch_source, StreamBatches):
        part, moved = batch_source.part(position, ranks.rank, ranks.count)
        return part, batch_source.batch_tokens, moved
    batch, after = batch_source.next(position)
    return ranks.part(batch), batch.tokens, after


def together(position: Position, ranks: Ranks) -> Position:
    """A position with the cursors of all partitions, gathered from all ranks; all ranks take part."""
    if ranks.count == 1 or not isinstance(position, StreamPosition):
        return position
    width = len(astuple(Cursor()))
    mine = [
        number if partition % ranks.count == ranks.rank else 0
        for partition, cursor in enumerate(position.lanes)
        for number in astuple(cursor)
    ]
    found = list(map(int, ranks.all_reduce_sum(*mine)))
    cursors = tuple(Cursor(*found[at : at + width]) for at in range(0, len(found), width))
    return StreamPosition(position.epoch, position.consumed, cursors)
