"""Data sets of the hub, from folders on this machine that stand in for it; nothing here needs a connection."""

import json
import random
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest

import headway
from headway.api import default_out
from headway.data.open.read import read
from headway.data.stream.streamed import fetched, remote_shards
from headway.errors import InputError
from headway.hub.download import DatasetId, dataset_id
from headway.io.file_lock import cache_directory
from headway.training.options import TrainOptions
from headway.workflows.evaluate import evaluate
from headway.workflows.input import read_input

WORDS = ["the", "cat", "sat", "on", "a", "mat", "while", "old", "dogs", "ran", "past", "red", "doors", "and", "sang"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose folders are the data sets of a hub, and caches of this test's own."""
    place = tmp_path / "hub"
    for name in ("load_dataset", "load_dataset_builder"):
        honest = getattr(datasets, name)

        def here(path: str, honest: Any = honest, **given: Any) -> Any:
            assert given.pop("revision", None) in (None, "main")
            return honest(str(place / path) if (place / path).exists() else path, **given)

        monkeypatch.setattr(datasets, name, here)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "library")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return place


def add(hub: Path, name: str, split: str, rows: int, *, labels: bool = False, files: int = 1) -> None:
    """A split of a data set, in Parquet."""
    draw = random.Random(f"{name} {split}")
    (hub / name / "data").mkdir(parents=True, exist_ok=True)
    for number in range(files):
        columns: dict[str, Any] = {"text": [" ".join(draw.choices(WORDS, k=draw.randint(3, 31))) for _ in range(rows)]}
        if labels:
            columns["label"] = [row % 2 for row in range(rows)]
        features = datasets.Features({"text": datasets.Value("string")})
        if labels:
            features["label"] = datasets.ClassLabel(names=["bad", "good"])
        made = datasets.Dataset.from_dict(columns, features=features)
        made.to_parquet(hub / name / "data" / f"{split}-{number:05}-of-{files:05}.parquet", batch_size=29)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("org/name", DatasetId("org/name")),
        ("org/name:test", DatasetId("org/name", None, "test")),
        ("org/name@v1.0:train[:1%]", DatasetId("org/name", "v1.0", "train[:1%]")),
        ("org/name@refs/convert/parquet", DatasetId("org/name", "refs/convert/parquet")),
        ("org/name.en@main", DatasetId("org/name.en", "main")),
        ("org/name-v1.0", DatasetId("org/name-v1.0")),
        *(
            (place, None)
            for place in (
                "name",
                "org/name.csv",
                "org/train.en",
                "org/more/name",
                "org/name:",
                "org/name:a b",
                "a/b.txt.gz",
            )
        ),
        *((place, None) for place in (Path("org/name"), "./org/name", "/org/name", "org/../name", "here/name")),
    ],
)
def test_what_names_a_data_set(place: Any, found: DatasetId | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    assert dataset_id(place) == found
    assert found is None or dataset_id(str(found)) == found


def test_a_data_set_is_written_to_the_cache_once_and_trained_on_as_parquet(hub: Path, tmp_path: Path, tiny: dict):
    add(hub, "org/reviews", "train", 90, labels=True)
    add(hub, "org/reviews", "test", 31, labels=True)
    run = headway.train("org/reviews", out=tmp_path / "run", validation="org/reviews:test", quiet=True, **tiny)
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert run["task"] == "classification" and facts["labels"] == ["bad", "good"], "by the names of its classes"
    assert facts["data"]["inputs"] == ["org/reviews"] and facts["validation"] == ["org/reviews:test"]
    kept = sorted(path.name for path in cache_directory().glob("*.parquet"))
    assert [name.rpartition("-")[0] for name in kept] == ["org-reviews-test", "org-reviews-train"]
    written = [path.stat().st_mtime_ns for path in cache_directory().glob("*.parquet")]
    found = evaluate(tmp_path / "run")
    assert found["examples"] == 31 and found["accuracy"] == run["accuracy"]
    (again,) = fetched(["org/reviews:train"])
    assert again.name in kept and written == [path.stat().st_mtime_ns for path in cache_directory().glob("*.parquet")]
    assert len(read(again).rows) == 90
    assert default_out(["org/reviews@main:test"]) == Path("runs/reviews")


def test_a_damaged_file_of_the_cache_is_written_again(hub: Path):
    add(hub, "org/damaged", "train", 90, labels=True)
    (path,) = fetched(["org/damaged"])
    whole = Path(path).read_bytes()
    record = Path(path).with_suffix(".json")
    for damaged, at in ((Path(path), len(whole) // 2), (Path(path), len(whole) - 1), (record, 20)):
        content = bytearray(damaged.read_bytes())
        content[at] ^= 4
        damaged.write_bytes(content)
        with pytest.warns(UserWarning, match="this cache file is damaged; it is deleted and rebuilt"):
            assert fetched(["org/damaged"]) == [path]
        assert Path(path).read_bytes() == whole
    record.unlink()  # as an earlier version left it
    assert fetched(["org/damaged"]) == [path] and record.exists()


def test_a_data_set_is_streamed_from_where_it_is(hub: Path, tmp_path: Path, tiny: dict):
    add(hub, "org/text", "train", 70, files=2)
    run = headway.train("org/text", out=tmp_path / "run", stream=True, quiet=True, **(tiny | {"evaluations": 1}))
    facts = json.loads((tmp_path / "run" / "headway.json").read_text())
    assert run["steps"] == 20 and facts["data"]["inputs"] == ["org/text"]
    assert [shard["rows"] for shard in facts["data"]["shards"]] == [70, 70]
    copies = [*cache_directory().glob("*.parquet"), *(tmp_path / "library").rglob("*.arrow")]
    assert not copies, "nothing is fetched"
    found = evaluate(tmp_path / "run")
    assert found["val_loss"] == pytest.approx(run["val_loss"], rel=1e-6) and "held-out part" in found["on"]
    add(hub, "org/more", "train", 70)
    assert read_input(["org/text", "org/more"], TrainOptions(stream=True))[0].n_rows == 210
    assert read_input(["org/text", "org/more"], TrainOptions())[0].n_documents == 210
    files = sorted((hub / "org" / "text" / "data").iterdir())
    assert read_input(["org/text"], TrainOptions(stream=True))[0].fingerprint == (
        read_input(files, TrainOptions(stream=True))[0].fingerprint
    ), "the same files, wherever they are"


def said(*inputs: str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        headway.train(*inputs, quiet=True, steps=1, **options)
    assert "\n" not in str(caught.value) and not Path("runs").exists()
    return str(caught.value)


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_fetched_is_one_message(stream: bool, hub: Path):
    assert "org/none:train: no such path, and it was not fetched before; HF_HUB_OFFLINE is set" in said(
        "org/none", stream=stream
    )
    add(hub, "org/text", "train", 9)
    assert "org/text:nope: " in (found := said("org/text:nope", stream=stream)) and "train" in found
    assert "there is no folder nowhere" in said("nowhere/reviews.csv", stream=stream)


@pytest.mark.parametrize("stream", [False, True])
def test_reasons_are_told_apart(stream: bool, hub: Path, monkeypatch: pytest.MonkeyPatch):
    cases = [
        (
            datasets.exceptions.DatasetNotFoundError("Dataset 'a/b' doesn't exist"),
            "no such path here, and no such dataset",
        ),
        (
            datasets.exceptions.DatasetNotFoundError("Dataset 'a/b' is a gated dataset on the Hub."),
            "to accept their terms first",
        ),
        (datasets.exceptions.DatasetNotFoundError("Revision 'x' doesn't exist"), "has no such revision"),
        (ConnectionError("Couldn't reach 'a/b' on the Hub (ConnectError)"), "cannot be reached (Couldn't reach"),
        (ValueError("Config name is missing.\nPlease pick one"), "cannot be fetched (Config name is missing.)"),
    ]
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    for error, words in cases:

        def failing(*given: Any, error: Exception = error, **more: Any) -> None:
            raise error

        monkeypatch.setattr(datasets, "load_dataset_builder" if stream else "load_dataset", failing)
        assert words in said("org/name", stream=stream)


def test_a_split_in_another_format_is_not_streamed(hub: Path):
    (hub / "org" / "lines").mkdir(parents=True)
    (hub / "org" / "lines" / "train.jsonl").write_text('{"text": "the cat sat"}\n' * 9)
    found = said("org/lines", stream=True)
    assert "is stored as train.jsonl, but --stream reads Parquet" in found and "org/lines@refs/convert/parquet" in found
    (path,) = fetched(["org/lines"])
    assert read(path).n_documents == 9


def test_a_file_that_is_out_of_reach_is_named(hub: Path, monkeypatch: pytest.MonkeyPatch):
    import fsspec

    add(hub, "org/text", "train", 40)
    (shard,) = remote_shards(DatasetId("org/text"))
    assert len(shard.column(0, "text")) == 29

    class Broken:
        def __init__(self, path: Path):
            self.file, self.reads = path.open("rb"), 0
            self.seek, self.tell, self.close = self.file.seek, self.file.tell, self.file.close

        closed = False

        def read(self, size: int = -1) -> bytes:
            self.reads += 1
            if self.reads > 2:
                raise RuntimeError("connection lost")
            return self.file.read(size)

    class Opened:
        def open(self) -> Broken:
            return Broken(Path(shard.name))

    monkeypatch.setattr(fsspec, "open", lambda *given: Opened())
    with pytest.raises(InputError, match=r"row group 1 of 2: cannot be fetched now \(connection lost\).*same command"):
        shard.column(0, "text")


def test_without_the_library_the_extra_is_named(hub: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "To fetch the dataset of this name from the hub: pip install 'headway[hub]'" in said("org/name")


@pytest.mark.parametrize(
    ("row", "task"),
    [
        ({"id": "0", "translation": {"en": "the cat {n} sat", "fr": "le chat {n}"}}, "translation"),
        (
            {"prompt": "a", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "{n} b"}]},
            "language_modeling",
        ),
    ],
)
def test_nested_rows_of_the_hub_are_read_as_those_of_jsonl(row: Any, task: str, hub: Path, tmp_path: Path):
    rows = [json.loads(json.dumps(row).replace("{n}", str(n))) for n in range(31)]
    (hub / "org" / "name" / "data").mkdir(parents=True)
    datasets.Dataset.from_list(rows).to_parquet(hub / "org" / "name" / "data" / "train-00000-of-00001.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (source, found), (other, again) = (
        read_input([place], TrainOptions()) for place in ("org/name", tmp_path / "a.jsonl")
    )
    assert list(source.rows) == list(other.rows) and found.task == again.task == task
    if task == "language_modeling":
        with pytest.raises(InputError, match="these are conversations; --stream reads running text"):
            read_input(["org/name"], TrainOptions().but(stream=True))
