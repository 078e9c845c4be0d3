"""Kills at random moments; ``make faults`` has the long form, with its result in benchmarks/results/faults.json."""

from pathlib import Path

from faults_harness import Forker
from killing import kill_at_random


def test_killed_twenty_times_at_random_moments(forker: Forker, tmp_path: Path):
    found = kill_at_random(forker, tmp_path, 20, seed=7)
    assert found.problems == []
    assert found.kills == 20 and found.equal == found.runs and found.torn == found.refused == 0
    assert found.most_steps_lost <= 12, "about one interval between two saves, and what it takes to write one"
