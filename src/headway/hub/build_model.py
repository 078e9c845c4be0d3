"""A model built from a configuration and stored weights, which are compared in full before any weight is read.

The model is first built on torch's device "meta", where tensors have shapes but no data, and is given weights without
data.  So a configuration that asks for a thousand times the stored weights costs nothing, whatever the family does with
names.  The actual weights are then read once, one layer after the other, directly into place; where a lower precision
is wanted, each layer is brought to it before the next is read, so that the model is never there in float32.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headway.errors import InputError
from headway.hub.families.family import Family
from headway.hub.name_table import expand, read_weights
from headway.hub.safe.weights import Weights
from headway.io.memory import check_fits
from headway.nn.kernels.products import onednn_everywhere
from headway.nn.linear import lay_by_columns
from headway.nn.low_precision import BYTES, KINDS, Lowering

UNBUILDABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)
"""What building a model from a hostile ``config.json`` may raise; torch raises RuntimeError for impossible sizes."""

Read = Callable[[], Tensor]
"""Reads a tensor."""
DRAWS = (Tensor.normal_, Tensor.uniform_)
FACTORS = (Tensor.mul, Tensor.__mul__, Tensor.div, Tensor.__truediv__)


def build(
    family: Family,
    theirs: dict[str, Any],
    stored: Weights,
    config_file: Path,
    precision: str | None = None,
    like: nn.Module | None = None,
) -> nn.Module:
    """The model that ``config.json`` describes, with the stored weights in float32, or in one of ``nn.low_precision``.

    With ``precision`` "float32" the matrices lie in memory as a model that answers is fastest (``nn.linear``).
    ``like`` as in ``hub.directory.load_model``.

    Raises InputError naming ``config_file``, or the file of weights, when they do not fit each other, when a weight is
    not finite, and when the model takes more memory than is free.
    """
    try:
        names = _names(stored, family, theirs)
        with torch.device("meta"), ShapesAlone():
            model = family.build(theirs, names.keys())
            shapes = {name: partial(torch.empty, stored.shape(key), device="meta") for name, key in names.items()}
    except UNBUILDABLE as error:
        message = _too_large(error) or one_line(error)
        for field, key in family.keys.items():  # in the file's words
            message = re.sub(rf"\b{field}\b", key, message)
        raise InputError(f"{config_file}: {message}") from None
    try:
        with ShapesAlone():
            list(_our_weights(shapes, family, theirs, model, torch.device("meta")))
        for key in names.values():
            stored.check_weight(key)
        count = sum(weight.numel() for weight in model.parameters())
        if like is None:
            check_fits(int(BYTES.get(precision, 4) * count), f"{config_file.parent}: the model")
        tensors = {name: partial(stored.weight, key) for name, key in names.items()}
        read = _our_weights(tensors, family, theirs, model, torch.device("cpu"))
        put(read if like is None else shared(read, like, stored.source), model, precision)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{stored.source}: {one_line(error)}") from None
    family.settle(model)
    return model


class ShapesAlone(TorchFunctionMode):
    """Skips the initialisation of weights, and computes the shape of joined and of scaled tensors directly.

    On the device "meta" torch would load its compiler for each, which takes seconds.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in DRAWS or getattr(func, "__module__", "") == "torch.nn.init":
            return None
        if func is torch.cat and all(part.is_meta for part in args[0]):
            return torch.empty([sum(len(part) for part in args[0]), *args[0][0].shape[1:]], device="meta")
        if func in FACTORS and args[0].is_meta and not isinstance(args[1], Tensor):
            return torch.empty(args[0].shape, device="meta")
        return func(*args, **(kwargs or {}))


def own_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once: a shared tensor under its first name."""
    return dict(model.named_parameters())


def one_line(error: Exception) -> str:
    """The message of an error, in one line."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, KeyError):
        text = f"unknown value {text}"
    return text.splitlines()[0]


def _too_large(error: Exception) -> str:
    """torch's message about an impossible tensor size, in plain words; "" for other errors."""
    if not isinstance(error, RuntimeError) or "overflow" not in str(error):
        return ""
    sizes = re.search(r"sizes=(\[[\d, ]*\])", str(error))
    shape = f" of shape {sizes[1]}" if sizes else ""
    return (
        f"its sizes together ask for a weight{shape}, expected fewer than 2^63 bytes; get the model's own config.json"
    )


