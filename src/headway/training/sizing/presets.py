"""The rules that decide a plan from the data, the time and the machine."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from headway.errors import InputError
from headway.io.quantities import duration, figure
from headway.models.adapt.lora import SCALE
from headway.models.config import TransformerConfig
from headway.models.device import device_of
from headway.models.size import flops_per_token, parameters
from headway.nn.kernels.products import AUTO
from headway.training.hardware.precision import training_rate
from headway.training.loop.schedule import mean_accumulation
from headway.training.options import TrainOptions
from headway.training.plan import AS_GIVEN, Plan, decision_of
from headway.training.ranks import Ranks
from headway.training.sizing.layouts import encoder_fields, layout_fields

SHAPE = "--preset, --d-model, --layers, --heads"
"""The options that change the size of a model."""
PRESETS = {"tiny": (64, 2), "small": (128, 4), "medium": (256, 6), "large": (512, 8)}
"""Width and layers by name."""

TOKENS_PER_PARAMETER = 4.0
TEXT_EPOCHS = 30
"""Maximum number of epochs of a language model trained for a time: more would only memorise the text."""
WARMUP, FINE_TUNE_WARMUP = 0.02, 0.06
"""The share of a run for warm-up: of a new model, and from a pretrained one."""
USUAL: dict[str, Any] = {
    **{"optimizer": "adamw", "schedule": "linear", "warmup": WARMUP, "label_smoothing": 0.0},
    **{"evaluations": 0, "precision": "auto", "products": AUTO},
}
"""What plans have where neither the options nor the kind of model say otherwise."""
FITTED_IN = "float32"
"""The precision of a linear classifier on a model's vectors."""
FREE_OF_DECAY, DECAY_PASSES, MOST_DECAY = 3.0, 57.0, 0.1
"""Epochs below which there is no weight decay, further epochs for each unit of it, and its maximum."""
FREE_PASSES, DROPOUT_PASSES, MOST_DROPOUT = 8.0, 190.0, 0.2
"""Epochs below which there is no dropout, and further epochs for each unit of it.

With 1.4 parameters for each token of text, the loss on new text was, after 8.7 passes, 1.534 with nothing, 1.519 with a
weight decay of 0.1 and 1.548 with a dropout of 0.05; after 17.5 passes 1.547 with a decay of 0.1, 1.531 with 0.3, 1.538
with a dropout of 0.1, 1.514 with 0.05, and 1.511 with that and a decay of 0.1 (`benchmarks/text_sizes.py`, "quarter").
"""
MOMENTUM, EMBEDDING_RATE = 0.9, 30.0
"""Muon's momentum, and the rate of untied token embeddings, which are drawn large, over that of norms and the head
(nanochat: 0.2 over 0.004).  0.6 M parameters after 2.7 passes over Tiny Shakespeare, one seed: 1.512 with 0.95 and 1,
1.509 with 0.9 and 1, 1.509 with 0.95 and 10; with 0.9, 1.496 with 10, 1.488 with 30 and 1.487 with 100."""
BETAS = (0.8, 0.95)
"""Adam's betas with Muon for language models (nanochat's): 0.6 M parameters after 3.2 passes over Tiny Shakespeare, two
seeds: 1.483 and 1.483, where 0.9 and 0.99 gave 1.487 and 1.493, and 0.7 and 0.95 gave 1.486 for the first."""
SMALLEST_BATCH, STEPS_WANTED = 2048, 1000
"""Short runs have smaller batches, for about so many steps by the estimated number of tokens: 0.6 M
parameters on Tiny Shakespeare for 110 s reached 1.478 in batches of 2,048, where 4,096 were known to reach 1.483."""
SMALLEST = 3e5
"""Minimum number of parameters of a language model, however short its text, where the time allows more."""
LORA_RATE = 10.0
"""The learning rate of low-rank updates over that of whole weights, and without layer decay: full fine-tuning is best
at 1e-5 to 5e-5, LoRA at 1e-4 to 5e-4 (Hu et al. 2021, appendix D; Biderman et al. 2024)."""
MOST_LOGITS = 1 << 27
"""Tokens of a batch times the size of the vocabulary, which a pretrained model brings: 512 MiB of logits."""
FINE_TUNE_EPOCHS = 4
"""Epochs of a pretrained model over its rows or text."""
READINGS = 12_000
"""A classifier is fine-tuned on so many rows in all, each two to eight times; more would memorise them."""
STEADY_ROWS = 20_000
"""Classifiers of fewer rows are fine-tuned with R-Drop, which reads each batch twice."""
R_DROP = 4.0
"""Its weight."""
AVERAGE = 0.995
"""The decay of the running average of a fine-tuned classifier's weights."""
ROW_EPOCHS, ROW_PATIENCE = 20, 4.0
"""Maximum number of epochs of a classifier trained for a time, and its patience in epochs without a lower validation
loss.  The best model is kept: on customer reviews, TREC and SST-2 the loss was lowest after 2 or 3 epochs and not again
in 20, so they keep the same model (`benchmarks/row_passes.py`)."""


