"""The model of a PEFT adapter: its base with the updates added to the weights.

Letters: I input width of a matrix, O its output width, R rank, C classes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from headway.errors import InputError
from headway.hub.adapters.config import AdapterConfig, read_adapter
from headway.hub.directory import family_of, family_weights, load_model, model_config, read_json, save_config
from headway.hub.download import ADAPTER_WEIGHTS
from headway.hub.families.family import Family
from headway.hub.fine_tune import for_classification, for_token_classification
from headway.hub.kept_entries import LABELS
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.hub.safe.safetensors_file import SafetensorsFile
from headway.hub.safe.weights import FILE, Weights
from headway.hub.sentence_transformers import MODULES, add_modules, without_modules, write_modules
from headway.io.atomic_write import write_json, write_whole
from headway.io.regular_file import inside
from headway.io.strict_json import read_object
from headway.models.heads import ClassificationHead, PoolingHead, TokenClassificationHead, TokenHead, VectorHead
from headway.models.transformer import Decoder, Encoder
from headway.text.tokenizer import Tokenizer

START = "base_model.model."
"""The prefix of all names in the file of an adapter."""
DOWN, UP = ".lora_A.weight", ".lora_B.weight"
OUTPUTS = ("classifier.weight", "score.weight", "out_proj.weight")
"""The ends of names of a classifier's last matrix (C, I)."""
LABELS_FILE = "labels.json"
"""``id2label`` and ``label2id`` of a classifier.  A config.json would make ``transformers`` look for a whole model."""
TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model", "source.spm")


def write_merged(directory: Path, base: Path, out: Path) -> None:
    """Write the model of an adapter, its base merged with its updates, as a Hugging Face directory.

    The tokenizer and the names of classes are the adapter's where it has them, else those of the base.  Raises
    InputError for what Headway cannot express, and where adapter and base do not fit.
    """
    adapter = read_adapter(directory)
    with Weights([SafetensorsFile(inside(directory, ADAPTER_WEIGHTS))], directory / ADAPTER_WEIGHTS) as stored:
        model: Any = load_model(base)
        names = _stored_names(model)
        model = _for_task(model, adapter, stored, directory)
        bare, head = without_modules(model)
        family, theirs = family_of(bare)
        weights = family_weights(bare, family, theirs)
        given = _add(weights, adapter, stored, family)
    drawn = sorted({name.removeprefix(family.prefix) for name in set(weights) - given} - names)
    if drawn:
        raise InputError(f"{directory}: {drawn[0]} is neither in the adapter nor in its base, {base}.")
    save_config(model, out, **_labels(directory, model))
    write_whole(out / FILE, lambda file: save_file(weights, file, metadata={"format": "pt"}))
    write_modules(out, bare, head)
    of_processor = directory if any((directory / name).exists() for name in TOKENIZERS) else base
    if getattr(bare, "patches", None) is None:
        Tokenizer.load(of_processor, rows=model_config(bare).vocab_size).save(out)
    elif (base / PREPROCESSOR).is_file():
        write_json(out / PREPROCESSOR, read_object(base / PREPROCESSOR))


def _stored_names(model: nn.Module) -> set[str]:
    """The names of a base's weights, without the family's prefix."""
    bare = without_modules(model)[0]
    family, theirs = family_of(bare)
    return {name.removeprefix(family.prefix) for name in family_weights(bare, family, theirs)}


