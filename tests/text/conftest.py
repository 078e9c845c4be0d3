"""Directories of tokenizers, built once for all tests that only look at them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizer_families import BUILDERS


@pytest.fixture(scope="session")
def family_directory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a family, built once; look, but do not write."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = BUILDERS[name](tmp_path_factory.mktemp("families") / name)
        return made[name]

    return get
