"""Attention weights as short text: quantized as finely as a number of bytes allows, and read back.

A weight w becomes the integer round(q w), with the largest q whose compressed maps fit: the error of a weight is at
most 1 / (2 q), which is 7.6e-6 for q = 65,535.  With a smaller q, many weights of a long text become 0; for those every
cell of c × c tokens stores the mean of the weights that were rounded to 0, so that evenly spread attention stays
visible.

One map is a zlib stream of the integers, row by row, in base64: one byte each up to q = 255, above that all high bytes
and then all low bytes.  The means of its cells are one byte each, in units of 1 / (2 q) / 255.  ``explorer.js`` reads
the same format.

Letters: L layers, H heads, T queries, S keys, c tokens along a side of a cell.
"""

import base64
import zlib
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

FINENESS = (
    *(2**bits - 1 for bits in range(16, 10, -1)),
    *(round(1020 / 2 ** (i / 4)) for i in range(29)),
    *range(7, 0, -1),
)
"""The values of q to try."""
CELLS = 64
"""Maximum cells along a side of a map."""
CELL_SHARE = 8
"""One of so many characters is for cells."""
AROUND = 3
"""Characters around a text in JSON: quotation marks and a comma."""
SAMPLE = 4
"""Maps of each kind that are sampled to estimate the size of all."""


@dataclass(frozen=True)
class Stored:
    """Maps of one kind as text."""

    q: int
    cell: int
    """tokens along a side of a cell; 0 if no cells are stored"""
    maps: list[list[str]]
    """by layer and head"""
    rests: list[list[str]]
    """by layer and head; empty texts if no cells are stored"""
    shape: tuple[int, int]
    causal: bool

    @property
    def characters(self) -> int:
        return sum(len(text) + AROUND for rows in (*self.maps, *self.rests) for text in rows)


def store(kinds: dict[str, tuple[np.ndarray, bool]], most: int) -> dict[str, Stored] | None:
    """Maps (L, H, T, S) by kind, each with whether it is causal, in at most ``most`` characters; None if impossible."""
    n_maps = sum(maps.shape[0] * maps.shape[1] for maps, _ in kinds.values())
    side = max(1, min(CELLS, int((max(0, most) / CELL_SHARE / n_maps) ** 0.5)))
    begin = bisect_left(FINENESS, True, key=lambda q: _expected(kinds, q, side) <= most)
    for q in FINENESS[begin:]:
        kept: dict[str, Stored] = {}
        room = most
        for name, (maps, causal) in kinds.items():
            stored = _stored(maps, causal, q, side, room)
            if stored is None:
                break
            kept[name] = stored
            room -= stored.characters
        else:
            return kept
    return None


def _expected(kinds: dict[str, tuple[np.ndarray, bool]], q: int, side: int) -> float:
    """The number of characters of the maps with one q, estimated from a few of them."""
    total = 0.0
    for maps, causal in kinds.values():
        every = maps.reshape(-1, *maps.shape[2:])
        some = every[:: -(-len(every) // SAMPLE)]
        cell = _cell(maps, q, side)
        total += len(every) / len(some) * sum(_size(_written(weights, causal, q, cell)) for weights in some)
    return total


def _stored(maps: np.ndarray, causal: bool, q: int, side: int, room: int) -> Stored | None:
    """The maps with one q; None as soon as they do not fit."""
    cell = _cell(maps, q, side)
    rows: list[list[tuple[str, str]]] = []
    for layer in maps:
        rows.append([])
        for weights in layer:
            rows[-1].append(_written(weights, causal, q, cell))
            room -= _size(rows[-1][-1])
            if room < 0:
                return None
    texts, rests = ([[pair[part] for pair in row] for row in rows] for part in (0, 1))
    return Stored(q, cell, texts, rests, maps.shape[-2:], causal)


def _cell(maps: np.ndarray, q: int, side: int) -> int:
    return 0 if q == FINENESS[0] else -(-max(maps.shape[-2:]) // side)


def _written(weights: np.ndarray, causal: bool, q: int, cell: int) -> tuple[str, str]:
    """The integers of a map, and for each cell the mean of the weights that became 0, uint8 (T / c, S / c)."""
    levels = np.rint(weights * np.float64(q)).astype(np.uint16)
    low, high = (part.astype(np.uint8).tobytes() for part in (levels & 255, levels >> 8))
    rest = b""
    if cell:
        away = rounded_away(levels, causal)
        total, count = _sums(np.where(away, weights, 0), cell), _sums(away, cell)
        rest = np.rint(total / np.maximum(count, 1) * 510 * q).clip(0, 255).astype(np.uint8).tobytes()
    return _text(low if q <= 255 else high + low), _text(rest) if cell else ""


def _size(pair: tuple[str, str]) -> int:
    return sum(len(text) + AROUND for text in pair)


def restore(stored: Stored, layer: int, head: int) -> np.ndarray:
    """The weights of one map as the page shows them: float64 (T, S)."""
    (n_queries, n_keys), q, cell = stored.shape, stored.q, stored.cell
    content = np.frombuffer(_read(stored.maps[layer][head]), np.uint8)
    planes = content.reshape(-1, n_queries, n_keys).astype(np.uint16)
    levels = planes[0] if q <= 255 else planes[0] * 256 + planes[1]
    weights = levels / q
    if cell:
        content = np.frombuffer(_read(stored.rests[layer][head]), np.uint8)
        means = content.reshape(-(-n_queries // cell), -(-n_keys // cell)) / (510 * q)
        spread = means.repeat(cell, axis=0).repeat(cell, axis=1)[:n_queries, :n_keys]
        weights = np.where(rounded_away(levels, stored.causal), spread, weights)
    return weights


def largest_error(stored: Stored, maps: np.ndarray) -> float:
    """The largest difference between a weight of ``maps`` and what the page shows for it."""
    return max(
        float(np.abs(restore(stored, layer, head) - weights).max())
        for layer, row in enumerate(maps)
        for head, weights in enumerate(row)
    )


def rounded_away(levels: np.ndarray, causal: bool) -> np.ndarray:
    """Where a weight was rounded to 0: (T, S) bool."""
    return np.tril(levels == 0) if causal else levels == 0


def _sums(values: np.ndarray, cell: int) -> np.ndarray:
    """The sums of cells: (T, S) -> (T / c, S / c), rounded up."""
    by_row = np.add.reduceat(values, np.arange(0, values.shape[0], cell), axis=0, dtype=np.float64)
    return np.add.reduceat(by_row, np.arange(0, values.shape[1], cell), axis=1)


def _text(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 6)).decode("ascii")


def _read(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))
