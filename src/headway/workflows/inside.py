"""Inside a loaded model that reads a text or an image: attention, and for a text more.

Letters: L layers, T tokens of the last axis, D width, V vocabulary, C classes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from headway.errors import InputError
from headway.models.analysis import (
    gradient_times_input,
    heads_off,
    logit_lens,
    position_tables,
    residual_stream,
)
from headway.nn.global_state import isolated
from headway.runtime.precision import FLOAT32
from headway.tasks.inspection import Inside, rows, token_names
from headway.tasks.registry import task_named
from headway.tasks.task import Pipeline

BEST = 40
"""The outputs that are named: the most likely ones."""
BEST_BY_LAYER = 5
MOST_LOGITS = 30_000_000
"""Logits of all layers and tokens together: 120 MB of them."""
SHOWN_POSITIONS = 64
Head = tuple[str, int, int]
Names = Callable[[int], str]


@isolated()
def look_inside(pipe: Pipeline, text: Any, target: str | None = None) -> Inside:
    """The attention of a loaded model on a text, read as its pipeline reads it, or of an image model on an image.

    A translator also needs a target; the default is its own translation, by greedy search.  Raises InputError for a
    text without tokens or longer than the model reads, for a file that is not an image, and for a target that is given
    to another model.
    """
    inside = task_named(pipe.task).inspect(pipe, text, target)
    if inside is None:
        raise InputError(f"attention cannot be shown for {pipe.task.replace('_', ' ')} models.")
    return inside


def inside_details(pipe: Pipeline, inside: Inside, at: int | None = None, off: Sequence[Head] = ()) -> dict[str, Any]:
    """What happens in the model when it reads the text of ``inside``, as plain data.

    ``at`` is the token of the last axis at whose output is looked, by default the one that matters: the first [MASK],
    the first word for a model that tags each, or else the last token.  ``off`` are heads (kind, layer, head), counted
    from 0, that are switched off for "without".  Raises InputError for a token or a head that does not exist.

    - "at": that token, or None for a model with one output for the whole text
    - "outputs": its most likely outputs, [{"name", "logit", "probability"}, ...], or None for a model of vectors
    - "lens": "best" is the most likely output after the embedding and each block, for every token, and "at" the
      likeliest at that token by layer; None where there is none, with "why"
    - "attribution": gradient × input of every token by axis, on the logit of the first output; empty for a model that
      does not compute in float32, which has no gradients
    - "vectors": "norms" (L + 1, T), and "plane" (L + 1, T, 2), the two principal components
    - "positions": the position encoding, by stack
    - "without": the outputs without the heads of ``off``, and "change", the Kullback-Leibler divergence in nats (of
      vectors, 1 - cosine)
    """
    model: Any = getattr(pipe.model, "members", [pipe.model])[0]
    inputs = rows(model, *inside.ids.values())
    axis = list(inside.tokens)[-1]
    output = _output(pipe, model, inputs)  # (T, V), (C,) or (D,)
    where = _position(pipe, inside, axis, at) if output.dim() == 2 else None
    details: dict[str, Any] = {"axis": axis, "at": where, "outputs": None, "lens": None, "why": None, "attribution": {}}
    details["vectors"], details["positions"] = _vectors(model, inputs), _positions(model)
    names = _names(pipe, output.shape[-1])
    at_it = where if names is not None and where is not None else ...  # of vectors all
    logits = output[at_it]
    if names is not None:
        details["outputs"] = _best(logits, names, BEST)
        best = int(logits.argmax())
        if pipe.runtime.precision == FLOAT32:
            scores = gradient_times_input(model, *inputs, logit=(best,) if where is None else (where, best))
            kinds = zip(inside.tokens, scores.values(), strict=True)
            details["attribution"] = {kind: _rounded(values[0]) for kind, values in kinds}
        details["lens"], details["why"] = _lens(model, inputs, inside, names, output.shape[-1], where)
    if off:
        try:
            with heads_off(model, off):
                without = _output(pipe, model, inputs)
        except ValueError as error:
            raise InputError(f"{error}.") from None
        details["without"] = _change(logits, without[at_it], names)
    return details


def _output(pipe: Pipeline, model: Any, inputs: list[Tensor]) -> Tensor:
    with torch.no_grad():
        pooled = getattr(pipe, "pooled", None)
        return (model(*inputs) if pooled is None else pooled(*inputs))[0].float().cpu()


def _position(pipe: Pipeline, inside: Inside, axis: str, at: int | None) -> int:
    """The token that is looked at."""
    ids = inside.ids[axis]
    last = len(inside.tokens[axis]) - 1
    if at is not None:
        if not 0 <= at <= last:
            raise InputError(f"there is no token {at}: the {axis} has tokens 0 to {last}.")
        return at
    if (mask := getattr(pipe, "mask", None)) in ids:
        return ids.index(mask)
    words = [number for number, token in enumerate(ids) if token not in pipe.tokenizer.special_ids]
    return words[0] if getattr(pipe, "labels", None) is not None and words else last


def _names(pipe: Pipeline, count: int) -> Names | None:
    """The names of outputs by their numbers: labels, or tokens; None for vectors."""
    labels = getattr(pipe, "labels", None)
    if labels is not None and len(labels) == count:
        return list(labels).__getitem__
    tokenizer = getattr(pipe.tokenizer, "target", pipe.tokenizer)
    if getattr(pipe, "pooled", None) is None and abs(len(tokenizer.tokens) - count) < 1000:
        return lambda number: token_names(tokenizer, [number])[0]
    return None


def _best(logits: Tensor, names: Names, most: int) -> list[dict[str, Any]]:
    """The most likely outputs of logits (V,) or (C,)."""
    likely, top = logits.softmax(dim=-1), logits.topk(min(most, len(logits)))
    return [
        {"name": names(i), "logit": round(value, 4), "probability": round(float(likely[i]), 6)}
        for value, i in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]


def _lens(
    model: Any, inputs: list[Tensor], inside: Inside, names: Names, count: int, where: int | None
) -> tuple[dict[str, Any] | None, str | None]:
    """The most likely output of every layer, or None and why there is none."""
    if (model.config.n_layers + 1) * len(list(inside.tokens.values())[-1]) * count > MOST_LOGITS:
        return None, "the text is too long for the logits of every layer; give a shorter one"
    try:
        logits = logit_lens(model, *inputs)[:, 0].float().cpu()  # (L + 1, T, V) or (L + 1, C)
    except ValueError as error:
        return None, str(error)
    by_token = logits if where is not None else logits[:, None]  # (L + 1, T or 1, V or C)
    top = by_token.softmax(dim=-1).max(dim=-1)
    table = [
        [{"name": names(i), "probability": round(p, 4)} for p, i in zip(ps, ids, strict=True)]
        for ps, ids in zip(top.values.tolist(), top.indices.tolist(), strict=True)
    ]
    return {"best": table, "at": [_best(row, names, BEST_BY_LAYER) for row in by_token[:, where or 0]]}, None


def _vectors(model: Any, inputs: list[Tensor]) -> dict[str, Any]:
    """The residual stream: norms, and the plane of its two principal components."""
    stream = residual_stream(model, *inputs)[:, 0].float().cpu()  # (L + 1, T, D)
    centred = stream - stream.mean(dim=1, keepdim=True)
    _, _, directions = torch.linalg.svd(centred, full_matrices=False)
    plane = centred @ directions[:, :2].transpose(1, 2)  # (L + 1, T, 1 or 2)
    plane = torch.nn.functional.pad(plane, (0, 2 - plane.shape[-1]))
    return {"norms": _rounded(stream.norm(dim=-1)), "plane": _rounded(plane)}


def _positions(model: Any) -> dict[str, Any]:
    """The position encoding, by stack."""
    try:
        tables = position_tables(model, SHOWN_POSITIONS)
    except ValueError:
        return {}
    return {
        name: {"kind": table.kind, "causal": table.causal, "values": _rounded(table.values[..., :128][:64])}
        for name, table in tables.items()
    }


def _change(before: Tensor, after: Tensor, names: Names | None) -> dict[str, Any]:
    """Outputs with some heads switched off, against those with all: logits (V,) or (C,), or vectors (D,)."""
    if names is None:
        apart = 1 - float(torch.cosine_similarity(before.flatten(), after.flatten(), dim=0))
        return {"outputs": None, "change": round(apart, 6)}
    change = torch.nn.functional.kl_div(after.log_softmax(-1), before.log_softmax(-1), reduction="sum", log_target=True)
    likely, unlike = before.softmax(dim=-1), after.softmax(dim=-1)
    shown = [i for logits in (before, after) for i in logits.topk(min(8, len(logits))).indices.tolist()]
    compared = [
        {"name": names(i), "before": round(float(likely[i]), 6), "after": round(float(unlike[i]), 6)}
        for i in dict.fromkeys(shown)
    ]
    return {"outputs": _best(after, names, BEST_BY_LAYER), "compared": compared, "change": round(float(change), 6)}


def _rounded(values: Tensor) -> list[Any]:
    numbers: list[Any] = torch.round(values.detach().float().cpu(), decimals=4).tolist()
    return numbers
