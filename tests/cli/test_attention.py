"""``headway attention``: a page for every kind of model, and one message for what cannot be shown."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import headway
from headway.models.analysis.maps import attention_maps
from headway.models.analysis.statistics import entropy
from headway.models.own import OwnConfig
from headway.reports.explorer import MARK
from headway.workflows.inside import look_inside
from headway.workflows.load import load

TINY = {"steps": 2, "d_model": 16, "layers": 3, "heads": 2, "length": 32, "precision": "float32", "quiet": True}
KEYS = {"task", "seconds", "out", "bytes", "tokens", "kinds", "difference", "target"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator of each wiring, a baseline and an ensemble, all of two steps."""
    place = tmp_path_factory.mktemp("attention")
    pairs = "".join(f"word {i} of many\tviele worte {i}\n" for i in range(61))
    (place / "pairs.tsv").write_text(f"source\ttarget\n{pairs}")
    (place / "rows.csv").write_text("text,label\n" + "".join(f"word {i} of many,{'ab'[i % 2]}\n" for i in range(31)))
    options = {**TINY, "task": "translation", "tokenizer": "char"}
    headway.train(place / "pairs.tsv", out=place / "both", **options)
    headway.train(place / "pairs.tsv", out=place / "alone", model="decoder", **{**options, "length": 64})
    headway.train(place / "rows.csv", out=place / "several", seeds=2, **TINY)
    headway.train(place / "rows.csv", out=place / "lstm", model="lstm", steps=2, d_model=16, layers=1, quiet=True)
    images = np.random.default_rng(0).integers(0, 256, (24, 8, 8), np.uint8)
    np.savez(place / "images.npz", images=images, labels=np.arange(24) % 2)
    headway.train(place / "images.npz", out=place / "images", steps=2, d_model=16, layers=3, heads=2, quiet=True)
    return place


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def data_of(path: str | Path) -> dict:
    page = Path(path).read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


@pytest.mark.parametrize(("run", "kind"), [("lm_run", "language_modeling"), ("classifier_run", "classification")])
def test_a_decoder_and_an_encoder(run, kind, request, in_process):
    found = in_process.json("attention", request.getfixturevalue(run), "the old cat sat")
    assert set(found) == KEYS
    assert found["task"] == kind and found["out"] == "attention.html" and found["kinds"] == {"self": [2, 2]}
    assert found["difference"] < 1e-5 and found["bytes"] == Path("attention.html").stat().st_size
    data = data_of("attention.html")
    assert len(data["tokens"]["text"]) == found["tokens"]["text"] == data["kinds"][0]["shape"][0]
    assert (data["tokens"]["text"][0] == "[CLS]") == (kind == "classification")
    assert ("induction" in data["kinds"][0]["statistics"]) == (kind == "language_modeling")


def test_a_translator_shows_its_own_translation_or_the_one_that_is_given(runs, in_process):
    status, _, err = in_process("attention", runs / "both", "word 7", "--out", "own.html", "--quiet")
    assert status == 0 and not [line for line in err.splitlines() if "cut off" not in line]
    pipe = load(runs / "both")
    assert look_inside(pipe, "word 7").target == pipe("word 7", beam=1)
    found = in_process.json("attention", runs / "both", "word 7", "--target", "viele", "--out", "t.html")
    assert found["kinds"] == {"encoder": [3, 2], "decoder": [3, 2], "cross": [3, 2]} and found["target"] == "viele"
    data = data_of("t.html")
    assert [kind["shape"] for kind in data["kinds"]] == [[7, 7], [6, 6], [6, 7]]  # with an end, and a start
    assert data["tokens"]["target"][1:] == list("viele") == data["next"][:-1]
    assert data["tokens"]["source"][:-1] == list("word·7")


def test_a_decoder_that_translates(runs, in_process):
    in_process.passed("attention", runs / "alone", "word 7", "--target", "viele")
    data = data_of("attention.html")
    assert data["tokens"]["text"][-5:] == list("viele") and data["next"][:-1] == data["tokens"]["text"][1:]
    assert data["kinds"][0]["causal"]


@torch.no_grad()
def test_maps_and_statistics_are_the_models(runs):
    pipe = load(runs / "both")
    inside = look_inside(pipe, "word 7", "viele")
    source = pipe.tokenizer.encode("word 7", special=True)
    before = [*pipe.rules.start, *pipe.tokenizer.target.encode("viele")]
    maps = attention_maps(pipe.model, torch.tensor([source]), torch.tensor([before]))
    for name, kind in inside.kinds.items():
        np.testing.assert_array_equal(kind.maps, torch.cat(maps[name]).numpy())
        np.testing.assert_array_equal(kind.statistics["entropy"][2], entropy(maps[name][2])[0].numpy())
    assert "distance" not in inside.kinds["cross"].statistics and "distance" in inside.kinds["decoder"].statistics


