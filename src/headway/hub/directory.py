"""A Hugging Face model directory: ``config.json`` and ``model.safetensors``, read and written."""

import re
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from headway.errors import InputError, shown
from headway.hub.build_model import Damaged, build, one_line, own_weights
from headway.hub.families import FAMILIES, family_named
from headway.hub.families.entries import Json, class_names
from headway.hub.families.family import Family
from headway.hub.kept_entries import CONFIG, GENERATION, entries_to_write, kept_entries, set_units
from headway.hub.name_table import write_weights
from headway.hub.own_format import OF_A_TASK, TYPES, Build, load_of_a_task, load_own, save_own
from headway.hub.safe.weights import FILE, open_weights, save_weights
from headway.hub.sentence_transformers import MODULES, add_modules, without_modules, write_modules
from headway.io.atomic_write import checked_files, write_json
from headway.io.regular_file import inside
from headway.io.strict_json import read_object
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.device import model_device
from headway.models.heads import Gives, gives
from headway.models.own import OwnConfig, check_answer, short_answer
from headway.models.transformer import Decoder
from headway.nn.global_state import isolated
from headway.text.special_tokens import padding
from headway.text.tokenizer import Tokenizer

MAX_LAYERS = 512
"""Several times the depth of published models; each layer takes time to build before any weight is compared."""
MAX_WIDTH = 2**20
"""Many times the width of published models, in numbers, heads or pixels."""
WIDTH = re.compile(
    r"hidden_size|intermediate_size|d_\w+|dim|\w+_dim|n_embd|n_inner|n_heads?|num_heads|\w+_heads"
    r"|image_size|patch_size|num_channels"
)
"""The keys, of all families, that give the width of a part."""
MAX_NUMBER = 2**53
TOKEN = re.compile(r".*_token_ids?")
"""The keys that hold one or more token ids."""
LABELS = ("id2label", "label2id")
"""The objects whose keys are not those of a model: a label may be "players" or "auto_map"."""
CODE = {
    "auto_map": "it names Python code in the directory, which is not run",
    "custom_pipelines": "it names Python code in the directory, which is not run",
    "trust_remote_code": "a file cannot declare itself trusted",
    "_attn_implementation_internal": "it names code to download",
}
"""Keys that make other programs run code, and why each is refused anywhere in the file."""


def read_config(directory: Path) -> dict[str, Any]:
    """The content of ``config.json`` unchanged; the model's family checks what each key means.

    Raises InputError for JSON that is not strict, for keys that would run code, and for numbers of layers, widths or
    other numbers larger than any model has.
    """
    path = inside(directory, "config.json")
    theirs = read_object(path, advice="expected a model directory with config.json")
    _check(theirs, "", path)
    return theirs


