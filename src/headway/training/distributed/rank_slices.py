"""Which rows of a batch a rank computes, and how the ranks bring a stream's position together."""

from dataclasses import astuple

from headway.data.batches import Batch
from headway.data.feed import Feed
from headway.data.lanes import Cursor, StreamPosition
from headway.data.stream_feed import StreamFeed
from headway.data.windows import Position
from headway.training.distributed.ranks import Ranks


def own_part(feed: Feed, position: Position, ranks: Ranks) -> tuple[Batch | None, int, Position]:
    """This rank's rows of the batch at a position, or None; the tokens of the whole batch; the position after it.

    Of a stream each rank reads its own lanes alone, and knows where these are; see ``together``.
    """
    if isinstance(feed, StreamFeed):
        part, moved = feed.part(position, ranks.rank, ranks.count)
        return part, feed.batch_tokens, moved
    batch, after = feed.next(position)
    return ranks.part(batch), batch.tokens, after


def together(position: Position, ranks: Ranks) -> Position:
    """A position with the cursors of all lanes, each from the rank that reads it; all ranks take part."""
    if ranks.count == 1 or not isinstance(position, StreamPosition):
        return position
    width = len(astuple(Cursor()))
    mine = [
        number if lane % ranks.count == ranks.rank else 0
        for lane, cursor in enumerate(position.lanes)
        for number in astuple(cursor)
    ]
    found = list(map(int, ranks.all_reduce_sum(*mine)))
    cursors = tuple(Cursor(*found[at : at + width]) for at in range(0, len(found), width))
    return StreamPosition(position.epoch, position.consumed, cursors)
