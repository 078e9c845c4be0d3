"""What a model attends to when it reads, for each task to say of what; and the rows that it answers worst.

Letters: L layers, H heads, T queries, S keys.
"""

import contextlib
import copy
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batches.batching import Examples, TargetKind, length_batches, pad
from headway.data.records.labels import BETWEEN
from headway.errors import InputError
from headway.models.analysis.maps import attention_maps, attentions, fused_difference
from headway.models.analysis.statistics import head_statistics, induction_scores, patch_distance
from headway.models.device import model_device
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.models.wirings import wiring_name
from headway.tasks.losses import of_one
from headway.tasks.task import Pipeline, of_columns, to_compare
from headway.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from headway.tasks.rows_data import NumberData

MOST_LOOKED_AT = 1000
"""Held-out rows among which those to show are found."""
EACH = 10
"""Rows of each kind that are shown."""
LONGEST = 300
"""Characters that are kept of a text."""
AT_ONCE, BATCH_TOKENS = 16, 2048
"""Rows that are read together by a ``TextTask``, and the tokens that a classifier reads."""


@torch.no_grad()
def worst_rows(data: "NumberData", model: nn.Module, chosen: Sequence[int], texts: Sequence[str]) -> dict[str, Any]:
    """``worst``: the rows with the largest losses among ``chosen`` ones, each with its label and what is predicted."""
    was_training = model.training
    model.eval()
    objective, device = data.objective(None), next(model.parameters()).device
    parts = [chosen[at : at + AT_ONCE] for at in range(0, len(chosen), AT_ONCE)]
    rows = (Examples([data.validation[at] for at in part], data.targets[part], TargetKind.ROW) for part in parts)
    outputs = torch.cat([model(*one.together().to(device).read).float().cpu() for one in rows])
    model.train(was_training)
    both = of_one(model, outputs), torch.tensor(data.targets[chosen])
    worst = (-objective.losses(*both)).argsort(stable=True)[:EACH].tolist()
    metrics = objective.measured(*both)
    alone: Any = copy.copy(model)
    alone.kept = dict(getattr(model, "kept", {}))  # a pipeline adds to it
    facts = {"plan": {"length": data.longest}, "data": data.facts, "metrics": metrics}
    pipe: Any = data.task.reader(data.task, Path(), (alone, data.tokenizer, data.labels), facts)
    answers = map(in_words, pipe.answers_of(outputs[worst], [1.0] * len(worst)))
    labels = data.parts.held_out.part(np.array(chosen)[worst]).labels
    told = [
        {"text": beginning(texts[at]), "label": label.replace(BETWEEN, " | "), "predicted": answer}
        for at, label, answer in zip(worst, labels, answers, strict=True)
    ]
    return {"looked_at": len(chosen), "worst": told}


def in_words(answer: Any) -> str:
    """An answer in a few words: its labels or its number, and of several columns each."""
    if of_columns(answer):
        return ", ".join(f"{name}: {in_words(one)}" for name, one in answer.items())
    short = answer["value"] if isinstance(answer, dict) and set(answer) == {"value"} else to_compare(answer)
    if isinstance(short, list):
        return ", ".join(map(str, short))
    return f"{short:.3g}" if isinstance(short, float) else str(short)


def beginning(text: str) -> str:
    """As much of a text as is shown."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def telling_rows(
    model: nn.Module, rows: Sequence[list[int]], targets: np.ndarray, texts: Sequence[str], labels: Sequence[str]
) -> dict[str, Any]:
    """``worst``: the most confident mistakes; ``boundary``: rows whose two likeliest labels are close."""
    best, order = _likeliest(model, rows, min(2, len(labels)))  # (N, 2) each
    first, second, sure, next_best = order[:, 0], order[:, -1], best[:, 0], best[:, -1]
    wrong = [i for i in np.argsort(-sure, kind="stable") if first[i] != targets[i]]
    near: Sequence[Any] = np.argsort(sure - next_best, kind="stable").tolist() if len(labels) > 1 else []

    def told(i: int) -> dict[str, Any]:
        return {
            **{"text": beginning(texts[i]), "label": labels[targets[i]], "predicted": labels[first[i]]},
            **{"score": float(sure[i]), "second": labels[second[i]], "second_score": float(next_best[i])},
        }

    return {
        "looked_at": len(rows),
        "wrong": len(wrong),
        "worst": [told(int(i)) for i in wrong[:EACH]],
        "boundary": [told(int(i)) for i in near[:EACH]],
    }


@torch.no_grad()
def _likeliest(model: nn.Module, rows: Sequence[list[int]], count: int) -> tuple[np.ndarray, np.ndarray]:
    """The probabilities of the likeliest classes of each row, (N, count) float32, and their numbers."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    best, numbers = np.zeros((len(rows), count), dtype=np.float32), np.zeros((len(rows), count), dtype=np.int64)
    for index in length_batches([len(row) for row in rows], BATCH_TOKENS, 0, 0):
        ids, mask = pad([rows[i] for i in index])
        likely = model(ids.to(device), mask.to(device)).float().softmax(dim=-1).cpu().topk(count, dim=-1)
        best[index], numbers[index] = likely.values.numpy(), likely.indices.numpy()
    model.train(was_training)
    return best, numbers


