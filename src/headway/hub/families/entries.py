"""The entries of ``config.json`` that families have in common: their values, checked, and how they are written.

``rope_parameters`` holds the base of rotary positions and their scaling for longer texts since transformers 5; before,
there were ``rope_theta`` and ``rope_scaling``, whose kind was once called "type".  Both forms are read and written.
"""

import math
from typing import Any

from headway.models.config import Positions, RopeScaling, TransformerConfig

Json = dict[str, Any]

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Their names of activations.  Of several for one of ours, the first is written."""


TYPES = {"norm_eps": float, "dropout": float, "tied": bool, "embedding_scale": bool}
"""The types of our fields that are no whole numbers."""
LAYER_KINDS = ("full_attention", "sliding_attention")
TARGET_IDS = {
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "forced_eos_token_id")),
    "decoder_start_token_id": 0,
}
"""The ids written for a model without named tokens: a target starts with token 0, and no token ends it."""


def read_field(theirs: Json, key: str, field: str, default: Any) -> Any:
    """The value of a key that corresponds to one of our fields, checked for its type.

    The number of key-value heads and the width of a head may be null: the number of heads, and the width they divide.
    """
    if field in ("n_kv_heads", "d_head") and theirs.get(key, default) is None:
        return None
    if field == "activation":
        return choice(theirs, key, ACTIVATIONS, default or "")
    return pick(theirs, key, TYPES.get(field, int), default)


def written_field(config: TransformerConfig, field: str) -> Any:
    """The value of a key that corresponds to one of our fields."""
    if field == "activation":
        return word(config.activation)
    derived = {"d_ff": config.hidden, "n_kv_heads": config.kv_heads, "d_head": config.head_width}
    return derived.get(field, getattr(config, field))


def pick(theirs: Json, name: str, kind: type, default: Any = None) -> Any:
    """A value of ``config.json``, checked for its type; null counts as missing.  Raises ValueError naming the key."""
    value: Any = theirs.get(name)
    value = default if value is None else value
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (kind is not bool and isinstance(value, bool)):
        raise ValueError(f"{name} is {value!r}, expected {kind.__name__}")
    return float(value) if kind is float else value  # type: ignore


def at_least(theirs: Json, name: str, least: int, default: int | None = None) -> int:
    """A whole number of ``config.json``, at least ``least``.  Raises ValueError naming the key."""
    value: int = pick(theirs, name, int, default)
    if value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")
    return value


def choice(theirs: Json, name: str, known: dict[str, str], default: str) -> str:
    """Our name for theirs, by a table.  Raises ValueError naming the key if the table lacks it."""
    value = pick(theirs, name, str, default)
    if value not in known:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(known)}")
    return known[value]


def word(ours: str, known: dict[str, str] = ACTIVATIONS) -> str:
    """Their name for ours, by the same table; ours itself if the table lacks it, which reading back refuses."""
    return next((theirs for theirs, value in known.items() if value == ours), ours)


def refuse(theirs: Json, **wanted: Any) -> None:
    """Raise ValueError for a key with a value other than the only one supported; a missing key is fine."""
    for name, expected in wanted.items():
        value = theirs.get(name)
        if value is not None and (value != expected or isinstance(value, bool) != isinstance(expected, bool)):
            raise ValueError(f"{name} {value!r} is not supported, only {expected!r}")


def check_head_width(theirs: Json, width: int, heads: int) -> None:
    """Raise ValueError for a head_dim other than width / heads, in a family that supports no other."""
    if heads > 0 and width % heads == 0:
        refuse(theirs, head_dim=width // heads)


def class_count(theirs: Json) -> int:
    """The number of classes of a classifier; transformers assumes 2."""
    labels = theirs.get("id2label")
    if labels is not None and not isinstance(labels, dict):
        raise ValueError(f"id2label is {str(labels)[:60]!r}, expected an object of numbers and names")
    return len(labels) if labels else pick(theirs, "num_labels", int, 2)


def class_names(count: int) -> Json:
    """The entries of ``config.json`` for that many classes, before they are named."""
    labels = {str(i): f"LABEL_{i}" for i in range(count)}
    return {"id2label": labels, "label2id": {name: int(i) for i, name in labels.items()}}


def layer_kinds(theirs: Json, windowed: list[bool]) -> list[bool]:
    """Whether each layer attends to a window only: by ``layer_types``, else as given.

    Raises ValueError for layers of another kind.
    """
    kinds = pick(theirs, "layer_types", list, [LAYER_KINDS[near] for near in windowed])
    if unknown := [str(kind)[:60] for kind in kinds if kind not in LAYER_KINDS]:
        raise ValueError(f"layer_types has {unknown[0]}, which is not supported, only {' and '.join(LAYER_KINDS)}")
    return [kind == LAYER_KINDS[1] for kind in kinds]


def read_rope(theirs: Json) -> Positions:
    """Our positions for theirs.  Raises ValueError for an unsupported scaling, and for one per layer."""
    entries: Any = theirs.get("rope_parameters") if theirs.get("rope_scaling") is None else theirs["rope_scaling"]
    entries = {} if entries is None else entries
    if not isinstance(entries, dict) or any(isinstance(value, dict) for value in entries.values()):
        raise ValueError(f"rope_parameters {entries!r} is not supported, only one set of values for all layers")
    kind = entries.get("rope_type") or entries.get("type") or "default"
    if kind not in ("default", *RopeScaling.KINDS):
        raise ValueError(f"rope_type {kind!r} is not supported, only default, {', '.join(RopeScaling.KINDS)}")
    for source in (theirs, entries):
        refuse(source, partial_rotary_factor=1.0)
    base = pick(entries, "rope_theta", float, pick(theirs, "rope_theta", float, 10000.0))
    return Positions("rotary", base=base, scaling=None if kind == "default" else _scaling(kind, entries, theirs))


def _scaling(kind: Any, entries: Json, theirs: Json) -> RopeScaling:
    trained = pick(theirs, "max_position_embeddings", int)
    if kind in ("linear", "dynamic"):
        return RopeScaling(kind, pick(entries, "factor", float), *([trained] if kind == "dynamic" else []))
    key = "original_max_position_embeddings"
    original = pick({key: theirs.get(key) or entries.get(key)}, key, int, trained)
    if kind == "llama3":
        slow, fast = (pick(entries, f"{end}_freq_factor", float) for end in ("low", "high"))
        return RopeScaling(kind, pick(entries, "factor", float), original, slow, fast)
    factor = pick(entries, "factor", float, trained / original)
    slow, fast = pick(entries, "beta_slow", float, 1.0), pick(entries, "beta_fast", float, 32.0)
    whole = pick(entries, "truncate", bool, True)
    return RopeScaling(kind, factor, original, slow, fast, whole=whole, size=_size(factor, entries))


def _size(factor: float, entries: Json) -> float:
    """YaRN's default factor of cosines and sines: 0.1 m ln(factor) + 1, or the quotient of two such terms."""
    if entries.get("attention_factor") is not None:
        return pick(entries, "attention_factor", float)

    def size(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    above, below = (pick(entries, name, float, 0.0) for name in ("mscale", "mscale_all_dim"))
    return size(above) / size(below) if above and below else size(1.0)


def write_rope(positions: Positions) -> Json:
    """The entries of ``config.json``, in the current form and in the older one."""
    scaling, theta = positions.scaling, {"rope_theta": positions.base}
    if scaling is None:
        return {"rope_parameters": {"rope_type": "default", **theta}, **theta, "rope_scaling": None}
    entries: Json = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind in ("yarn", "llama3"):
        entries["original_max_position_embeddings"] = scaling.original_length
    if scaling.kind == "llama3":
        entries |= {"low_freq_factor": scaling.slow, "high_freq_factor": scaling.fast}
    if scaling.kind == "yarn":
        entries |= {"beta_slow": scaling.slow, "beta_fast": scaling.fast}
        entries |= {"attention_factor": scaling.size, "truncate": scaling.whole}
    return {"rope_parameters": {**entries, **theta}, **theta, "rope_scaling": entries}


def rope_base(base: float, parameters: Json) -> float:
    """The rotary base of one entry of ``rope_parameters``, else ``base``.  Raises ValueError for other ropes."""
    refuse(parameters, rope_type="default", partial_rotary_factor=1.0)
    return pick(parameters, "rope_theta", float, base)
