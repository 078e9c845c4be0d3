"""The kind of model of a plan: the preset's Transformer, a variant of it, or a baseline of its size."""

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
from headway.models.adapt.lora import count_parameters
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead, Gives
from headway.models.initialise import initialise
from headway.models.size import Wiring, parameters
from headway.models.wirings import build_model
from headway.nn.baselines import CELLS
from headway.training.option_fields import flag
from headway.training.options import TrainOptions
from headway.training.plan import Plan, decision_of
from headway.training.sizing.layouts import ENCODER_DEFAULT

RATES = {"rnn": 1e-3, "lstm": 4e-3, "gru": 3e-3, "cnn": 1e-3, "bow": 5e-3}
"""Default learning rates (of Adam)."""
OF_DECODERS = {"rnn": 4e-3, "lstm": 1e-2, "gru": 1e-2}
"""Default learning rates of language models: about the best of 1e-3 to 2e-2 in 150 steps on source code."""
LAYERS = {"decoder": 2, "encoder": 1, "encoder-decoder": 1}
"""Recurrent layers by the wiring."""
UNREADABLE = "no Hugging Face class matches: only Headway reads it"
WIDEST = 4096
OFF = 0.1
"""How far the number of parameters may be from the requested one."""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    return value


def _or_none(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text == "none" else kind(text)


TRUTH = {"true": True, "false": False}
FIELDS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("positions", "norm", "norm_order", "norm_parameters", "activation"), str),
    **dict.fromkeys(("gated", "tied", "embedding_norm", "first_norm", "embedding_scale", "qk_norm"), TRUTH.__getitem__),
    **dict.fromkeys(("n_kv_heads", "d_head", "window"), _or_none(int)),
    "norm_eps": _finite,
    "d_ff": int,
    "logit_softcap": _or_none(_finite),
    "bias": lambda text: () if text == "none" else tuple(text.split("+")),
}
"""The fields that may be changed, and the parser of each; sizes that have their own option are excluded."""


def architecture(plan: Plan, options: TrainOptions, wiring: Wiring, n_classes: int | None = None) -> Plan:
    """The plan of a preset with the requested model.  Raises InputError for an impossible one."""
    overrides = options.architecture.config_overrides
    if (kind := baseline_kind(options)) is not None:
        return as_baseline(plan, options, kind, wiring, n_classes)
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
        readable = has_family(build_model(config, wiring, n_classes))
    plan = plan.decided("parts", overrides, "in place of the preset's", "--config-overrides", model=asdict(config))
    if not readable:
        plan = plan.decided("format", "headway-transformer", UNREADABLE, "--config-overrides")
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
    model: Any = build_model(config, wiring, n_classes)
    if n_classes is not None and family is not None and isinstance(config, TransformerConfig):
        model.head = family.head(Gives.ROW, config, n_classes, config.dropout)
    std = _token_std(plan, wiring)
    positions = 1.0 if isinstance(config, TransformerConfig) and config.embedding_scale else std
    return initialise(model, plan.seed, embedding_std=std, position_std=positions)


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


def baseline_kind(options: TrainOptions) -> str | None:
    """The requested baseline, or None for a Transformer."""
    kind = options.architecture.model
    return None if kind in ("transformer", "encoder-decoder", "decoder") else kind


def reference(options: TrainOptions) -> TrainOptions:
    """The options of the Transformer that a baseline is sized by; for a Transformer, its own."""
    return options if baseline_kind(options) is None else options.but(d_model=None, layers=None)


