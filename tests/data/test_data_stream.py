"""A stream of shards: every document once an epoch, from any position on as from the beginning, a row group a lane."""

import gc
import json
import random
import shutil
import weakref
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.data.batches.batch_source import Position
from headway.data.stream import streamed
from headway.data.stream.batch_source import (
    Cursor,
    Reading,
    StreamBatches,
    StreamPosition,
    dealt,
    partition_count,
    position_of,
)
from headway.data.stream.streamed import Shard, Streamed, local_shard
from headway.errors import InputError

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SEPARATOR, FIRST = 0, 0x100


def made(folder: Path, sizes: list[list[int]], lengths: random.Random | None = None) -> Streamed:
    """One file for each list, with row groups of such sizes; document n is the character FIRST + n, some times over."""
    folder.mkdir(parents=True, exist_ok=True)
    number, choose = 0, lengths or random.Random(7)
    paths = []
    for at, groups in enumerate(sizes):
        paths.append(folder / f"{at}.parquet")
        with pq.ParquetWriter(paths[-1], pa.schema([("text", pa.string()), ("id", pa.int32())])) as writer:
            for rows in groups:
                texts = [chr(FIRST + number + row) * choose.randint(1, 9) for row in range(rows)]
                writer.write_table(pa.table({"text": texts, "id": pa.array(range(rows), pa.int32())}))
                number += rows
    return Streamed([local_shard(path) for path in paths], "text")


def batch_source_of(corpus: Streamed, lanes: int = 2, held: list[int] | None = None, **options: Any) -> StreamBatches:
    """A batch source whose tokens are the numbers of the characters."""
    separator = options.pop("separator", SEPARATOR)
    length, tokens = options.pop("length", 5), options.pop("batch_tokens", 35)
    reading = Reading(
        corpus,
        held or [0] * len(corpus.groups),
        lambda texts, continued=False: [[ord(character) for character in text] for text in texts],
        separator,
        options.pop("seed", 3),
    )
    tokens_known = np.arange(1, 48)
    return StreamBatches(
        reading, tokens_known, length, tokens, lanes, sample=tokens_known, tokens_per_row=6.0, **options
    )


def documents(tokens: list[int]) -> list[int]:
    """The number of each document, in order, from tokens with separators."""
    found = "".join(map(chr, tokens)).split(chr(SEPARATOR))
    assert all(len(set(text)) == 1 for text in found[:-1]), "a document's tokens stand together"
    return [ord(text[0]) - FIRST for text in found[:-1]]


@QUICK
@given(
    sizes=st.lists(st.lists(st.integers(2, 7), min_size=1, max_size=4), min_size=1, max_size=4),
    lanes=st.integers(1, 5),
    seed=st.integers(0, 99),
    length=st.integers(1, 23),
)
def test_every_document_of_every_lane_comes_once_an_epoch(
    tmp_path: Path, sizes: list[list[int]], lanes: int, seed: int, length: int
):
    shutil.rmtree(tmp_path)
    corpus = made(tmp_path, sizes, random.Random(seed))
    lanes = min(lanes, len(corpus.groups))
    batch_source = batch_source_of(corpus, lanes, seed=seed, length=length, batch_tokens=7 * length)
    position, tokens = Position(), [[] for _ in range(lanes)]
    while not isinstance(position, StreamPosition) or min(cursor.epoch for cursor in position.lanes) < 2:
        first = position.consumed
        batch, position = batch_source.next(position)
        assert (batch.targets[:, :-1] == batch.ids[:, 1:]).all() and batch.ids.shape == (7, length)
        for row, window in enumerate(batch.ids.tolist()):
            at = (first + row) % lanes
            assert not tokens[at] or tokens[at][-1] == window[0], "neighbours share a token"
            tokens[at] = [*tokens[at][:-1], *window, batch.targets[row, -1].item()]
    rows, orders = (
        [sum(map(batch_source.partitions[at].reading.rows, batch_source.partitions[at].groups)) for at in range(lanes)],
        set(),
    )
    seen: Counter[int] = Counter()
    for at in range(lanes):
        found = documents(tokens[at])
        once, again = found[: rows[at]], found[rows[at] : 2 * rows[at]]
        assert len(set(once)) == rows[at] and set(once) == set(again), "each once, and in the next epoch again"
        seen.update(once)
        orders |= {(at, tuple(once)), (at, tuple(again))}
    assert seen == Counter(range(corpus.n_rows)), "no two lanes share a document, and none is left out"
    assert corpus.n_rows < 12 or len(orders) > lanes, "another order in another epoch"


