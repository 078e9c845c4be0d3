"""One server for the tests that only ask it things."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))
from served_models import Server, write_models


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of tiny models, by name."""
    return write_models(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(models: dict[str, Path]) -> Iterator[Server]:
    """A server with all of them."""
    found = Server(*models.values(), "--quiet")
    yield found
    assert found.stop() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from browser_kit import CHROMIUM
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()