MOST_WEIGHTS = 200_000_000
"""Weights of all maps together: 0.8 GB of them."""
VISIBLE = {" ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍"}
"""What stands for white space in the name of a token."""


@dataclass(frozen=True)
class Kind:
    """The attention of one kind: "self", or "encoder", "decoder" and "cross" of an encoder-decoder."""

    queries: str
    """the axis of the tokens that attend: "text", "source" or "target", or "picture" """
    keys: str
    """the axis of those attended to"""
    causal: bool
    """whether a token sees itself and those before alone"""
    maps: np.ndarray
    """float32 (L, H, T, S); each row sums to one"""
    statistics: dict[str, np.ndarray]
    """float32 (L, H) by name, as ``models.analysis`` has them; "induction" of a decoder alone,
    and "patch_distance" of an image instead of what is about a row of tokens"""


@dataclass(frozen=True)
class Inside:
    """What was looked at, and what was found."""

    task: str
    wiring: str
    """ "encoder", "decoder" or "encoder-decoder" """
    members: int
    """of how many models that answer together the first was looked at; 1 of all others"""
    tokens: dict[str, list[str]]
    """names of the tokens by axis: "text", or "source" and "target", or "picture" """
    next: list[str]
    """for each token of the last axis the one that follows, which a decoder is to write there; else empty"""
    kinds: dict[str, Kind]
    difference: float
    """the largest |weights × values - output of the fused kernel| in these maps"""
    target: str | None
    """the target of a translator: the one that was given, or the model's own"""
    ids: dict[str, list[int]]
    """of texts, the ids of the same tokens, which the model was given in this order; empty for a picture"""
    patches: np.ndarray | None = None
    """uint8 (rows, columns, height, width, 3): an image as it is read, which all tokens but the first stand for"""


def of_text(pipe: Pipeline, text: Any, target: str | None, *, following: bool) -> Inside:
    """The attention of an encoder or a decoder on a text, whose ids the pipeline's own ``ids_of`` gives, if it has one.

    ``following``: each token predicts the next.  Of an ensemble, the first model is inspected.
    Raises InputError for a text without tokens or longer than the model reads, for what is no text, and for a target.
    """
    check_no_target(pipe, target)
    check_text(pipe, text)
    members = getattr(pipe.model, "members", [pipe.model])
    ids = pipe.ids_of(text) if hasattr(pipe, "ids_of") else pipe.tokenizer.encode(text, special=True)
    check_length("text", ids, getattr(pipe, "max_length", members[0].config.max_length))
    names = token_names(pipe.tokenizer, ids)
    after = [*names[1:], ""] if following else []
    return look(pipe.task, members[0], rows(members[0], ids), {"text": names}, following=after, members=len(members))


def check_no_target(pipe: Pipeline, target: str | None) -> None:
    """Raise InputError for a target that is given to a model that writes none."""
    if target is not None:
        raise InputError(f"a target is for models that translate; this one is for {pipe.task.replace('_', ' ')}.")


def check_text(pipe: Pipeline, text: Any) -> None:
    """Raise InputError for what is no text, and for a model without attention, or with attention of its own."""
    if not isinstance(text, str):
        raise InputError(f"expected a text; this model is for {pipe.task.replace('_', ' ')}, not for images.")
    model = getattr(pipe.model, "members", [pipe.model])[0]
    try:
        attends = all(attentions(model).values())
    except TypeError:
        attends = False
    if not attends:
        what = getattr(model.config, "described", f"a {type(model).__name__} with blocks of its own")
        raise InputError(f"this is {what}: it has no attention heads that Headway can show.")


