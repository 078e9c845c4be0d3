"""Headway trains and runs Transformers on your own file, on the computer you have.

run = headway.train("reviews.csv", time="5m", out="runs/reviews")
classify = headway.load("runs/reviews")
classify("Great battery, poor screen.")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.cli.evaluate import evaluate
    from headway.cli.train import train
    from headway.errors import InputError
    from headway.hub.directory import load_model, save_model
    from headway.integrations.batch import Batch
    from headway.load_types import load
    from headway.models.config import TransformerConfig
    from headway.models.transformer import Decoder, Encoder, EncoderDecoder

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "InputError",
    "TransformerConfig",
    "evaluate",
    "load",
    "load_model",
    "save_model",
    "train",
]

_HOMES = {
    "Batch": "headway.integrations.batch",
    "Decoder": "headway.models.transformer",
    "Encoder": "headway.models.transformer",
    "EncoderDecoder": "headway.models.transformer",
    "InputError": "headway.errors",
    "TransformerConfig": "headway.models.config",
    "evaluate": "headway.cli.evaluate",
    "load": "headway.workflows.load",
    "load_model": "headway.hub.directory",
    "save_model": "headway.hub.directory",
    "train": "headway.cli.train",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import headway`` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headway' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