def decoder_shape(wanted: float) -> tuple[int, int]:
    """Width and layers of a decoder with about ``wanted`` parameters in its blocks: 12 D² for each layer.

    The width is a multiple of 32, with one layer for every 40 of it.
    """
    shapes = ((d, max(2, round(d / 40))) for d in range(32, 2049, 32))
    return min(shapes, key=lambda s: abs(math.log(12 * s[0] ** 2 * s[1] / max(wanted, 1.0))))


def head_count(width: int, each: int = 64) -> int:
    """Heads of an even width as near to ``each`` as divides the model's: wide heads are faster here and no worse."""
    counts = [n for n in range(1, width + 1) if width % (2 * n) == 0]
    return min(counts or [1], key=lambda n: abs(math.log(width / n / each)))


def decoder_config(
    vocab_size: int, width: int, layers: int, heads: int, length: int, layout: str | None = None
) -> TransformerConfig:
    """A language model in one of LAYOUTS, without one in the default's.

    Raises ValueError for sizes that do not go together, and InputError for an unknown layout.
    """
    fields = layout_fields(layout, width)
    return TransformerConfig(vocab_size, width, layers, heads, max_length=length, tied=vocab_size > 1024, **fields)


def sized(options: TrainOptions, width: int, layers: int, why: str = "") -> tuple[int, int, str]:
    """Width, layers and the reason for them: by a rule, or else as the options say."""
    asked = options.architecture
    if asked.preset:
        (width, layers), why = PRESETS[asked.preset], f"--preset {asked.preset}"
    return asked.d_model or width, asked.layers or layers, why


