"""The precision in which a model answers, and its weights brought to it once, when it is loaded.

"float32" is exact, and "bfloat16" and "float16" round each weight to 8 and 11 bits.  "int8" and "int4" keep whole
numbers with a scale (``nn.low_precision``); activations stay in float32 on a processor.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from headway.errors import InputError, shown
from headway.models.device import model_device
from headway.nn.kernels.products import onednn_everywhere
from headway.nn.linear import lay_by_columns
from headway.nn.low_precision import lower

AUTO, FLOAT32 = "auto", "float32"
PRECISIONS = (FLOAT32, "bfloat16", "float16", "int8", "int4")
ON_A_CPU = (FLOAT32, "bfloat16", "int8", "int4")
ON_A_GPU = (FLOAT32, "bfloat16", "float16")
NAMES = f"{', '.join(PRECISIONS)} or auto"


def check_precision(name: Any, device: torch.device) -> None:
    """Raise InputError for what is no precision, or is not there on a device; the message names those that are."""
    if name not in PRECISIONS:
        raise InputError(f"--precision is {shown(name)}; it can be {NAMES}.")
    there = available(device)
    if name not in there:
        where = "this processor" if device.type == "cpu" else f"a GPU ({device.type})"
        *most, last = there
        others = f"{', '.join(most)} or {last}" if most else last
        raise InputError(f"--precision {name}: Headway does not compute in it on {where}; use {others}.")


def resolved(asked: str | None, facts: Mapping[str, Any] | None, device: torch.device) -> str:
    """The precision to load a model in: the one asked for, else the one its run stores, else float32.

    ``facts`` are those of headway.json, whose "precision" has "chosen" and "best" (``workflows.precisions``).  A stored
    precision that is not there on the device is float32.  Raises InputError for one asked for that is not there.
    """
    stored = (facts or {}).get("precision") or {}
    name = stored.get("chosen") if asked is None else stored.get("best") if asked == AUTO else asked
    if asked not in (None, AUTO):
        check_precision(asked, device)
        return str(asked)
    return name if name in available(device) else FLOAT32


def available(device: torch.device) -> tuple[str, ...]:
    """The precisions that a device computes in."""
    if device.type == "cpu":
        return ON_A_CPU if torch.ops.mkldnn._is_mkldnn_bf16_supported() else (FLOAT32,)
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return (FLOAT32, "float16")
    return ON_A_GPU


@torch.no_grad()
def prepare(model: nn.Module, precision: str) -> None:
    """Bring a model's weights to a precision where they are, in place; it can then only answer, not be trained.

    In float32 on a CPU whose products oneDNN computes, matrices are only laid out in memory by columns, one after the
    other, which ``nn.kernels.products`` and oneDNN read fastest: the model stays what it is, and so do its weights.
    """
    device = model_device(model)
    if device.type != "cpu":
        if precision != FLOAT32:
            model.to(getattr(torch, precision))
    elif precision != FLOAT32:
        lower(model, precision)
        model.requires_grad_(False)
    elif onednn_everywhere():
        lay_by_columns(model.modules())
