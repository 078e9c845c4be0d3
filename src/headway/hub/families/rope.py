"""What a configuration says of rotary positions: the base, and how they are stretched for longer texts.

``rope_parameters`` holds both since version 5 of transformers; before it there were ``rope_theta`` and
``rope_scaling``, whose kind was once called "type".  Both forms are read, and both are written.
"""

import math
from typing import Any

from headway.hub.families.family import Json, pick, refuse
from headway.models.config import Positions, RopeScaling


def read_rope(theirs: Json) -> Positions:
    """Our positions for theirs.  Raises ValueError for a kind of scaling that we lack, and for one for each layer."""
    said: Any = theirs.get("rope_parameters") if theirs.get("rope_scaling") is None else theirs["rope_scaling"]
    said = {} if said is None else said
    if not isinstance(said, dict) or any(isinstance(value, dict) for value in said.values()):
        raise ValueError(f"rope_parameters {said!r} is not supported, only one set of values for all layers")
    kind = said.get("rope_type") or said.get("type") or "default"
    if kind not in ("default", *RopeScaling.KINDS):
        raise ValueError(f"rope_type {kind!r} is not supported, only default, {', '.join(RopeScaling.KINDS)}")
    for entries in (theirs, said):
        refuse(entries, partial_rotary_factor=1.0)
    base = pick(said, "rope_theta", float, pick(theirs, "rope_theta", float, 10000.0))
    return Positions("rotary", base=base, scaling=None if kind == "default" else _scaling(kind, said, theirs))


def _scaling(kind: Any, said: Json, theirs: Json) -> RopeScaling:
    trained = pick(theirs, "max_position_embeddings", int)
    if kind == "linear":
        return RopeScaling(kind, pick(said, "factor", float))
    if kind == "dynamic":
        return RopeScaling(kind, pick(said, "factor", float), trained)
    apart = theirs.get("original_max_position_embeddings") or said.get("original_max_position_embeddings")
    original = pick({"original_max_position_embeddings": apart}, "original_max_position_embeddings", int, trained)
    if kind == "llama3":
        slow, fast = (pick(said, f"{end}_freq_factor", float) for end in ("low", "high"))
        return RopeScaling(kind, pick(said, "factor", float), original, slow, fast)
    factor = pick(said, "factor", float, trained / original)
    return RopeScaling(
        kind,
        factor,
        original,
        slow=pick(said, "beta_slow", float, 1.0),
        fast=pick(said, "beta_fast", float, 32.0),
        whole=pick(said, "truncate", bool, True),
        size=_size(factor, said),
    )


def _size(factor: float, said: Json) -> float:
    """What YaRN multiplies cosines and sines by, where it is not given: 0.1 m ln(factor) + 1, or two such divided."""
    if said.get("attention_factor") is not None:
        return pick(said, "attention_factor", float)

    def size(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0

    above, below = (pick(said, name, float, 0.0) for name in ("mscale", "mscale_all_dim"))
    return size(above) / size(below) if above and below else size(1.0)


def write_rope(positions: Positions) -> Json:
    """The entries of ``config.json``, in the form of today and in the older one."""
    scaling, theta = positions.scaling, {"rope_theta": positions.base}
    if scaling is None:
        return {"rope_parameters": {"rope_type": "default", **theta}, **theta, "rope_scaling": None}
    said: Json = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind in ("yarn", "llama3"):
        said["original_max_position_embeddings"] = scaling.original_length
    if scaling.kind == "llama3":
        said |= {"low_freq_factor": scaling.slow, "high_freq_factor": scaling.fast}
    if scaling.kind == "yarn":
        said |= {"beta_slow": scaling.slow, "beta_fast": scaling.fast}
        said |= {"attention_factor": scaling.size, "truncate": scaling.whole}
    return {"rope_parameters": {**said, **theta}, **theta, "rope_scaling": said}
