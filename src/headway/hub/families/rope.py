"""The configuration entries of rotary positions: the base, and the scaling for longer texts.

``rope_parameters`` holds both since transformers 5; before, there were ``rope_theta`` and ``rope_scaling``, whose kind
was once called "type".  Both forms are read, and both are written.
"""

import math
from typing import Any

from headway.hub.families.family import Json, pick, refuse
from headway.models.config import Positions, RopeScaling


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
    if kind == "linear":
        return RopeScaling(kind, pick(entries, "factor", float))
    if kind == "dynamic":
        return RopeScaling(kind, pick(entries, "factor", float), trained)
    apart = theirs.get("original_max_position_embeddings") or entries.get("original_max_position_embeddings")
    original = pick({"original_max_position_embeddings": apart}, "original_max_position_embeddings", int, trained)
    if kind == "llama3":
        slow, fast = (pick(entries, f"{end}_freq_factor", float) for end in ("low", "high"))
        return RopeScaling(kind, pick(entries, "factor", float), original, slow, fast)
    factor = pick(entries, "factor", float, trained / original)
    return RopeScaling(
        kind,
        factor,
        original,
        slow=pick(entries, "beta_slow", float, 1.0),
        fast=pick(entries, "beta_fast", float, 32.0),
        whole=pick(entries, "truncate", bool, True),
        size=_size(factor, entries),
    )


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