def _names(stored: Iterable[str], family: Family, theirs: dict[str, Any]) -> dict[str, str]:
    """Names in ``family.rows`` -> names in the files, without those that the family ignores.

    Files of a bare model omit the prefix of its weights' names, whatever class the configuration names.  Raises
    ValueError when two names in the files mean one weight.
    """
    prefix = family.prefix
    known = {re.sub(r"\d+", "0", part.name) for entry in family.rows(theirs) for part in entry.at(0).theirs}
    patterns = [re.compile(pattern) for pattern in family.ignores(theirs)]
    named: dict[str, str] = {}
    for key in stored:
        name = key
        for old, new in family.renamed.items():
            name = re.sub(old, new, name)
        if prefix and re.sub(r"\d+", "0", name) not in known and not name.startswith(prefix):
            longer = prefix + name
            if re.sub(r"\d+", "0", longer) in known or any(pattern.fullmatch(longer) for pattern in patterns):
                name = longer
        if any(pattern.fullmatch(name) for pattern in patterns):
            continue
        if name in named:
            raise ValueError(f"{named[name]} and {key} are two names of one weight, expected one of them")
        named[name] = key
    return named


def _our_weights(
    stored: Mapping[str, Read], family: Family, theirs: dict[str, Any], model: Any, device: torch.device
) -> Iterator[tuple[str, Tensor]]:
    """The model's weights with our names, in float32, layer by layer; each is read when its turn comes.

    Raises ValueError for a missing, additional or misshapen weight.  Also works with tensors without data, as a check.
    """
    weights = dict(stored)
    for name, shape in family.zeros(theirs).items():
        if name not in weights:
            weights[name] = partial(torch.zeros, shape, device=device)
    for copy, name in family.copies(theirs).items():
        if copy in weights:  # a copy without its original takes its place
            if name in weights and not _equal(weights[copy](), weights[name]()):
                raise ValueError(f"{copy} differs from {name}, though both are one table in this family")
            weights = {name: weights[copy], **{key: tensor for key, tensor in weights.items() if key != copy}}
    own, everything = own_weights(model), dict(model.named_parameters(remove_duplicate=False))
    rows = list(expand(family.rows(theirs), everything))
    copies = {part.name for entry in rows for part in entry.theirs if entry.ours not in own}  # of tied weights
    owners = {part.name for entry in rows for part in entry.theirs if entry.ours.endswith("embedding.tokens.weight")}
    originals = [weights[name] for name in owners - copies if name in weights]
    for name in sorted(copies & set(weights)):
        copied = weights.pop(name)
        if not any(_equal(copied(), original()) for original in originals):
            raise ValueError(f"{name} differs from the embedding that config.json says it is tied to")
    return read_weights(family.rows(theirs), weights, own, model.config)


def _equal(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal, as far as they have data."""
    return tensor.shape == other.shape and (tensor.is_meta or other.is_meta or torch.equal(tensor, other))


class Damaged(InputError):
    """What was written is not what is read there."""


def shared(weights: Iterable[tuple[str, Tensor]], like: nn.Module, source: Path) -> Iterator[tuple[str, Tensor]]:
    """The weights of another model in place of equal ones, which then take no memory.

    Equal but for rounding, since some families store a multiple.  Raises Damaged naming ``source`` for others.
    """
    own = own_weights(like)
    for name, weight in weights:
        theirs = own.get(name, weight)  # a family may add a part
        saved = theirs.detach().float().cpu()
        same = torch.equal(weight, saved) or (
            weight.shape == saved.shape and torch.allclose(weight, saved, rtol=1e-6, atol=1e-37)
        )
        if not same:
            raise Damaged(f"{source}: {name} is not what was saved there.")
        yield name, theirs


def put(weights: Iterable[tuple[str, Tensor]], model: nn.Module, precision: str | None = None) -> None:
    """Replace the parameters of a model by weights, in every module that shares one."""
    names = {id(old): name for name, old in own_weights(model).items()}
    places: dict[str, list[tuple[nn.Module, str]]] = {name: [] for name in names.values()}
    for module in model.modules():
        for attribute, old in module.named_parameters(recurse=False):
            places[names[id(old)]].append((module, attribute))
    lowering = Lowering(model, precision) if precision in KINDS else None
    by_columns = precision == "float32" and onednn_everywhere()
    for name, weight in weights:
        parameter, there = nn.Parameter(weight), places.pop(name)  # a module that was replaced is not kept
        for module, attribute in there:
            setattr(module, attribute, parameter)
        if lowering is not None:
            lowering.lower([module for module, _ in there])
        if by_columns:
            lay_by_columns(module for module, _ in there)
