"""An export to ONNX answers in a browser window, by ONNX Runtime's web build and the page of ``examples/``."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from os import environ
from pathlib import Path
from typing import Any

import pytest
from doors_kit import texts

import headway
from headway.workflows.export import export

EXAMPLES = Path(__file__).parents[3] / "examples"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PACKAGES = EXAMPLES / "node_modules"
if not environ.get("CI"):
    pytest.importorskip("playwright")
pytestmark = pytest.mark.skipif(
    not PACKAGES.is_dir() or (CHROMIUM is None and not environ.get("CI")),
    reason="there is no Chromium here, or no ONNX Runtime for it in examples/node_modules",
)
TEXTS = [*texts(12, seed=5), "a cat <|endoftext|> [MASK] sat"]


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that writes no line for each."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def page_of(exported: Path, directory: Path) -> Iterator[Any]:
    """The page in a browser, served with a copy of an export; fails on any complaint, and on a request to elsewhere."""
    from playwright.sync_api import sync_playwright

    shutil.copytree(exported, directory)
    shutil.copy(EXAMPLES / "onnx_browser.html", directory)
    (directory / "node_modules").symlink_to(PACKAGES)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=directory))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    complaints: list[str] = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith((address, "blob:")) else complaints.append(one.url))
        page.goto(f"{address}onnx_browser.html")
        yield page
        browser.close()
    server.shutdown()
    assert complaints == []


def answer(page: Any, text: str) -> str:
    """What the page answers to a text."""
    page.get_by_label("Text").fill(text)
    button = page.get_by_role("button", name="Answer")
    button.click()
    page.wait_for_function("() => !document.querySelector('button').disabled")
    shown: str = page.locator("output").text_content()
    return shown


def test_a_classifier_answers_in_a_browser(classifier_run: Path, tmp_path: Path):
    found = export(classifier_run, tmp_path / "out", to="onnx")
    with page_of(found.out, tmp_path / "page") as page:
        shown = [answer(page, text).splitlines() for text in TEXTS]
    answers = headway.load(classifier_run)(TEXTS)
    assert [rows[0].rpartition(" ")[0] for rows in shown] == [one["label"] for one in answers]
    scores = [float(rows[0].rpartition(" ")[2]) for rows in shown]
    assert scores == pytest.approx([one["score"] for one in answers], abs=1e-4)
    assert len({rows[0].rpartition(" ")[0] for rows in shown}) == 2, "the answers depend on the texts"


def test_a_language_model_continues_texts_in_a_browser(exported: Callable, tmp_path: Path):
    source, found = exported("language model")
    with page_of(found.out, tmp_path / "page") as page:
        page.get_by_label("New tokens").fill("12")
        shown = [answer(page, text) for text in TEXTS]
    assert shown == headway.load(source)(TEXTS, max_tokens=12, temperature=0)
    assert len(set(shown)) > 6, "the continuations depend on the texts"
