"""The alignment of a translation's words with those of its source, by the decoder's cross-attention.

Letters: T target tokens, S source tokens, H heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headway.data.batches.batching import sent
from headway.models.analysis.maps import attention_maps
from headway.models.device import model_device
from headway.models.transformer import EncoderDecoder
from headway.nn.global_state import plain_defaults
from headway.text.tokenizer import Tokenizer

SHADES = " .:-=+*#%@"
"""From no attention to all of it."""
UNKNOWN = "?"
"""A word that the tokenizer does not know."""


@dataclass(frozen=True)
class Alignment:
    """How much of each target word's attention each source word has."""

    source: list[str]
    target: list[str]
    weights: np.ndarray
    """float32 (target words, source words); each row sums to one"""

    @staticmethod
    def joined(parts: "Sequence[Alignment]") -> "Alignment":
        """The alignment of several texts, one after the other, whose words have nothing to do with each other's."""
        source = [word for one in parts for word in one.source]
        target = [word for one in parts for word in one.target]
        weights = np.zeros((len(target), len(source)), np.float32)
        row = column = 0
        for one in parts:
            rows, columns = len(one.target), len(one.source)
            weights[row : row + rows, column : column + columns] = one.weights
            row, column = row + rows, column + columns
        return Alignment(source, target, weights)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"source": self.source, "target": self.target, "weights": self.weights.round(4).tolist()}

    def picture(self) -> list[str]:
        """It in lines: a row for each word written, darker where it attends more."""
        rows = [" ".join(SHADES[min(9, int(10 * weight))] for weight in row) for row in self.plain()["weights"]]
        written = (f"{word} {row}".rstrip() for word, row in zip(self.target, rows, strict=True))
        return ["  " + " ".join(self.source), *written]


@plain_defaults()
def align(
    model: EncoderDecoder, tokenizer: Tokenizer, source: Sequence[int], target: Sequence[int], start: Sequence[int]
) -> Alignment:
    """The alignment of a source's ids with a target's; ``start`` is what the target begins with.

    The weights are those of the cross-attention in the last layer but one, where they follow the words best (Garg et
    al. 2019), averaged over its heads: a source word has the sum of its tokens, a target word the mean of its own, and
    what goes to tokens that are no words (the end of a sentence) is left out.
    """
    device = model_device(model)
    maps = attention_maps(model, sent([source], device), sent([[*start, *target[:-1]]], device))["cross"]
    heads = maps[max(0, len(maps) - 2)][0]  # (H, T, S)
    first = len(start) - 1
    layer = heads.mean(dim=0)[first : first + len(target)].cpu()  # (T, S), a row for each token of the target, or none
    words, written = words_of(source, tokenizer), words_of(target, tokenizer.target)
    written_by, read_by = _owners(written, len(target)), _owners(words, len(source))
    weights = written_by / np.maximum(1, written_by.sum(axis=1, keepdims=True)) @ layer.float().numpy() @ read_by.T
    total = weights.sum(axis=1, keepdims=True)
    return Alignment([w for w, _ in words], [w for w, _ in written], weights / np.where(total > 0, total, 1))


def _owners(words: Sequence[tuple[str, list[int]]], n_tokens: int) -> np.ndarray:
    """Which tokens each word has: float32 (words, tokens), 1 or 0."""
    found = np.zeros((len(words), n_tokens), dtype=np.float32)
    for row, (_, places) in enumerate(words):
        found[row, places] = 1
    return found


def words_of(ids: Sequence[int], tokenizer: Tokenizer) -> list[tuple[str, list[int]]]:
    """The words of a text's ids, as spaces divide them, each with the places of its tokens; special ones left out."""
    found: list[tuple[str, list[int]]] = []
    tokens = tokenizer.tokens
    for place, token in enumerate(ids):
        if token in tokenizer.special_ids and token != tokenizer.unknown:
            continue
        begins = tokens[token].startswith(("Ġ", "▁", " ", "Ċ")) or tokenizer.kind in ("word", "char")
        if begins or not found:
            found.append(("", []))
        found[-1][1].append(place)
    named = [(tokenizer.decode([ids[place] for place in places]).strip(), places) for _, places in found]
    return [(word or UNKNOWN, places) for word, places in named if word or ids[places[0]] == tokenizer.unknown]
