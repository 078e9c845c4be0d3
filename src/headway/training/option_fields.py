"""Fields of options and plans: nested frozen dataclasses with flat names, and what the field of an option says."""

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Self

from headway.errors import InputError, shown
from headway.io.quantities import parse_seconds
from headway.io.regular_file import check_name

DEFAULT_TIME = "5m"
"""The time of a run that is given neither a time nor steps."""

RENAMED = {"clip": "max_grad_norm", "mask_share": "mlm_probability"}
"""Former names of options, also in runs of earlier versions, and their present names."""
ALIASES = {
    "learning_rate": "lr learningrate",
    "batch_size": "batch bs per-device-train-batch-size train-batch-size",
    "accumulate": "gradient-accumulation-steps grad-accum gradient-accumulation accumulate-grad-batches",
    "epochs": "epoch num-train-epochs num-epochs n-epochs max-epochs",
    "steps": "step max-steps num-steps max-iters iters",
    "time": "time-limit max-time budget",
    "from_model": "from-model model-name-or-path model-name pretrained base-model init-from",
    "length": "max-length max-seq-length max-seq-len seq-len block-size context-length max-len",
    "d_model": "hidden-size n-embd dim width embed-dim",
    "layers": "num-layers n-layers n-layer num-hidden-layers depth",
    "heads": "num-heads n-heads n-head num-attention-heads",
    "weight_decay": "wd",
    "max_grad_norm": "clip grad-clip clip-grad gradient-clip-val",
    "warmup": "warmup-ratio",
    "optimizer": "optim",
    "schedule": "lr-scheduler lr-scheduler-type scheduler",
    "vocab": "vocab-size",
    "mlm_probability": "mask-share",
    "label_smoothing": "label-smoothing-factor",
    "lora": "lora-rank lora-r",
    "workers": "num-workers dataloader-num-workers",
    "checkpoint_activations": "gradient-checkpointing activation-checkpointing",
    "text_column": "text-field text-col",
    "label_column": "label-field label-col target-column",
    "seed": "random-seed random-state",
    "threads": "num-threads n-threads",
}
"""What other tools call them."""
HINTS = {
    "keep-default-na": "--labels-as-text takes labels such as NA as they are written",
    "warmup-steps": "--warmup is a fraction of the run, such as 0.05",
    **dict.fromkeys(("eval-steps", "eval-every"), "--evaluations is the number of evaluations in the whole run"),
    "save-steps": "--save-every is a time, such as 60s",
    "fp16": "--precision can be float32 or bfloat16",
    "bf16": "it is --precision bfloat16",
    "early-stopping": "--patience is a number of evaluations",
    "early-stopping-patience": "it is --patience",
    **dict.fromkeys(("resume", "resume-from-checkpoint"), "run the same command again to resume"),
    "gpu": "it is --device cuda",
    **dict.fromkeys(("num-gpus", "nproc-per-node"), "start several processes with torchrun"),
    **dict.fromkeys(("test-size", "val-split"), "--validation names a file; without it 10 % of the data are held out"),
}
"""Options of other tools without an equivalent here -> what to do instead."""


@dataclass(frozen=True)
class Between:
    """Numbers from ``least`` to ``most``; ``above`` excludes the least, ``below`` excludes the most."""

    least: float
    most: float
    above: bool = False
    below: bool = False

    def allows(self, value: float) -> bool:
        """Whether a number is in the interval; NaN is not."""
        low = self.least < value if self.above else self.least <= value
        return low and (value < self.most if self.below else value <= self.most)

    def __str__(self) -> str:
        if self.below:
            return f"from {self.least:g} to below {self.most:g}"
        if self.above:
            return f"above {self.least:g} and at most {self.most:g}"
        return f"{self.least:,} or more, and at most {self.most:,}"


SHARE = Between(0, 1, below=True)


def option(
    text: str,
    choices: tuple[str, ...] = (),
    *,
    default: Any = None,
    most: int | None = None,
    allowed: Between | None = None,
    duration: bool = False,
    common: bool = False,
    change: str = "no",
    loop: bool = False,
    base: str = "",
    excludes: Mapping[str, str] | None = None,
    several: bool = False,
) -> Any:
    """A field of a group of options.

    ``text`` is its help, ``choices`` or ``allowed`` its values, or it is a number from 1 to ``most``, which is far
    above any useful value; a ``duration`` is a text such as 5m, or a number of seconds.  ``common``: the short help
    shows it.  ``change``: "free" where a resumed run may change it, "allowed" where that needs --allow-changes, else
    "no".  ``loop``: it belongs to training step by step, which a linear classifier on a model's vectors does not have.
    ``base``: whether --from is "needed" or "excluded".  ``excludes``: names of options that conflict with it, each with
    the reason.  ``several``: it can be given several times, or a list from Python; its value is all of them, with
    commas between them.
    """
    told: dict[str, Any] = {"help": text, "choices": choices, "duration": duration, "common": common, "change": change}
    told |= {"allowed": allowed if most is None else Between(1, most), "loop": loop, "base": base}
    return field(default=default, metadata={**told, "excludes": excludes or {}, "several": several})


