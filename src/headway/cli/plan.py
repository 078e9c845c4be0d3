"""``headway train --plan``: the plan of a run on this machine or another, printed without training."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import click

from headway.cli.common import Headed
from headway.errors import InputError
from headway.io.memory import total_bytes
from headway.io.quantities import count, counted, short_duration, size_unit
from headway.tasks.registry import supporting
from headway.training.option_fields import flag
from headway.training.options import OPTIONS, TrainOptions
from headway.training.progress import Progress

H100 = {"gpu_memory": "80G", "gpu_flops": "989T"}
"""Memory and dense bfloat16 FLOP/s of the default GPU: NVIDIA H100 SXM, by its data sheet."""
PER_MACHINE = 8
"""Maximum number of GPUs per machine in the printed command."""
UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
LAID_OUT = ("batch_tokens", "accumulate", "precision", "shard", "checkpoint_activations")
"""Options that a layout decides; they come last in its command."""
EXAMPLES = {"parameters": "1B", "tokens": "20B", "gpu_memory": "80G", "gpu_flops": "989T", "gpu_link": "400G"}

PLANNED: dict[str, tuple[type, str]] = {
    "parameters": (str, "with --plan and without INPUT: plan a language model of about this size, such as 1B"),
    "tokens": (str, "with --plan: how many tokens to train on, such as 20B"),
    "gpus": (int, "with --plan: how many GPUs, each with one process [default: this machine]"),
    "gpu_memory": (str, f"with --plan: memory of each GPU in bytes [default: {H100['gpu_memory']}]"),
    "gpu_flops": (
        str,
        f"with --plan: FLOP/s of each GPU at its peak [default: {H100['gpu_flops']}, an H100 in bfloat16]",
    ),
    "gpu_link": (
        str,
        "with --plan: bytes a second between GPUs, over the slowest link [default: 400G, as in a DGX H100]",
    ),
    "gpu_share": (float, "with --plan: the fraction of that peak that training reaches [default: 0.4]"),
}
"""Options of ``--plan`` for a model without data and for other hardware: the type of each, and its help."""


def plan_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--plan, and its options for a model without data and for other hardware."""
    told: dict[str, Any] = {"cls": Headed, "heading": "Planning", "common": False}
    for name, (kind, text) in reversed(PLANNED.items()):
        function = click.option(f"--{flag(name)}", type=kind, help=text, **told)(function)
    text = "print the decisions and the cost of training without training"
    return click.option("--plan", "planning", is_flag=True, help=text, **told)(function)


def plan(
    inputs: Sequence[str],
    validation: Sequence[str],
    progress: Progress,
    asked: dict[str, Any],
    options: dict[str, Any],
    started: float,
) -> dict[str, Any]:
    """The result that ``--plan --json`` prints: the decisions, and the layout on the hardware.  Raises InputError.

    ``asked`` holds the options of ``plan_options`` by name, ``options`` the fields of TrainOptions.
    """
    if inputs and asked["parameters"] is not None:
        raise InputError("--parameters is for planning without a file; with a file, choose the size with --preset.")
    chosen = TrainOptions(**options)
    if asked["tokens"] is not None:
        for name in chosen.given(("time", "steps", "epochs")):
            raise InputError(f"--tokens and --{flag(name)} both say how long the training is; leave one of them out.")
    numbers = {name: quantity(asked[name], name) for name in EXAMPLES if asked[name] is not None}
    gpus = _gpus(asked, numbers)
    import torch

    from headway.cli.explain import wiring_of
    from headway.formats.subject import refusals
    from headway.training.hardware.precision import faster_precision
    from headway.training.loop.thread_parallel import MOST_SHARES
    from headway.workflows.train.dry_run import decided, lay_out, work_of, work_without_data

    decisions: list[dict[str, str]] = []
    wiring: dict[str, Any] = {}
    exports = None
    if inputs:
        session = decided(inputs, chosen, validation=validation, started=started, progress=progress)
        work, decisions = work_of(session, numbers.get("tokens")), session.plan.decisions
        wiring = wiring_of(session.model)
        exports = refusals(session.model, session.data.processor, session.data)
        if gpus is not None:
            work = replace(work, precision=chosen.runtime.precision or "bfloat16", shares=1)
            decisions = [one for one in decisions if one["what"] != "precision"]  # it was measured for this machine
    else:
        work = work_without_data(numbers["parameters"], numbers.get("tokens"), chosen)
        if gpus is None:
            precision = chosen.runtime.precision or faster_precision(work.config.d_model)[0]
            work = replace(work, precision=precision, shares=min(MOST_SHARES, torch.get_num_threads()))
    hardware = gpus or _this_machine(work.precision)
    ways = {"sharded": "shard", "checkpointed": "checkpoint_activations"}
    layout = lay_out(work, hardware, **{way: chosen.value(name) or None for way, name in ways.items()}, **wiring)
    sizes = ("vocab_size", "d_model", "n_layers", "n_heads")
    return {
        "task": session.task if inputs else supporting("planning")[0],
        "parameters": layout.parameters,
        "model": {name: getattr(work.config, name) for name in sizes},
        "decisions": decisions,
        "exports": exports,
        **{name: getattr(work, name) for name in ("tokens", "length", "optimizer", "precision")},
        "hardware": asdict(hardware),
        "layout": {**asdict(layout), "memory": {**asdict(layout.memory), "total": layout.memory.total}},
        "command": _command(inputs, chosen, work, layout, hardware),
    }


