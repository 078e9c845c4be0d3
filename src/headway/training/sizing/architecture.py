"""The kind of model of a plan: the preset's Transformer, a variant of it, or a baseline.

``--config-overrides positions=alibi,norm_order=post`` changes fields of ``TransformerConfig``.  Everything else stays:
the data, the tokenizer, the batches, how long it is trained and how that is measured.
"""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from headway.errors import InputError
from headway.hub.directory import has_family
from headway.hub.families import family_named
from headway.hub.families.family import Family
from headway.models.baselines import BaselineConfig, initialise_baseline
from headway.models.config import TransformerConfig
from headway.models.heads import Gives
from headway.models.initialise import initialise
from headway.models.size import Wiring
from headway.models.wirings import wired
from headway.training.options import TrainOptions
from headway.training.plan import Plan
from headway.training.sizing.baseline_models import as_baseline, baseline_kind
from headway.training.sizing.layouts import ENCODER_DEFAULT


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text]


def _biases(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(text.split("+"))


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    return value


def _or_none(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text == "none" else kind(text)


FIELDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("positions", "norm", "norm_order", "norm_parameters", "activation"), str),
    **dict.fromkeys(("gated", "tied", "embedding_norm", "first_norm", "embedding_scale", "qk_norm"), _truth),
    **dict.fromkeys(("n_kv_heads", "d_head", "window"), _or_none(int)),
    "norm_eps": _finite,
    "d_ff": int,
    "logit_softcap": _or_none(_finite),
    "bias": _biases,
}
"""The fields that may be changed, and the parser of each; sizes that have their own option are excluded."""


def architecture(plan: Plan, options: TrainOptions, wiring: Wiring, n_classes: int | None = None) -> Plan:
    """The plan of a preset with the requested model.  Raises InputError for an impossible one."""
    overrides = options.architecture.config_overrides
    if baseline_kind(options) is not None:
        return as_baseline(plan, options, wiring, n_classes)
    if options.architecture.match_parameters is not None:
        raise InputError("--match-parameters is for baselines; for a Transformer choose --d-model and --layers.")
    if overrides is None:
        return plan
    before: TransformerConfig = plan.config
    changes = read_overrides(overrides)
    try:
        config = before.but(**{**_following(before, changes, _token_std(plan, wiring)), **changes})
    except ValueError as error:
        raise InputError(f"--config-overrides {overrides}: {error}.") from None
    if lacks := _lacks(config, changes, n_classes):
        raise InputError(f"--config-overrides {overrides}: {lacks}; leave it out.")
    with torch.device("meta"):
        readable = has_family(wired(config, wiring, n_classes))
    plan = plan.decided("parts", overrides, "in place of the preset's", "--config-overrides", model=asdict(config))
    if not readable:
        why = "no Hugging Face class matches: only Headway reads it"
        plan = plan.decided("format", "headway-transformer", why, "--config-overrides")
    return plan


def read_overrides(text: str) -> dict[str, Any]:
    """Fields and values of "positions=alibi,norm_order=post".  Raises InputError for any other form."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        name, _, value = (side.strip() for side in part.partition("="))
        if name not in FIELDS or name in found:
            raise InputError(
                f"--config-overrides {text}: found {part.strip()!r}; expected NAME=VALUE with commas, each name once, "
                f"of {', '.join(FIELDS)}."
            )
        try:
            found[name] = FIELDS[name](value)
        except (ValueError, KeyError):
            raise InputError(f"--config-overrides {text}: {name} cannot be {value!r}.") from None
    return found


def _following(before: TransformerConfig, changes: dict[str, Any], token_std: float) -> dict[str, Any]:
    """Changes that the given changes imply, unless they set these fields themselves.

    A gate is a third matrix, so the hidden width is 2/3 of what it is without (Shazeer 2020): the parameters stay.
    Sinusoids have a fixed scale, so small initial token embeddings are scaled up to it (Vaswani et al. 2017).
    Post-norm has all its norms.
    """
    found: dict[str, Any] = {}
    if changes.get("gated", before.gated) != before.gated:
        hidden = before.hidden * (2 / 3 if changes["gated"] else 3 / 2)
        found["d_ff"] = max(8, round(hidden / 8) * 8)
    if changes.get("positions") == "sinusoidal" and token_std < 0.5:
        found["embedding_scale"] = True
    if changes.get("norm_order") == "post":
        found["first_norm"] = True
    return found


def _lacks(config: TransformerConfig, changes: dict[str, Any], n_classes: int | None) -> str:
    """The part that a change is of and the model lacks, in words; "" where there is none."""
    if n_classes is not None and ({"tied", "logit_softcap"} & changes.keys() or "head" in changes.get("bias", ())):
        return "a classifier has no logits of tokens, so that tied, logit_softcap and bias=head change nothing"
    if config.norm == "rmsnorm" and changes.get("norm_parameters") == "both":
        return "rmsnorm has no bias, so that norm_parameters=both is norm_parameters=weight"
    return ""


def family_of_layout(options: TrainOptions) -> Family:
    """The family whose heads a new encoder has, by ``--layout``."""
    return family_named(options.architecture.layout or ENCODER_DEFAULT)


def built(plan: Plan, wiring: Wiring, n_classes: int | None = None, family: Family | None = None) -> nn.Module:
    """The model of a plan at the start of training, weights drawn by its seed; a classifier has the family's head."""
    config = plan.config
    model: Any = wired(config, wiring, n_classes)
    if n_classes is not None and family is not None and isinstance(config, TransformerConfig):
        model.head = family.head(Gives.ROW, config, n_classes, config.dropout)
    std = _token_std(plan, wiring)
    if isinstance(config, BaselineConfig):
        return initialise_baseline(model, plan.seed, embedding_std=std)
    return initialise(model, plan.seed, embedding_std=std, position_std=1.0 if config.embedding_scale else std)


def _token_std(plan: Plan, wiring: Wiring) -> float:
    """The initial standard deviation of token embeddings; learned positions have the same in the sum."""
    config = plan.config
    if isinstance(config, BaselineConfig):
        return 1.0 if wiring == "decoder" and not config.tied else 0.1  # cells of untied tables want large inputs
    if config.embedding_scale:
        return config.d_model**-0.5
    if wiring == "decoder" and plan.optimizer == "muon" and not config.tied:
        return 1.0  # large embeddings where they are normalised for Muon
    return 0.02
