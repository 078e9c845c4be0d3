"""A Hugging Face model directory: ``config.json`` and ``model.safetensors``, read and written."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.errors import InputError
from headway.hub.download import locate
from headway.hub.families import FAMILIES
from headway.hub.families.family import Family, architecture
from headway.hub.kept import CONFIG, GENERATION, entries_to_write, kept_entries
from headway.hub.sentence_transformers import add_modules, head_entries, without_modules, write_modules
from headway.hub.table import expand, read_weights, write_weights
from headway.models.config import TransformerConfig
from headway.storage import write_json, write_whole

UNBUILDABLE = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError)
"""What building a model from a hostile ``config.json`` may raise; RuntimeError is torch out of memory."""


def load_model(path: str | Path) -> nn.Module:
    """The model in a Hugging Face directory, or of an id of the hub: a bare module in eval mode, in float32.

    Where ``modules.json`` says what follows the model (``hub.sentence_transformers``), that is its head.  Raises
    InputError naming the file and what is wrong with it.
    """
    directory = locate(path).path
    theirs = read_json(directory / "config.json")
    family = _family(theirs, directory)
    weights = _read_safetensors(directory / "model.safetensors")
    try:
        weights = _with_prefix(weights, family, theirs)
        model = family.build(theirs, weights.keys())
    except UNBUILDABLE as error:
        raise InputError(f"{directory / 'config.json'}: {_one_line(error)}") from None
    expected = _own_weights(model)
    try:
        for name, shape in family.zeros(theirs).items():
            weights.setdefault(name, torch.zeros(shape))
        for copy, name in family.copies(theirs).items():
            weights = _without_copy(weights, copy, name)
        weights = _without_copies(weights, family, theirs, model)
        ours = read_weights(family.rows(theirs), weights, expected, model_config(model))
    except ValueError as error:
        raise InputError(f"{directory / 'model.safetensors'}: {_one_line(error)}") from None
    model.load_state_dict(ours, strict=False)
    model.family = family.model_type  # type: ignore[assignment]  # of two that would write the same, the one it had
    model.kept = kept_entries(directory, theirs, family)  # type: ignore[assignment]
    add_modules(model, directory, theirs)
    return model.eval()


def save_model(model: nn.Module, path: str | Path, **entries: Any) -> None:
    """Write ``config.json`` and ``model.safetensors`` in the layout of the model's family.

    ``entries`` go into ``config.json`` as they are: labels, and ids of special tokens.  A model that was loaded also
    keeps what its files said of such things (``hub.kept``).  Raises ValueError when no family can express the model,
    naming what the nearest one would change.
    """
    directory = Path(path)
    model, head = without_modules(model)
    family, theirs = family_of(model)
    theirs |= head_entries(head)
    kept = entries_to_write(model, theirs, entries)
    changed = _changed(family.config(theirs), family.config({**theirs, **kept[CONFIG]}))
    if changed:
        raise ValueError(f"entries of config.json would change {', '.join(changed)} of the model")
    directory.mkdir(parents=True, exist_ok=True)
    weights = write_weights(family.rows(theirs), _own_weights(model), model_config(model))
    if architecture(theirs, family.classes) == family.bare:
        weights = {name.removeprefix(family.prefix): tensor for name, tensor in weights.items()}
    write_json(directory / "config.json", {**theirs, **kept[CONFIG], "dtype": "float32"})
    if kept[GENERATION]:
        write_json(directory / GENERATION, kept[GENERATION])
    write_whole(directory / "model.safetensors", lambda beside: save_file(weights, beside, metadata={"format": "pt"}))
    write_modules(directory, model, head)


def family_of(model: nn.Module) -> tuple[Family, dict[str, Any]]:
    """The family that expresses a model exactly, and its ``config.json``.  Raises ValueError when there is none.

    A family expresses a model when its configuration, read back, gives our configuration again.  Of several that do,
    it is the one that the model was loaded from, or else the first.
    """
    differences = []
    named = getattr(model, "family", None)
    for family in sorted(FAMILIES, key=lambda family: family.model_type != named):
        try:
            theirs = family.describe(model)
            if theirs is None:
                continue
            changed = _changed(model_config(model), family.config(theirs))
            encoder = family.encoder_config(theirs)
        except (ValueError, KeyError) as error:
            differences.append(f"{family.model_type}: {_one_line(error)}")
            continue
        if encoder is not None:
            changed += [f"the encoder's {name}" for name in _changed(model.encoder_config, encoder)]  # type: ignore
        if not changed:
            return family, theirs
        differences.append(f"{family.model_type} would change {', '.join(changed)}")
    raise ValueError(
        "no Hugging Face family can express this model: " + ("; ".join(differences) or type(model).__name__)
    )


def model_config(model: nn.Module) -> Any:
    """The configuration a wiring was built from."""
    return model.config


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.  Raises InputError naming the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; expected a model directory with {path.name}") from None
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({str(error).splitlines()[0]})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: found a JSON {type(value).__name__}, expected an object")
    return value


def _family(theirs: dict[str, Any], directory: Path) -> Family:
    kind = theirs.get("model_type")
    for family in FAMILIES:
        if family.model_type == kind:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise InputError(f"{directory / 'config.json'}: model_type {kind!r} is not one of {known}")


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; expected the model's weights") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as safetensors ({_one_line(error)})") from None


def _own_weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter once: of two names for one tensor, the first."""
    return dict(model.named_parameters())


