"""Option names of other tools: accepted where they mean the same, otherwise answered with a hint to ours."""

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import click

from headway.errors import InputError
from headway.io.csv_text import listed
from headway.training.option_fields import RENAMED
from headway.training.options import OPTIONS

NAMES = {
    "learning-rate": ("lr", "learningrate"),
    "batch-size": ("batch", "bs", "per-device-train-batch-size", "train-batch-size"),
    "accumulate": ("gradient-accumulation-steps", "grad-accum", "gradient-accumulation", "accumulate-grad-batches"),
    "epochs": ("epoch", "num-train-epochs", "num-epochs", "n-epochs", "max-epochs"),
    "steps": ("step", "max-steps", "num-steps", "max-iters", "iters"),
    "time": ("time-limit", "max-time", "budget"),
    "out": ("output-dir", "output", "out-dir", "save-dir", "outdir"),
    "to": ("output-file", "output", "out-file"),
    "from": ("from-model", "model-name-or-path", "model-name", "pretrained", "base-model", "init-from"),
    "validation": ("validation-file", "val", "valid", "dev", "eval-file", "test-file"),
    "length": ("max-length", "max-seq-length", "max-seq-len", "seq-len", "block-size", "context-length", "max-len"),
    "d-model": ("hidden-size", "n-embd", "dim", "width", "embed-dim"),
    "layers": ("num-layers", "n-layers", "n-layer", "num-hidden-layers", "depth"),
    "heads": ("num-heads", "n-heads", "n-head", "num-attention-heads"),
    "weight-decay": ("wd",),
    "max-grad-norm": ("clip", "grad-clip", "clip-grad", "gradient-clip-val"),
    "warmup": ("warmup-ratio",),
    "optimizer": ("optim",),
    "schedule": ("lr-scheduler", "lr-scheduler-type", "scheduler"),
    "vocab": ("vocab-size",),
    "mlm-probability": ("mask-share",),
    "label-smoothing": ("label-smoothing-factor",),
    "lora": ("lora-rank", "lora-r"),
    "workers": ("num-workers", "dataloader-num-workers"),
    "checkpoint-activations": ("gradient-checkpointing", "activation-checkpointing"),
    "text-column": ("text-field", "text-col"),
    "label-column": ("label-field", "label-col", "target-column"),
    "max-tokens": ("max-new-tokens",),
    "temperature": ("temp",),
    "beam": ("beams", "num-beams", "beam-size"),
    "trials": ("n-trials", "num-trials"),
    "seed": ("random-seed", "random-state"),
    "threads": ("num-threads", "n-threads"),
}
"""Our option -> its names in other tools."""
ELSEWHERE = {name: ours for ours, names in reversed(NAMES.items()) for name in names}
HINTS = {
    "keep-default-na": "--labels-as-text takes labels such as NA as they are written",
    "warmup-steps": "--warmup is a fraction of the run, such as 0.05",
    "eval-steps": "--evaluations is the number of evaluations in the whole run",
    "eval-every": "--evaluations is the number of evaluations in the whole run",
    "save-steps": "--save-every is a time, such as 60s",
    "fp16": "--precision can be float32 or bfloat16",
    "bf16": "it is --precision bfloat16",
    "early-stopping": "--patience is a number of evaluations",
    "early-stopping-patience": "it is --patience",
    "resume": "run the same command again to resume",
    "resume-from-checkpoint": "run the same command again to resume",
    "gpu": "it is --device cuda",
    "num-gpus": "start several processes with torchrun",
    "nproc-per-node": "start several processes with torchrun",
    "test-size": "--validation names a file; without it 10 % of the data are held out",
    "val-split": "--validation names a file; without it 10 % of the data are held out",
}
"""Options of other tools without an equivalent here -> what to do instead."""


def in_our_words(command: click.Command, arguments: Sequence[str]) -> list[str]:
    """The words of a command line, with option names of other tools replaced by ours.

    Raises click.NoSuchOption with a hint for an option without an equivalent here.
    """
    ours = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    found: list[str] = []
    for number, word in enumerate(arguments):
        if word == "--":
            found += arguments[number:]
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") and name not in ours:
            plain = name[2:].replace("_", "-")
            meant = [plain, *(ours for ours, names in NAMES.items() if plain in names)]  # the likeliest first
            spelled = next((f"--{one}" for one in meant if f"--{one}" in ours), None)
            if spelled is None and plain in HINTS and any(f"--{one}" in ours for one in _words(HINTS[plain])):
                raise click.UsageError(f"no such option: {name} ({HINTS[plain]}).")
            if plain.replace("-", "_") in RENAMED and spelled is not None:
                warnings.warn(f"{name} is now called {spelled}", stacklevel=2)
            word = f"{spelled}{equals}{value}" if spelled is not None else word
        found.append(word)
    check_once(command, found)
    return found


def check_once(command: click.Command, words: Sequence[str]) -> None:
    """Raise click.UsageError for an option of one value that is given twice: click would take the last in silence."""
    options = {name: param for param in command.params if isinstance(param, click.Option) for name in param.opts}
    values: dict[str, str] = {}
    rest = iter(words)
    for word in itertools.takewhile(lambda word: word != "--", rest):
        name, equals, value = word.partition("=")
        if (option := options.get(name)) is None or option.is_flag:
            continue
        value = value if equals else next(rest, "")
        if name in values and not option.multiple:
            raise click.UsageError(f"{name} is given twice, as {values[name]!r} and {value!r}; it takes one value.")
        values[name] = value


def in_our_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options given as Python keywords, by our names: lr -> learning_rate.  Raises InputError for one given twice."""
    values: dict[str, Any] = {}
    for name, value in options.items():
        plain = name.replace("_", "-")
        ours = name if name in OPTIONS else ELSEWHERE.get(plain, plain).replace("-", "_")
        ours = "from_model" if ours == "from" else ours  # "from" is a Python keyword
        if name in RENAMED:
            warnings.warn(f"{name} is now called {ours}", stacklevel=3)
        if ours in values:
            raise InputError(f"{ours} is given twice, as {values[ours]!r} and as {name}={value!r}; it takes one value.")
        several = ours in OPTIONS and OPTIONS[ours].metadata["several"] and isinstance(value, list | tuple)
        values[ours] = listed(value) if several else value
    return values


def _words(hint: str) -> list[str]:
    """The options that a hint names; a hint without one applies to every command that trains."""
    named = [word.removeprefix("--").strip(".,;") for word in hint.split() if word.startswith("--")]
    return named or ["steps"]
