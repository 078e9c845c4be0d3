"""What the tests of rows with answers share: tiny options, tables, and checks that hold for each of these tasks."""

import csv
import json

import pytest
from faults_harness import facts_of

import headway
from headway.errors import InputError
from headway.workflows.export import export

TINY = {"d_model": 32, "layers": 1, "heads": 2, "threads": 1, "quiet": True, "layout": "bert"}


def table(path, rows, **changed):
    """A table of these rows, of which the eighth has other cells."""
    rows = [row | (changed if number == 7 else {}) for number, row in enumerate(rows)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def table_of(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


def trained(data, folder, **options):
    """A finished run; look, but do not write."""
    headway.train(data, out=folder / "run", learning_rate=3e-3, **TINY, **options)
    return folder / "run"


def check_refused(data, said, out, **options):
    """Training on the data is one message, and leaves nothing."""
    with pytest.raises(InputError) as raised:
        headway.train(data, out=out, steps=1, **TINY, **options)
    assert said in str(raised.value) and not out.exists()


def passed_checks(printed):
    """The checks that ``verify --json`` says to have passed."""
    return {one["name"] for one in json.loads(printed.splitlines()[-1])["checks"] if one["passed"]}


CHECKS = {"batch", "accumulation", "export", "checkpoints", "resume"}
"""The checks that a Transformer passes."""


def check_verified(run, in_process):
    assert passed_checks(in_process.passed("verify", run, "--json", "--quiet", "--threads", "1")[0]) >= CHECKS


def heads(data, bases, folder, **options):
    """What trainings from these models say of their heads."""
    found = []
    for number, base in enumerate(bases):
        out = folder / f"from{number}"
        headway.train(data, from_model=str(base), out=out, steps=4, threads=1, quiet=True, **options)
        found += [one["value"] for one in facts_of(out)["decisions"] if one["what"] == "head"]
    return found


def others_answer(run, out, texts, **options):
    """What ``transformers`` answers with the model exported to ``out``."""
    transformers = pytest.importorskip("transformers")
    if not out.exists():
        written = export(run, out)
        assert written.parity.passed, written.parity.problem
    return transformers.pipeline("text-classification", str(out), device="cpu")(texts, **options)


def by_label(answers):
    return {one["label"]: one["score"] for one in answers}


def answered(in_process, verb, run, file, to):
    """The rows of the file of answers that a command writes."""
    in_process.passed(verb, run, file, "--to", to)
    return table_of(to)
