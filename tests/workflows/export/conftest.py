"""Tiny models of each wiring that are exported to ONNX once, for all tests that only look at them."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from doors_kit import made
from export_kit import KINDS

from headway.workflows.export import Export, export


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Export]]:
    """The directory of a tiny model of a kind, and its export; each is made once."""

    @cache
    def of(kind: str) -> tuple[Path, Export]:
        place = tmp_path_factory.mktemp("onnx")
        source = made(*KINDS[kind], place / "model")
        return source, export(source, place / "out", to="onnx")

    return of
