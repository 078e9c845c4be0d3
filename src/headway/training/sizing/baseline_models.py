"""``--model lstm`` and the like: the plan of a Transformer for the task, with a baseline of the same size instead.

Everything else stays: the data, the tokenizer, the batches, how long it is trained and how that is measured.  The width
is the even number for which the baseline's number of parameters is nearest to the Transformer's.
"""

from dataclasses import asdict

import torch

from headway.errors import InputError
from headway.models.adapt.lora import count_parameters
from headway.models.baselines import BaselineConfig
from headway.models.heads import ClassificationHead
from headway.models.size import Wiring, parameters
from headway.models.wirings import wired
from headway.nn.recurrent import CELLS
from headway.training.option_fields import flag
from headway.training.options import TrainOptions
from headway.training.plan import Decision, Plan

RATES = {"rnn": 1e-3, "lstm": 4e-3, "gru": 3e-3, "cnn": 1e-3, "bow": 5e-3}
"""Default learning rates (of Adam)."""
OF_DECODERS = {"rnn": 4e-3, "lstm": 1e-2, "gru": 1e-2}
"""Default learning rates of language models: about the best of 1e-3 to 2e-2 in 150 steps on source code."""
LAYERS = {"decoder": 2, "encoder": 1, "encoder-decoder": 1}
"""Recurrent layers by the wiring."""
WIDEST = 4096
OFF = 0.1
"""How far the number of parameters may be from the requested one."""


def baseline_kind(options: TrainOptions) -> str | None:
    """The requested baseline, or None for a Transformer."""
    kind = options.architecture.model
    return None if kind in ("transformer", "encoder-decoder", "decoder") else kind


def reference(options: TrainOptions) -> TrainOptions:
    """The options of the Transformer that a baseline is sized by; for a Transformer, its own."""
    return options if baseline_kind(options) is None else options.but(d_model=None, layers=None)


def as_baseline(plan: Plan, options: TrainOptions, wiring: Wiring, n_classes: int | None = None) -> Plan:
    """The plan with the requested baseline, if any.  Raises InputError for options that it lacks."""
    kind, asked = baseline_kind(options), options.architecture
    if kind is None:
        return plan
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
    config = BaselineConfig(
        kind,
        vocab_size=before.vocab_size,
        d_model=asked.d_model or 4,
        n_layers=asked.layers or (LAYERS[wiring] if kind in CELLS else 1),
        max_length=before.max_length,
        tied=before.tied,
        dropout=before.dropout,
    )
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
    readable = "no Hugging Face class matches: only Headway reads it"
    decisions = [
        asdict(Decision("model", size, why, change)),
        asdict(Decision("format", f"headway-{kind}", readable, "--model")),
    ]
    optimizer, decay = options.optimisation.optimizer or "adamw", plan.weight_decay
    if kind not in CELLS or (wiring == "decoder" and optimizer != "muon"):  # that by the number of epochs is Muon's
        decay = options.optimisation.weight_decay or 0.0
    kept = [one for one in plan.decisions if one["what"] != "model" and (one["what"] != "decay" or decay > 0)]
    return plan.but(
        model=asdict(config),
        optimizer=optimizer,
        weight_decay=decay,
        learning_rate=options.optimisation.learning_rate or (OF_DECODERS if wiring == "decoder" else RATES)[kind],
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
        return count_parameters(wired(config, wiring, n_classes))[0]
