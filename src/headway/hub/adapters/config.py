"""``adapter_config.json``: what an adapter of PEFT says of itself, and what of that Headway can express."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.errors import InputError, shown
from headway.hub.download import ADAPTER, ADAPTER_WEIGHTS
from headway.hub.safe.weights import FILE, INDEX
from headway.io.regular_file import inside
from headway.io.strict_json import read_object

NO_EFFECT = {
    *("task_type", "auto_mapping", "peft_version", "inference_mode", "lora_dropout", "fan_in_fan_out"),
    *("megatron_core", "qalora_group_size", "loftq_config", "eva_config", "megatron_config"),
}
"""Entries that say how an adapter was trained or made."""
READ = {
    *("peft_type", "base_model_name_or_path", "revision", "r", "lora_alpha", "use_rslora", "rank_pattern"),
    *("alpha_pattern", "bias", "init_lora_weights", "modules_to_save", "ensure_weight_tying"),
    *("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
}
"""Entries that are checked or used below.  Any other that is set means something that Headway lacks."""
STARTS = (None, True, False, "gaussian", "eva", "orthogonal")
"""``init_lora_weights`` that leave the base as it is; the others (PiSSA, OLoRA) change it."""
LACKING = {"use_dora": "DoRA", "use_qalora": "QALoRA", "lora_bias": "biases of updates"}
MODULE = re.compile(r"\^?[A-Za-z0-9_]+(\\?\.[A-Za-z0-9_]+)*\$?")
"""A name of modules in a pattern: the end of a name, or with ^ a whole one."""
MOST = 2**20


@dataclass(frozen=True)
class AdapterConfig:
    """The base of an adapter, and the rank and scale of its updates."""

    path: Path
    """``adapter_config.json``"""
    base: str
    """a path, or an id of the hub with its revision, if one is named"""
    task: str | None
    """``task_type``: CAUSAL_LM, SEQ_CLS, ..."""
    rank: int
    alpha: float
    ranks: dict[str, Any]
    alphas: dict[str, Any]
    """by the ends of names of modules, where they are others"""
    rslora: bool
    """whether alpha is divided by the root of the rank (Kalajdzievski 2023)"""
    saved: tuple[str, ...]
    """``modules_to_save``: the ends of names of modules whose weights the adapter replaces"""
    ties: bool
    """``ensure_weight_tying``"""
    targets: tuple[str, ...]
    """``target_modules``: the ends of names of modules with an update; none where the tensors alone show them"""
    excluded: tuple[str, ...]
    layers: tuple[int, ...]
    """``layers_to_transform``: none for all"""
    layer_names: tuple[str, ...]

    def replaces(self, weight: str) -> bool:
        """Whether a weight is in a module that the adapter replaces."""
        parts = weight.split(".")
        return any(".".join(parts[:end]).endswith(self.saved) for end in range(1, len(parts)))

    def updates(self, module: str) -> bool:
        """Whether a module has an update, as PEFT decides it; only where there are ``targets``."""
        if _ends(module, self.excluded) or not _ends(module, self.targets):
            return False
        if not self.layers or module in self.targets:
            return True
        names = "|".join(map(re.escape, self.layer_names)) or "[^.]*"
        number = re.match(rf"(?:.*\.)?(?:{names})\.(\d+)\.", module)
        return number is not None and int(number[1]) in self.layers

    def rank_of(self, module: str) -> int:
        return int(self._of(module, self.ranks, self.rank))

    def scale_of(self, module: str) -> float:
        """The factor of an update: alpha / R, or alpha / √R."""
        rank = self.rank_of(module)
        return float(self._of(module, self.alphas, self.alpha)) / (rank**0.5 if self.rslora else rank)

    @staticmethod
    def _of(module: str, pattern: dict[str, Any], usual: Any) -> Any:
        """The value of the first key that fits, as PEFT finds it: one that ends the name, or with ^ begins it too."""
        for key, value in pattern.items():
            name = key.replace("\\", "").removesuffix("$")
            if module == name.removeprefix("^") or (not name.startswith("^") and module.endswith(f".{name}")):
                return value
        return usual


def _ends(module: str, names: tuple[str, ...]) -> bool:
    return module in names or module.endswith(tuple(f".{name}" for name in names))


def is_adapter(directory: Path) -> bool:
    """Whether a directory holds an adapter and no model."""
    return (directory / ADAPTER).is_file() and not any((directory / name).exists() for name in (FILE, INDEX))


def read_adapter(directory: Path) -> AdapterConfig:
    """What an adapter says of itself.

    Raises InputError for an adapter of another kind than LoRA, for entries that Headway lacks, and where no base is
    named.
    """
    path = inside(directory, ADAPTER)
    entries = read_object(path, advice=f"expected a PEFT adapter with {ADAPTER} and {ADAPTER_WEIGHTS}")
    if (kind := entries.get("peft_type")) != "LORA":
        raise InputError(f"{path}: peft_type is {shown(kind)}, and Headway reads LORA alone.")
    for name, words in LACKING.items():
        if entries.get(name):
            raise InputError(f"{path}: {name}: {words} is not supported, only plain LoRA; merge it with PEFT first.")
    strange = [name for name, value in entries.items() if value and name not in NO_EFFECT | READ]
    if entries.get("bias") not in (None, "none"):
        strange.append("bias")
    if entries.get("init_lora_weights") not in STARTS:
        strange.append("init_lora_weights")
    if strange:
        value = shown(entries[strange[0]])
        raise InputError(
            f"{path}: {strange[0]} is {value}, which is not supported, only plain LoRA; merge it with PEFT first."
        )
    base, revision = entries.get("base_model_name_or_path"), entries.get("revision")
    if not isinstance(base, str) or not base or not (revision is None or isinstance(revision, str)):
        raise InputError(f"{path}: base_model_name_or_path is {shown(base)}, expected the model that it adapts.")
    return AdapterConfig(
        path,
        f"{base}@{revision}" if revision and "@" not in base else base,
        entries.get("task_type") if isinstance(entries.get("task_type"), str) else None,
        _number(entries, "r", path, 8, whole=True),
        _number(entries, "lora_alpha", path, 8),
        _pattern(entries, "rank_pattern", path, whole=True),
        _pattern(entries, "alpha_pattern", path),
        entries.get("use_rslora") is True,
        _names(entries, "modules_to_save", path),
        entries.get("ensure_weight_tying") is True,
        () if isinstance(entries.get("target_modules"), str) else _names(entries, "target_modules", path),
        _names(entries, "exclude_modules", path),
        _layers(entries.get("layers_to_transform"), path),
        _names(entries, "layers_pattern", path),
    )


def _names(entries: dict[str, Any], key: str, path: Path) -> tuple[str, ...]:
    names = entries.get(key) or []
    names = [names] if isinstance(names, str) and key == "layers_pattern" else names
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InputError(f"{path}: {key} is {shown(names)}, expected a list of names of modules.")
    return tuple(names)


def _layers(value: Any, path: Path) -> tuple[int, ...]:
    layers = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(layer) is int for layer in layers):
        raise InputError(f"{path}: layers_to_transform is {shown(value)}, expected numbers of layers.")
    return tuple(layers)


def _number(entries: dict[str, Any], key: str, path: Path, usual: Any, *, whole: bool = False) -> Any:
    value = entries.get(key, usual)
    if not _is_number(value, whole):
        raise InputError(f"{path}: {key} is {shown(value)}, expected a {'whole ' if whole else ''}number above 0.")
    return value


def _pattern(entries: dict[str, Any], key: str, path: Path, *, whole: bool = False) -> dict[str, Any]:
    """Numbers by the names of modules; other regular expressions are refused."""
    pattern = entries.get(key) or {}
    if not isinstance(pattern, dict):
        raise InputError(f"{path}: {key} is {shown(pattern)}, expected an object of modules and numbers.")
    for name, value in pattern.items():
        if not MODULE.fullmatch(name) or not _is_number(value, whole):
            raise InputError(
                f"{path}: {key}: found {shown(name)}: {shown(value)}, expected the end of a module's name, such as "
                "self_attn.q_proj, and a number above 0."
            )
    return pattern


def _is_number(value: Any, whole: bool) -> bool:
    return type(value) in ((int,) if whole else (int, float)) and 0 < value <= MOST
