"""The tiny models are next to the tests of exports; each is exported once for all tests of engines."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "workflows" / "export"))

import export_kit as kit

from headway.formats.exports import place_of
from headway.hub.directory import save_model
from headway.models.config import TransformerConfig
from headway.models.heads import MaskedTokenHead, PoolingHead, TokenClassificationHead
from headway.models.transformer import Encoder
from headway.workflows.export import export


def _with_head(place: Path, make: Callable, **entries: object) -> Path:
    config = TransformerConfig(kit.PIECES.vocab_size, **kit.BERT)
    model = Encoder(config)
    model.head = make(config, model)
    save_model(kit.spread(model), place, **entries)
    kit.PIECES.save(place, segments=True)
    return place


MODELS: dict[str, Callable[[Path], Path]] = {
    "classification": lambda place: kit.encoder(place, kit.classifier_head()),
    "embedding": lambda place: kit.encoder(place, PoolingHead()),
    "headless": lambda place: kit.encoder(place),
    "masked_lm": lambda place: _with_head(
        place, lambda config, model: MaskedTokenHead(config, model.stack.embedding.tokens)
    ),
    "token_classification": lambda place: _with_head(
        place, lambda config, _: TokenClassificationHead(config, 3), **kit.LABELS
    ),
    "language_modeling": kit.decoder,
    "translation": kit.translator,
}
"""Builders of a tiny model of each task, in layouts that every target has."""


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A model directory with its export in it, for a task and a target; look, but do not write."""
    made: dict[tuple[str, ...], Path] = {}

    def get(task: str, target: str = "onnx", precision: str = "float32") -> Path:
        if (task,) not in made:
            made[task,] = MODELS[task](tmp_path_factory.mktemp("engines") / task)
        if (task, target, precision) not in made:
            found = export(made[task,], place_of(made[task,], target, precision), to=target, precision=precision)
            assert found.made, found.parity
            made[task, target, precision] = found.out
        return made[task,]

    return get


@pytest.fixture
def copied(exported: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """A copy of such a directory, to change."""
    return lambda *which: shutil.copytree(exported(*which), tmp_path / "copy")