def _for_task(model: Any, adapter: AdapterConfig, stored: Weights, directory: Path) -> nn.Module:
    """The base with the head of the adapter's task."""
    classes = [stored.shape(name)[0] for name in stored.names if name.endswith(OUTPUTS) and len(stored.shape(name)) > 1]
    head = getattr(model, "head", None)
    try:
        if adapter.task == "SEQ_CLS" and classes:
            fits = isinstance(head, ClassificationHead) and head.out.out_features == classes[0]
            return model if fits else for_classification(model, classes[0])
        if adapter.task == "TOKEN_CLS" and classes:
            fits = isinstance(head, TokenClassificationHead) and head.out.out_features == classes[0]
            return model if fits else for_token_classification(model, classes[0])
        if adapter.task == "CAUSAL_LM" and isinstance(model, Decoder) and isinstance(head, VectorHead):
            model.head = TokenHead(model.config, model.stack.embedding.tokens)  # type: ignore[arg-type]
        if adapter.task == "FEATURE_EXTRACTION" and isinstance(model, Encoder) and not isinstance(head, PoolingHead):
            model.head = None
            if (directory / MODULES).exists():
                add_modules(model, directory, family_of(model)[1])
    except ValueError as error:
        raise InputError(f"{adapter.path}: task_type {adapter.task}: its base has no such head ({error}).") from None
    if adapter.task not in (None, "SEQ_CLS", "TOKEN_CLS", "CAUSAL_LM", "SEQ_2_SEQ_LM", "FEATURE_EXTRACTION"):
        raise InputError(f"{adapter.path}: task_type {adapter.task} is not a task of Headway.")
    return model


@torch.no_grad()
def _add(weights: dict[str, Tensor], adapter: AdapterConfig, stored: Weights, family: Family) -> set[str]:
    """Add every update to the weights, in place, and put whole tensors in their place; returns the names of these."""
    whole = set()
    for key in stored.names:
        module = key.removeprefix(START)
        if module.endswith(UP):
            if key.removesuffix(UP) + DOWN not in stored:
                raise InputError(f"{stored.source}: {key} has no {DOWN[1:]} beside it.")
            continue
        stored.check_weight(key)
        if not module.endswith(DOWN):
            name = _name_in(weights, module, family, stored, key)
            if stored.shape(key) != tuple(weights[name].shape):
                raise InputError(
                    f"{stored.source}: {key} has shape {list(stored.shape(key))}, and the base's "
                    f"{list(weights[name].shape)}: if the vocabulary was extended, merge the adapter with PEFT first."
                )
            weights[name] = stored.weight(key)
            whole.add(name)
            continue
        module = module.removesuffix(DOWN)
        up = key.removesuffix(DOWN) + UP
        if up not in stored:
            raise InputError(f"{stored.source}: {key} has no {UP[1:]} beside it.")
        name = _name_in(weights, f"{module}.weight", family, stored, key)
        sizes = stored.shape(up)[:1] + stored.shape(key)[1:]  # (O, I)
        rank, wanted = adapter.rank_of(module), tuple(weights[name].shape)
        wanted = wanted[::-1] if family.transposed else wanted
        if sizes != wanted or stored.shape(up)[1:] != (rank,) or stored.shape(key)[:1] != (rank,):
            raise InputError(
                f"{stored.source}: the update of {module} has shapes {list(stored.shape(up))} and "
                f"{list(stored.shape(key))}, expected {[wanted[0], rank]} and {[rank, *wanted[1:]]}."
            )
        update = adapter.scale_of(module) * (stored.weight(up) @ stored.weight(key))  # (O, I)
        weights[name] = weights[name] + (update.T if family.transposed else update)
    return whole


def _name_in(weights: Mapping[str, Tensor], name: str, family: Family, stored: Weights, key: str) -> str:
    """The name of a weight of the base, whose class may have its family's prefix or not."""
    for candidate in (name, name.removeprefix(family.prefix), family.prefix + name):
        if candidate in weights:
            return candidate
    raise InputError(f"{stored.source}: {key} belongs to no weight of the base, a {family.model_type}.")


def _labels(directory: Path, model: Any) -> dict[str, Any]:
    """The names of classes, where the adapter's directory has them in ``LABELS_FILE``; PEFT's own has not."""
    out = getattr(getattr(model, "head", None), "out", None)
    if out is None or not (directory / LABELS_FILE).is_file():
        return {}
    theirs = read_json(directory / LABELS_FILE)
    found = {key: theirs[key] for key in LABELS if isinstance(theirs.get(key), dict)}
    return found if all(len(names) == out.out_features for names in found.values()) else {}
