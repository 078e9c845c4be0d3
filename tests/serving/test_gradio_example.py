"""examples/gradio_app.py with a stand-in for Gradio: what it asks of it, and what its functions answer.

Gradio itself is not needed here; docs/serve.md says with which version the example was tried.
"""

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image

import headway

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "gradio_app.py"
PARTS = ("Textbox", "Label", "HighlightedText", "JSON", "Number", "Image")


class Interface:
    """Keeps what it is made of and how it is launched."""

    made: "Interface"

    def __init__(self, fn, inputs, outputs, **more):
        self.fn, self.reads, self.shows, self.more = fn, inputs.part, outputs.part, more
        Interface.made = self

    def launch(self, **how):
        self.how = how


def part(name):
    """A component that knows its kind."""
    return lambda **more: SimpleNamespace(part=name, **more)


@pytest.fixture
def page(monkeypatch):
    """Runs the example for a model, and returns the interface that it made."""
    gradio = ModuleType("gradio")
    gradio.Interface = Interface
    for name in PARTS:
        setattr(gradio, name, part(name))
    monkeypatch.setitem(sys.modules, "gradio", gradio)

    def run(model):
        monkeypatch.setattr(sys, "argv", ["gradio_app.py", str(model), "--port", "7999"])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
        found = Interface.made
        assert found.how["server_name"] == "127.0.0.1" and found.how["server_port"] == 7999
        assert found.more["analytics_enabled"] is False and not found.how.get("share")
        return found

    return run


def test_labels(page, models):
    found = page(models["labels"])
    assert (found.reads, found.shows) == ("Textbox", "Label")
    assert found.fn("the cat") == headway.load(models["labels"])("the cat")["scores"]


def test_pictures(page, models, tmp_path):
    Image.new("RGB", (32, 32), (200, 10, 10)).save(tmp_path / "red.png")
    found = page(models["pictures"])
    assert (found.reads, found.shows) == ("Image", "Label")
    assert sum(found.fn(str(tmp_path / "red.png")).values()) == pytest.approx(1, abs=1e-5)


def test_a_language_model_streams_its_text_from_the_prompt_on(page, models):
    found = page(models["text"])
    pieces = list(found.fn("the cat"))
    assert found.shows == "Textbox" and len(pieces) > 1
    assert all(later.startswith(earlier) for earlier, later in zip(["the cat", *pieces], pieces, strict=False))


def test_a_translator_writes_text(page, models):
    found = page(models["marian"])
    assert found.shows == "Textbox" and isinstance(found.fn("the cat"), str)


def test_what_fits_a_mask_and_what_is_wrong_is_said(page, models):
    found = page(models["fill"])
    assert found.shows == "JSON" and len(found.fn("the [MASK] sat")) == 5 and found.how["show_error"]
    with pytest.raises(headway.InputError, match="MASK"):
        found.fn("the cat sat")


def test_vectors(page, models):
    found = page(models["vectors"])
    vector = found.fn("the cat")
    assert found.shows == "JSON" and isinstance(vector[0], float)


def test_spans_are_the_pieces_of_the_text(page, models, monkeypatch):
    """The pieces of a text with two spans join to it."""
    text = "in Oslo, Anna sang"
    spans = [{"start": 3, "end": 7, "label": "place"}, {"start": 9, "end": 13, "label": "person"}]

    class Tags:
        task = "token_classification"

        def __call__(self, given):
            assert given == text
            return spans

    monkeypatch.setattr(headway, "load", lambda run: Tags())
    found = page(models["text"])
    pieces = found.fn(text)
    assert found.shows == "HighlightedText" and "".join(piece for piece, _ in pieces) == text
    assert [piece for piece in pieces if piece[1]] == [("Oslo", "place"), ("Anna", "person")]
