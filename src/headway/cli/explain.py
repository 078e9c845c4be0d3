"""``headway explain``: the parts of a model, the shapes of a text on its way through it, and the code of its block."""

import inspect
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import click
import torch
from torch import nn

from headway.cli.common import Answer, aligned, verb
from headway.errors import InputError
from headway.io.quantities import size
from headway.models.analysis.maps import attention_maps, stacks_of
from headway.models.baselines import BaselineConfig
from headway.models.heads import gives
from headway.models.own import OwnConfig
from headway.models.size import cache_bytes, forward_flops, parameters, weight_bytes
from headway.models.transformer import Decoder, EncoderDecoder
from headway.models.wirings import Ensemble
from headway.nn.block import Block, Residual
from headway.nn.kernels.attention import window_scores

EXAMPLE = "to be or not to be"
IMAGE = "a grey image"
SHOWN_TOKENS = 12
KINDS = ("attention", "cross", "feedforward")
"""The parts of a block, in forward order."""

Row = dict[str, Any]


@verb()
@click.argument("run")
@click.option("--text", default=EXAMPLE, show_default=True, help="Text to follow through the model.")
def command(run: str, text: str) -> Answer:
    """Show the model in RUN: its parts with their tensors, parameters and cost, and the shapes of a text inside it."""
    from headway.workflows.load import load

    pipe = load(run, device="cpu", precision="float32")
    result = {"task": pipe.task, **explain(pipe, text)}
    return Answer(result, _lines(run, result))


def explain(pipe: Any, text: str = EXAMPLE) -> dict[str, Any]:
    """The parts of a loaded model: ``blocks`` (name, kind, shapes, parameters, flops_per_token) and ``path``.

    Each parameter counts once, at the first part that has it, so that the blocks add up to ``parameters``.  FLOPs are
    per token, for a forward pass over ``length`` tokens.  Everything is checked against the formulas of
    ``models.size``; RuntimeError means that the two disagree.  Of an ensemble of ``members``, the first is shown.
    """
    members = len(pipe.model.members) if isinstance(pipe.model, Ensemble) else 1
    model = pipe.model.members[0] if members > 1 else pipe.model
    if isinstance(model.config, BaselineConfig | OwnConfig):
        raise InputError(f"this is {model.config.described}: it has no Transformer blocks to show.")
    length = model.config.max_length
    words = wiring_of(model)
    blocks = list(_rows(model))
    total = sum(p.numel() for p in model.parameters())
    flops = forward_flops(model.config, 1, length, **words)
    predicted = parameters(model.config, **words)["total"]
    counted = sum(row["parameters"] for row in blocks), round(sum(row["flops_per_token"] for row in blocks) * length)
    if (total, total, flops) != (predicted, counted[0], counted[1]):
        raise RuntimeError(f"the model has {total} parameters and {flops} FLOPs, its parts {predicted} and {counted}")
    cached = None if words["wiring"] == "encoder" else cache_bytes(model.config, 1, 1)
    return {
        **({"members": members} if members > 1 else {}),
        "wiring": words["wiring"],
        "parameters": total,
        "bytes": weight_bytes(total),
        "cache_bytes_per_token": cached,
        "length": length,
        "flops_per_token": flops / length,
        "blocks": blocks,
        **_path(model, pipe.tokenizer, text if pipe.tokenizer is not None else IMAGE),
    }


def wiring_of(model: Any) -> dict[str, Any]:
    """The arguments of ``models.size`` for this model."""
    head = None if model.head is None else model.head.size()
    if isinstance(model, EncoderDecoder):
        return {"wiring": "encoder-decoder", "encoder": model.encoder_config, "head": head}
    if isinstance(model, Decoder):
        return {"wiring": "decoder", "head": head}
    return {"wiring": "encoder", "head": head, "pooler": model.pooler is not None, "patches": model.patches}


