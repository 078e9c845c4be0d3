"""Photograph the playground: two tabs of a server, in chromium.

python docs/pictures/playground.py RUN TEXT     writes playground-write.png and playground-inside.png next to this file

RUN is a language model, for example of ``headway demo``; it needs the development packages and chromium.
"""

import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
PORT = 8731
ADDRESS = f"http://127.0.0.1:{PORT}"
SIZE = {"width": 1000, "height": 780}


def main(run: str, text: str) -> None:
    """Serve the run, and photograph it."""
    server = subprocess.Popen([sys.executable, "-m", "headway", "serve", run, "--port", str(PORT)])
    try:
        _wait()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE)
            page.goto(ADDRESS)
            _write(page, text)
            _look_inside(page, text)
            browser.close()
    finally:
        server.terminate()
        server.wait()


def _wait() -> None:
    for _ in range(120):
        try:
            urllib.request.urlopen(f"{ADDRESS}/ready").close()
            return
        except OSError:
            time.sleep(0.5)
    raise SystemExit("the server did not become ready")


def _write(page: Any, text: str) -> None:
    panel = _tab(page, "Write")
    panel.get_by_label("Text to go on with").fill(text)
    panel.get_by_role("button", name="Write", exact=True).click()
    panel.locator("output", has_text="tokens/s;").wait_for()
    panel.locator(".tok").nth(3).hover()
    page.screenshot(path=HERE / "playground-write.png", full_page=True)


def _look_inside(page: Any, text: str) -> None:
    panel = _tab(page, "Look inside")
    panel.get_by_label("Text", exact=True).fill(text)
    panel.get_by_role("button", name="Look inside", exact=True).click()
    panel.locator(".lens").wait_for()
    panel.get_by_role("heading", name="Tokens", exact=True).scroll_into_view_if_needed()
    page.evaluate("window.scrollTo(0, document.querySelector('.lens').getBoundingClientRect().top + scrollY - 320)")
    page.wait_for_timeout(300)
    page.screenshot(path=HERE / "playground-inside.png")


def _tab(page: Any, title: str) -> Any:
    page.get_by_role("tab", name=title, exact=True).click()
    panel = page.get_by_role("tabpanel", name=title, exact=True)
    panel.locator("form").first.wait_for()
    return panel


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
