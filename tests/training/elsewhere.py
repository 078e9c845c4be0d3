"""A device that is not there: what is put on it is computed by the processor, but does not mix with what is not.

PyTorch's "meta" device, whose tensors have a shape and no numbers, is given numbers.  As on a GPU, an operation on
tensors of two devices is refused, and so is ``numpy()``; single numbers and row numbers may be the processor's.
"""

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

aten = torch.ops.aten
COPIES = (aten._to_copy.default, aten.copy_.default)
BY_ROWS = (aten.index.Tensor, aten.index_put_.default, aten.index_put.default)


class Elsewhere(torch.Tensor):
    """A tensor that says it is on the device; ``here`` are its numbers."""

    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> "Elsewhere":
        layout = {"strides": here.stride(), "storage_offset": here.storage_offset(), "dtype": here.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, here.shape, **layout, device="meta")
        made.here = here
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


class Somewhere(TorchDispatchMode):
    """While it is entered, the device is there."""

    def __enter__(self) -> "Somewhere":
        self.lists = Lists()
        self.lists.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.lists.__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


class Lists(TorchFunctionMode):
    """Lists become tensors of the device, and its tensors lists, which no operation does."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.tensor and torch.device(kwargs.get("device") or "cpu").type == "meta":
            return torch.tensor(*args, **{**kwargs, "device": "cpu"}).to("meta")
        if func is torch.Tensor.tolist and isinstance(args[0], Elsewhere):
            return args[0].cpu().tolist()
        return func(*args, **kwargs)


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operation gives, on the device if any of its tensors is there or it is asked to put it there."""
    tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    there = any(isinstance(value, Elsewhere) for value in tensors)
    mixed = there and any(value.dim() and not isinstance(value, Elsewhere) for value in tensors)
    if mixed and func not in (*COPIES, *BY_ROWS):
        raise RuntimeError(f"{func}: tensors of two devices")
    asked = kwargs.get("device")
    on = isinstance(tensors[0], Elsewhere) if func is aten.copy_.default else there
    if asked is not None:
        on = torch.device(asked).type == "meta"
        kwargs = {**kwargs, "device": torch.device("cpu")}
    given, named = tree_map_only(Elsewhere, lambda value: value.here, (args, kwargs))
    found = func(*given, **named)
    if not on:
        return found
    found = tree_map_only(torch.Tensor, Elsewhere, found)
    return return_and_correct_aliasing(func, args, kwargs, found)
