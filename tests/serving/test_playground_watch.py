"""The page of ``headway train --watch`` in a real browser: from an empty directory to the end of the training."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from browser_kit import SIZES, needed, opened, violations
from watched_run import EVIL, SNAPSHOTS, write_run

from headway.cli import train as watching

pytestmark = needed


@pytest.mark.parametrize("look", SIZES)
def test_a_run_is_shown_until_its_training_ends(browser, look, tmp_path):
    pictures = Path(os.environ.get("HEADWAY_PICTURES", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    run = tmp_path / "my <b>run"
    server, address = watching._started(run)
    try:
        with opened(browser, address, look) as page:
            assert page.get_by_role("tab").all_inner_texts() == ["Training"] and page.locator("#access").is_hidden()
            page.get_by_text("There is nothing to see yet").wait_for()
            write_run(run)
            page.get_by_text("Step 40; still training.").wait_for()
            table = page.get_by_role("table")
            assert table.locator("tbody tr").count() == len(SNAPSHOTS)
            kept = table.locator("tbody tr", has_text="kept")
            assert kept.count() == 1 and kept.get_by_role("rowheader").inner_text().split() == ["30", "kept"]
            assert "headway generate 'my <b>run/snapshots/step-30' \"...\"" in kept.inner_text()
            assert EVIL in page.locator(".given").first.inner_text() and page.title() == "Headway playground"
            assert page.locator("#panel b, #panel img, #panel script").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            page.screenshot(path=pictures / f"watch-{look}.png", full_page=True)
            assert violations(page) == []

            lines = [{"event": "step", "step": 50, "loss": 1.25}, {"event": "end", "step": 50}]
            with (run / "log.jsonl").open("a") as log:
                log.writelines(f"{json.dumps(line)}\n" for line in lines)
            facts = {"task": "language_modeling", "finished": True, "steps": 50, "metrics": {"val_loss": 2.75}}
            (run / "headway.json").write_text(json.dumps(facts))
            server.terminate()
            page.locator("#panel .note", has_text="this page stays as it is now").wait_for()
            assert "headway serve 'my <b>run'" in page.locator("#panel .note").first.inner_text()
            assert "reaches a validation loss of 2.75" in page.get_by_role("region", name="Verdict").inner_text()
            assert "training 1.250" in page.get_by_role("img").get_attribute("aria-label")
            page.wait_for_timeout(1000)
            assert page.complaints == []  # it asks nobody any more
            page.screenshot(path=pictures / f"watch-ended-{look}.png")
    finally:
        server.kill()
        server.wait()


def test_a_server_that_vanishes_leaves_the_page_as_it_was(browser, tmp_path):
    server, address = watching._started(write_run(tmp_path / "run"))
    with opened(browser, address) as page:
        page.get_by_text("Step 40; still training.").wait_for()
        server.kill()
        server.wait()
        page.locator("#panel .note", has_text="does not answer any more").wait_for()
        assert page.get_by_role("table").is_visible() and page.locator("#problem").is_hidden()
        page.complaints.clear()  # the browser's own, of the connection
