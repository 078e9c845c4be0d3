"""The layouts of new models: the parts of published families, whatever the size."""

from typing import Any

from headway.errors import InputError, shown

COMMON: dict[str, Any] = {"positions": "rotary", "norm": "rmsnorm", "norm_eps": 1e-6, "norm_order": "pre"}
GATED: dict[str, Any] = {
    **{**COMMON, "norm_parameters": "weight", "activation": "silu", "gated": True},
    **{"embedding_norm": False, "logit_softcap": None},
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "qwen3": {**GATED, "qk_norm": True},
    "llama": {**GATED, "qk_norm": False},
    "nanochat": {
        **{**COMMON, "norm_parameters": "none", "activation": "relu2", "gated": False},
        **{"embedding_norm": True, "logit_softcap": 15.0, "qk_norm": True},
    },
}
ENCODER_LAYOUTS: dict[str, dict[str, Any]] = {
    "modernbert": {
        **{"positions": "rotary", "norm": "layernorm", "norm_parameters": "weight", "norm_order": "pre"},
        **{"activation": "gelu", "gated": True, "tied": True, "embedding_norm": True, "first_norm": False, "bias": ()},
    },
    "bert": {
        **{"positions": "learned", "norm": "layernorm", "norm_parameters": "both", "norm_order": "post"},
        **{"activation": "gelu", "gated": False, "tied": True, "embedding_norm": True, "norm_eps": 1e-12},
        **{"bias": ("qkv", "out", "ff", "head"), "segments": 2},
    },
}
"""Language models: "qwen3" (Qwen Team 2025), "llama" (Touvron et al. 2023), read by ``transformers``, llama.cpp,
CTranslate2 and vLLM, and "nanochat" (Karpathy 2025), read by few.  Encoders: "modernbert" (Warner
et al. 2024) and "bert" (Devlin et al. 2018), which CTranslate2 reads too."""
DEFAULT = "qwen3"
"""What other programs read, and no worse than nanochat's at equal time: 0.006 nats a token less, the median of three
texts with three seeds, each trained for 60 s (`benchmarks/layouts.py`)."""
ENCODER_DEFAULT = "modernbert"
"""0.026 nats a row less than BERT's at equal time, the median of four tables with six seeds (`benchmarks/layouts.py`),
which is more than it may cost that CTranslate2 reads BERT's and not ModernBERT's."""


def layout_fields(name: str | None, width: int) -> dict[str, Any]:
    """The fields of a layout, with a hidden width that has 8 D² parameters in each feed-forward layer, gated or not.

    Raises InputError for an unknown name.
    """
    if name is not None and name not in LAYOUTS:
        raise InputError(f"--layout is {shown(name)}; a language model can have {', '.join(LAYOUTS)}.")
    fields = LAYOUTS[name or DEFAULT]
    hidden = max(8, round(8 * width / 3 / 8) * 8) if fields["gated"] else 4 * width
    return {**fields, "d_ff": hidden}


def encoder_fields(name: str | None) -> dict[str, Any]:
    """The fields of an encoder's layout, without sizes.  Raises InputError for a layout that is not an encoder's."""
    if name is not None and name not in ENCODER_LAYOUTS:
        raise InputError(f"--layout is {shown(name)}; an encoder can have {', '.join(ENCODER_LAYOUTS)}.")
    return ENCODER_LAYOUTS[name or ENCODER_DEFAULT]
