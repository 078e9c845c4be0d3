"""The layout of a run over processes, computed and not tried: memory, micro-batches, steps, time.

A process is one GPU, or this machine's processor.  Weights, gradients and the optimiser's states are in float32,
products in the precision of the run.  With DDP every process holds all of them; with FSDP (Rajbhandari et al. 2020,
ZeRO stage 3) each holds its shard, and gathers a block's weights when it needs them.  All sizes are in bytes.
"""

import math
from dataclasses import dataclass
from typing import Any

from headway.errors import InputError
from headway.io.quantities import size
from headway.models.config import TransformerConfig
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
    found = parameters(work.config, **wiring)
    total, c = found["total"], 4 if work.precision == "float32" else 2
    trained = total if work.trained is None else work.trained
    matrices = min(trained, block_matrices(work.config, **wiring))
    parts = hardware.processes if sharded else 1
    at_once = work.shares + 1 if work.shares > 1 and more else work.shares
    if sharded:  # two blocks at a time, and everything outside the blocks throughout, each with its gradient
        outside = total - found["attention"] - found["cross"] - found["feedforward"]
        copies = (2 * found["block"] + outside) * (c + 4)
    else:
        copies = copied_bytes(work.config, c, work.logits > 0, **wiring)
    scores = micro_batch * work.config.n_heads * work.length**2
    whole = is_plain(hardware.cpu, c == 2, scores, work.config.dropout)
    kept = activation_bytes(
        work.config,
        micro_batch * work.readings,
        work.length,
        c=c,
        checkpointed=checkpointed,
        logits=work.logits,
        encoder=(wiring.get("encoder") or work.config) if wiring.get("wiring") == "encoder-decoder" else None,
        whole_scores=whole,
    )
    return Memory(
        weights=_part(4 * total, parts),
        gradients=_part(4 * trained * at_once, parts),
        optimizer=_part(optimizer_bytes(trained, matrices, work.optimizer), parts),
        best=_part(4 * trained * (1 + work.average), parts),
        copies=copies,
        activations=kept,
        passing=workspace_bytes(work.config, micro_batch * work.readings, work.length, c=c, logits=work.logits),
    )


def lay_out(
    work: Work, hardware: Hardware, *, sharded: bool | None = None, checkpointed: bool | None = None, **wiring: Any
) -> Layout:
    """The fastest layout that fits, or the simpler of two equally fast ones, with the largest possible micro-batch.

    DDP and FSDP are tried, each with all activations kept and with checkpoints; ``sharded`` and ``checkpointed`` leave
    only one of the two.  ``wiring`` are the keywords that tell ``models.size`` the kind of model.  Raises
    InputError when a step has fewer sequences than there are processes, and when nothing fits.
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
        there = Hardware(processes, hardware.memory, hardware.flops, hardware.share, cpu=hardware.cpu)
        shard = processes > 1 if sharded is None else sharded
        how = {"sharded": shard, "checkpointed": checkpointed is not False, "more": True, **wiring}
        return memory(work, there, 1, **how)

    needed, room = least(hardware.processes), USABLE * hardware.memory
    tried = hardware.processes
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


def _part(size: int, parts: int) -> int:
    return -(-size // parts)
