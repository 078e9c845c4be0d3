"""Photograph the playground: two tabs of a server, in chromium, with the steps of its tests.

python docs/pictures/playground.py RUN TEXT     writes playground-write.png and playground-inside.png next to this file

RUN is a language model, for example of ``headway demo``; it needs the development packages and chromium.
"""

import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "tests" / "serving"))
from browser_kit import CHROMIUM, fill, opened, tab  # noqa: E402

PORT = 8731
ADDRESS = f"http://127.0.0.1:{PORT}"
SIZE = {"width": 1000, "height": 780}


def main(run: str, text: str) -> None:
    """Serve the run, and photograph it."""
    server = subprocess.Popen([sys.executable, "-m", "headway", "serve", run, "--port", str(PORT)])
    try:
        _wait()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            with opened(browser, ADDRESS) as page:
                page.set_viewport_size(SIZE)
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
    panel = tab(page, "Write")
    fill(panel, "Text to go on with", text, "Write")
    panel.locator("output", has_text="tokens/s;").wait_for()
    panel.locator(".tok").nth(3).hover()
    page.screenshot(path=HERE / "playground-write.png", full_page=True)


def _look_inside(page: Any, text: str) -> None:
    panel = tab(page, "Look inside")
    fill(panel, "Text", text, "Look inside")
    panel.locator(".lens").wait_for()
    panel.get_by_role("heading", name="Tokens", exact=True).scroll_into_view_if_needed()
    page.evaluate("window.scrollTo(0, document.querySelector('.lens').getBoundingClientRect().top + scrollY - 320)")
    page.wait_for_timeout(300)
    page.screenshot(path=HERE / "playground-inside.png")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