@QUICK
@given(rows=st.lists(st.integers(0, 50), min_size=1, max_size=23), count=st.integers(1, 9))
def test_row_groups_are_dealt_in_runs_of_neighbours_with_about_as_many_rows(rows: list[int], count: int):
    filled = [at for at, n in enumerate(rows) if n]
    if len(filled) < count:
        with pytest.raises(ValueError, match="cannot be divided"):
            dealt(rows, count)
        return
    runs = dealt(rows, count)
    assert [at for run in runs for at in run] == filled and len(runs) == count and all(runs)
    even = sum(rows) / count
    if max(rows) <= even:
        assert max(sum(rows[at] for at in run) for run in runs) <= 2 * even + max(rows)


def test_lanes_have_files_of_their_own_where_there_are_enough(tmp_path: Path):
    corpus = made(tmp_path, [[3, 5]] * 8)
    batch_source = batch_source_of(corpus, 4)
    assert [sorted({corpus.groups[at].shard for at in lane.groups}) for lane in batch_source.partitions] == [
        [0, 1], [2, 3], [4, 5], [6, 7],
    ]  # fmt: skip
    assert [partition_count(*given) for given in ((1, 9), (99, 99), (99, 3), (5, 0), (99, 99, 16))] == [1, 8, 3, 1, 16]


SIZES = [[3, 5, 2], [7], [1, 4]]


@pytest.mark.parametrize("separator", [SEPARATOR, None])
def test_a_new_feed_goes_on_at_any_position_as_the_old_one_would(separator: int | None, tmp_path: Path):
    corpus = made(tmp_path, SIZES)
    batch_source, position, batches = batch_source_of(corpus, 3, separator=separator), Position(), []
    for _ in range(31):
        batch, after = batch_source.next(position)
        batches.append((position, batch, after))
        position = after
    assert min(cursor.epoch for cursor in position.lanes) > 1
    for position, batch, after in batches[::-3]:
        plain = json.loads(json.dumps(asdict(position)))
        again, now = batch_source_of(corpus, 3, separator=separator).next(position_of(plain))
        assert again.ids.tolist() == batch.ids.tolist() and again.targets.tolist() == batch.targets.tolist()
        assert now == after


@pytest.mark.parametrize("count", [2, 3])
def test_ranks_make_the_rows_of_one_process_and_read_nothing_else(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    corpus = made(tmp_path, SIZES)
    read: list[int] = []
    texts_of = Streamed.texts_of
    monkeypatch.setattr(Streamed, "texts_of", lambda self, group: (read.append(group), texts_of(self, group))[1])
    alone, position = batch_source_of(corpus, 3), Position()
    batches = []
    for _ in range(13):
        batch, position = alone.next(position)
        batches.append((batch, position))
    for rank in range(count):
        read.clear()
        batch_source, at, found = batch_source_of(corpus, 3), Position(), []
        for batch, after in batches:
            part, at = batch_source.part(at, rank, count)
            mine = [row for row in range(7) if (at.consumed - 7 + row) % 3 % count == rank]
            assert (part.ids.tolist() if part else []) == batch.ids[mine].tolist()
            own = [lane for lane in range(3) if lane % count == rank]
            assert [at.lanes[lane] for lane in own] == [after.lanes[lane] for lane in own]
            found += mine
        assert found and set(read) == {group for lane in own for group in batch_source.partitions[lane].groups}


def test_more_processes_than_lanes_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match="in 2 partitions, which 3 processes cannot share; start at most 2"):
        batch_source_of(made(tmp_path, SIZES), 2).part(Position(), 0, 3)
    with pytest.raises(InputError, match="room for 2 windows of 5; several processes need one from each of 3"):
        batch_source_of(made(tmp_path, SIZES), 3, batch_tokens=10).part(Position(), 0, 2)


def test_one_row_group_a_lane_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    corpus = made(tmp_path, [[5, 5, 5], [5, 5, 5], [5, 5, 5]])
    held: set[int] = set()
    most = [0]

    class Held:
        """A column of a row group, counted while it is there."""

        def __init__(self, column: Any):
            self.column = column
            held.add(id(self))
            most[0] = max(most[0], len(held))
            weakref.finalize(self, held.discard, id(self))

        def __getitem__(self, at: int) -> Any:
            return self.column[at]

    column = Shard.column
    monkeypatch.setattr(Shard, "column", lambda self, group, name: Held(column(self, group, name)))
    batch_source, position = batch_source_of(corpus, 3), Position()
    for _ in range(97):
        _, position = batch_source.next(position)
    assert position.lanes[0].epoch > 1 and most[0] == 3
    batch_source.part(position, 1, 3)
    gc.collect()
    assert len(held) == 1, "a rank holds those of its own lanes alone"


def test_progress_and_examples_are_told_by_rows(tmp_path: Path):
    corpus = made(tmp_path, [[4, 6], [10]])
    batch_source, position, passes = batch_source_of(corpus, 2), Position(), []
    while len(passes) < 60:
        passes.append(batch_source.epochs(position))
        begun = batch_source.next(position)[0].ids[:2].tolist()
        lanes = [(position.consumed + row) % 2 for row in range(2)]
        numbers = [begun[row][0] - FIRST for row in range(2) if not batch_source.cursors(position)[lanes[row]].skip]
        assert set(numbers) <= set(batch_source.examples(position)), (
            "numbers of documents, where windows begin with one"
        )
        position = batch_source.next(position)[1]
    assert passes[0] == 0 and passes == sorted(passes) and passes[-1] > 2
    assert batch_source.epochs(StreamPosition(0, 0, (Cursor(1, 0, 0), Cursor(0, 0, 5)))) == pytest.approx((1 + 0.5) / 2)


