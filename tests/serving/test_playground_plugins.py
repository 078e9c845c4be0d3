"""Tasks have a tab by the kind of their answers, those of other packages too: a number, a ranking, several columns."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
from browser_kit import fill, needed, opened, tab
from served_models import ROOT, Server

pytestmark = needed


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a model of each plug-in."""
    site = tmp_path_factory.mktemp("site")
    code = (ROOT / "examples" / "own_task.py").read_text(encoding="utf-8")
    (site / "own_task.py").write_text(code)
    for name, old, new in (("name", "stars", "order"), ("verb", "rate", "order"), ("answers", "number", "ranking")):
        assert f'"{name}": "{old}"' in code
        code = code.replace(f'"{name}": "{old}"', f'"{name}": "{new}"')
    (site / "own_order.py").write_text(code)
    about = site / "own_tasks-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-tasks\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text("[headway.tasks]\nstars = own_task\norder = own_order\n")
    rows = [f"{'great ' * (n % 5)}{'awful ' * (4 - n % 5)}thing number {n},{1 + n % 5}" for n in range(61)]
    (site / "rows.csv").write_text("\n".join(["review,stars", *rows]) + "\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(site)])}
    both = [f"{row},{'tall' if n % 2 else 'small'}" for n, row in enumerate(rows)]
    (site / "columns.csv").write_text("\n".join(["review,stars,size", *both]) + "\n")
    own = ["--task", "multi_column", "--label-column", "stars,size"]
    for name, more in (("stars", ["--task", "stars"]), ("order", ["--task", "order"]), ("columns", own)):
        file = "columns.csv" if name == "columns" else "rows.csv"
        words = ["train", site / file, *more, "--out", site / name, "--steps", "30", "--threads", "1"]
        options = ["--learning-rate", "0.01", "--batch-tokens", "256", "--quiet"]
        command = [sys.executable, "-m", "headway", *map(str, words), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
        assert done.returncode == 0, done.stderr
    found = Server(site / "stars", site / "order", site / "columns", "--quiet", env={"PYTHONPATH": env["PYTHONPATH"]})
    yield found
    found.stop()


def test_a_number_and_a_ranking_have_tabs(browser, served):
    lines = "awful awful awful\ngreat great great"
    with opened(browser, served.address) as page:
        panel = tab(page, "Rate")
        fill(panel, "Texts, one a line", lines, "Rate")
        panel.locator(".bar-row").first.wait_for()
        bad, good = (float(row.inner_text().split()[-1]) for row in panel.locator(".bar-row").all())
        answers = served.post("/rate", {"model": "stars", "inputs": lines.splitlines()}).json()["answers"]
        assert [bad, good] == pytest.approx(answers, rel=1e-3) and good > bad
        panel = tab(page, "Order")
        fill(panel, "Texts, one a line", lines, "Rank")
        panel.locator(".bar-row").first.wait_for()
        assert panel.locator(".bar-row").all_inner_texts()[0].startswith("great")


def test_several_columns_have_a_tab_and_a_route(browser, served):
    with opened(browser, served.address) as page:
        panel = tab(page, "Columns")
        fill(panel, "Text", "great great great", "Predict")
        panel.locator("tbody tr").first.wait_for()
        shown = [row.inner_text().split("\t") for row in panel.locator("tbody tr").all()]
    (answer,) = served.post("/predict", {"model": "columns", "inputs": ["great great great"]}).json()["answers"]
    assert [row[0] for row in shown] == ["stars", "size"] == list(answer)
    assert [row[1] for row in shown] == [answer["stars"]["label"], answer["size"]["label"]]
    (model,) = [one for one in served.get("/v1/models").json()["data"] if one["id"] == "columns"]
    assert model["kind"] == "columns" and "anyOf" in model["answer"]["additionalProperties"]
