"""Models that no Hugging Face family can express: a ``config.json`` and weights in Headway's own format.

These are the baselines ("headway-lstm" etc.), Transformers with a combination of features that no family has
("headway-transformer"), and models that a task brings along ("headway-task"), which only that task can build.  The
``model_type`` tells other programs that they cannot read them.  Weights have the names of the model's own parameters.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.errors import InputError
from headway.hub.build_model import UNBUILDABLE, ShapesAlone, own_weights, put, shared
from headway.hub.safe.weights import FILE, Weights, open_weights, save_weights
from headway.io.atomic_write import write_json
from headway.io.memory import check_fits
from headway.models.baselines import KINDS, BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, gives, n_outputs
from headway.models.own import OwnConfig, kept_answer
from headway.models.wirings import build_model, wiring_name

PREFIX = "headway-"
TRANSFORMER = "headway-transformer"
OF_A_TASK = "headway-task"
TYPES = (TRANSFORMER, *(PREFIX + kind for kind in KINDS))
"""The model types in ``config.json`` of models that are built here."""
OTHER_SEED = 0x5AFE
"""With it a saved model is built again, so that what is drawn when it is made, and not saved, differs."""
Build = Callable[[OwnConfig], nn.Module]
"""Builds the model of a task, whose ``config`` is the given one, with any weights."""


def save_own(model: nn.Module, directory: Path, entries: dict[str, Any]) -> None:
    """Write ``config.json``, with ``entries``, and ``model.safetensors``.

    Raises ValueError for a model that ``models.wirings`` would not build, and OSError.
    """
    own = getattr(model, "config", None)
    if isinstance(own, OwnConfig):
        written = {"model_type": OF_A_TASK, **asdict(own), "answer": kept_answer(model)}
    else:
        config, wiring, classes = described(model)
        kind = PREFIX + config.kind if isinstance(config, BaselineConfig) else TRANSFORMER
        written = {"model_type": kind, "wiring": wiring, "num_labels": classes, **asdict(config)}
    weights = {name: weight.detach().cpu().contiguous() for name, weight in own_weights(model).items()}
    write_json(directory / "config.json", {**written, **entries, "dtype": "float32"})
    save_weights(directory / FILE, weights)


def described(model: Any) -> tuple[TransformerConfig | BaselineConfig, str, int | None]:
    """(configuration, wiring, number of classes), from which ``build_model`` builds it.  Raises ValueError."""
    wiring = wiring_name(model)
    if wiring is None:
        raise ValueError(f"{type(model).__name__} is not a model of Headway")
    classes = n_outputs(model) or None if wiring == "encoder" else None
    with torch.device("meta"):
        plain: Any = build_model(model.config, wiring, classes)
    same = _shapes(plain) == _shapes(model)
    if same and gives(model) is Gives.ROW:
        parts = ("pooling", "activation", "normalise")
        same = all(getattr(model.head, name) == getattr(plain.head, name) for name in parts)
    if not same:
        raise ValueError("a model with a head or a second configuration of its own has no format but its family's")
    return model.config, wiring, classes


def _shapes(model: nn.Module) -> dict[str, list[int]]:
    return {name: list(weight.shape) for name, weight in own_weights(model).items()}


def load_own(directory: Path, theirs: dict[str, Any], like: nn.Module | None = None) -> nn.Module:
    """The model that ``config.json`` (``theirs``) describes, in eval mode; ``like`` as in ``hub.directory.load_model``.

    Raises InputError naming what is wrong.
    """
    with open_weights(directory) as stored:
        try:
            config, classes = _config(theirs), theirs["num_labels"]
            if config.n_layers > len(stored):
                raise ValueError(f"n_layers is {config.n_layers}, but there are {len(stored)} weights")
            if classes is not None and (not isinstance(classes, int) or isinstance(classes, bool)):
                raise ValueError(f"num_labels is {classes!r}, expected a number")
            with torch.device("meta"):
                plain = build_model(config, theirs["wiring"], classes)
        except UNBUILDABLE as error:
            problem = f"{error} is missing or unknown" if isinstance(error, KeyError) else str(error).split("\n")[0]
            raise InputError(f"{directory / 'config.json'}: {problem}.") from None
        _check(stored, plain, directory, like)
        with ShapesAlone():
            model = build_model(config, theirs["wiring"], classes)
        return _filled(model, stored, like)


def load_of_a_task(
    directory: Path, theirs: dict[str, Any], build: Build | None, like: nn.Module | None = None
) -> nn.Module:
    """The model of ``config.json`` (``theirs``) that ``build`` makes, in eval mode.  Raises InputError."""
    path = directory / "config.json"
    try:
        config = OwnConfig.from_dict({field.name: theirs[field.name] for field in fields(OwnConfig)})
    except (ValueError, KeyError) as error:
        raise InputError(f"{path}: {f'{error} is missing' if isinstance(error, KeyError) else error}.") from None
    if build is None:
        raise InputError(
            f"{path}: is {config.described}, which only the package of that task reads, with `headway.load`, and which "
            "is only trained from scratch."
        )
    with open_weights(directory) as stored:
        check_fits(8 * config.vocab_size * config.d_model, f"{directory}: the model")
        if like is not None:
            torch.manual_seed(OTHER_SEED)
        model = build(config)
        _check(stored, model, directory, like)
        return _filled(model, stored, like)


def _check(stored: Weights, model: nn.Module, directory: Path, like: nn.Module | None) -> None:
    """Raise InputError for weights of other names or shapes than the model's, or too large for the memory."""
    shapes, expected = {name: list(stored.shape(name)) for name in stored}, _shapes(model)
    if shapes != expected:
        wrong = sorted(name for name in {*shapes, *expected} if shapes.get(name) != expected.get(name))
        raise InputError(
            f"{stored.source}: does not fit config.json in {', '.join(wrong[:5])}{', ...' * (len(wrong) > 5)}; "
            "get both from the same run."
        )
    for name in stored:
        stored.check_weight(name)
    if like is None:
        check_fits(4 * sum(math.prod(shape) for shape in expected.values()), f"{directory}: the model")


def _filled(model: nn.Module, stored: Weights, like: nn.Module | None) -> nn.Module:
    """A model with the stored weights, in eval mode; they are read one after the other."""
    read = ((name, stored.weight(name)) for name in own_weights(model))
    put(read if like is None else shared(read, like, stored.source), model)
    return model.eval()


def _config(theirs: dict[str, Any]) -> TransformerConfig | BaselineConfig:
    """The configuration in a file, which must have every field: a default may change, a trained model must not."""
    kind: Any = TransformerConfig if theirs["model_type"] == TRANSFORMER else BaselineConfig
    values = {field.name: theirs[field.name] for field in fields(kind) if field.name != "kind"}
    if kind is BaselineConfig:
        values["kind"] = theirs["model_type"].removeprefix(PREFIX)
    return kind.from_dict(values)