def test_rows_are_set_aside_evenly_and_never_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streamed, "HELD_GROUPS", 3)
    corpus = made(tmp_path, [[20, 20], [20, 20], [20]])
    assert corpus.set_aside == [4, 0, 3, 0, 3]
    aside = [ord(text[0]) - FIRST for text, _ in corpus.held_out.chunks()]
    assert aside == [0, 1, 2, 3, 40, 41, 42, 80, 81, 82]
    batch_source, position, seen = batch_source_of(corpus, 2, corpus.set_aside), Position(), set()
    while min(cursor.epoch for cursor in batch_source.cursors(position)) < 1:
        batch, position = batch_source.next(position)
        seen |= {number - FIRST for number in batch.ids.flatten().tolist() if number != SEPARATOR}
    assert seen == set(range(100)) - set(aside)
    sample, rows = corpus.sample(10_000, corpus.set_aside)
    assert rows == 90 and {ord(text[0]) - FIRST for text, _ in sample.chunks()} == seen
    few, rows = corpus.sample(15, corpus.set_aside)
    assert few.n_characters == 15 and rows >= 5, "some of every row group"
    assert made(tmp_path / "ones", [[1], [1], [1]]).set_aside == [1, 0, 0]
    monkeypatch.setattr(streamed, "HELD_CHARACTERS", 10)
    assert sum(made(tmp_path / "less", [[20, 20], [20, 20], [20]]).set_aside) in (1, 2, 3), "by characters"


def test_empty_rows_are_left_out_and_a_lane_of_nothing_else_is_named(tmp_path: Path):
    for name, texts in (("a", ["x", "", None, " \n", "y"]), ("b", ["", None, " ", "\t", ""])):
        pq.write_table(pa.table({"text": texts}), tmp_path / f"{name}.parquet")
    corpus = Streamed([local_shard(tmp_path / f"{name}.parquet") for name in "ab"], "text")
    batch_source = batch_source_of(corpus, 2, length=4, batch_tokens=4)
    window, _ = batch_source.partitions[0].window(Cursor(), 4)
    assert sorted(window[:4].tolist()) == sorted([ord("x"), SEPARATOR, ord("y"), SEPARATOR])
    with pytest.raises(InputError, match=r"b.parquet: there is no text in its rows"):
        batch_source.partitions[1].window(Cursor(), 4)


def test_a_long_document_is_cut_into_windows_without_reading_it_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = "".join(f"{number} " for number in range(20_000))
    pq.write_table(pa.table({"text": [text, "end"]}), tmp_path / "a.parquet")
    corpus = Streamed([local_shard(tmp_path / "a.parquet")], "text")
    batch_source, position = batch_source_of(corpus, 1, length=97, batch_tokens=970), Position()
    encoded: list[int] = []
    ids = Reading.ids
    monkeypatch.setattr(Reading, "ids", lambda self, texts: (encoded.append(len(texts)), ids(self, texts))[1])
    tokens: list[int] = []
    positions = []
    while len(tokens) < len(text):
        positions.append(position)
        batch, position = batch_source.next(position)
        tokens += batch.ids.flatten().tolist()
    assert text[:500] in "".join(map(chr, tokens)) and len(encoded) <= 3
    again, _ = batch_source_of(corpus, 1, length=97, batch_tokens=970).next(positions[53])
    assert positions[53].lanes[0].skip > 50_000 and again.ids.flatten().tolist() == tokens[53 * 970 : 54 * 970]


def test_a_position_of_other_data_is_refused(tmp_path: Path):
    batch_source = batch_source_of(made(tmp_path, SIZES), 2)
    with pytest.raises(ValueError, match="of 3 partitions, expected 2"):
        batch_source.next(StreamPosition(0, 0, (Cursor(),) * 3))


def test_a_fingerprint_reads_the_footers_alone_and_tells_files_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    corpus = made(tmp_path, SIZES)
    before = corpus.known()
    monkeypatch.setattr(Shard, "column", None)
    again = Streamed([local_shard(path) for path in corpus.paths], "text")
    assert again.fingerprint == corpus.fingerprint and again.known() == before and again.changed(before) == []
    assert Streamed(again.shards, "id").fingerprint != again.fingerprint, "of another column"
    other = made(tmp_path / "other", [SIZES[0], [8], SIZES[2]])
    assert other.changed(before) == [str(tmp_path / "other" / name) for name in ("1.parquet", "2.parquet")]
