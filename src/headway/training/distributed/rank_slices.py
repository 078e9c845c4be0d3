"""Which rows of a batch a rank computes, and gathering a stream's position from all ranks."""

from dataclasses import astuple

from headway.data.batches.batch_source import BatchSource
from headway.data.batches.batching import Batch
from headway.data.batches.windows import Position
from headway.data.stream.batch_source import StreamBatches
from headway.data.stream.partitions import Cursor, StreamPosition
from headway.training.distributed.ranks import Ranks


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
