"""What the page about engines shows is run, where the engine is installed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from headway.workflows.export import export

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scale_out.md").read_text(encoding="utf-8")
BLOCKS = {
    heading: code
    for heading, section in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    for code in re.findall(r"^```py\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
}
PACKAGES = {"Spark": "pyspark", "Ray": "ray", "Dask": "distributed", "MLflow": "mlflow"}


@pytest.mark.parametrize("engine", PACKAGES)
def test_the_example_runs(engine: str, classifier_run: Path, tmp_path: Path):
    if find_spec(PACKAGES[engine]) is None:
        pytest.skip(f"{PACKAGES[engine]} is not installed")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "answers").symlink_to(classifier_run)
    if engine == "MLflow":
        export(classifier_run, tmp_path / "mlflow-answers", to="mlflow")
    places = {"PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKS[engine]],
        cwd=tmp_path,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    assert "label" in ran.stdout
