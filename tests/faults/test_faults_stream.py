"""A run on shards that are read while it trains: stopped anywhere, on several processes, without one of its files."""

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faults_harness import KILL, LIVELY, PLAIN, Forker, Pair, apart, facts_of, lines_of, losses, outcome, words
from faults_hooks import AT_STEP

import headway
from headway.errors import InputError
from headway.training.loop import prefetch as ahead

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]
STREAM: dict[str, Any] = {
    **{"d_model": 16, "layers": 1, "heads": 2, "length": 16, "batch_tokens": 96, "steps": 8, "threads": 1},
    **{"precision": "float32", "stream": True, **LIVELY, "evaluations": 2},
}
"""Batches of six windows from five lanes, so that each begins with another lane."""


def write(path: Path, seed: int, rows: int = 23, group: int = 12) -> Path:
    draw = random.Random(seed)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 31))) for _ in range(rows)]
    pq.write_table(pa.table({"text": texts, "id": list(range(rows))}), path, row_group_size=group)
    return path


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Five row groups in three files."""
    (tmp_path / "shards").mkdir()
    return [write(tmp_path / "shards" / f"{n}.parquet", n, rows) for n, rows in enumerate((23, 24, 11))]


def at_batches(do: Callable[[], None], batches: set[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something once before each of these batches of six windows is read."""
    honest, left = ahead.own_part, set(batches)

    def doing(*given: Any) -> Any:
        if left and given[1].consumed >= min(left) * 6:
            left.discard(min(left))
            do()
        return honest(*given)

    monkeypatch.setattr(ahead, "own_part", doing)


def test_stopped_in_every_step_and_taken_up_it_learns_the_same(shards: list[Path], tmp_path: Path, monkeypatch):
    headway.train(shards, out=tmp_path / "alone", quiet=True, **STREAM)
    batches = 1 + max(line["tokens"] for line in lines_of(tmp_path / "alone") if line["event"] == "step") // 96
    assert batches >= 16, "more than one batch in each step, more of them later"
    at_batches(lambda: signal.raise_signal(signal.SIGINT), set(range(1, batches, 2)), monkeypatch)
    stops = 0
    for _ in range(batches):
        try:
            headway.train(shards, out=tmp_path / "run", quiet=True, **STREAM)
            break
        except KeyboardInterrupt:
            stops += 1
    assert stops >= 8 and outcome(tmp_path / "run") == outcome(tmp_path / "alone")
    position = json.loads(next((tmp_path / "run" / "checkpoints").glob("step-8/state.json")).read_text())["position"]
    assert position["consumed"] * 16 == facts_of(tmp_path / "run")["tokens"]
    assert len(position["lanes"]) == 5 and set(position["lanes"][0]) == {"epoch", "group", "row", "skip"}


def test_killed_and_taken_up_by_another_process(shards: list[Path], tmp_path: Path, forker: Forker):
    script = KILL + AT_STEP.format(event="step", step=5)
    headway.train(shards, out=tmp_path / "alone", quiet=True, **STREAM)
    options = words({name: value for name, value in STREAM.items() if name != "stream"})
    more = ("--stream", "--workers", 2)
    first = forker("train", *shards, *more, "--out", tmp_path / "run", *options, script=script)
    assert first.returncode == -signal.SIGKILL
    second = forker("train", *shards, "--stream", "--out", tmp_path / "run", *options)
    assert second.returncode == 0 and "resuming from step" in second.stderr
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")


RANKS = {**PLAIN, "length": 32, "batch_tokens": 224}
"""Seven windows from five lanes: two processes have four and three of them, or three and four."""


def test_two_ranks_learn_what_one_process_learns(shards: list[Path], tmp_path: Path, pair: Pair):
    options = {**RANKS, "accumulate": 2, "epochs": 5, "steps": 40}
    headway.train(shards, out=tmp_path / "one", quiet=True, stream=True, **options)
    pair(shards, tmp_path / "two", options, "--stream", "--workers", "1")
    assert apart(tmp_path / "one", tmp_path / "two") < 1e-6
    assert len(losses(tmp_path / "two")) < 40, "its passes ended it, which are those of all lanes"
    one, two = (lines_of(tmp_path / name) for name in ("one", "two"))
    for key in ("learning_rate", "tokens", "val_loss"):
        values = [[line[key] for line in lines if key in line] for lines in (one, two)]
        assert values[0] == pytest.approx(values[1], rel=1e-5) and len(values[0]) > 1
    places = [
        json.loads(next((tmp_path / name / "checkpoints").glob(f"step-{steps}/state.json")).read_text())["position"]
        for name, steps in (("one", len(losses(tmp_path / "one"))), ("two", len(losses(tmp_path / "two"))))
    ]
    assert places[0] == places[1], "of all lanes, whoever read them"


