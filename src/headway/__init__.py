"""Headway trains and runs Transformers on your own file, on the computer you have.

run = headway.train("reviews.csv", time="5m", out="runs/reviews")
classify = headway.load("runs/reviews")
classify("Great battery, poor screen.")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.api import bench, evaluate, export, train, verify
    from headway.errors import InputError
    from headway.hub.directory import load_model, save_model
    from headway.integrations.batch import Batch
    from headway.load_types import load
    from headway.models.config import TransformerConfig
    from headway.models.transformer import Decoder, Encoder, EncoderDecoder
    from headway.workflows.fit import compare, fit

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "InputError",
    "TransformerConfig",
    "bench",
    "compare",
    "evaluate",
    "export",
    "fit",
    "load",
    "load_model",
    "save_model",
    "train",
    "verify",
]

_HOMES = {
    "api": ("bench", "evaluate", "export", "train", "verify"),
    "errors": ("InputError",),
    "hub.directory": ("load_model", "save_model"),
    "integrations.batch": ("Batch",),
    "models.config": ("TransformerConfig",),
    "models.transformer": ("Decoder", "Encoder", "EncoderDecoder"),
    "workflows.fit": ("compare", "fit"),
    "workflows.load": ("load",),
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import headway`` does not wait for torch."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"headway.{home}"), name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
