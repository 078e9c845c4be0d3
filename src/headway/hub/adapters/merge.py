"""PEFT adapters and whole models: a base merged with an adapter's updates, and the adapter of a trained model.

A run keeps the merged model.  Its updates are the difference from the base, whose rank is that of the training; they
are factored again by a truncated singular value decomposition.

Letters: I input width of a matrix, O its output width, R rank, C classes.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import InputError
from headway.hub.adapters.config import AdapterConfig, read_adapter
from headway.hub.build_model import own_weights
from headway.hub.directory import (
    batch_settings,
    family_of,
    family_weights,
    load_model,
    model_config,
    read_json,
    save_config,
)
from headway.hub.download import ADAPTER_WEIGHTS
from headway.hub.families.entries import Json
from headway.hub.families.family import Family
from headway.hub.fine_tune import for_classification, for_token_classification
from headway.hub.kept_entries import LABELS
from headway.hub.name_table import expand, write_weights
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.hub.safe.weights import FILE, Weights, open_file, save_weights
from headway.hub.sentence_transformers import MODULES, add_modules, without_modules, write_modules
from headway.io.atomic_write import write_json
from headway.io.strict_json import read_object
from headway.models.adapt.lora import SCALE
from headway.models.heads import CLASSES, Gives, TokenHead, gives, n_outputs
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.text.tokenizer import Tokenizer

START = "base_model.model."
"""The prefix of all names in the file of an adapter."""
DOWN, UP = ".lora_A.weight", ".lora_B.weight"
OF_TABLE = ".lora_embedding_A", ".lora_embedding_B"
"""The same of a table of vectors (V, D), whose update is transposed: A (R, V) and B (D, R)."""
BASE = ".base_layer"
"""Behind the name of a module with an update, in the name of its weight in the base."""
OUTPUTS = ("classifier.weight", "score.weight", "out_proj.weight")
"""The ends of names of a classifier's last matrix (C, I)."""
CLASSIFIERS: dict[str | None, tuple[Gives, Callable[[Any, int], nn.Module]]] = {
    "SEQ_CLS": (Gives.ROW, for_classification),
    "TOKEN_CLS": (Gives.TOKEN, for_token_classification),
}
"""For a task of PEFT, what a model gives, and what puts such a head on one."""
LABELS_FILE = "labels.json"
"""``id2label`` and ``label2id`` of a classifier.  A config.json would make ``transformers`` look for a whole model."""
TOKENIZERS = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model", "source.spm")


def write_merged(directory: Path, base: Path, out: Path) -> None:
    """Write the model of an adapter, its base merged with its updates, as a Hugging Face directory.

    The tokenizer and the names of classes are the adapter's where it has them, else those of the base.  Raises
    InputError for what Headway cannot express, and where adapter and base do not fit.
    """
    adapter = read_adapter(directory)
    with open_file(directory, ADAPTER_WEIGHTS) as stored:
        model: Any = load_model(base)
        names = _stored_names(model)
        model = _for_task(model, adapter, stored, directory)
        bare, head = without_modules(model)
        places = _untie(bare, adapter, stored)
        family, theirs = family_of(bare)
        weights = family_weights(bare, family, theirs)
        replaced = _add(weights, adapter, stored, family, places)
    _check_updates(adapter, stored, weights)
    lacking = sorted(name for name in set(weights) - replaced if adapter.replaces(name))
    if lacking:
        raise InputError(f"{adapter.path}: modules_to_save promises {lacking[0]}, and {stored.source} lacks it.")
    unknown = (name for name in set(weights) - replaced if weights[name].any())  # a pooler that is not there is all 0
    drawn = sorted({name.removeprefix(family.prefix) for name in unknown} - names)
    if drawn and not places:
        raise InputError(f"{directory}: {drawn[0]} is neither in the adapter nor in its base, {base}.")
    save_config(model, out, **_labels(directory, model))
    save_weights(out / FILE, weights)
    write_modules(out, bare, head)
    of_processor = directory if any((directory / name).exists() for name in TOKENIZERS) else base
    if getattr(bare, "patches", None) is None:
        Tokenizer.load(of_processor, rows=model_config(bare).vocab_size).save(out, **batch_settings(bare))
    elif (base / PREPROCESSOR).is_file():
        write_json(out / PREPROCESSOR, read_object(base / PREPROCESSOR))


def _stored_names(model: nn.Module) -> set[str]:
    """The names of a base's weights, without the family's prefix."""
    bare = without_modules(model)[0]
    family, theirs = family_of(bare)
    return {name.removeprefix(family.prefix) for name in family_weights(bare, family, theirs)}


