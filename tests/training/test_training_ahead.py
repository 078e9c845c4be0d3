"""Batches that workers make ready are those of the batch source, in its order; a worker that is lost is a message."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.data.batches.batch_source import BatchSource, Position, RowBatches, TextBatches
from headway.data.batches.batching import Examples, TargetKind
from headway.data.batches.tokens import TokenFile, file_sums
from headway.errors import InputError
from headway.training.loop import prefetch as ahead
from headway.training.loop.prefetch import Prefetch, ReadFailed

TOKENS = np.arange(700) % 50
ROWS = [list(range(1, 2 + n % 9)) for n in range(61)]
PAIRS = ROWS, [row[::-1] for row in ROWS]


def cut(epoch: int) -> Examples:
    """The same pairs, cut otherwise in each pass."""
    return Examples(ROWS, [target[: 1 + (len(target) + epoch) % 5] for target in PAIRS[1]], TargetKind.SEQUENCE)


def of_rows(targets: Any, kind: TargetKind, second: Any = None, **options: Any) -> RowBatches:
    """Of which the first five are held out."""
    held_out = Examples(ROWS[:5], targets[:5], kind, second and second[:5])
    return RowBatches(Examples(ROWS, targets, kind, second), held_out, 40, 3, **options)


FEEDS: dict[str, BatchSource] = {
    "text": TextBatches(TOKENS, TOKENS[:90], 8, 40, 3),
    "masked": TextBatches(TOKENS, TOKENS[:90], 10, 40, 3, ([51], [52])),
    "rows": of_rows([n % 2 for n in range(61)], TargetKind.ROW),
    "pairs": of_rows(np.full(61, 0.5), TargetKind.PAIR, PAIRS[1]),
    "targets": of_rows(PAIRS[1], TargetKind.SEQUENCE, recut=cut),
}


def made(batch_source: BatchSource | Prefetch, position: Position, count: int) -> list[tuple[Any, ...]]:
    """So many batches from a position on, each with the position after it."""
    found = []
    for _ in range(count):
        batch, *_, position = batch_source.next(position)
        mask = None if batch.mask is None else batch.mask.tolist()
        found.append((batch.kind, batch.ids.tolist(), mask, batch.targets.tolist(), position))
    return found


@pytest.mark.parametrize("kind", FEEDS)
def test_the_position_after_a_batch_is_known_without_making_it(kind: str):
    batch_source, position = FEEDS[kind], Position()
    for _ in range(60):
        after = batch_source.after(position)
        assert after == batch_source.next(position)[1]
        position = after
    assert position.epoch >= 1


@pytest.mark.parametrize(("kind", "workers"), [*((kind, 2) for kind in FEEDS), ("rows", 0), ("targets", 3)])
def test_workers_give_what_the_feed_gives(kind: str, workers: int):
    random = torch.get_rng_state()
    with Prefetch(FEEDS[kind], workers=workers) as batches:
        assert made(batches, Position(), 40) == made(FEEDS[kind], Position(), 40), "over the end of a pass"
        later = FEEDS[kind].next(FEEDS[kind].next(Position())[1])[1]
        assert made(batches, later, 5) == made(FEEDS[kind], later, 5), "from another position"
    assert torch.equal(random, torch.get_rng_state()), "none of the run's random numbers is used up"


class Broken(TextBatches):
    """Text of which one window cannot be read."""

    def __init__(self, what: Any):
        super().__init__(TOKENS, TOKENS[:90], 8, 40, 3)
        self.what = what

    def next(self, position: Position) -> Any:
        """A batch, until the second third of the first pass."""
        if position.consumed >= 30:
            self.what()
        return super().next(position)


def test_a_worker_that_is_killed_is_a_message_with_the_examples():
    batch_source = Broken(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with (
        Prefetch(batch_source, workers=2) as batches,
        pytest.raises(ReadFailed, match=r"--workers 2.*examples .* of pass 1.*(killed|exited)"),
    ):
        made(batches, Position(), 40)


def test_a_worker_that_is_lost_while_training_computes_is_the_same_message():
    with Prefetch(FEEDS["text"], workers=2) as batches:
        made(batches, Position(), 3)
    with pytest.raises(ReadFailed, match="examples"), Prefetch(FEEDS["text"], workers=2):
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed. ")
    with pytest.raises(RuntimeError, match="another"), Prefetch(FEEDS["text"], workers=2):
        raise RuntimeError("another")


def test_a_read_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ahead, "PATIENCE", 1.0)
    batch_source = Broken(signal.pause)
    with Prefetch(batch_source, workers=1) as batches, pytest.raises(ReadFailed, match=r"timed out after 1\.0 seconds"):
        made(batches, Position(), 40)


def test_data_that_change_are_a_message_with_the_file_and_the_examples(tmp_path: Path):
    path = tmp_path / "tokens.bin"
    path.write_bytes(TOKENS.astype(np.uint16).tobytes())
    batch_source = TextBatches(
        TokenFile(path, np.dtype(np.uint16), len(TOKENS), file_sums(path)), TOKENS[:90], 8, 40, 3
    )
    with (
        Prefetch(batch_source, workers=2) as batches,
        pytest.raises(InputError, match=r"tokens\.bin.*examples \d+, .* of pass 1"),
    ):
        position = made(batches, Position(), 2)[-1][-1]
        os.truncate(path, 100)
        made(batches, position, 40)


def test_a_mistake_in_our_code_is_not_taken_for_the_user_s():
    def mistake() -> None:
        raise KeyError("ours")

    with Prefetch(Broken(mistake), workers=1) as batches, pytest.raises(KeyError, match="ours"):
        made(batches, Position(), 40)