def quantity(text: str, name: str) -> float:
    """ "80G", "1.5B" or "20e9" as a number above 0; K, M, G (or B) and T are thousands.  Raises InputError."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*([KMGBT]?)\s*", text, re.IGNORECASE)
    value = float(match[1]) * UNITS[match[2].upper()] if match else 0.0
    if not 0 < value < 1e30:
        raise InputError(f"--{flag(name)} is {text!r}; write it as {EXAMPLES[name]}.")
    return value


def lines(found: dict[str, Any]) -> list[str]:
    from headway.formats.subject import in_words
    from headway.training.plan import decision_in_words

    layout, hardware, model = found["layout"], found["hardware"], found["model"]
    held, processes, micro = layout["memory"], hardware["processes"], layout["micro_batch"]
    where, rate = counted(processes, "GPU"), "each at the peak; training is assumed to reach (--gpu-share)"
    if hardware["cpu"]:
        where, rate = "this machine's processor", "measured here in matrix products; training reaches about"
    how = "each with a shard of weights and states (FSDP)" if layout["sharded"] else "each with all of them (DDP)"
    again = ", activations of each block recomputed (checkpointing)" if layout["checkpointed"] else ""
    (size, unit), sent = size_unit(held["total"]), layout["exchanged"]
    rows = [
        ("one process holds", unit),
        *((words, f"{held[name] / size:,.2f}") for name, words in HELD.items()),
        (f"together, of {hardware['memory'] / size:,.0f}", f"{held['total'] / size:,.2f}"),
        ("", ""),
        ("sequences per batch and process", f"{micro:,}"),
        ("batches per step and process", f"{layout['accumulate']:,}"),
        ("tokens per step", f"{layout['step_tokens']:,}"),
        ("steps", f"{layout['steps']:,}"),
        ("total tokens", count(found["tokens"])),
        ("total FLOPs", f"{layout['flops']:.2e}"),
        ("tokens per second, all processes", f"{layout['tokens_per_second']:,.0f}"),
        ("training takes", short_duration(layout["seconds"])),
        *([("GB sent per step and process", f"{sent / 1e9:,.2f}")] if sent else []),
        *([("  GB per second", f"{sent / 1e9 / layout['step_seconds']:,.1f}")] if sent else []),
    ]
    return [
        *map(decision_in_words, found["decisions"]),
        *([in_words(found["exports"])] if found["exports"] else []),
        f"{layout['parameters']:,} parameters: {model['d_model']:,} wide, {model['n_layers']} layers, "
        f"{model['n_heads']} heads, {model['vocab_size']:,} tokens known, sequences of {found['length']:,}",
        f"on {where}: {found['precision']} products, {found['optimizer']}{'' if processes == 1 else ', ' + how}{again}",
        "",
        *(f"  {words:36}{number:>12}".rstrip() for words, number in rows),
        "",
        f"{hardware['flops'] / 1e12:,.4g} TFLOP/s {rate} {hardware['share']:.0%}.",
        found["command"],
    ]


HELD = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer states",
    "best": "best weights so far",
    "copies": "weight copies in lower precision",
    "activations": "activations, up to about",
    "passing": "workspace, up to about",
}


def _gpus(asked: dict[str, Any], numbers: dict[str, float]) -> Any:
    from headway.workflows.train.dry_run import GPU_LINK, GPU_SHARE, Hardware

    if all(asked[name] is None for name in PLANNED if name.startswith("gpu")):
        return None
    count = 1 if asked["gpus"] is None else asked["gpus"]
    share = GPU_SHARE if asked["gpu_share"] is None else asked["gpu_share"]
    if not 1 <= count <= 1 << 20:
        raise InputError(f"--gpus is {count}; it must be 1 or more, and at most {1 << 20:,}.")
    if not 0 < share <= 1:
        raise InputError(f"--gpu-share is {share}; it must be above 0 and at most 1.")
    sizes = {name: numbers.get(name, quantity(text, name)) for name, text in H100.items()}
    return Hardware(count, sizes["gpu_memory"], sizes["gpu_flops"], share, numbers.get("gpu_link", GPU_LINK))


def _this_machine(precision: str) -> Any:
    """This machine's CPU: its memory, and its measured rate of matrix products."""
    import torch

    from headway.training.hardware.precision import REACHED, product_rate
    from headway.workflows.train.dry_run import Hardware

    memory = total_bytes()
    if memory is None:  # Windows
        raise InputError("the memory of this machine is unknown; give --gpus and --gpu-memory.")
    return Hardware(1, float(memory), product_rate(getattr(torch, precision)), REACHED[precision], cpu=True)


def _command(inputs: Sequence[str], chosen: TrainOptions, work: Any, layout: Any, hardware: Any) -> str:
    words = ["headway", "train", *(map(shlex.quote, inputs) if inputs else ["FILE"])]
    if hardware.processes > 1:
        each = max(n for n in range(1, PER_MACHINE + 1) if hardware.processes % n == 0)
        machines = hardware.processes // each
        several = ["--nnodes", str(machines), "--rdzv_backend", "c10d", "--rdzv_endpoint", "HOST:29500"]
        words[:1] = ["torchrun", *(several if machines > 1 else []), "--nproc_per_node", str(each), "-m", "headway"]
    given: dict[str, Any] = {name: chosen.value(name) for name in chosen.given(OPTIONS)}
    if not inputs:
        config = work.config
        given |= {"vocab": config.vocab_size, "length": work.length, "steps": layout.steps, "optimizer": work.optimizer}
        given |= {"d_model": config.d_model, "layers": config.n_layers, "heads": config.n_heads}
    given |= {"batch_tokens": layout.step_tokens // layout.accumulate, "accumulate": layout.accumulate}
    given |= {"precision": work.precision, "shard": layout.sharded, "checkpoint_activations": layout.checkpointed}
    for name, value in sorted(given.items(), key=lambda one: one[0] in LAID_OUT):
        words += [f"--{flag(name)}"] * (value is not False) + [shlex.quote(str(value))] * (not isinstance(value, bool))
    return " ".join(words)