def as_baseline(plan: Plan, options: TrainOptions, kind: str, wiring: Wiring, n_classes: int | None = None) -> Plan:
    """The plan with a baseline of that kind.  Raises InputError for options that it lacks."""
    asked = options.architecture
    reasons = {
        "heads": f"is for Transformers; --model {kind} has none, leave it out",
        "layout": f"is for Transformers; --model {kind} has a layout of its own, leave it out",
        "config_overrides": f"is for Transformers; --model {kind} has none of its fields",
        "preset": f"is for Transformers; with --model {kind} give --d-model and --layers",
    }
    if kind not in CELLS:
        reasons["layers"] = f"is for Transformers and recurrent models; --model {kind} has a fixed depth"
        reasons["weight_decay"] = f"is for the matrices of layers; --model {kind} has none that decay, leave it out"
        if options.optimisation.optimizer == "muon":
            reasons["optimizer"] = f"muon trains the matrices of layers; --model {kind} has none for it, leave it out"
    for name in options.given(reasons):
        raise InputError(f"--{flag(name)} {reasons[name]}.")
    if asked.match_parameters is not None and asked.d_model is not None:
        raise InputError("--match-parameters and --d-model both set the width; leave one out.")
    before = plan.config
    wanted, why = asked.match_parameters, f"--match-parameters {asked.match_parameters}"
    if wanted is None:
        head = ClassificationHead.size_of(before, n_classes) if n_classes is not None else None
        wanted = parameters(before, wiring=wiring, head=head)["total"]
        why = f"as nearly as many as a Transformer's {wanted:,}"
    same = {name: getattr(before, name) for name in ("vocab_size", "max_length", "tied", "dropout")}
    layers = asked.layers or (LAYERS[wiring] if kind in CELLS else 1)
    config = BaselineConfig(kind, d_model=asked.d_model or 4, n_layers=layers, **same)
    if asked.d_model is None:
        config = matched(config, wiring, wanted, n_classes)
    else:
        why = "--d-model"
    count = count_baseline(config, wiring, n_classes)
    if asked.match_parameters is not None and abs(count / asked.match_parameters - 1) > OFF:
        raise InputError(
            f"--match-parameters {asked.match_parameters:,}: the nearest size of --model {kind} on these data is "
            f"{count:,}; choose a number closer to it."
        )
    depth = f", {config.n_layers} layers" if config.recurrent else ""
    size = f"{kind}, width {config.d_model}{depth}, {plan.length} tokens"
    width = "--d-model" if asked.match_parameters is None else "--match-parameters"
    change = ", ".join([width, *(["--layers"] if kind in CELLS else []), "--length"])
    decisions = [
        decision_of("model", size, why, change),
        decision_of("format", f"headway-{kind}", UNREADABLE, "--model"),
    ]
    chosen, optimizer, decay = options.optimisation, options.optimisation.optimizer or "adamw", plan.weight_decay
    if kind not in CELLS or (wiring == "decoder" and optimizer != "muon"):  # that by the number of epochs is Muon's
        decay = chosen.weight_decay or 0.0
    kept = [one for one in plan.decisions if one["what"] != "model" and (one["what"] != "decay" or decay > 0)]
    return plan.but(
        model=asdict(config),
        optimizer=optimizer,
        weight_decay=decay,
        learning_rate=chosen.learning_rate or (OF_DECODERS if wiring == "decoder" else RATES)[kind],
        precision=options.runtime.precision or "float32",
        decisions=[*decisions, *kept],
    )


def matched(config: BaselineConfig, wiring: Wiring, wanted: int, n_classes: int | None = None) -> BaselineConfig:
    """The configuration with the even width by which its number of parameters comes nearest to ``wanted``."""
    low, high = 1, WIDEST // 2  # halves of the width; the number grows with it
    while low < high:
        middle = (low + high) // 2
        if count_baseline(config.but(d_model=2 * middle), wiring, n_classes) < wanted:
            low = middle + 1
        else:
            high = middle
    near = [config.but(d_model=2 * half) for half in (max(2, low - 1), max(2, low))]
    return min(near, key=lambda one: abs(count_baseline(one, wiring, n_classes) - wanted))


def count_baseline(config: BaselineConfig, wiring: Wiring, n_classes: int | None = None) -> int:
    """The number of trained parameters."""
    with torch.device("meta"):
        return count_parameters(build_model(config, wiring, n_classes))[0]