def decoder_plan(
    options: TrainOptions, vocab_size: int, n_tokens: int, seconds: float | None, steps: int | None
) -> Plan:
    """The plan of a language model that trains on ``n_tokens`` tokens for ``seconds``, or for ``steps``.

    With R the rate in FLOP/s that training reaches here, by the measured rate of products, and S the seconds for
    training, C = R S FLOPs can be spent, and N parameters trained on D tokens cost 6 N D.  Small models are best here
    at about four tokens for each parameter, so N = √(C / 24).
    """
    chosen, shape, seconds = options.optimisation, options.architecture, seconds or 0
    length = options.data.length or min(256, max(8, n_tokens // 20))
    largest, rate, seen = 4096 if seconds < 1200 else 8192, 0.0, 0.0
    if steps is None:
        rate = Ranks.joined().count * training_rate(device_of(options.runtime.device), options.runtime.precision)
        expected = math.sqrt(rate * seconds * TOKENS_PER_PARAMETER / 6)
        largest = max(SMALLEST_BATCH, min(largest, 2 ** round(math.log2(max(1.0, expected / STEPS_WANTED)))))
    batch_tokens = chosen.batch_tokens or min(largest, max(2 * length, n_tokens // 16 // length * length))
    if steps is not None:
        why = f"--steps {steps:,}: enough for {TOKENS_PER_PARAMETER:g} tokens for each parameter"
        seen = steps * batch_tokens * mean_accumulation(chosen.accumulate, chosen.grow_batch)
        wanted = seen / TOKENS_PER_PARAMETER
    else:
        wanted = math.sqrt(rate * seconds / (6 * TOKENS_PER_PARAMETER))
        wanted = min(wanted, max(SMALLEST, TEXT_EPOCHS * n_tokens / TOKENS_PER_PARAMETER))
        here = f"{figure(rate, 3)}FLOP/s here for {duration(seconds)}"
        why = f"{here} allow about {TOKENS_PER_PARAMETER:g} tokens each"
    width, layers, why = sized(options, *decoder_shape(min(max(wanted, 2e4), 3e8)), why)
    config = decoder_config(vocab_size, width, layers, shape.heads or head_count(width), length, shape.layout)
    if steps is None:
        seen = rate * seconds / (6 * parameters(config)["total"])
    most = epochs_of(options, TEXT_EPOCHS)
    epochs = min(seen / max(1, n_tokens), most or math.inf)
    size = f"width {width}, {layers} layers, {config.n_heads} heads, {length} tokens"
    decisions = [decision_of("model", size, why, f"{SHAPE}, --length")]
    if steps is None and seen > TEXT_EPOCHS * n_tokens:
        decisions += passes(options, f"at most {TEXT_EPOCHS}", "more would memorise the text")
    plan = new_plan(
        options,
        config.but(dropout=chosen.dropout or 0.0),
        decisions,
        {"optimizer": "muon", "learning_rate": 3e-3, "weight_decay": 0.0, "schedule": "constant_then_decay"},
        **{"length": length, "batch_tokens": batch_tokens, "epochs": most},
        **{"momentum": MOMENTUM, "embedding_rate": EMBEDDING_RATE, "betas": BETAS},
    )
    return regularised(plan, options, epochs, f"about {epochs:.1f} passes over the text")


def new_plan(
    options: TrainOptions,
    config: TransformerConfig,
    decisions: Sequence[dict[str, str]],
    usual: Mapping[str, Any],
    **values: Any,
) -> Plan:
    """A plan with these values; of the others, what the options say, or else what is ``usual``.

    "auto" and 0 are measured later.
    """
    plan = {name: options.value(name) for name in AS_GIVEN}
    plan |= {name: options.value(name) or 0.0 for name in ("average", "r_drop", "bpe_dropout", "token_dropout")}
    plan |= {name: given_or(options.value(name), value) for name, value in {**USUAL, **usual}.items()}
    return Plan(**{**plan, "model": asdict(config), "decisions": list(decisions), **values})


def passes(options: TrainOptions, value: str, why: str) -> list[dict[str, str]]:
    """The decision on the number of epochs; nothing where the options bound the run by it or by steps."""
    bounded = options.run.epochs is not None or options.run.steps is not None
    return [] if bounded else [decision_of("passes", value, f"{why}; the run may end before its time", "--epochs")]


def given_or(value: float | None, usual: float) -> float:
    """The value of an option, or what is usual where it is not given."""
    return usual if value is None else value


def weight_decay(options: TrainOptions, usual: float) -> float:
    """The weight decay: as given, or else what is usual, but none with Adam.

    With Adam it is added to the gradient and scaled with it, so that a value that suits AdamW does not suit it
    (Loshchilov and Hutter 2019).
    """
    return given_or(options.optimisation.weight_decay, 0.0 if options.optimisation.optimizer == "adam" else usual)


def epochs_of(options: TrainOptions, most: int) -> int | None:
    """The maximum number of epochs: ``most`` where the options set neither it nor steps."""
    return options.run.epochs or (most if options.run.steps is None else None)


def text_dropout(passes: float) -> float:
    """The dropout of a language model for so many epochs (see DROPOUT_PASSES)."""
    return round(min(MOST_DROPOUT, max(0.0, passes - FREE_PASSES) / DROPOUT_PASSES), 2)


def text_decay(passes: float) -> float:
    """The weight decay of a language model for so many epochs (see DROPOUT_PASSES)."""
    return round(min(MOST_DECAY, max(0.0, passes - FREE_OF_DECAY) / DECAY_PASSES), 3)


def regularised(plan: Plan, options: TrainOptions, passes: float, why: str) -> Plan:
    """The plan of a language model with the regularisation that keeps it from memorising its text in so many epochs.

    That is weight decay, and for many epochs dropout too.  Values from the options are kept.
    """
    decisions, model, decay = {line["what"]: line for line in plan.decisions}, plan.model, plan.weight_decay
    if options.optimisation.dropout is None:
        model = {**model, "dropout": text_dropout(passes)}
        decisions["dropout"] = decision_of("dropout", f"{model['dropout']:g}", why, "--dropout")
    if options.optimisation.weight_decay is None and plan.optimizer == "muon":
        decay = text_decay(passes)
        decisions["decay"] = decision_of("decay", f"{decay:g} for each unit of the rate", why, "--weight-decay")
    return plan.but(model=model, weight_decay=decay, decisions=list(decisions.values()))


def encoder_plan(options: TrainOptions, vocab_size: int, lengths: Sequence[int] | np.ndarray, longest: int) -> Plan:
    """The plan of a classifier of texts with these ``lengths`` in tokens."""
    width, layers, _ = sized(options, 128, 2)
    dropout, fields = given_or(options.optimisation.dropout, 0.3), encoder_fields(options.architecture.layout)
    heads = options.architecture.heads or max(1, width // 32)
    hidden = 2 * width if fields["gated"] else 3 * width  # as many parameters either way
    more: dict[str, Any] = {**fields, "d_ff": hidden, "max_length": longest, "dropout": dropout}
    config = TransformerConfig(vocab_size, width, layers, heads, **more)
    size = f"width {width}, {layers} layers, {config.n_heads} heads, {longest} tokens"
    why = f"{len(lengths):,} texts; dropout {dropout:g}"
    value = f"at most {ROW_EPOCHS}, and {ROW_PATIENCE:g} after the lowest validation loss"
    by_time = passes(options, value, "more rarely helps")
    return new_plan(
        options,
        config,
        [decision_of("model", size, why, f"{SHAPE}, --length, --dropout"), *by_time],
        {"learning_rate": 1e-3, "label_smoothing": 0.1},
        length=longest,
        batch_tokens=tokens_of_rows(options, longest, 1024 if len(lengths) < 20_000 else 2048),
        weight_decay=weight_decay(options, 0.1),
        patience_passes=ROW_PATIENCE if by_time and not options.run.patience else 0.0,
        token_dropout=given_or(options.for_tasks.token_dropout, 0.1),
        epochs=epochs_of(options, ROW_EPOCHS),
    )


def tokens_of_rows(options: TrainOptions, longest: int, usual: int) -> int:
    """Tokens of a batch of rows of at most ``longest``; with only a number of rows, the most that these can have."""
    rows = options.optimisation.batch_size
    return options.optimisation.batch_tokens or (usual if rows is None else rows * longest)


def fine_tune_rows_plan(
    options: TrainOptions,
    config: TransformerConfig,
    lengths: Sequence[int] | np.ndarray,
    longest: int,
    epochs: int | None = None,
) -> Plan:
    """The plan of a classifier that starts from a pretrained encoder, on texts with these ``lengths`` in tokens.

    Without a bound from the options it reads them for ``epochs``, by default a few.
    """
    most = epochs or (FINE_TUNE_EPOCHS if len(lengths) < 20_000 else 2)
    return _fine_tuned(
        options,
        config,
        passes(options, f"at most {most}", "a pretrained model needs few"),
        length=longest,
        batch_tokens=tokens_of_rows(options, longest, 512),
        epochs=epochs_of(options, most),
    )


def fine_tune_classifier_plan(
    options: TrainOptions,
    config: TransformerConfig,
    lengths: Sequence[int] | np.ndarray,
    longest: int,
    seconds: float | None,
) -> Plan:
    """The plan of a classifier that starts from a pretrained model: few epochs, averaged weights.

    Batches of few rows are read twice (R-Drop), where the time is enough for it.
    """
    epochs = options.run.epochs or min(8, max(2, math.ceil(READINGS / max(1, len(lengths)))))
    plan, asked = fine_tune_rows_plan(options, config, lengths, longest, epochs), options.optimisation
    plan = plan.but(average=given_or(asked.average, AVERAGE))
    if len(lengths) >= STEADY_ROWS or asked.r_drop is not None or options.run.steps is not None:
        return plan
    if seconds is not None and 2 * epochs * pass_seconds(config, lengths, device_of(options.runtime.device)) >= seconds:
        return plan
    value = "each batch is read twice, and differences of the two answers are penalised"
    return plan.decided("R-Drop", value, f"{len(lengths):,} rows are few", "--r-drop", r_drop=R_DROP)


def pass_seconds(config: TransformerConfig, lengths: Sequence[int] | np.ndarray, device: torch.device) -> float:
    """The approximate seconds of one training epoch over texts of these lengths on this machine's device."""
    total = int(np.sum(lengths))
    mean = max(1, total // max(1, len(lengths)))
    return 3 * flops_per_token(config, mean, wiring="encoder") * total / training_rate(device)


def frozen_plan(
    options: TrainOptions, config: TransformerConfig, n_layers: int, longest: int, *, contrastive: bool, why: str
) -> Plan:
    """The plan of a linear classifier on the first ``n_layers`` blocks of a pretrained encoder."""
    window = config.window[:n_layers] if isinstance(config.window, tuple) else config.window
    how = "which are first tuned on pairs of rows" if contrastive else "which are frozen"
    value = f"a linear classifier on the vectors after block {n_layers} of {config.n_layers}, {how}"
    decision = decision_of("way", value, why, "--frozen, --contrastive, --epochs")
    fitted = {"frozen": True, "contrastive": contrastive, "precision": FITTED_IN, "evaluations": 1}
    return _fine_tuned(
        options, config.but(n_layers=n_layers, window=window), [decision], length=longest, token_dropout=0.0, **fitted
    )


def fine_tune_text_plan(options: TrainOptions, config: TransformerConfig, n_tokens: int, seconds: float | None) -> Plan:
    """The plan of a language model that starts from a pretrained decoder, on a text of ``n_tokens`` tokens.

    Raises InputError for sequences longer than the model reads.
    """
    if options.data.length is not None and options.data.length > config.max_length:
        raise InputError(
            f"--length is {options.data.length:,}, but {options.fine_tuning.from_model} reads "
            f"{config.max_length:,} tokens at most."
        )
    length = options.data.length or min(256, config.max_length, max(8, n_tokens // 20))
    most = min(4096, MOST_LOGITS // config.vocab_size) // length * length
    usual = max(length, min(most, max(2 * length, n_tokens // 16 // length * length)))
    batch_tokens, epochs = options.optimisation.batch_tokens or usual, epochs_of(options, FINE_TUNE_EPOCHS)
    return _fine_tuned(options, config, [], length=length, batch_tokens=batch_tokens, epochs=epochs)


def with_lora(plan: Plan, options: TrainOptions) -> Plan:
    """The plan of a pretrained model with low-rank updates instead of its weights, with ``--lora``."""
    ours = options.fine_tuning
    if ours.lora is None:
        return plan
    rate = plan.learning_rate if options.optimisation.learning_rate is not None else LORA_RATE * plan.learning_rate
    value = f"updates of rank {ours.lora} of every matrix in the blocks, at a learning rate of {rate:g}"
    why = f"the rest is frozen; alpha is {SCALE:g} times the rank"
    changes = {"lora": ours.lora, "learning_rate": rate, "layer_decay": given_or(ours.layer_decay, 1.0)}
    return plan.decided("trained", value, why, "--lora, --learning-rate", **changes)


def _fine_tuned(
    options: TrainOptions, config: TransformerConfig, decisions: list[dict[str, str]], **values: Any
) -> Plan:
    """A plan from a pretrained model, with these values; what all such plans have in common."""
    ours = options.fine_tuning
    config = config.but(dropout=given_or(options.optimisation.dropout, config.dropout))
    sizes = f"{config.d_model} wide, {config.n_layers} layers, {config.n_heads} heads, dropout {config.dropout:g}"
    first = decision_of("model", f"from {ours.from_model}: {sizes}", "--from", "--from, --dropout")
    usual = {"learning_rate": 1e-4, "warmup": FINE_TUNE_WARMUP, "layer_decay": 0.9}
    decay = weight_decay(options, 0.01)
    start = {"batch_tokens": 512, "weight_decay": decay, "base": ours.from_model, "freeze": ours.freeze}
    return new_plan(options, config, [first, *decisions], usual, **{**start, **values})
