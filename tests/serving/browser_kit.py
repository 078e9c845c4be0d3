"""The playground in a real browser: pages that collect what the browser complains of, and checks of all tabs."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
if not os.environ.get("CI"):
    pytest.importorskip("playwright")
    pytest.importorskip("axe_playwright_python")
needed = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"), reason="there is no Chromium here, and this is not CI"
)
SIZES = {"light": (1280, 900), "dark": (1280, 900), "phone": (390, 844)}
TEXT = "the cat sat on a mat"


@contextmanager
def opened(browser: Any, address: str, look: str = "light") -> Iterator[Any]:
    """The playground of a server, in a window of its own; fails on any complaint of the browser."""
    width, height = SIZES[look]
    scheme = "dark" if look == "dark" else "light"
    window = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = window.new_page()
    page.set_default_timeout(60_000)
    complaints: list[str] = []
    page.on("console", lambda one: complaints.append(one.text) if one.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    outside: list[str] = []
    page.on("request", lambda one: None if one.url.startswith((address, "blob:")) else outside.append(one.url))
    page.complaints = complaints
    page.goto(address)
    page.wait_for_selector('[role="tab"], #problem:not([hidden])')
    yield page
    window.close()
    assert complaints == [] and outside == []


def tab(page: Any, title: str) -> Any:
    """Choose a tab and return its panel."""
    page.get_by_role("tab", name=title, exact=True).click()
    panel = page.get_by_role("tabpanel", name=title, exact=True)
    panel.locator("form").first.wait_for()
    return panel


def fill(panel: Any, label: str, text: str, button: str) -> None:
    """Write a text and send it."""
    panel.get_by_label(label, exact=True).fill(text)
    panel.get_by_role("button", name=button, exact=True).first.click()


def write(page: Any) -> Any:
    panel = tab(page, "Write")
    if not panel.get_by_label("Seed").is_visible():
        panel.get_by_text("More controls").click()
    panel.get_by_label("Seed").fill("5")
    fill(panel, "Text to go on with", TEXT, "Write")
    panel.locator("output", has_text="length reached").or_(panel.locator("output", has_text="ended")).first.wait_for()
    panel.locator(".tok").first.focus()
    return panel


def chat(page: Any) -> Any:
    panel = tab(page, "Chat")
    fill(panel, "Message", TEXT, "Send")
    panel.locator("output", has_text="length reached").or_(panel.locator("output", has_text="ended")).first.wait_for()
    return panel


def answered(title: str, shown: str, text: str = TEXT, label: str = "Text", button: str | None = None) -> Any:
    """What uses a tab of one text."""

    def use(page: Any) -> Any:
        panel = tab(page, title)
        fill(panel, label, text, button or title)
        panel.locator(shown).first.wait_for()
        return panel

    return use


def train(page: Any) -> Any:
    panel = tab(page, "Training")
    panel.locator(".curves").wait_for()
    return panel


LINES = "the cat sat\nold dogs ran past red doors\nthe cat sang"
TABS = {
    "Write": write,
    "Chat": chat,
    "Classify": answered("Classify", ".weighed"),
    "Fill": answered("Fill", ".bars", "the [MASK] sat"),
    "Tag": answered("Tag", ".spans"),
    "Translate": answered("Translate", "article"),
    "Compare": answered("Compare", ".matrix", LINES, "Texts, one a line"),
    "Look inside": answered("Look inside", ".lens"),
    "Training": train,
}
"""What each tab is tried with."""


def violations(page: Any) -> list[str]:
    """What axe finds, run from outside the page so that its content policy holds."""
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    found = page.context.new_cdp_session(page).send(
        "Runtime.evaluate",
        {
            "expression": f"{axe};axe.run(document).then(found => found.violations.flatMap("
            "one => one.nodes.map(node => `${one.id}: ${node.html.slice(0, 200)}`)))",
            **{"awaitPromise": True, "returnByValue": True},
        },
    )
    page.complaints.clear()  # of the styles that axe itself tries
    result: list[str] = found["result"]["value"]
    return result
