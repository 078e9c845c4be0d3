"""The explorer in a real browser, where there is one: it draws under its own policy, and follows keys and pointer."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "reports"))
from test_reports_explorer import look, look_at_image

from headway.reports.explorer import attention_page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=5000"]


def opened(path: Path) -> tuple[str, list[str]]:
    """The page as it is after its script has run, and what the browser complained of."""
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={path.parent / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=90,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def acted(path: Path, page: str, script: str) -> dict:
    """What a script finds that acts on the page as a user would; the policy, which forbids it, is taken away."""
    wait = "const wait = () => new Promise((go) => setTimeout(go, 300)); await wait();"
    act = f"<script>(async () => {{ {wait} {script} }})()</script>"
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    path.write_text(page.replace("</body>", f'<pre id="found"></pre>{act}</body>'), encoding="utf-8")
    shown, complaints = opened(path)
    assert not complaints
    return json.loads(re.search(r'<pre id="found">(.*?)</pre>', shown)[1].replace("&lt;", "<").replace("&gt;", ">"))


def test_it_draws_under_its_own_policy(tmp_path: Path):
    names = ["</script><script>document.title='broken'</script>", *"abcdef"]
    path = tmp_path / "page.html"
    path.write_text(attention_page(look("encoder-decoder", 7, names), "a run"), encoding="utf-8")
    shown, complaints = opened(path)
    assert not complaints
    assert "<title>What a run attends to</title>" in shown
    assert shown.count("<canvas") == 1 + 6 and shown.count('type="button" role="tab"') == 3
    assert 'aria-selected="true" tabindex="0">cross-attention' in shown
    assert "Layer 1, head 1" in shown and "attends to</p>" in shown


def test_what_is_shown_is_what_the_model_attends_to(tmp_path: Path):
    """Ids of a row as the page reads them from its store, beside the maps; then by keys to another head and token."""
    inside = look("decoder", 11, list("abcdefghijk"))
    script = """
      const first = [...await mapOf(0, 1, 1)].slice(33, 44);
      const said = () => [at("head-name").textContent, at("said").textContent,
        at("most").firstChild.textContent, state.query, state.key];
      const press = async (where, key) => {
        where.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); await wait(); };
      const before = said();
      await press(buttonOf(0, 0), "ArrowDown");
      await press(at("map"), "ArrowDown");
      await press(at("map"), "ArrowRight");
      const after = said();
      at("queries").children[3].focus(); await wait();
      const focused = said();
      at("found").textContent = JSON.stringify({ first, before, after, focused });
    """
    found = acted(tmp_path / "page.html", attention_page(inside, "a run"), script)
    maps = inside.kinds["self"].maps
    assert found["first"] == pytest.approx(maps[1, 1, 3].tolist(), abs=1e-5)
    assert found["before"][0] == "Layer 1, head 1" and found["before"][3:] == [5, 0]
    assert found["after"][0] == "Layer 2, head 1" and found["after"][3:] == [6, 1]
    assert found["after"][1] == "7 ‘g’ attends to"
    best = int(maps[1, 0, 6].argmax())
    assert found["after"][2] == f"{maps[1, 0, 6, best]:.4f}{best + 1} {'abcdefghijk'[best]}"
    assert found["focused"][1] == "4 ‘d’ attends to"


def test_a_long_text_is_read_as_it_was_stored(tmp_path: Path):
    inside = look("encoder-decoder", 211, n_layers=3, n_heads=8)
    script = """
      const maps = [];
      for (const kind of [0, 1, 2]) maps.push([...await mapOf(kind, 2, 7)].slice(-150));
      at("found").textContent = JSON.stringify({ maps, q: data.kinds[0].q, cell: data.kinds[0].cell,
        zoom: at("zoom").hidden });
    """
    found = acted(tmp_path / "page.html", attention_page(inside, "a run"), script)
    assert found["q"] < 65535 and found["cell"] > 1 and not found["zoom"]
    for kind, row in zip(inside.kinds.values(), found["maps"], strict=True):
        assert row == pytest.approx(kind.maps[2, 7].flatten()[-150:].tolist(), abs=0.5 / found["q"] + 1e-6)


def test_an_image_is_put_together_from_its_patches(tmp_path: Path):
    inside, image = look_at_image()
    path = tmp_path / "policy.html"
    path.write_text(attention_page(inside, "a run"), encoding="utf-8")
    shown, complaints = opened(path)
    assert not complaints and shown.count("<canvas") == 1 + 6 + 2 * 15
    script = """
      const strip = at("queries"), patch = strip.children[8].firstChild;
      const press = async (key) => { document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key, bubbles: true })); await wait(); };
      strip.children[8].focus(); await wait();
      const first = at("said").textContent;
      await press("ArrowDown"); await press("ArrowRight");
      at("found").textContent = JSON.stringify({ first, then: at("said").textContent,
        pixels: [...patch.getContext("2d").getImageData(0, 0, 4, 4).data],
        shade: [...at("keys").children].map((one) => +one.style.getPropertyValue("--weight")) });
    """
    found = acted(tmp_path / "page.html", attention_page(inside, "a run"), script)
    assert found["first"] == "9 ‘r2 c3’ attends to" and found["then"] == "15 ‘r3 c4’ attends to"
    alpha = [255] * 16
    assert [found["pixels"][i::4] for i in range(4)] == [*image[4:8, 8:12].reshape(16, 3).T.tolist(), alpha]
    row = inside.kinds["self"].maps[0, 0, 14]
    assert found["shade"] == pytest.approx(((row / row.max()) ** 0.5).tolist(), abs=2e-3)
