"""Run tests/integrations, and write down by which ways the same rows have the same answers.

    python benchmarks/ways.py

It needs the environment of ``make integrations``; what is not installed there is named as skipped.
"""

import sys
import xml.etree.ElementTree as Tree
from pathlib import Path

import pytest
from machine import facts, installed, write

RESULTS = Path("build/integrations.xml")
PACKAGES = ("pyspark", "ray", "dask", "mlflow-skinny", "polars", "pandas", "pyarrow", "trackio", "wandb", "tensorboard")


def main() -> int:
    """The tests, with a table of their outcomes."""
    RESULTS.parent.mkdir(exist_ok=True)
    code = pytest.main(["-rs", "-p", "no:cacheprovider", f"--junitxml={RESULTS}", "tests/integrations"])
    found: dict[str, dict[str, str]] = {}
    for case in Tree.parse(RESULTS).iter("testcase"):
        name, kind = case.get("name", ""), {"skipped": "skipped", "failure": "failed", "error": "failed"}
        outcome = next((kind[one.tag] for one in case if one.tag in kind), "passed")
        found.setdefault(case.get("classname", "").rpartition(".")[2], {})[name] = outcome
    outcomes = [one for each in found.values() for one in each.values()]
    counts = {outcome: outcomes.count(outcome) for outcome in ("passed", "skipped", "failed")}
    command = {**facts(), "command": "make integrations"}
    write("ways", {**command, "packages": installed(PACKAGES), "counts": counts, "tests": found})
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
