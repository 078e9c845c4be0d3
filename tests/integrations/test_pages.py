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


def run_example(engine, package, code, run, folder, before=(), **places):
    """A program in a folder where the page's names are, if the package that it needs is installed."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    (folder / "runs").mkdir()
    (folder / "runs" / "answers").symlink_to(run)
    if engine == "MLflow":
        export(run, folder / "mlflow-answers", to="mlflow")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYSPARK_PYTHON": sys.executable, **places}
    command = [*before, sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran


@pytest.mark.parametrize("engine", PACKAGES)
def test_the_example_runs(engine, classifier_run, tmp_path):
    assert "label" in run_example(engine, PACKAGES[engine], BLOCKS[engine], classifier_run, tmp_path).stdout
