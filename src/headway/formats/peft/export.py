"""A PEFT adapter: the low-rank updates of a run that was trained with ``--lora``, without its base.

It is compared by opening it as users of PEFT do: ``PeftModel.from_pretrained`` on the base in ``transformers``.
"""

import os
from pathlib import Path
from typing import Any

import torch

from headway.errors import InputError
from headway.formats.hf.export import (
    INPUTS,
    label_names,
    max_difference,
    offline,
    same_ids_in_transformers,
    write_processor,
)
from headway.formats.hf.loaders import class_of
from headway.formats.parity import BOUND, Parity, exceeding
from headway.formats.subject import Subject
from headway.hub.adapters.config import is_adapter
from headway.hub.adapters.merge import LABELS_FILE, adapter_of
from headway.hub.directory import family_of, load_model
from headway.hub.download import ADAPTER, ADAPTER_WEIGHTS, Download, locate, one_line
from headway.hub.fine_tune import has_block
from headway.hub.fingerprint import fingerprint
from headway.hub.safe.weights import save_weights
from headway.hub.sentence_transformers import without_modules, write_modules
from headway.io.atomic_write import write_json
from headway.models.adapt.lora import LowRankLinear
from headway.models.heads import Gives, gives, n_outputs
from headway.models.wirings import wiring_name
from headway.training.store.facts import read_facts


def problem(subject: Subject) -> str | None:
    """Why the model is not one that was trained by low-rank updates alone."""
    model = subject.model
    if subject.no_family:
        return subject.no_family
    if wiring_name(model) == "encoder" and gives(model) is Gives.VOCABULARY:
        return "a head of masked tokens shares its matrix with the embedding, which an adapter cannot hold"
    if getattr(getattr(model, "head", None), "scale", None) is not None:
        return (
            "it predicts several label columns, whose units an adapter does not describe; export a model of each by "
            "--to hf"
        )
    if not any(isinstance(module, LowRankLinear) for module in model.modules()):
        facts = read_facts(subject.directory) or {}
        if not facts.get("base") or not facts.get("plan", {}).get("lora"):
            return "it was not trained with --lora, so it has no adapter; train it with --from BASE --lora RANK"
    if has_block(model):
        return (
            "a block that pools the mean was added to its base, which an adapter cannot hold; export the whole model "
            "by --to hf"
        )
    if any(getattr(p, "trained_rows", None) is not None for p in model.parameters()):
        return "tokens were added to its base, which an adapter cannot hold"
    return None


def write(subject: Subject, directory: Path, precision: str) -> None:
    """``adapter_config.json`` and ``adapter_model.safetensors``; ``labels.json``, and the tokenizer."""
    base, rank = base_of_run(subject.directory), (read_facts(subject.directory) or {})["plan"]["lora"]
    model, head = without_modules(subject.model)
    try:
        entries, tensors = adapter_of(model, without_modules(load_model(base.path))[0], rank)
    except ValueError as error:
        raise InputError(f"{subject.directory}: cannot be an adapter of {base.id or base.path}: {error}.") from None
    origin = {"base_model_name_or_path": _name_of(base, directory), "revision": base.revision}
    write_json(directory / ADAPTER, {**origin, **entries})
    save_weights(directory / ADAPTER_WEIGHTS, tensors)
    if labels := label_names(subject.pipe):
        write_json(directory / LABELS_FILE, labels)
    write_modules(directory, model, head)
    write_processor(subject, directory)


def _name_of(base: Download, directory: Path) -> str:
    """The id of a base, or its path from the adapter's directory; its name alone where only the root is above both."""
    here, there = directory.resolve(), base.path.resolve()
    near = os.path.commonpath([here, there]) != here.anchor
    return base.id or (os.path.relpath(there, here) if near else there.name)


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """The logits of 32 random inputs, and the ids of 1,000 lines.  Nothing is downloaded."""
    with offline() as transformers:
        if transformers is None:
            return Parity(problem="transformers is not installed")
        try:
            import peft
        except Exception as error:  # of a library for another version of transformers, for one
            return Parity(problem=f"peft cannot be imported: {one_line(error)}", needs="peft")
        return _compare(transformers, peft, subject, directory)


def _compare(transformers: Any, peft: Any, subject: Subject, directory: Path) -> Parity:
    model = without_modules(subject.model)[0]
    loader = class_of(family_of(model)[1]["architectures"][0])
    words = {"num_labels": classes} if (classes := n_outputs(model)) else {}
    options = "".join(f", {name}={value}" for name, value in words.items())
    door = f"PeftModel.from_pretrained({loader}.from_pretrained(BASE{options}), DIR)"
    problems: list[str] = []
    difference, equal = None, None
    try:
        base = getattr(transformers, loader).from_pretrained(
            base_of_run(subject.directory).path, local_files_only=True, dtype=torch.float32, **words
        )
        opened = peft.PeftModel.from_pretrained(base, str(directory)).eval()
        difference = max_difference(model, opened)
        problems = exceeding(difference, BOUND, "the answers differ")
        equal, ids = same_ids_in_transformers(transformers, subject.tokenizer, directory)
        problems += [ids] if ids else []
    except Exception as error:  # any error means that users cannot use the directory
        problems.append(f"{door} with peft {peft.__version__} cannot use it: {one_line(error)}")
    return Parity(
        difference,
        over=f"{INPUTS} random inputs",
        tokens_equal=equal,
        problem="; ".join(problems) or None,
        reader="peft",
        version=peft.__version__,
        needs="peft",
        door=door,
    )


def base_of_run(run: Path) -> Download:
    """Where the base of a run is.  Raises InputError where it is gone, has changed, or is an adapter itself."""
    recorded = (read_facts(run) or {})["base"]
    base, name = locate(recorded["path"]), recorded["path"]
    if not base.path.is_dir():
        raise InputError(
            f"{run}: its base, {name}, is not there; an adapter is read with it. Run this command where it is."
        )
    if is_adapter(base.path):
        raise InputError(f"{run}: its base, {name}, is an adapter itself; export the whole model by --to hf.")
    if fingerprint(base.path) != recorded["fingerprint"]:
        raise InputError(f"{run}: its base, {name}, has changed since; an adapter belongs to the old one.")
    return base