def _check(value: Any, key: str, path: Path) -> None:
    several = isinstance(value, list) and key != "pad_token_id"
    if TOKEN.fullmatch(key) and not (value is None or type(value) is int or several):
        raise InputError(f"{path}: {key}: found {shown(value)}, expected the id of a token, or null")
    if isinstance(value, dict):
        for name, entry in value.items():
            if name in CODE and entry and key not in LABELS:
                raise InputError(
                    f"{path}: {name}: found {shown(entry)}: {CODE[name]}; "
                    "remove the entry if the model is an ordinary one of its family"
                )
            _check(entry, key if key in LABELS else name, path)
    elif isinstance(value, list):
        for entry in value:
            _check(entry, key, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = MAX_LAYERS if key.endswith(("layer", "layers")) else MAX_WIDTH if WIDTH.fullmatch(key) else MAX_NUMBER
        if abs(value) > most:
            raise InputError(f"{path}: {key}: found {shown(value)}, expected at most {most}")


SAME = 1e-5
"""How much the answers of a model and of the same, loaded again, may differ, as a share of their root mean square."""
UNDESCRIBED = (
    "it has a part that its configuration does not describe, such as a block, an attention or a position encoding of "
    "its own, or weights that are shared, removed or added. Train it as the model of a task of your own, whose package "
    "builds it again (docs/architecture.md), or keep its weights by torch.save"
)
UNKEPT = (
    "new_model must build it again from its configuration alone. Keep whatever else it computes with, such as random "
    "numbers, in parameters (requires_grad=False where they have no gradient)"
)
"""Why a model is another one when it is loaded again, and what to do: of any model, and of one that its task builds."""


@isolated()
def load_model(
    path: str | Path,
    *,
    allow_pickle: bool = False,
    build_own: Build | None = None,
    precision: str | None = None,
    like: nn.Module | None = None,
) -> nn.Module:
    """The model of a Hugging Face directory, of a hub id or of a PEFT adapter: a bare module in eval mode, in float32.

    With ``precision`` of a family's model, matrices are in one of ``nn.low_precision`` instead; "float32" only lays
    them out in memory as answers are fastest.

    If ``modules.json`` lists modules after the Transformer (``hub.sentence_transformers``), they become its head.
    ``allow_pickle`` reads weights of ``torch.save`` if there are no safetensors (``hub.safe.pickle_import``).
    ``build_own`` makes a model that only its task can build, of its configuration; ``headway.load`` gives it.
    ``like`` is the model that was saved there: each weight is compared with its own, and then shared with it, so that
    the loaded model takes no memory.

    Raises InputError naming the file and what is wrong with it.
    """
    from headway.hub.adapters.locate import locate_model  # which loads the base of an adapter by this function

    directory = locate_model(path, allow_pickle=allow_pickle).path
    theirs = read_config(directory)
    if theirs.get("model_type") in TYPES:
        return load_own(directory, theirs, like)
    if theirs.get("model_type") == OF_A_TASK:
        own = load_of_a_task(directory, theirs, build_own, like)
        if like is None:  # else the whole answers are compared
            check_answer(own, theirs.get("answer"), str(directory))
        return own
    try:
        family = family_named(theirs.get("model_type"))
    except ValueError as error:
        raise InputError(f"{directory / CONFIG}: {error}") from None
    with open_weights(directory, allow_pickle=allow_pickle) as stored:
        model: Any = build(family, theirs, stored, directory / CONFIG, precision, like)
    model.family = family.model_type  # type: ignore[assignment]  # to save it as the same family, of several possible
    model.kept = kept_entries(directory, theirs, family)  # type: ignore[assignment]
    set_units(model, directory)
    add_modules(model, directory, theirs)
    return model.eval()


@isolated()
def save_model(model: nn.Module, path: str | Path, **entries: Any) -> None:
    """Write ``config.json`` and ``model.safetensors`` in the layout of the model's family.

    ``entries`` are added to ``config.json`` as they are: labels, and ids of special tokens.  A loaded model also keeps
    such entries of its own files (``hub.kept_entries``).  The files get their names when they were loaded again and the
    loaded model had the same weights and gave the same answer.

    Raises ValueError when no family can express the model, naming what the nearest one would change, and when the
    loaded model is another one, and InputError when the directory cannot be written.
    """
    own = isinstance(getattr(model, "config", None), BaselineConfig | OwnConfig)
    _saved(model, Path(path), save_own if own else _save_family, entries)


def _saved(model: nn.Module, directory: Path, write: Callable[[nn.Module, Path, Json], None], entries: Json) -> None:
    """Let ``write`` write the files of a model, and put them in place if they are the model when they are read."""
    model = getattr(model, "_orig_mod", model)  # what torch.compile has compiled
    _check_is_whole(model)
    try:
        with checked_files(directory) as staged, torch.random.fork_rng(devices=[]):
            write(model, staged, entries)
            try:
                again = load_model(staged, build_own=getattr(model, "build_own", None), like=model)
            except Damaged:
                raise
            except InputError as error:
                why = textwrap.shorten(str(error).replace(f"{staged}/", ""), 200, placeholder=" ...")
                raise ValueError(f"loaded again, this model would be another one ({why}): {UNDESCRIBED}") from None
            why = UNKEPT if hasattr(model, "build_own") else UNDESCRIBED
            _check_same(short_answer(model), short_answer(again.to(model_device(model))), why)
            modules = (staged / MODULES).exists()
        if not modules:
            (directory / MODULES).unlink(missing_ok=True)
    except NotImplementedError as error:  # torch's, of what is on the device meta
        raise ValueError("the weights have shapes but no numbers (device meta): give it weights first") from error
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{directory}: cannot be written ({reason}); name another directory.") from error


def _check_is_whole(model: Any) -> None:
    """Raise ValueError for a module that is no model of Headway; it warns of lost precision."""
    if not isinstance(getattr(model, "config", None), TransformerConfig | BaselineConfig | OwnConfig):
        raise ValueError(f"{type(model).__name__} is not a model of Headway, so nothing but its weights could be saved")
    for name, weight in model.named_parameters():
        if weight.is_floating_point() and weight.dtype != torch.float32:
            warnings.warn(f"{name} is {weight.dtype}: the model is saved, and loaded again, in float32", stacklevel=4)
            break


def _check_same(expected: Tensor, answer: Tensor, why: str) -> None:
    """Raise ValueError, with ``why``, where a saved model that was loaded again answers otherwise."""
    bound = SAME * float(expected.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    if expected.shape == answer.shape and torch.allclose(expected, answer, rtol=0.0, atol=bound, equal_nan=True):
        return
    by = f"by {float((expected - answer).abs().max()):.3g}" if expected.shape == answer.shape else "in its shape"
    raise ValueError(
        f"loaded again, this model would be another one, whose answer to a short input differs {by}: {why}"
    )


def _save_family(model: nn.Module, directory: Path, entries: Json) -> None:
    """Write a model in the layout of its family.  Raises ValueError when there is none, and OSError."""
    model, head = without_modules(model)
    family, theirs, files = _described(model, head, entries)
    weights = family_weights(model, family, theirs)
    _write_files(directory, files)
    save_weights(directory / FILE, weights)
    write_modules(directory, model, head)


def family_weights(model: nn.Module, family: Family, theirs: Json) -> dict[str, Tensor]:
    """The weights of a model by their names in the class that ``theirs``, the family's configuration, names."""
    weights = write_weights(family.rows(theirs), own_weights(model), model_config(model))
    weights = family.stored(weights, theirs, model_config(model))
    if family.gives(theirs) is Gives.HIDDEN:
        weights = {name.removeprefix(family.prefix): tensor for name, tensor in weights.items()}
    return weights


def save_config(model: nn.Module, path: str | Path, **entries: Any) -> None:
    """Write the JSON files of ``save_model``, for a directory that has the weights in another program's format.

    Raises ValueError as ``save_model`` does; errors of the file system pass as they are.
    """
    _write_files(Path(path), _described(*without_modules(model), entries)[2])


def _described(model: nn.Module, head: nn.Module | None, entries: Json) -> tuple[Family, Json, dict[str, Json]]:
    """A model's family, its description there, and the content of the JSON files of its directory."""
    family, theirs = family_of(model)
    if head is not None and head.gives is Gives.ROW:
        theirs |= class_names(head.out.out_features)  # type: ignore[union-attr, arg-type]
    kept = entries_to_write(model, theirs, entries)
    changed = _changed(family.config(theirs), family.config({**theirs, **kept[CONFIG]}))
    if changed:
        raise ValueError(f"entries of config.json would change {', '.join(changed)} of the model")
    config = {**theirs, **kept[CONFIG], "dtype": "float32"}
    return family, theirs, {CONFIG: config} | ({GENERATION: kept[GENERATION]} if kept[GENERATION] else {})


def _write_files(directory: Path, files: dict[str, Json]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_json(directory / name, content)


def save_any(model: nn.Module, path: str | Path, **entries: Any) -> None:
    """As ``save_model``, or in Headway's own format if no family can express the model."""
    if has_family(model):
        save_model(model, path, **entries)
    else:
        _saved(model, Path(path), save_own, entries)


def has_family(model: nn.Module) -> bool:
    """Whether a Hugging Face family can express a model, so that other programs can read it."""
    if isinstance(model_config(model), BaselineConfig | OwnConfig):
        return False
    try:
        family_of(without_modules(model)[0])
    except ValueError:
        return False
    return True


def family_of(model: nn.Module) -> tuple[Family, dict[str, Any]]:
    """The family that expresses a model exactly, and its ``config.json``.  Raises ValueError when there is none.

    A family expresses a model if its configuration, read back, gives our configuration again.  Of several such
    families, it is the one that the model was loaded from, or otherwise the first.
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
            differences.append(f"{family.model_type}: {one_line(error)}")
            continue
        if encoder is not None:
            changed += [f"the encoder's {name}" for name in _changed(model.encoder_config, encoder)]  # type: ignore
        if not changed:
            return family, theirs
        differences.append(f"{family.model_type} would change {', '.join(changed)}")
    raise ValueError(
        "no Hugging Face family can express this model: " + ("; ".join(differences) or type(model).__name__)
    )


def batch_settings(model: Any) -> Json:
    """What ``Tokenizer.save`` says of a model's batches: texts are continued on the right of padding on the left."""
    side = ("left" if gives(model) is Gives.VOCABULARY else "right") if isinstance(model, Decoder) else None
    return {"segments": getattr(getattr(model, "config", None), "segments", 0) > 1, "padding_side": side}


def padding_entry(model: nn.Module, tokenizer: Tokenizer | None) -> Json:
    """The entry of ``config.json`` for what pads a decoder's batches, as the files of its tokenizer say it."""
    pad = padding(tokenizer.special_tokens) if tokenizer is not None and isinstance(model, Decoder) else None
    return {} if tokenizer is None or pad is None else {"pad_token_id": tokenizer.backend.vocabulary[pad]}


def model_config(model: nn.Module) -> Any:
    """The configuration that a model was built from."""
    return model.config


def check_reads_text(model: nn.Module, directory: Path) -> None:
    """Raise InputError, with an alternative, for a model that reads images."""
    if getattr(model, "patches", None) is not None:
        raise InputError(
            f"{directory}: is an image model, which reads no text and has no tokenizer. In Python, load it with "
            "`headway.load_model`, and prepare images for it with `headway.data.images.preprocessing`."
        )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a model directory.  Raises InputError naming the file."""
    return read_object(inside(path.parent, path.name), advice=f"expected a model directory with {path.name}")


def _changed(one: TransformerConfig, other: TransformerConfig) -> list[str]:
    """The fields that differ between two configurations, with defaults applied and dropout ignored."""
    derived = {"n_kv_heads": "kv_heads", "d_head": "head_width", "d_ff": "hidden", "positions": "position"}
    names = [derived.get(field.name, field.name) for field in fields(one)]
    names = [name for name in names if name not in ("dropout", "bias", "window")]
    changed = [name for name in names if getattr(one, name) != getattr(other, name)]
    changed += ["bias"] if set(one.bias) != set(other.bias) else []
    windows = [[config.layer_window(layer) for layer in range(config.n_layers)] for config in (one, other)]
    return changed + (["window"] if windows[0] != windows[1] else [])
