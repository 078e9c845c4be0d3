"""Baselines on disk: a ``config.json`` and weights of our own, since no Hugging Face family has them.

``model_type`` is "headway-lstm" and the like, by which other programs see that they cannot read it.
"""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import nn

from headway.errors import InputError
from headway.hub.build import own_weights
from headway.hub.weights import FILE, open_weights
from headway.models.baselines import (
    KINDS,
    BaselineClassificationHead,
    BaselineConfig,
    BaselineEncoder,
    RecurrentDecoder,
    RecurrentEncoderDecoder,
)
from headway.storage import write_json, write_whole

PREFIX = "headway-"
TYPES = tuple(PREFIX + kind for kind in KINDS)
"""The model types in ``config.json``."""
WIRINGS = {"decoder": RecurrentDecoder, "encoder": BaselineEncoder, "encoder-decoder": RecurrentEncoderDecoder}
MOST = 1 << 31
"""Numbers that a model may have: a file that asks for more is refused before anything is made."""


def save_baseline(model: nn.Module, directory: Path, entries: dict[str, Any]) -> None:
    """Write ``config.json``, with ``entries``, and ``model.safetensors``.  Raises InputError where it cannot."""
    config: Any = model.config
    wiring = next(name for name, kind in WIRINGS.items() if isinstance(model, kind))
    classes = model.head.out.out_features if isinstance(model.head, BaselineClassificationHead) else None
    written = {"model_type": PREFIX + config.kind, "wiring": wiring, "num_labels": classes, **asdict(config)}
    weights = {name: weight.detach().cpu().contiguous() for name, weight in own_weights(model).items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / "config.json", {**written, **entries, "dtype": "float32"})
        write_whole(directory / FILE, lambda beside: save_file(weights, beside, metadata={"format": "pt"}))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{directory}: cannot be written ({reason}); name another directory.") from error


def load_baseline(directory: Path, theirs: dict[str, Any]) -> nn.Module:
    """The model that ``config.json`` (``theirs``) describes, in eval mode.  Raises InputError naming what is wrong."""
    path = directory / "config.json"
    names = [field.name for field in fields(BaselineConfig) if field.name != "kind"]
    try:
        values = {name: theirs[name] for name in names}
        config = BaselineConfig.from_dict({"kind": theirs["model_type"].removeprefix(PREFIX), **values})
        if config.vocab_size * config.d_model + 16 * config.n_layers * config.d_model**2 > MOST:
            raise ValueError("its sizes together ask for more weights than any baseline has")
        classes = theirs["num_labels"]
        if classes is not None and (not isinstance(classes, int) or theirs["wiring"] != "encoder"):
            raise ValueError(f"num_labels is {classes!r} with wiring {theirs['wiring']!r}")
        with torch.device("meta"):
            shapes = own_weights(_made(config, theirs["wiring"], classes))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        said = f"{error} is missing or unknown" if isinstance(error, KeyError) else str(error).split("\n")[0]
        raise InputError(f"{path}: {said}.") from None
    with open_weights(directory) as stored:
        expected = {name: list(weight.shape) for name, weight in shapes.items()}
        found = {name: list(stored.shape(name)) for name in stored.names}
        if found != expected:
            wrong = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
            raise InputError(
                f"{stored.source}: does not fit config.json in {', '.join(wrong[:5])}{', ...' * (len(wrong) > 5)}; "
                "get both from the same run."
            )
        for name in stored.names:
            stored.check_weight(name)
        weights = {name: stored.weight(name) for name in stored.names}
    model = _made(config, theirs["wiring"], classes)
    with torch.no_grad():
        for name, weight in own_weights(model).items():
            weight.copy_(weights[name])
    return model.eval()


def _made(config: BaselineConfig, wiring: str, classes: int | None) -> nn.Module:
    model = WIRINGS[wiring](config)
    if classes is not None:
        model.head = BaselineClassificationHead(config, classes)
    return model