def _for_task(model: Any, adapter: AdapterConfig, stored: Weights, directory: Path) -> nn.Module:
    """The base with the head of the adapter's task."""
    classes = [stored.shape(name)[0] for name in stored if name.endswith(OUTPUTS) and len(stored.shape(name)) > 1]
    if adapter.task in CLASSIFIERS and not (classes or gives(model) in CLASSES):
        raise InputError(f"{stored.source}: has no classifier, and task_type {adapter.task} needs one.")
    try:
        if adapter.task in CLASSIFIERS and classes:
            result, put_on = CLASSIFIERS[adapter.task]
            fits = gives(model) is result and n_outputs(model) == classes[0]
            return model if fits else put_on(model, classes[0])
        if adapter.task == "CAUSAL_LM" and isinstance(model, Decoder) and gives(model) is Gives.HIDDEN:
            model.head = TokenHead(model.config, model.stack.embedding.tokens)  # type: ignore[arg-type]
        if adapter.task == "FEATURE_EXTRACTION" and isinstance(model, Encoder) and gives(model) is not Gives.VECTOR:
            model.head = None
            if (directory / MODULES).exists():
                add_modules(model, directory, family_of(model)[1])
    except ValueError as error:
        raise InputError(f"{adapter.path}: task_type {adapter.task}: its base has no such head ({error}).") from None
    if adapter.task not in (None, "SEQ_CLS", "TOKEN_CLS", "CAUSAL_LM", "SEQ_2_SEQ_LM", "FEATURE_EXTRACTION"):
        raise InputError(f"{adapter.path}: task_type {adapter.task} is not a task of Headway.")
    return model


def _untie(model: Any, adapter: AdapterConfig, stored: Weights) -> set[str]:
    """The names of a tied table of vectors, each with a matrix of its own from now on; none where it stays as it is.

    PEFT changes the embedding or the head, and never the other with it.  Raises InputError where an encoder and a
    decoder share the table.
    """
    family, theirs = family_of(model)
    tokens = getattr((model.decoder if isinstance(model, EncoderDecoder) else model.stack).embedding, "tokens", None)
    ours = [name for name, p in model.named_parameters(remove_duplicate=False) if p is getattr(tokens, "weight", None)]
    places = {entry.theirs[0].name for entry in expand(family.rows(theirs), ours)}
    places |= {name for pair in family.copies(theirs).items() for name in pair if places.intersection(pair)}
    short = {name.removeprefix(family.prefix): name for name in places}
    touched = {key: short.get(f"{_module(key).removeprefix(family.prefix)}.weight") for key in stored}
    updated = {name for key, name in touched.items() if name and ".lora_" in key}
    changed = {name for name in places if adapter.replaces(name) or name in touched.values()}
    if len(places) < 2 or not changed:
        return set()
    head, of_file = getattr(model.head, "token", model.head), f"{adapter.path}: it changes {min(changed)}"
    if isinstance(model, EncoderDecoder) or gives(model) is not Gives.VOCABULARY:
        others = ", ".join(sorted(places - {min(changed)}))
        raise InputError(f"{of_file}, which is one matrix with {others} in its base; merge it with PEFT first.")
    if adapter.ties and len(updated) > 1 and not any("embed_tokens" in name for name in places):
        raise InputError(f"{of_file} with ensure_weight_tying, which PEFT loads without it; merge it with PEFT first.")
    head.matrix.weight, head.tied = nn.Parameter(tokens.weight.detach().clone()), False  # type: ignore[union-attr]
    model.config = model.stack.config = model.config.but(tied=False)
    return places


def _module(key: str) -> str:
    """The module of a tensor of an adapter."""
    return re.sub(r"(\.lora_(embedding_)?[AB]|\.base_layer)?(\.weight|\.bias)?$", "", key.removeprefix(START))


