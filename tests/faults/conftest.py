"""What several tests of faults compare with."""

from collections.abc import Callable
from typing import Any

import pytest
from faults_harness import LIVELY, TINY, alone


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Any, dict[str, Any]], Any]:
    """What a run comes to that is left alone; each is run once."""
    known: dict[str, Any] = {}

    def left_alone(data: Any, options: dict[str, Any]) -> Any:
        key = repr((data, sorted(options.items())))
        if key not in known:
            known[key] = alone(data, options, tmp_path_factory.mktemp("alone") / "run")
        return known[key]

    return left_alone


@pytest.fixture
def whole(corpus: Any, expected: Callable) -> tuple[dict[str, Any], Any]:
    """Options of a run on the corpus, and what it comes to that is left alone."""
    options = {**TINY, **LIVELY}
    return options, expected(corpus, options)