class Part(NamedTuple):
    """A part of a model: its modules, of which the first is called in a forward pass, and its FLOPs per token."""

    name: str
    kind: str
    modules: list[Any]
    flops: float


def _parts(model: Any) -> Iterable[Part]:
    """The parts in forward order; a relative bias, which all blocks of a stack share, counts with the embedding."""
    length, patches = model.config.max_length, getattr(model, "patches", None)
    for stack_name, stack in stacks_of(model).items():
        prefix, config = "" if stack_name == "self" else f"{stack_name} ", stack.config
        cut = 0.0 if patches is None else 2 * patches.pixels * model.config.d_model * (length - 1) / length
        bias = [] if stack.relative is None else [stack.relative]
        yield Part(f"{prefix}embedding", "embedding", [stack.embedding, *bias], cut)
        for layer, block in enumerate(stack.blocks):
            for kind in KINDS:
                if (part := getattr(block, kind)) is None:
                    continue
                flops = 2.0 * _weights(part)
                if kind != "feedforward":  # q kᵀ and the weighted sum of values
                    by_mask = config.position.kind in ("alibi", "relative")  # these two bring a whole mask
                    window = stack.windows[layer] if kind == "attention" and not by_mask else None
                    pairs = window_scores(length, window, stack.causal)
                    flops += 4 * config.n_heads * config.head_width * pairs / length
                yield Part(f"{prefix}block {layer + 1} {kind}", kind, [part], flops)
        if config.norm_order == "pre":
            yield Part(f"{prefix}norm", "norm", [stack.norm], 0.0)
    if getattr(model, "pooler", None) is not None:
        yield Part("pooler", "pooler", [model.pooler], 0.0)  # not part of a forward pass
    if model.head is not None:
        flops = 2 * _weights(model.head) / (1 if gives(model).each_token else length)
        yield Part("head", "head", [model.head], flops)


def _rows(model: Any) -> Iterable[Row]:
    """One row per part: the shapes of its tensors, and the number of parameters that no earlier part has."""
    seen: set[int] = set()
    for name, kind, modules, flops in _parts(model):
        tensors = [(n, p) for module in modules for n, p in module.named_parameters()]
        shapes = {n.removesuffix(".weight").removeprefix("layer."): list(p.shape) for n, p in tensors}
        count = sum(p.numel() for _, p in tensors if id(p) not in seen)
        seen.update(id(p) for _, p in tensors)
        yield {"name": name, "kind": kind, "shapes": shapes, "parameters": count, "flops_per_token": flops}


def _weights(module: Any) -> int:
    """The number of matrix entries of a part: each is one multiply-add per token."""
    return sum(layer.weight.numel() for layer in module.modules() if isinstance(layer, nn.Linear))


def _path(model: Any, tokenizer: Any, text: str) -> dict[str, Any]:
    """The output shape of each part when the model reads ``text``, the tokens, and the shapes of the attention."""
    path: list[Row] = []

    def note(name: str, _module: Any, _inputs: Any, output: Any) -> None:
        path.append({"name": name, "shape": list(output.shape)})

    hooks = [part.modules[0].register_forward_hook(partial(note, part.name)) for part in _parts(model)]
    if getattr(model, "patches", None) is None:
        ids = tokenizer.encode(text, special=True)[: model.config.max_length] or [0]
        read, tokens = torch.tensor([ids]), [tokenizer.decode([i], skip_special=False) for i in ids]
    else:
        read = torch.zeros(1, model.patches.channels, *model.patches.image_size)
        tokens = ["class", *(f"patch {number + 1}" for number in range(model.patches.tokens - 1))]
    try:
        maps = attention_maps(model, *([read] if hasattr(model, "stack") else [read, read]))
    finally:
        for hook in hooks:
            hook.remove()
    return {
        "text": text,
        "tokens": tokens,
        "read": list(read.shape),
        "path": path,
        "attention": {kind: list(layers[0].shape) for kind, layers in maps.items() if layers},
    }


