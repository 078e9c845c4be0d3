"""What the tests of faults are given."""

from collections.abc import Iterator

import pytest
from faults_harness import Forker


@pytest.fixture(scope="session")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    """Runs commands in processes of their own."""
    made = Forker(tmp_path_factory.mktemp("forked"))
    yield made
    made.close()