@torch.no_grad()
def _add(
    weights: dict[str, Tensor], adapter: AdapterConfig, stored: Weights, family: Family, places: set[str]
) -> set[str]:
    """Put whole tensors in the place of weights, and add every update, in place; returns the names of the former.

    What the file has of a tied table in the base is for all its ``places``.
    """
    whole = set()
    for key in sorted(stored, key=lambda key: (".lora_" in key, adapter.replaces(key))):  # first the base's own
        stored.check_weight(key)
        module, (down, up) = _module(key), OF_TABLE if key.endswith(OF_TABLE) else (DOWN, UP)
        if not key.endswith((down, up)):
            name = _name_in(weights, key.removeprefix(START).replace(BASE, ""), family, stored, key)
            if stored.shape(key) != tuple(weights[name].shape):
                raise InputError(
                    f"{stored.source}: {key} has shape {list(stored.shape(key))}, and the base's "
                    f"{list(weights[name].shape)}: if the vocabulary was extended, merge the adapter with PEFT first."
                )
            of_base = BASE in key or not adapter.replaces(key)
            weights |= {each: stored.weight(key) for each in (places if of_base and name in places else (name,))}
            whole.add(name)
            continue
        other = key.removesuffix(down) + up if key.endswith(down) else key.removesuffix(up) + down
        if other not in stored:
            raise InputError(f"{stored.source}: {key} has no {other.removeprefix(f'{START}{module}.')} beside it.")
        if key.endswith(up):
            continue
        name = _name_in(weights, f"{module}.weight", family, stored, key)
        sizes = stored.shape(other)[:1] + stored.shape(key)[1:]  # (O, I)
        rank, wanted = adapter.rank_of(module), tuple(weights[name].shape)
        turned = down in OF_TABLE or (family.transposed and re.search(r"\.\d+\.", module) is not None)
        wanted = wanted[::-1] if turned else wanted
        if sizes != wanted or stored.shape(other)[1:] != (rank,) or stored.shape(key)[:1] != (rank,):
            raise InputError(
                f"{stored.source}: the update of {module} has shapes {list(stored.shape(other))} and "
                f"{list(stored.shape(key))}, expected {[wanted[0], rank]} and {[rank, *wanted[1:]]}."
            )
        update = adapter.scale_of(module) * (stored.weight(other) @ stored.weight(key))  # (O, I)
        weights[name] = weights[name] + (update.T if turned else update)
    return whole


def _check_updates(adapter: AdapterConfig, stored: Weights, weights: Mapping[str, Tensor]) -> None:
    """Raise InputError where other modules have an update than ``adapter_config.json`` says, or none has."""
    updated = {_module(key) for key in stored if ".lora_" in key}
    if not len(stored):
        raise InputError(f"{stored.source}: holds no update.")
    if not adapter.targets or adapter.ties:  # all of a kind, a pattern, or the head with the embedding
        return
    keys = "target_modules, exclude_modules and layers_to_transform"
    if other := sorted(module for module in updated if not adapter.updates(module)):
        raise InputError(f"{stored.source}: has an update of {other[0]}, which {keys} of {adapter.path} leave out.")
    for name, weight in weights.items():
        module = name.removesuffix(".weight")
        wanted = weight.ndim == 2 and re.search(r"\.\d+\.", name) and not adapter.replaces(name)
        # a class may have its family's prefix before the names of modules or not
        there = any(f".{module}".endswith(f".{other}") or f".{other}".endswith(f".{module}") for other in updated)
        if wanted and adapter.updates(module) and not there:
            raise InputError(f"{stored.source}: has no update of {module}, which {keys} of {adapter.path} promise.")


def _name_in(weights: Mapping[str, Tensor], name: str, family: Family, stored: Weights, key: str) -> str:
    """The name of a weight of the base, whose class may have its family's prefix or not."""
    for candidate in (name, name.removeprefix(family.prefix), family.prefix + name):
        if candidate in weights:
            return candidate
    raise InputError(f"{stored.source}: {key} belongs to no weight of the base, a {family.model_type}.")


def _labels(directory: Path, model: Any) -> dict[str, Any]:
    """The names of classes, where the adapter's directory has them in ``LABELS_FILE``; PEFT's own has not."""
    count = n_outputs(model)
    if not count or not (directory / LABELS_FILE).is_file():
        return {}
    theirs = read_json(directory / LABELS_FILE)
    labels = {key: theirs[key] for key in LABELS if isinstance(theirs.get(key), dict)}
    return labels if all(len(names) == count for names in labels.values()) else {}


TASKS = {
    "ForCausalLM": "CAUSAL_LM",
    "LMHeadModel": "CAUSAL_LM",
    "ForSequenceClassification": "SEQ_CLS",
    "ForTokenClassification": "TOKEN_CLS",
    "ForConditionalGeneration": "SEQ_2_SEQ_LM",
    "MTModel": "SEQ_2_SEQ_LM",
    "ForImageClassification": None,
    "Model": "FEATURE_EXTRACTION",
}
"""The end of an architecture's name -> ``task_type``; the first that fits."""
STACKED = 3
"""The most matrices with an update of their own that a family stores as one: queries, keys and values."""
ROUNDING = 8 * torch.finfo(torch.float32).eps
"""The largest change of a weight by rounding, as a share of the largest weight of its matrix."""


