"""A run decided without starting it, and its layout over processes, computed: memory, micro-batches, steps, time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headway.data.batches.batch_source import Position
from headway.errors import InputError
from headway.io.quantities import size
from headway.models.adapt.lora import count_parameters
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.device import device_of
from headway.models.own import OwnConfig
from headway.models.size import (
    activation_bytes,
    block_matrices,
    copied_bytes,
    forward_flops,
    optimizer_bytes,
    parameters,
    training_flops,
    workspace_bytes,
)
from headway.nn.kernels.dispatch import is_plain
from headway.tasks.registry import spec
from headway.training.hardware.precision import training_rate
from headway.training.loop.schedule import mean_accumulation
from headway.training.option_fields import flag
from headway.training.options import OPTIONS, TrainOptions
from headway.training.sizing.presets import decoder_config, head_count
from headway.workflows.train.check import read_checked
from headway.workflows.train.setup import TrainingSession, prepare

USABLE = 0.85
"""The share of a process's memory that a layout fills: libraries, buffers for messages and gaps take the rest."""
GPU_SHARE = 0.4
"""The share of a GPU's peak that training reaches: 46 % for PaLM 540B (Chowdhery et al. 2022, table 3), 38 to 43 % for
Llama 3 405B (Grattafiori et al. 2024, table 4).  Published for others; not measured here."""
GPU_LINK = 400e9
"""Bytes a second: eight network cards of 400 Gb/s in each machine; inside, NVLink gives 450 (NVIDIA DGX H100, data
sheet)."""
AS_FAST = 1.02
"""Layouts whose step is within this factor of the fastest count as equally fast; the simplest of them is taken."""
MOST_PROCESSES = 1 << 14
"""Numbers of processes that are tried when the given number is too small."""
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


@dataclass(frozen=True)
class Hardware:
    """The processes to train on."""

    processes: int
    memory: float
    """bytes of each process"""
    flops: float
    """FLOP/s of each process at its peak"""
    share: float
    """the share of the peak that training reaches"""
    link: float = math.inf
    """bytes a second between processes, over the slowest link of the ring"""
    cpu: bool = False


@dataclass(frozen=True)
class Work:
    """The model to train, and how."""

    config: TransformerConfig
    tokens: float
    """number of tokens of the whole run"""
    length: int
    step_tokens: int
    """tokens of a whole step, over all processes and all batches that are accumulated"""
    optimizer: str = "adamw"
    precision: str = "bfloat16"
    trained: int | None = None
    """how many parameters are trained, if not all"""
    average: bool = False
    """whether a running average of the weights is kept"""
    shares: int = 1
    """the number of threads that compute a batch, each with its own gradient"""
    readings: int = 1
    """how often each batch is read (R-Drop: twice)"""
    logits: float = 1.0
    """the share of positions with logits"""


@dataclass(frozen=True)
class Memory:
    """Bytes of one process."""

    weights: int
    gradients: int
    optimizer: int
    best: int
    """the best weights so far, and the average of the weights"""
    copies: int
    """weights in the precision of the products, or weights gathered from other processes"""
    activations: int
    passing: int
    """temporary tensors of the forward and backward pass"""

    @property
    def total(self) -> int:
        return sum(vars(self).values())


@dataclass(frozen=True)
class Layout:
    """A layout that fits.  Times follow from the assumed or measured share of the peak."""

    parameters: int
    sharded: bool
    """FSDP; otherwise every process holds everything"""
    checkpointed: bool
    """whether activations are recomputed in the backward pass instead of being kept"""
    micro_batch: int
    """sequences that a process computes at a time"""
    accumulate: int
    """micro-batches for each step"""
    step_tokens: int
    steps: int
    memory: Memory
    flops: float
    """FLOPs of the whole run: 6 for each parameter and token, and attention"""
    step_seconds: float
    """seconds of a step: of computing and, with DDP, of communication; with FSDP of the longer one, as both overlap"""
    tokens_per_second: float
    seconds: float
    exchanged: int
    """bytes that each process sends in a step"""