def test_texts_from_files_and_pipes(lm_run, in_process, monkeypatch):
    Path("text.txt").write_text("the old cat\nsat")
    Path("utf16.txt").write_text("the old cat\nsat", encoding="utf-16")
    assert in_process("attention", lm_run, "text.txt", "--out", "a.html")[0] == 0
    assert in_process("attention", lm_run, "utf16.txt", "--encoding", "utf-16", "--out", "c.html")[0] == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"the old cat\nsat")))
    assert in_process("attention", lm_run, "-", "--out", "b.html")[0] == 0
    assert data_of("a.html")["tokens"] == data_of("b.html")["tokens"] == data_of("c.html")["tokens"]


def test_a_model_of_images(runs, in_process):
    Image.fromarray(np.full((9, 11, 3), 200, np.uint8)).save("grey.png")
    found = in_process.json("attention", runs / "images", "grey.png")
    assert set(found) == KEYS and found["kinds"] == {"self": [3, 2]} and found["tokens"] == {"picture": 17}
    assert found["difference"] < 1e-5 and data_of("attention.html")["patches"]["columns"] == 4


def test_only_pages_of_this_command_are_overwritten(lm_run, in_process):
    for _ in range(2):
        assert in_process("attention", lm_run, "the cat")[0] == 0
    Path("mine.html").write_text("<p>mine</p>")
    in_process.refused("attention", lm_run, "the cat", "--out", "mine.html", said="was not written by this command")
    assert Path("mine.html").read_text() == "<p>mine</p>"
    assert MARK in Path("attention.html").read_text()[:500]


@pytest.mark.parametrize(
    ("run", "words", "said"),
    [
        ("lm_run", ["the cat", "--target", "x"], "a target is for models that translate; this one is for lang"),
        ("lm_run", ["the cat " * 40], "tokens, and the model reads at most 32; shorten it"),
        ("lm_run", [""], "the text has no tokens"),
        ("lm_run", ["the cat", "--out", "page.txt"], "--out page.txt: the page is written as HTML; use a name"),
        ("lm_run", ["the cat", "--out", "no/such/page.html"], "there is no folder no/such; make it first"),
        ("lm_run", ["utf16.txt"], "Run again with --encoding utf-16"),
        ("images", ["grey.png", "--encoding", "utf-16"], "--encoding is for texts"),
        ("lm_run", ["missing.txt"], "there is no such file"),
        ("lm_run", ["rows.csv"], "this is a table; give a text"),
        ("lm_run", ["the cat", "--target-language", "de"], "only translators have languages"),
        ("both", [" "], "the text has no tokens"),
        ("both", ["word", "--target", "viele " * 20], "the target has 1"),
        ("images", ["word"], "word: no such file; expected an image"),
        ("images", ["rows.csv"], "rows.csv: cannot be read as an image"),
        ("lstm", ["word"], "this is a baseline (lstm): it has no attention heads that Headway can show"),
        ("no-run", ["word"], "no such model directory"),
    ],
)  # fmt: skip
def test_what_cannot_be_shown(run, words, said, runs, request, in_process):
    Path("rows.csv").write_text("text,label\na,b\n")
    Path("utf16.txt").write_text("the old cat sat\n" * 9, encoding="utf-16")
    place = request.getfixturevalue(run) if run == "lm_run" else runs / run
    in_process.refused("attention", place, *words, said=said)
    assert not list(Path().glob("*.html"))


def test_the_first_of_several_models(runs, in_process):
    assert in_process("attention", runs / "several", "word 7")[0] == 0
    assert "The first of 2 models; their answers are averaged." in Path("attention.html").read_text()


class OfAPlugin(nn.Module):
    """A language model with a block that is no block of ours."""

    def __init__(self, config: OwnConfig):
        super().__init__()
        self.config, self.head = config, nn.Linear(config.d_model, config.vocab_size)
        self.words = nn.Embedding(config.vocab_size, config.d_model)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.head(self.words(ids))


class Mixed(nn.Module):
    """In place of attention: the mean of all tokens before."""

    def forward(self, x: torch.Tensor, **_: object) -> torch.Tensor:
        return x.cumsum(dim=1)


class Renamed(headway.Decoder):
    """A decoder of a plug-in that is one of ours."""


def test_the_model_of_a_plug_in_is_shown_or_refused_by_name(lm_run):
    pipe = load(lm_run)
    pipe.model.__class__ = Renamed
    assert look_inside(pipe, "the cat").wiring == "decoder"
    for block in pipe.model.stack.blocks:
        block.attention.layer = Mixed()
    with pytest.raises(headway.InputError, match="a Renamed with blocks of its own: it has no attention heads"):
        look_inside(pipe, "the cat")
    pipe.model = OfAPlugin(OwnConfig("poetry", pipe.tokenizer.vocab_size))
    with pytest.raises(headway.InputError, match="the own model of poetry: it has no attention heads"):
        look_inside(pipe, "the cat")


def test_the_page_says_which_row_is_of_the_step_that_writes_a_token(runs, lm_run, classifier_run, in_process):
    for run, writes in ((runs / "both", True), (runs / "alone", True), (lm_run, True), (classifier_run, False)):
        assert in_process("attention", run, "word 7" if run.parent == runs else "the cat", "--quiet")[0] == 0
        assert ("is in the row above" in Path("attention.html").read_text()) == writes