def _with_prefix(weights: dict[str, Tensor], family: Family, theirs: dict[str, Any]) -> dict[str, Tensor]:
    """Weights under the names of ``family.rows``, less those that the family ignores.

    Files of a bare model name their weights without the prefix, whatever class the configuration names.
    """
    prefix = family.prefix
    known = {re.sub(r"\d+", "0", part.name) for entry in family.rows(theirs) for part in entry.at(0).theirs}
    patterns = [re.compile(pattern) for pattern in family.ignores(theirs)]
    named = {}
    for name, tensor in weights.items():
        for old, new in family.renamed.items():
            name = re.sub(old, new, name)
        if prefix and re.sub(r"\d+", "0", name) not in known and not name.startswith(prefix):
            longer = prefix + name
            if re.sub(r"\d+", "0", longer) in known or any(pattern.fullmatch(longer) for pattern in patterns):
                name = longer
        if not any(pattern.fullmatch(name) for pattern in patterns):
            named[name] = tensor
    return named


def _without_copy(weights: dict[str, Tensor], copy: str, name: str) -> dict[str, Tensor]:
    """Drop a stored copy of a tensor, after checking it; a copy without its original stands for it."""
    if copy not in weights:
        return weights
    if name in weights and not torch.equal(weights[copy], weights[name]):
        raise ValueError(f"{copy} differs from {name}, though both are one table in this family")
    return {name: weights[copy], **{key: tensor for key, tensor in weights.items() if key != copy}}


def _without_copies(
    weights: dict[str, Tensor], family: Family, theirs: dict[str, Any], model: nn.Module
) -> dict[str, Tensor]:
    """Drop stored copies of a tied weight, after checking that each is the copy it should be."""
    own = _own_weights(model)
    everything = dict(model.named_parameters(remove_duplicate=False))
    aliases = set(everything) - set(own)
    rows = list(expand(family.rows(theirs), everything))
    copies = {part.name for entry in rows for part in entry.theirs if entry.ours in aliases}
    owners = {part.name for entry in rows for part in entry.theirs if entry.ours.endswith("embedding.tokens.weight")}
    originals = [weights[name] for name in owners - copies if name in weights]
    for name in sorted(copies & set(weights)):
        if not any(torch.equal(weights[name], original) for original in originals):
            raise ValueError(f"{name} differs from the embedding that config.json says it is tied to")
    return {name: tensor for name, tensor in weights.items() if name not in copies}


def _one_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, KeyError):
        text = f"unknown value {text}"
    return text.splitlines()[0]


def _changed(one: TransformerConfig, other: TransformerConfig) -> list[str]:
    """Which values differ between two configurations, defaults filled in and dropout aside."""
    derived = {"n_kv_heads": "kv_heads", "d_head": "head_width", "d_ff": "hidden", "positions": "position"}
    names = [derived.get(field.name, field.name) for field in fields(one)]
    names = [name for name in names if name not in ("dropout", "bias", "window")]
    changed = [name for name in names if getattr(one, name) != getattr(other, name)]
    changed += ["bias"] if set(one.bias) != set(other.bias) else []
    windows = [[config.layer_window(layer) for layer in range(config.n_layers)] for config in (one, other)]
    return changed + (["window"] if windows[0] != windows[1] else [])
