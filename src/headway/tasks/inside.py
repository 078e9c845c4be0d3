"""What was found inside a model: plain data, which a report shows.

Letters: L layers, H heads, T queries, S keys.
"""

from dataclasses import dataclass

import numpy as np


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
    """float32 (L, H) by name, as ``models.head_statistics`` has them; "induction" of a decoder alone,
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
