"""What a loaded model attends to when it reads a text or a picture: maps, statistics and the names of its tokens.

Letters: L layers, H heads, T queries, S keys.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.data.images import normalised
from headway.errors import InputError
from headway.generation.targets import write_targets
from headway.models.adapt.ensemble import Ensemble
from headway.models.analysis.maps import attention_maps, fused_difference
from headway.models.analysis.statistics import head_statistics, induction_scores, patch_distance
from headway.models.baselines import BaselineConfig
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.tasks.image_classification.pipeline import ImageClassifier, Picture
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.translation.pipeline import Translator
from headway.text.tokenizer import Tokenizer
from headway.workflows.load import Pipeline

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
    """float32 (L, H) by name, as ``models.analysis.statistics`` has them; "induction" of a decoder alone,
    and "patch_distance" of a picture instead of what is about a row of tokens"""


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
    patches: np.ndarray | None = None
    """uint8 (rows, columns, height, width, 3): a picture as it is read, which all tokens but the first stand for"""


def look_inside(pipe: Pipeline, text: str | Picture, target: str | None = None) -> Inside:
    """The attention of a loaded model on a text, read as its pipeline reads it; of a model of pictures on a picture.

    A translator also needs a target; without one its own translation is taken, by greedy search.  Raises InputError
    for a text without tokens or longer than the model reads, for what is no picture, and for a target that is given to
    another model.
    """
    if target is not None and not isinstance(pipe, Translator):
        raise InputError(f"a target is for models that translate; this one is for {pipe.task.replace('_', ' ')}.")
    if isinstance(pipe, ImageClassifier):
        return _picture(pipe, text)
    if not isinstance(text, str):
        raise InputError(f"expected a text; this model is for {pipe.task.replace('_', ' ')}, not for pictures.")
    if isinstance(pipe.model.config, BaselineConfig):
        raise InputError(f"this is a baseline ({pipe.model.config.kind}): it has no attention heads to be shown.")
    if isinstance(pipe, Translator):
        return _translation(pipe, text, target)
    members = len(pipe.model.members) if isinstance(pipe.model, Ensemble) else 1
    model: Any = pipe.model.members[0] if isinstance(pipe.model, Ensemble) else pipe.model
    longest = getattr(pipe, "max_length", model.config.max_length)
    if isinstance(pipe, MaskFiller):
        ids = pipe.ids_of(text)
    else:
        ids = pipe.tokenizer.encode(text, special=pipe.task != "language_modeling")
    _check_length("text", ids, longest)
    names = token_names(pipe.tokenizer, ids)
    following = [*names[1:], ""] if pipe.task == "language_modeling" else []
    return _look(pipe.task, model, _rows(model, ids), {"text": names}, following, members)


def _picture(pipe: ImageClassifier, picture: Picture) -> Inside:
    """The attention of a model of pictures, whose tokens are patches, named by row and column, behind one for all."""
    pixels = pipe.pixels(picture)  # (H, W, 3)
    embedding: Any = pipe.model.stack.embedding
    height, width = embedding.patch_size
    rows, columns = pixels.shape[0] // height, pixels.shape[1] // width
    cut = pixels[: rows * height, : columns * width].reshape(rows, height, columns, width, 3).swapaxes(1, 2)
    names = ["[CLS]", *(f"r{row + 1} c{column + 1}" for row in range(rows) for column in range(columns))]
    inputs = [normalised(pixels[None], pipe.preprocessor).to(next(pipe.model.parameters()).device)]
    return _look(pipe.task, pipe.model, inputs, {"picture": names}, [], patches=cut)


def _translation(pipe: Translator, text: str, target: str | None) -> Inside:
    """The attention of a translator over a source and its target."""
    pipe.hypotheses([])  # says when a language is to be chosen first
    source = pipe.tokenizer.encode(text, special=True) if text.strip() else []
    _check_length("text", source, pipe.longest_source)
    if target is None:
        written = write_targets(pipe.model, [source], pipe.rules, beam=1)[0][0].ids
        target = pipe.tokenizer.target.decode(written)
    else:
        written = tuple(pipe.tokenizer.target.encode(target))
    before, end = [*pipe.rules.start, *written], pipe.rules.end[0]
    if isinstance(pipe.model, Decoder):  # which goes on from the source itself
        both = [*source, *before]
        _check_length("text with its target", both, pipe.model.config.max_length)
        names = token_names(pipe.tokenizer, [*both, end])
        return _look(pipe.task, pipe.model, _rows(pipe.model, both), {"text": names[:-1]}, names[1:], target=target)
    _check_length("target", before, pipe.model.config.max_length)
    names = token_names(pipe.tokenizer.target, [*before, end])
    tokens = {"source": token_names(pipe.tokenizer, source), "target": names[:-1]}
    return _look(pipe.task, pipe.model, _rows(pipe.model, source, before), tokens, names[1:], target=target)


def _rows(model: torch.nn.Module, *rows: Sequence[int]) -> list[Tensor]:
    """Ids as a model reads them, (1, T) each."""
    return [torch.tensor([row], device=next(model.parameters()).device) for row in rows]


def _look(
    task: str,
    model: Encoder | Decoder | EncoderDecoder,
    inputs: list[Tensor],
    tokens: dict[str, list[str]],
    following: list[str],
    members: int = 1,
    target: str | None = None,
    patches: np.ndarray | None = None,
) -> Inside:
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
            found |= _induction(model)
        causal = name == "decoder" or isinstance(model, Decoder)
        kinds[name] = Kind(queries, keys, causal, np.stack([_plain(layer[0]) for layer in maps]), found)
    wiring = {Encoder: "encoder", Decoder: "decoder", EncoderDecoder: "encoder-decoder"}[type(model)]
    difference = fused_difference(model, *inputs)
    return Inside(task, wiring, members, tokens, following, kinds, difference, target, patches)


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
    return text if text and "\ufffd" not in text else written or f"id {number}"


def _induction(model: Decoder) -> dict[str, np.ndarray]:
    """The induction scores of a decoder, where its context and vocabulary have room for a repetition."""
    try:
        return {"induction": _plain(induction_scores(model))}
    except ValueError:
        return {}


def _plain(values: Tensor) -> np.ndarray:
    return values.detach().float().cpu().numpy()


def _check_length(what: str, ids: Sequence[int], longest: int) -> None:
    if not ids:
        raise InputError(f"the {what} has no tokens, so nothing attends; give some words.")
    if len(ids) > longest:
        raise InputError(f"the {what} has {len(ids):,} tokens, and the model reads {longest:,}; give less of it.")


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
            "shown. Give less of it."
        )