def memory(
    work: Work, hardware: Hardware, micro_batch: int, *, sharded: bool, checkpointed: bool, more: bool, **wiring: Any
) -> Memory:
    """What each process holds.  ``more`` says that a step has several micro-batches."""
    found, config = parameters(work.config, **wiring), work.config
    total, c = found["total"], 4 if work.precision == "float32" else 2
    trained = total if work.trained is None else work.trained
    matrices = min(trained, block_matrices(config, **wiring))
    at_once = work.shares + 1 if work.shares > 1 and more else work.shares
    if sharded:  # two blocks at a time, and everything outside the blocks throughout, each with its gradient
        outside = total - found["attention"] - found["cross"] - found["feedforward"]
        copies = (2 * found["block"] + outside) * (c + 4)
    else:
        copies = copied_bytes(config, c, work.logits > 0, **wiring)
    whole = is_plain(hardware.cpu, c == 2, micro_batch * config.n_heads * work.length**2, config.dropout)
    encoder = (wiring.get("encoder") or config) if wiring.get("wiring") == "encoder-decoder" else None
    batch: dict[str, Any] = {"c": c, "logits": work.logits}
    sizes = config, micro_batch * work.readings, work.length

    def part(size: int) -> int:
        return -(-size // (hardware.processes if sharded else 1))

    return Memory(
        weights=part(4 * total),
        gradients=part(4 * trained * at_once),
        optimizer=part(optimizer_bytes(trained, matrices, work.optimizer)),
        best=part(4 * trained * (1 + work.average)),
        copies=copies,
        activations=activation_bytes(*sizes, checkpointed=checkpointed, encoder=encoder, whole_scores=whole, **batch),
        passing=workspace_bytes(*sizes, **batch),
    )


def lay_out(
    work: Work, hardware: Hardware, *, sharded: bool | None = None, checkpointed: bool | None = None, **wiring: Any
) -> Layout:
    """The fastest layout that fits, or the simpler of two equally fast ones, with the largest possible micro-batch.

    DDP and FSDP (ZeRO stage 3, Rajbhandari et al. 2020) are tried, each with all activations kept and with checkpoints;
    ``sharded`` and ``checkpointed`` leave only one of the two.  ``wiring`` are the keywords that tell ``models.size``
    the kind of model.  Raises InputError when a step has fewer sequences than processes, and when nothing fits.
    """
    rows = max(1, work.step_tokens // work.length)
    if rows < hardware.processes:
        least = hardware.processes * work.length
        raise InputError(
            f"a step of {work.step_tokens:,} tokens is {rows:,} sequences of {work.length:,}, fewer than the "
            f"{hardware.processes:,} processes; --batch-tokens {least} or more is enough."
        )
    own = -(-rows // hardware.processes)
    ways = [
        (shard, check)
        for check in ((False, True) if checkpointed is None else (checkpointed,))
        for shard in ((False, True) if sharded is None else (sharded,))
        if not shard or hardware.processes > 1
    ]
    found = [_largest(work, hardware, own, shard, check, wiring) for shard, check in ways]
    fitting = [layout for layout in found if layout is not None]
    if not fitting:
        raise InputError(_nothing_fits(work, hardware, sharded, checkpointed, wiring))
    fastest = min(layout.step_seconds for layout in fitting)
    return next(layout for layout in fitting if layout.step_seconds <= AS_FAST * fastest)


def _largest(
    work: Work, hardware: Hardware, rows: int, sharded: bool, checkpointed: bool, wiring: dict[str, Any]
) -> Layout | None:
    """The layout with the largest micro-batch that fits, of ``rows`` sequences in each step and process; or None."""
    how = {"sharded": sharded, "checkpointed": checkpointed}
    for accumulate in (n for n in range(1, rows + 1) if rows % n == 0):
        needed = memory(work, hardware, rows // accumulate, **how, more=accumulate > 1, **wiring)
        if needed.total <= USABLE * hardware.memory:
            break
    else:
        return None
    total = parameters(work.config, **wiring)["total"]
    each = work.readings * training_flops(forward_flops(work.config, 1, work.length, **wiring)) / work.length
    computed = each * 4 / 3 if checkpointed else each  # one more forward pass
    computing = computed * work.step_tokens / (hardware.processes * hardware.flops * hardware.share)
    c = 4 if work.precision == "float32" else 2
    # a ring: with DDP gradients are reduced and sent once; with FSDP weights are sent twice, gradients once, each time
    sent = total * (hardware.processes - 1) / hardware.processes * ((2 * c + 4) * accumulate if sharded else 8)
    sending = sent / hardware.link
    seconds = max(computing, sending) if sharded else computing + sending  # DDP sums after the last micro-batch
    return Layout(
        parameters=total,
        **how,
        micro_batch=rows // accumulate,
        accumulate=accumulate,
        step_tokens=work.step_tokens,
        steps=math.ceil(work.tokens / work.step_tokens),
        memory=needed,
        flops=each * work.tokens,
        step_seconds=seconds,
        tokens_per_second=work.step_tokens / seconds,
        seconds=seconds * work.tokens / work.step_tokens,
        exchanged=int(sent),
    )


def _nothing_fits(
    work: Work, hardware: Hardware, sharded: bool | None, checkpointed: bool | None, wiring: dict[str, Any]
) -> str:
    def least(processes: int) -> Memory:
        how = {"sharded": processes > 1 if sharded is None else sharded, "checkpointed": checkpointed is not False}
        return memory(work, replace(hardware, processes=processes), 1, **how, more=True, **wiring)

    needed, room, tried = least(hardware.processes), USABLE * hardware.memory, hardware.processes
    while not hardware.cpu and tried < MOST_PROCESSES and least(tried).total > room:
        tried *= 2
    enough = f"--gpus {tried} would be enough. " if least(tried).total <= room else ""
    return (
        f"{parameters(work.config, **wiring)['total']:,} parameters cannot be trained here: with one sequence of "
        f"{work.length:,} tokens at a time each process needs {size(needed.total)}, of which "
        f"{size(needed.total - needed.activations - needed.passing)} whatever its length, and may fill "
        f"{size(room)} of {size(hardware.memory)}. {enough}Otherwise use more memory (--gpu-memory), "
        "a shorter --length or a smaller model."
    )


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


def decided(inputs: Sequence[Any], options: TrainOptions, **given: Any) -> TrainingSession:
    """Everything that ``run_training`` would decide for a new run, of which it takes all but ``out``.

    Earlier runs are ignored.  Tokenized text is cached, as always.  Raises InputError as it does.
    """
    session = TrainingSession(options=options, inputs=inputs, **given)
    session.progress.phase("reading")
    session.source, session.found, session.held_out = read_checked(inputs, options, session.validation)
    if options.fine_tuning.adapt:
        session.progress.say("the plan does not include pretraining on the texts without labels (--adapt)")
        session.options = options.but(adapt=False)
    return prepare(session)


def work_of(session: TrainingSession, tokens: float | None) -> Work:
    """The input of ``lay_out`` for a decided run, with ``tokens`` to train on, by default those that it would see.

    Raises InputError if the run takes no steps.
    """
    plan, config = session.plan, session.plan.config
    if plan.fine_tuning.frozen:
        raise InputError("--plan is for training in steps; a linear classifier (--frozen) is fitted in one go.")
    if isinstance(config, BaselineConfig):
        raise InputError(f"--plan is for Transformers only, not for --model {config.kind}.")
    if isinstance(config, OwnConfig):
        raise InputError(f"--plan is for Transformers only, not for {config.described}.")
    count, trained = count_parameters(session.model)
    return Work(
        config=config,
        tokens=tokens or _tokens_seen(session, count),
        length=plan.length,
        step_tokens=plan.batch_tokens * plan.accumulate,
        optimizer=plan.optimizer,
        precision=plan.precision,
        trained=trained,
        average=plan.average > 0,
        shares=plan.hardware.shares,
        readings=2 if plan.objective.r_drop else 1,
        logits=plan.objective.mlm_probability or spec(session.task).logits,
    )


def work_without_data(parameters: float, tokens: float | None, options: TrainOptions) -> Work:
    """The input of ``lay_out`` for a language model of about so many parameters, with the layout that train uses.

    Raises InputError for options that need data, and for an invalid shape.
    """
    for name in options.given(OPTIONS):
        if name not in WITHOUT_DATA:
            raise InputError(f"--{flag(name)} needs data; --parameters plans a language model without data.")
    asked, training = options.architecture, options.optimisation
    vocab, length = options.data.vocab or VOCABULARY, options.data.length or LENGTH
    width, layers = standard_shape(parameters, vocab)
    width, layers = asked.d_model or width, asked.layers or layers
    try:
        config = decoder_config(vocab, width, layers, asked.heads or head_count(width), length, asked.layout)
        config = config.but(dropout=training.dropout or 0.0)
    except ValueError as error:
        raise InputError(f"no model can be made with these options: {error}.") from None
    step_tokens = (training.batch_tokens or usual_step(parameters)) * training.accumulate
    seen = options.run.steps * step_tokens if options.run.steps is not None else TOKENS_PER_PARAMETER * parameters
    return Work(
        config=config,
        tokens=tokens or seen,
        length=length,
        step_tokens=step_tokens,
        optimizer=training.optimizer or "adamw",
        precision=options.runtime.precision or "bfloat16",
        average=bool(training.average),
    )


def _tokens_seen(session: TrainingSession, count: int) -> float:
    """Tokens that a run would train on: by its steps or its time on this machine, at most those of its epochs."""
    plan, batch_source, options = session.plan, session.batch_source, session.options
    batch, after = batch_source.next(Position())
    one_pass = batch.tokens / max(batch_source.epochs(after), 1e-9)
    most = plan.epochs * one_pass if plan.epochs else math.inf
    if options.run.steps is not None:
        return min(most, options.run.steps * mean_accumulation(plan.accumulate, plan.grow_batch) * batch.tokens)
    rate = training_rate(device_of(options.runtime.device), plan.precision)
    return min(most, rate * (session.limit or 0.0) / (6 * count))
