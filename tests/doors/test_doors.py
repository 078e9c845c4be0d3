"""Every task and family through the door that its user takes, in a new process: ``benchmarks/doors.py``, in short."""

import pytest
from doors_kit import SHORT, made, open_all, prepared


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """All models, each asked a few texts."""
    folder = tmp_path_factory.mktemp("doors")
    jobs = {}
    for name, door in SHORT:
        source = made(name, door, folder / f"{name}-{door}")
        jobs[f"{name}-{door}"] = prepared(name, door, source, folder / "out" / f"{name}-{door}", 5)
    open_all(list(jobs.values()), folder)
    return jobs


@pytest.mark.parametrize(("name", "door"), SHORT)
def test_a_door_opens_every_weight_and_gives_our_answers(name, door, opened):
    row = opened[f"{name}-{door}"].row
    assert row["passed"], row


RUNS = {"lm_run": "text-generation", "classifier_run": "text-classification"}


@pytest.mark.parametrize("run", RUNS)
def test_what_training_leaves_is_opened_as_it_is(run, request, tmp_path):
    """The run directory itself, without an export."""
    source = request.getfixturevalue(run)
    job = prepared(run, RUNS[run], source, tmp_path / "out", 5)
    job.directory = source
    open_all([job], tmp_path)
    assert job.row["passed"], job.row