def adapter_of(model: Any, base: nn.Module, rank: int) -> tuple[Json, dict[str, Tensor]]:
    """(``adapter_config.json`` without the base, the tensors of ``adapter_model.safetensors``).

    ``model`` was trained from ``base`` by updates of this rank, its classifier in full.  Both are bare models of one
    family (``without_modules``).  Raises ValueError for any other difference between the two.
    """
    family, theirs = family_of(model)
    prefix = family.prefix if family.gives(theirs) is Gives.HIDDEN else ""
    base_family, base_theirs = family_of(base)
    before = write_weights(base_family.rows(base_theirs), own_weights(base), model_config(base))
    after = write_weights(family.rows(theirs), own_weights(model), model_config(model))
    whole = gives(model) in CLASSES
    tensors: dict[str, Tensor] = {}
    ranks: dict[str, int] = {}
    matrices, saved = [], set()
    for entry in expand(family.rows(theirs), own_weights(model)):
        for part in entry.theirs:
            name, new, old = part.name.removeprefix(prefix), after[part.name], before.get(part.name)
            module = name.rpartition(".")[0]
            if whole and entry.ours.startswith("head."):
                tensors[START + name] = new
                # PEFT saves whole modules: its classes of classifiers name ``classifier`` themselves
                saved.add("classifier" if module.startswith("classifier.") else module)
                continue
            if ".blocks." in entry.ours and new.dim() == 2:
                matrices.append(module)
            if old is None or old.shape != new.shape:
                raise ValueError(f"its {name} is not in the base in this shape: tokens or blocks were added")
            if torch.equal(old, new):
                continue
            if module not in matrices:
                raise ValueError(f"its {name} is not that of the base, and no update of a matrix")
            update = new - old
            factors = _factors(update.T if family.transposed else update, rank, ROUNDING * float(new.abs().max()))
            if factors is None:
                raise ValueError(f"its {name} differs from the base's by more than an update of rank {rank}")
            tensors[START + module + DOWN], tensors[START + module + UP] = factors
            ranks[module] = len(factors[0])
    if not ranks:
        raise ValueError("its blocks are those of the base: no update was trained")
    names = _short(list(ranks), matrices)
    keys = {module: _end(module) if _end(module) in names else f"^{module}" for module in ranks}
    others = {keys[module]: own_rank for module, own_rank in ranks.items() if own_rank != rank}
    task = next(task for end, task in TASKS.items() if family.architecture(theirs).endswith(end))
    return {
        "peft_type": "LORA",
        "task_type": task,
        "r": rank,
        "lora_alpha": SCALE * rank,
        "rank_pattern": others,
        "alpha_pattern": {module: SCALE * own_rank for module, own_rank in others.items()},
        "target_modules": names,
        "modules_to_save": sorted(saved) or None,
        "fan_in_fan_out": family.transposed,
        "lora_dropout": 0.0,
        "bias": "none",
        "inference_mode": True,
    }, tensors


def _factors(update: Tensor, rank: int, rounding: float) -> tuple[Tensor, Tensor] | None:
    """A (R, I) and B (O, R) with SCALE · B A = ``update`` (O, I) up to rounding; None: its rank is too high.

    R is ``rank`` or, where matrices with updates of their own are stored as one, a multiple of it.
    """
    most = min(STACKED * rank, *update.shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        left, values, right = torch.svd_lowrank(update, q=min(most + 8, *update.shape), niter=4)  # (O, Q), (Q,), (I, Q)
    for kept in range(rank, most + rank, rank):
        kept = min(kept, most)
        root = (values[:kept] / SCALE).sqrt()
        down, up = (right[:, :kept] * root).T.contiguous(), (left[:, :kept] * root).contiguous()
        if (SCALE * up @ down - update).abs().max() <= rounding + ROUNDING * float(values[0]):
            return down, up
    return None


def _short(targets: list[str], matrices: list[str]) -> list[str]:
    """``target_modules``: the ends of names behind the block's number, or, where not all have one, whole names."""
    short = sorted({_end(module) for module in targets})
    covered = [module for module in matrices if any(f".{module}".endswith(f".{name}") for name in short)]
    return short if set(covered) == set(targets) else sorted(targets)


def _end(module: str) -> str:
    """The part of a module's name behind the number of its block."""
    parts = module.split(".")
    number = max(index for index, part in enumerate(parts) if part.isdigit() and index < len(parts) - 1)
    return ".".join(parts[number + 1 :])
