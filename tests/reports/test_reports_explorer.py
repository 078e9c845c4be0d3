"""The attention explorer's page: whole, closed to the outside, small, and true to the maps."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.models.config import Patches, TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.reports import explorer
from headway.reports.attention_store import Stored, restore
from headway.reports.explorer import MARK, attention_page
from headway.tasks import inspection
from headway.tasks.image_classification.task import ImageClassifier
from headway.tasks.inspection import Inside, visible
from headway.workflows.inside import look_inside

WIRINGS = {"encoder": Encoder, "decoder": Decoder, "encoder-decoder": EncoderDecoder}
HOSTILE = ["</script><script>alert(1)</script>", "<!--", "\u202eabc", "\u200b", "&lt;", "שלום", '"', "\x00", "e\u0301"]


def look(wiring: str, n: int, names: list[str] | None = None, **changes: object) -> Inside:
    torch.manual_seed(0)
    config = TransformerConfig(97, **{"d_model": 32, "n_layers": 3, "n_heads": 2, "max_length": 1024, **changes})
    ids, other = torch.randint(97, (n,)).tolist(), torch.randint(97, (n + 4,)).tolist()
    words = names or [f"word{i}" for i in ids]
    if wiring == "encoder-decoder":
        tokens = {"source": [f"source{i}" for i in other], "target": words}
        both = EncoderDecoder(config).eval()
        return inspection.look(
            "translation", both, inspection.rows(both, other, ids), tokens, following=words, target="<b>done</b>"
        )
    model = WIRINGS[wiring](config).eval()
    return inspection.look("masked_lm", model, inspection.rows(model, ids), {"text": words})


def look_at_image() -> tuple[Inside, np.ndarray]:
    """The attention of a ViT of three layers on an image with two rows that no patch has room for, and the image."""
    torch.manual_seed(0)
    cut = Patches(image_size=(14, 20), patch_size=(4, 4))
    config = TransformerConfig(0, d_model=32, n_layers=3, n_heads=2, max_length=cut.tokens, positions="learned")
    head = ClassificationHead(config, 2, pooling="first", dense=False)
    pipe = ImageClassifier(Encoder(config, head, patches=cut).eval(), ImagePreprocessor((14, 20)), ["a", "b"])
    image = np.random.default_rng(0).integers(0, 256, (14, 20, 3), np.uint8)
    return look_inside(pipe, image), image


def data_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])


def stored(kind: dict) -> Stored:
    return Stored(*(kind[key] for key in ("q", "cell", "maps", "rests", "shape", "causal")))


@pytest.mark.parametrize("wiring", WIRINGS)
def test_the_page_holds_the_maps(wiring: str):
    inside = look(wiring, 13)
    data = data_of(attention_page(inside, "a run"))
    kinds = {"encoder-decoder": ["encoder", "decoder", "cross"]}.get(wiring, ["self"])
    assert list(inside.kinds) == kinds and len(data["kinds"]) == len(kinds)
    assert data["tokens"] == inside.tokens
    for name, found in zip(kinds, data["kinds"], strict=True):
        maps = inside.kinds[name].maps
        assert maps.shape == (3, 2, len(data["tokens"][found["queries"]]), len(data["tokens"][found["keys"]]))
        for layer in range(3):
            for head in range(2):
                np.testing.assert_allclose(restore(stored(found), layer, head), maps[layer, head], atol=1e-5)
        assert found["causal"] == (name == "decoder" or wiring == "decoder")
        for values in found["statistics"].values():
            assert np.array(values).shape == (3, 2)
    statistics = {"entropy", "confidence", "distance", "previous_token"}
    assert set(data["kinds"][0]["statistics"]) == statistics | ({"induction"} if wiring == "decoder" else set())
    assert inside.difference < 1e-5


def test_512_tokens_of_six_layers_with_eight_heads_are_under_2_mb():
    inside = look("encoder", 512, n_layers=6, n_heads=8)
    page = attention_page(inside, "a run")
    assert 1_000_000 < len(page.encode()) < 2_000_000
    kept = stored(data_of(page)["kinds"][0])
    errors = [np.abs(restore(kept, layer, 5) - inside.kinds["self"].maps[layer, 5]).max() for layer in range(6)]
    said = float(re.search(r"the largest difference is ([0-9.e-]+)\.</p>", page)[1])
    assert max(errors) <= 1.05 * said <= 1.1 * 0.5 / kept.q
    assert f"multiple of 1/{kept.q}" in page and "cells of 8 × 8 tokens" in page


def test_an_image_is_shown_by_its_patches(monkeypatch: pytest.MonkeyPatch):
    inside, image = look_at_image()
    page = attention_page(inside, "a run")
    data = data_of(page)
    assert data["tokens"]["picture"] == ["[CLS]", *(f"r{row} c{column}" for row in "123" for column in "12345")]
    kind, patches = data["kinds"][0], data["patches"]
    assert kind["queries"] == kind["keys"] == "picture" and kind["shape"] == [16, 16]
    assert set(kind["statistics"]) == {"entropy", "confidence", "patch_distance"}
    assert [patches[key] for key in ("rows", "columns", "height", "width")] == [3, 5, 4, 4]
    pixels = np.frombuffer(zlib.decompress(base64.b64decode(patches["pixels"])), np.uint8).reshape(15, 4, 4, 3)
    np.testing.assert_array_equal(pixels[7], image[4:8, 8:12], "the patch in row 2 and column 3")
    assert "patch by patch" in page and "token by token" not in page
    monkeypatch.setattr(explorer, "MOST_PIXELS", 100)
    assert [data_of(attention_page(inside, "x"))["patches"][key] for key in ("height", "width")] == [2, 2]


class Reader(HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_nothing_is_fetched_and_only_these_scripts_and_styles_are_allowed():
    page = attention_page(look("encoder-decoder", 7), "a run")
    reader = Reader(page)
    (policy,) = [found["content"] for _, found in reader.tags if found.get("http-equiv") == "Content-Security-Policy"]
    for kind in ("style", "script"):
        (text,) = re.findall(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag, found in reader.tags:
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
        assert not {"src", "href", "style", "action"} & set(found), (tag, found)
        assert not any(name.startswith("on") for name in found)
    assert not re.search(r"https?:|url\(|@import|innerHTML|eval\(|fetch\(", page)
    assert page.startswith("<!DOCTYPE html>") and MARK in page[:200]


def test_hostile_names_stay_text():
    names = [visible(name) for name in HOSTILE]
    assert names[2:4] == ["U+202Eabc", "U+200B"] and names[7] == "U+0000"
    page = attention_page(look("encoder", len(HOSTILE), names), "<img src=x>")
    reader = Reader(page)
    assert [tag for tag, _ in reader.tags].count("script") == 2
    assert not any(tag in ("b", "img") for tag, _ in reader.tags)
    assert data_of(page)["tokens"]["text"] == names
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2066-\u2069]", page)
    assert "What <img src=x> attends to" in reader.text
    assert "<b>done</b>" in "".join(Reader(attention_page(look("encoder-decoder", 5), "x")).text)


def test_names_of_what_has_no_shape():
    shown = {" a\tb\n": "·a⇥b⏎", "\u0301": "◌\u0301", "\xa0\u2028\ufeff": "U+00A0U+2028U+FEFF", "é日本😀": "é日本😀"}
    assert {name: visible(name) for name in shown} == shown


def test_without_a_script_the_numbers_are_there():
    inside = look("encoder-decoder", 7)
    reader = Reader(attention_page(inside, "a run"))
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("noscript") == 1 and tags.count("table") == 3
    for value in inside.kinds["cross"].statistics["entropy"].flatten():
        assert f"{value:.3f}" in reader.text


def test_the_direction_of_a_text():
    inside = look("encoder", 5, ["[CLS]", "שלום", "a", ".", "[SEP]"])
    assert data_of(attention_page(inside, "x"))["direction"] == {"text": "ltr"}  # most letters are Latin
    inside = replace(inside, tokens={"text": ["שלום", "עולם", "טוב", ".", "a"]})
    assert data_of(attention_page(inside, "x"))["direction"] == {"text": "rtl"}


def test_what_cannot_fit_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explorer, "MOST_BYTES", 30_000)
    with pytest.raises(InputError, match="too many for one page; give a shorter text"):
        attention_page(look("encoder", 211), "x")
