"""Decide a run from its data without starting it: nothing is trained and no run directory is made."""

import math
import time
from collections.abc import Sequence
from pathlib import Path

from headway.data.batches.batch_source import Position
from headway.errors import InputError
from headway.models.adapt.lora import count_parameters
from headway.models.baselines import BaselineConfig
from headway.models.device import device_of
from headway.models.own import OwnConfig
from headway.tasks.registry import spec
from headway.training.distributed.memory_plan import Work
from headway.training.hardware.precision import training_rate
from headway.training.loop.schedule import mean_accumulation
from headway.training.monitor.progress import NoProgress, Progress
from headway.training.option_fields import flag
from headway.training.options import OPTIONS, TrainOptions
from headway.training.sizing.presets import decoder_config, head_count
from headway.workflows.train.check import read_checked
from headway.workflows.train.setup import Prepared, TrainingSession, prepare

VOCABULARY, LENGTH = 32768, 2048
"""Default for a model that is planned without data."""
TOKENS_PER_PARAMETER = 20
"""About compute-optimal for large models (Hoffmann et al. 2022)."""
STEP_TOKENS: tuple[tuple[float, int], ...] = ((1e9, 1 << 19), (5e9, 1 << 20), (math.inf, 1 << 21))
"""Tokens per step for models below a number of parameters, as for GPT-3 (Brown et al. 2020, table 2.1)."""
WITHOUT_DATA = (
    *("vocab", "length", "d_model", "layers", "heads", "batch_tokens", "accumulate", "optimizer", "precision"),
    *("dropout", "average", "steps", "shard", "checkpoint_activations", "layout"),
)
"""Options that apply without data."""


def standard_shape(count: float, vocab_size: int) -> tuple[int, int]:
    """Width and layers of a decoder with about ``count`` parameters: 12 D² in each layer, and V D of a tied table.

    One layer for every 64 of width (GPT-3 of 125 M, nanochat) up to 32 layers, which last until a width of 4,096 (as
    in GPT-3 of 6.7 B and Llama 3 of 8 B), then one for every 128.  The width is a multiple of 64.
    """
    shapes = [(d, max(2, round(d / 128), min(32, round(d / 64)))) for d in range(64, 32768, 64)]
    return min(shapes, key=lambda s: abs(math.log((12 * s[0] ** 2 * s[1] + vocab_size * s[0]) / count)))


def usual_step(count: float) -> int:
    """Suitable tokens per step for a language model with so many parameters."""
    return next(tokens for below, tokens in STEP_TOKENS if count < below)


def decided(
    inputs: Sequence[str | Path],
    options: TrainOptions,
    *,
    validation: Sequence[str | Path] = (),
    started: float | None = None,
    progress: Progress | None = None,
) -> Prepared:
    """Everything that ``run_training`` would decide for a new run.  Raises InputError as it does.

    Earlier runs are ignored.  Tokenized text is cached, as always.
    """
    started, progress = started if started is not None else time.monotonic(), progress or NoProgress()
    progress.phase("reading")
    data = read_checked(inputs, options, validation)
    if options.fine_tuning.adapt:
        progress.say("the plan does not include pretraining on the texts without labels (--adapt)")
        options = options.but(adapt=False)
    return prepare(TrainingSession(options, *data, progress, started))


def work_of(prepared: Prepared, options: TrainOptions, tokens: float | None) -> Work:
    """The input of ``lay_out`` for a decided run, with ``tokens`` to train on, by default those that it would see.

    Raises InputError if the run takes no steps.
    """
    plan = prepared.plan
    if plan.fine_tuning.frozen:
        raise InputError("--plan is for training in steps; a linear classifier (--frozen) is fitted in one go.")
    if isinstance(plan.config, BaselineConfig):
        raise InputError(f"--plan is for Transformers only, not for --model {plan.config.kind}.")
    if isinstance(plan.config, OwnConfig):
        raise InputError(f"--plan is for Transformers only, not for {plan.config.described}.")
    count, trained = count_parameters(prepared.model)
    step_tokens = plan.batch_tokens * plan.accumulate
    return Work(
        config=plan.config,
        tokens=tokens or _tokens_seen(prepared, options, count),
        length=plan.length,
        step_tokens=step_tokens,
        optimizer=plan.optimizer,
        precision=plan.precision,
        trained=trained,
        average=plan.average > 0,
        shares=plan.hardware.shares,
        readings=2 if plan.objective.r_drop else 1,
        logits=plan.objective.mask_share or spec(prepared.task).logits,
    )


def work_without_data(parameters: float, tokens: float | None, options: TrainOptions) -> Work:
    """The input of ``lay_out`` for a language model of about so many parameters, with the layout that train uses.

    Raises InputError for options that need data, and for an invalid shape.
    """
    for name in options.given(OPTIONS):
        if name not in WITHOUT_DATA:
            raise InputError(f"--{flag(name)} needs data; --parameters plans a language model without data.")
    vocab, length = options.data.vocab or VOCABULARY, options.data.length or LENGTH
    width, layers = standard_shape(parameters, vocab)
    width, layers = options.architecture.d_model or width, options.architecture.layers or layers
    heads = options.architecture.heads or head_count(width)
    try:
        config = decoder_config(vocab, width, layers, heads, length, options.architecture.layout)
        config = config.but(dropout=options.optimisation.dropout or 0.0)
    except ValueError as error:
        raise InputError(f"no model can be made with these options: {error}.") from None
    step_tokens = (options.optimisation.batch_tokens or usual_step(parameters)) * options.optimisation.accumulate
    seen = options.run.steps * step_tokens if options.run.steps is not None else TOKENS_PER_PARAMETER * parameters
    return Work(
        config=config,
        tokens=tokens or seen,
        length=length,
        step_tokens=step_tokens,
        optimizer=options.optimisation.optimizer or "adamw",
        precision=options.runtime.precision or "bfloat16",
        average=bool(options.optimisation.average),
    )


def _tokens_seen(prepared: Prepared, options: TrainOptions, count: int) -> float:
    """Tokens that a run would train on: by its steps or its time on this machine, at most those of its epochs."""
    plan, batch_source = prepared.plan, prepared.batch_source
    batch, after = batch_source.next(Position())
    one_pass = batch.tokens / max(batch_source.epochs(after), 1e-9)
    most = plan.epochs * one_pass if plan.epochs else math.inf
    if options.run.steps is not None:
        return min(most, options.run.steps * mean_accumulation(plan.accumulate, plan.grow_batch) * batch.tokens)
    rate = training_rate(device_of(options.runtime.device), plan.precision)
    return min(most, rate * (prepared.limit or 0.0) / (6 * count))