def _lines(run: str, result: dict[str, Any]) -> list[str]:
    """The same for a person, at most 100 columns wide."""
    total, length, each = result["parameters"], result["length"], result["cache_bytes_per_token"]
    lines = [f"{run}: {result['wiring']} for {result['task'].replace('_', ' ')}, {total:,} parameters"]
    if "members" in result:
        lines.append(f"The first of {result['members']} such models; their answers are averaged.")
    table = [["part", "tensors", "parameters", "share", "FLOPs/token"]]
    for name, rows in _alike(result["blocks"]):
        count, flops = (sum(row[key] for row in rows) for key in ("parameters", "flops_per_token"))
        shapes = [f"{what} {' x '.join(map(str, shape))}" for what, shape in rows[0]["shapes"].items()] or ["-"]
        shapes[0] += " (shared)" if shapes[0] != "-" and not count else ""
        table.append([name, shapes[0][:32], f"{count:,}", f"{count / max(1, total):.1%}", f"{flops:,.0f}"])
        table += [["", shape, "", "", ""] for shape in shapes[1:]]
    table.append(["all", "", f"{total:,}", "100.0%", f"{result['flops_per_token']:,.0f}"])
    lines += [
        "",
        *(f"  {line}" for line in aligned(table, slice(2, None))),
        "",
        f"FLOPs are per token of a sequence of {length:,}; training costs three times as many.",
        f"Weights: {size(result['bytes'])} in float32, {size(result['bytes'] // 2)} in bfloat16.",
    ]
    if each is not None:
        lines.append(f"KV cache: {size(each)} per token, {size(each * length)} at {length:,} tokens.")
    source = "The block that the model is built from (headway/nn/block.py):"
    code = f"{inspect.getsource(Residual)}\n\nclass Block(nn.Module):\n    ...\n\n{inspect.getsource(Block.forward)}"
    return [*lines, "", *_way(result), "", source, "", *code.rstrip().split("\n")]


def _alike(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    """The parts by name; those that repeat in every block are together: "blocks 1-2 attention"."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        stack, block, _ = row["name"].rpartition("block ")
        own = (stack if block else row["name"], row["kind"], row["shapes"], row["parameters"], row["flops_per_token"])
        groups.setdefault(str(own), []).append(row)
    named = []
    for first, *others in groups.values():
        name = first["name"]
        if others:
            stack, _, place = name.rpartition("block ")
            numbers = [row["name"].split()[-2] for row in (first, *others)]
            whole = int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers)
            which = f"{numbers[0]}-{numbers[-1]}" if whole else f"{numbers[0]}, {numbers[1]}, ..."
            name = f"{stack}blocks {which} {place.split()[-1]}"
        named.append((name, [first, *others]))
    return named


def _way(result: dict[str, Any]) -> list[str]:
    """The shapes of the example on its way; the blocks after the first have the same output shape."""
    tokens = "|".join(token.replace("\n", "\\n") for token in result["tokens"][:SHOWN_TOKENS])
    more = " ..." if len(result["tokens"]) > SHOWN_TOKENS else ""
    lines = [f"The path of {result['text'][:40]!r}, {len(result['tokens'])} tokens:", f"  {tokens[:90]}{more}", ""]
    lines.append(f"  {'ids' if len(result['read']) == 2 else 'pixels':30}{' x '.join(map(str, result['read']))}")
    for step in result["path"]:
        stack, _, place = step["name"].rpartition("block ")
        if place[:1].isdigit() and not place.startswith("1 "):
            if not lines[-1].endswith("the same"):
                lines.append(f"  {stack}{'all other blocks':30}the same")
            continue
        inside = ""
        if place.startswith("1 ") and not place.endswith("feedforward"):
            kind = "cross" if place.endswith("cross") else stack.strip() or "self"
            inside = f"   attention weights: {' x '.join(map(str, result['attention'][kind]))}"
        lines.append(f"  {step['name']:30}{' x '.join(map(str, step['shape']))}{inside}")
    return lines