def flag(name: str) -> str:
    """A field's option: label_column -> label-column, and from_model -> from, which is a Python keyword."""
    return "from" if name == "from_model" else name.replace("_", "-")


KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
}


def kind_of(entry: Field[Any]) -> tuple[str, bool]:
    """The kind of an option (str, int, float or bool), and whether it may be None."""
    written = entry.type.__name__ if isinstance(entry.type, type) else str(entry.type)
    kind, _, optional = written.partition(" | ")
    return kind, bool(optional)


def check_value(entry: Field[Any], value: Any) -> None:
    """Raise InputError when a value has the wrong type for its option, or is not allowed."""
    (kind, optional), name = kind_of(entry), f"--{flag(entry.name)}"
    if value is None and optional:
        return
    accepted, words = KINDS[kind]
    fits: bool = isinstance(value, accepted)
    if not fits or (isinstance(value, bool) and kind != "bool"):
        raise InputError(f"{name} is {value!r}; it must be {words}.")
    choices, allowed = entry.metadata["choices"], entry.metadata["allowed"]
    if choices and value not in choices:
        raise InputError(f"{name} is {value!r}; it can be {', '.join(choices)}.")
    if entry.metadata["duration"]:
        parse_seconds(value, name)
    if allowed is not None and not allowed.allows(value):
        raise InputError(f"{name} is {shown(value)}; it must be {allowed}.")
    if entry.name == "from_model":
        check_name(value, "--from")


def check_together(options: Mapping[str, Field[Any]], values: Mapping[str, Any], given: Collection[str]) -> None:
    """Raise InputError for ``given`` options that conflict, or that need another option."""
    for name in given:
        for other, why in options[name].metadata["excludes"].items():
            if other in given:
                raise InputError(f"--{flag(name)} and --{flag(other)} were both given; {why}.")
    based, way = values["from_model"] is not None, "contrastive" if values["contrastive"] else "frozen"
    for name in given:
        base = options[name].metadata["base"]
        if base == "needed" and not based:
            raise InputError(f"--{flag(name)} is for fine-tuning; name the model with --from.")
        if base == "excluded" and based:
            raise InputError(f"--{flag(name)} cannot be chosen with --from: the model has its own.")
    for name in given if values[way] else ():
        if options[name].metadata["loop"]:
            raise InputError(f"--{flag(name)} is for training the whole model, which --{way} does not; choose one.")


class Grouped:
    """A frozen dataclass of groups (fields whose type is a dataclass) and its own fields; no two share a name."""

    def __init__(self, **flat: Any):
        """Set every field by its flat name.  Raises TypeError for an unknown name, or a missing one."""
        whole: Any = type(self)
        if unknown := flat.keys() - entries(whole).keys():
            raise TypeError(f"{whole.__name__}: has no {', '.join(sorted(unknown))}")
        for one in fields(whole):
            if (group := groups(whole).get(one.name)) is not None:
                value = group(**{part.name: flat[part.name] for part in fields(group) if part.name in flat})
            elif one.name in flat:
                value = flat[one.name]
            elif one.default is MISSING and one.default_factory is MISSING:
                raise TypeError(f"{whole.__name__}: {one.name} is missing")
            else:
                value = one.default if one.default_factory is MISSING else one.default_factory()
            object.__setattr__(self, one.name, value)

    def values(self) -> dict[str, Any]:
        """Every value by its flat name."""
        whole: Any = type(self)
        found = dict(vars(self))
        for name in groups(whole):
            found |= vars(found[name])
        return {name: found[name] for name in entries(whole)}

    def flat(self) -> dict[str, Any]:
        """Every value by its flat name, copied."""
        return deepcopy(self.values())

    def value(self, name: str) -> Any:
        """The value of a field by its flat name.  Raises KeyError for an unknown name."""
        return self.values()[name]

    def but(self, **changes: Any) -> Self:
        """A copy with some values changed, by flat names."""
        return type(self)(**{**self.values(), **changes})


@cache
def groups(kind: Any) -> Mapping[str, Any]:
    """The groups of a class, by name."""
    return MappingProxyType({one.name: one.type for one in fields(kind) if is_dataclass(one.type)})


@cache
def entries(kind: Any) -> Mapping[str, Field[Any]]:
    """Every field by its flat name: its own, then those of its groups."""
    own = [one for one in fields(kind) if one.name not in groups(kind)]
    every = [*own, *(one for group in groups(kind).values() for one in fields(group))]
    return MappingProxyType({one.name: one for one in every})
