"""What the tests of faults are given."""

from collections.abc import Iterator

import pytest
from faults_harness import Forker, Pair


@pytest.fixture(scope="session")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    """Runs commands in processes of their own."""
    made = Forker(tmp_path_factory.mktemp("forked"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Runs commands in two processes that know each other."""
    forkers = [Forker(tmp_path_factory.mktemp(f"rank{rank}")) for rank in (0, 1)]
    yield Pair(forkers)
    for forker in forkers:
        forker.close()
