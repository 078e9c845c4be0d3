"""Variants of Transformer parts to compare, each as options of ``train``."""

from headway.errors import InputError
from headway.science.candidate import Candidate

ORDER = {"pre": "norm_order=pre", "post": "norm_order=post"}
NORMS = {"layernorm": "norm=layernorm,norm_parameters=both", "rmsnorm": "norm=rmsnorm,norm_parameters=weight"}
PARTS: dict[str, dict[str, str]] = {
    "ffn": {
        "relu": "activation=relu,gated=false",
        "relu2": "activation=relu2,gated=false",
        "gelu": "activation=gelu,gated=false",
        "geglu": "activation=gelu,gated=true",
        "swiglu": "activation=silu,gated=true",
    },
    "norm": {f"{order}-{norm}": f"{ORDER[order]},{NORMS[norm]}" for order in ORDER for norm in NORMS},
    "positions": {
        kind: f"positions={kind}" for kind in ("rotary", "learned", "sinusoidal", "alibi", "relative", "none")
    },
}
"""By part, what it may be and the overrides of the configuration that make it so."""
HEADS = (1, 2, 4, 8)
VARIED = (*PARTS, "heads")


def varied(part: str) -> list[Candidate]:
    """The Transformers that differ in one part.  Raises InputError for an unknown part."""
    if part == "heads":
        return [Candidate(f"{count}-heads" if count > 1 else "1-head", {"heads": count}) for count in HEADS]
    if part not in PARTS:
        raise InputError(f"--vary is {part!r}; it can be {', '.join(VARIED)}.")
    return [Candidate(name, {"config_overrides": changes}) for name, changes in PARTS[part].items()]