@pytest.mark.parametrize(("first", "second"), [("1", "2"), ("2", "1")])
def test_what_one_number_of_ranks_saved_another_takes_up(
    first: str, second: str, shards: list[Path], tmp_path: Path, pair: Pair
):
    def train(how: str, out: Path, options: dict[str, Any]) -> None:
        if how == "1":
            headway.train(shards, out=out, quiet=True, stream=True, allow_changes=True, **options)
        else:
            pair(shards, out, options, "--stream", "--allow-changes")

    for (before, after), out in ((("1", "1"), tmp_path / "alone"), ((first, second), tmp_path / "run")):
        train(before, out, {**RANKS, "steps": 7})
        train(after, out, {**RANKS, "steps": 14})
    assert apart(tmp_path / "alone", tmp_path / "run") < 1e-6 and len(losses(tmp_path / "run")) == 14
    assert [line["step"] for line in lines_of(tmp_path / "run") if line["event"] == "resume"] == [7]


def spoil(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "deleted":
        path.unlink()
    elif how == "cut short":
        path.write_bytes(content[: len(content) // 2])
    elif how == "changed":
        write(path, 99, 24)


@pytest.mark.parametrize("how", ["deleted", "cut short", "changed"])
def test_a_shard_that_is_lost_while_training_is_named_and_the_run_goes_on_when_it_is_back(
    how: str, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = {**STREAM, "steps": 13}
    headway.train(shards, out=tmp_path / "alone", quiet=True, **options)
    content = shards[1].read_bytes()
    with monkeypatch.context() as patch:
        at_batches(lambda: spoil(shards[1], how), {5}, patch)
        with pytest.raises(InputError) as caught:
            headway.train(shards, out=tmp_path / "run", quiet=True, **options)
    said = {"deleted": "no longer exists", "cut short": "cut short", "changed": "has changed while it was in use"}
    assert f"{shards[1]}, row group " in str(caught.value) and said[how] in str(caught.value)
    assert "run the same command again" in str(caught.value) and "\n" not in str(caught.value)
    saved = sorted((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert saved and not list((tmp_path / "run" / "checkpoints").glob(".step-*")), "checkpoints are whole"
    with pytest.raises(InputError, match=r"1\.parquet"):
        headway.train(shards, out=tmp_path / "run", quiet=True, **options)
    assert sorted((tmp_path / "run" / "checkpoints").glob("step-*")) == saved, "and stay"
    shards[1].write_bytes(content)
    headway.train(shards, out=tmp_path / "run", quiet=True, **options)
    assert outcome(tmp_path / "run") == outcome(tmp_path / "alone")


def test_a_shard_that_is_another_when_the_run_is_taken_up_is_named(shards: list[Path], tmp_path: Path):
    headway.train(shards, out=tmp_path / "run", quiet=True, **STREAM)
    write(shards[2], 77, 11)
    with pytest.raises(InputError, match=r"holds a run on other data than \S*2.parquet; name another directory"):
        headway.train(shards, out=tmp_path / "run", quiet=True, **STREAM)
    with pytest.raises(InputError, match=r"2\.parquet is missing\. Restore the file"):
        headway.train(shards[:2], out=tmp_path / "run", quiet=True, **STREAM)


def test_other_batches_are_taken_from_the_same_lanes(shards: list[Path], tmp_path: Path):
    options = {**STREAM, "accumulate": 1, "grow_batch": 1, "evaluations": 1}
    headway.train(shards, out=tmp_path / "run", quiet=True, **options)
    changed = {**options, "batch_tokens": 176, "steps": 13, "allow_changes": True}
    headway.train(shards, out=tmp_path / "run", quiet=True, **changed)
    facts = facts_of(tmp_path / "run")
    state = json.loads((tmp_path / "run" / "checkpoints" / "step-13" / "state.json").read_text())
    assert facts["plan"]["partitions"] == len(state["position"]["lanes"]) == 5
    assert state["position"]["consumed"] == 8 * 6 + 5 * 11 and facts["tokens"] == 16 * (8 * 6 + 5 * 11)
