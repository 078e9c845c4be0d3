"""Weights that are sharded over the ranks (FSDP2): each rank keeps a shard, and gathers a block where it is used."""

import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from headway.models.transformer import Stack
from headway.training.ranks import Ranks


def shard(model: nn.Module, ranks: Ranks, precision: str, replicas: int = 1) -> None:
    """Shard a model's weights over the ranks, block by block; from then on its parameters are DTensors.

    With several ``replicas`` each is sharded over neighbouring ranks, and only gradients are exchanged between them
    (HSDP): where there is one for each machine, weights are sent within machines alone.  Gradients are averaged over
    ranks: multiply by their number for the sum.  In bfloat16, weights are sent and used in it, and gradients are added
    up in float32.
    """
    kinds: dict[str, Any] = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    device, sizes = next(model.parameters()).device.type, (replicas, ranks.count // replicas)[replicas == 1 :]
    given: dict[str, Any] = {
        "mesh": init_device_mesh(device, sizes, mesh_dim_names=("replicas", "shards")[-len(sizes) :]),
        "mp_policy": MixedPrecisionPolicy(**kinds if precision == "bfloat16" else {}),
    }
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    for part in (*(block for stack in stacks for block in stack.blocks), model):
        fully_shard(
            part, reshard_after_forward=True, **given
        )  # the last block too: else its parameters are of two kinds


def recompute_activations(model: nn.Module) -> None:
    """Turn on activation checkpointing: every block is recomputed in the backward pass."""
    for module in model.modules():
        if isinstance(module, Stack):
            module.recompute = True


def whole(tensor: Tensor) -> Tensor:
    """The full tensor of a sharded one; all ranks take part.  Other tensors are returned unchanged."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(place: Tensor, value: Tensor) -> Tensor:
    """A full value, sharded like ``place``; unchanged where ``place`` is not sharded, or the value already is."""
    if not isinstance(place, DTensor) or isinstance(value, DTensor):
        return value
    return distribute_tensor(value, place.device_mesh, place.placements, src_data_rank=None)


@torch.no_grad()
def put_together(model: nn.Module, twin: nn.Module) -> nn.Module:
    """``twin``, which is not sharded, with the present weights of ``model``; all ranks take part."""
    if twin is not model:
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            theirs.copy_(whole(mine))
        for own, other in zip(model.buffers(), twin.buffers(), strict=True):
            other.copy_(own)
    return twin


def save_parts(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors, each rank its shards, as safetensors that any number of ranks reads; all ranks take part."""
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    dcp.save(dict(tensors), storage_writer=writer)


def load_parts(folder: Path, model: nn.Module | None = None) -> dict[str, Tensor]:
    """What ``save_parts`` wrote: the tensors of ``model``'s parameters sharded like these, all others in full."""
    reader = HuggingFaceStorageReader(str(folder))
    known = dict(model.named_parameters()) if model is not None else {}
    places: dict[str, Tensor] = {}
    for name, facts in reader.read_metadata().state_dict_metadata.items():
        if not isinstance(facts, TensorStorageMetadata):
            raise ValueError(f"{folder}: {name} is not a tensor")
        p = next((p for own, p in known.items() if f".{own}." in f".{name}." and p.shape == facts.size), None)
        spread = isinstance(p, DTensor)
        places[name] = torch.empty_like(p) if spread else torch.empty(facts.size, dtype=facts.properties.dtype)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a single process
        dcp.load(places, storage_reader=reader)
    return places