def rows(model: torch.nn.Module, *sequences: Sequence[int]) -> list[Tensor]:
    """Ids as a model reads them, (1, T) each."""
    return [torch.tensor([ids], device=model_device(model)) for ids in sequences]


def look(
    task: str,
    model: Encoder | Decoder | EncoderDecoder,
    inputs: list[Tensor],
    tokens: dict[str, list[str]],
    *,
    following: Sequence[str] = (),
    members: int = 1,
    target: str | None = None,
    patches: np.ndarray | None = None,
) -> Inside:
    """What a model attends to in ``inputs``, whose ``tokens`` have names by axis; all else as ``Inside`` has it.

    Raises InputError for maps that would take too much memory.
    """
    _check_memory(model, tokens)
    alone = next(iter(tokens))
    axes = {"self": (alone, alone), "encoder": ("source", "source"), "decoder": ("target", "target")}
    kinds = {}
    for name, maps in attention_maps(model, *inputs).items():
        queries, keys = axes.get(name, ("target", "source"))
        in_a_row = name != "cross" and patches is None
        found = {key: _plain(values[:, 0]) for key, values in head_statistics(maps, self_attention=in_a_row).items()}
        if patches is not None:
            found["patch_distance"] = np.stack([_plain(patch_distance(layer, patches.shape[:2])[0]) for layer in maps])
        if isinstance(model, Decoder):
            with contextlib.suppress(ValueError):  # its context and vocabulary have no room for a repetition
                found["induction"] = _plain(induction_scores(model))
        causal = name == "decoder" or isinstance(model, Decoder)
        kinds[name] = Kind(queries, keys, causal, np.stack([_plain(layer[0]) for layer in maps]), found)
    wiring, difference = str(wiring_name(model)), fused_difference(model, *inputs)
    texts = {} if patches is not None else dict(zip(tokens, (row[0].tolist() for row in inputs), strict=True))
    return Inside(task, wiring, members, tokens, list(following), kinds, difference, target, texts, patches)


def token_names(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Tokens as a person can read each by itself: white space and what has no shape is made visible."""
    return [visible(_name(tokenizer, number)) for number in ids]


def visible(text: str) -> str:
    """The same with signs for white space, and with the numbers of characters that have no shape (U+200B)."""
    shown = "".join(VISIBLE.get(c) or (f"U+{ord(c):04X}" if unicodedata.category(c)[0] in "CZ" else c) for c in text)
    return f"◌{shown}" if shown and unicodedata.combining(shown[0]) else shown


def _name(tokenizer: Tokenizer, number: int) -> str:
    written = tokenizer.tokens[number] if number < len(tokenizer.tokens) else ""
    if number in tokenizer.special_ids or tokenizer.kind in ("word", "char", "wordpiece"):
        return written or f"id {number}"
    if written.startswith("▁"):
        return written.replace("▁", " ")
    text = tokenizer.decode([number], skip_special=False)
    if text and "\ufffd" not in text:
        return text
    if not text:
        return written or f"id {number}"
    return "".join(f"<0x{byte:02X}>" for byte in tokenizer.stream().bytes_of(number))  # of a character


def _plain(values: Tensor) -> np.ndarray:
    return values.detach().float().cpu().numpy()


def check_length(what: str, ids: Sequence[int], longest: int) -> None:
    """Raise InputError for no tokens and for more than a model reads."""
    if not ids:
        raise InputError(f"the {what} has no tokens; give some words.")
    if len(ids) > longest:
        raise InputError(f"the {what} has {len(ids):,} tokens, and the model reads at most {longest:,}; shorten it.")


def _check_memory(model: Any, tokens: dict[str, list[str]]) -> None:
    """Raise InputError for what has maps that would take too much memory."""
    axis, lengths = next(iter(tokens)), [len(names) for names in tokens.values()]
    if isinstance(model, EncoderDecoder):
        source, target = lengths
        pairs = model.encoder_config.n_layers * model.encoder_config.n_heads * source**2
        pairs += model.config.n_layers * model.config.n_heads * (target**2 + source * target)
    else:
        pairs = model.config.n_layers * model.config.n_heads * lengths[0] ** 2
    if pairs > MOST_WEIGHTS:
        raise InputError(
            f"the {axis} has {lengths[0]:,} tokens, whose maps have {pairs:,} weights; at most {MOST_WEIGHTS:,} are "
            "shown. Shorten it."
        )
