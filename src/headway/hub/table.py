"""Name tables: how one family's weights are called there and here, read in both directions.

A row says which of our parameters a foreign one is.  Several foreign parameters may be stacked along their first axis
to make one of ours (queries, keys and values), and a part may need a change of layout that ``read`` does and ``write``
undoes.  "{i}" stands for the number of a layer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.models.config import TransformerConfig

Change = Callable[[Tensor, TransformerConfig], Tensor]


@dataclass(frozen=True)
class Part:
    """One foreign parameter, with the change of layout it needs on the way in and out."""

    name: str
    read: Change | None = None
    write: Change | None = None


@dataclass(frozen=True)
class Row:
    """One of our parameters, and the foreign ones that are stacked to make it."""

    ours: str
    theirs: tuple[Part, ...]

    def at(self, layer: int) -> "Row":
        """The row for one layer."""
        parts = tuple(Part(p.name.replace("{i}", str(layer)), p.read, p.write) for p in self.theirs)
        return Row(self.ours.replace("{i}", str(layer)), parts)


def row(ours: str, *theirs: str | Part) -> Row:
    """A row from names."""
    return Row(ours, tuple(Part(name) if isinstance(name, str) else name for name in theirs))


def expand(rows: list[Row], n_layers: int) -> Iterator[Row]:
    """Every row, those with "{i}" once for each layer."""
    for entry in rows:
        if "{i}" in entry.ours:
            yield from (entry.at(layer) for layer in range(n_layers))
        else:
            yield entry


def read_weights(
    rows: list[Row], theirs: dict[str, Tensor], expected: dict[str, Tensor], config: TransformerConfig
) -> dict[str, Tensor]:
    """Foreign weights by our names, in float32.

    Raises ValueError when a name or shape is missing, unknown or wrong: nothing is left over and nothing is guessed.
    """
    left, ours, problems = dict(theirs), {}, []
    for entry in expand(rows, config.n_layers):
        if entry.ours not in expected:
            continue
        missing = [part.name for part in entry.theirs if part.name not in left]
        if missing:
            problems += [f"missing {name}" for name in missing]
            continue
        total, *rest = expected[entry.ours].shape
        parts = []
        for part, size in zip(entry.theirs, _sizes(entry, total, config), strict=True):
            tensor = left.pop(part.name).float()
            if list(tensor.shape) == [size, *rest]:
                parts.append(part.read(tensor, config) if part.read else tensor)
            else:
                problems.append(f"{part.name} has shape {list(tensor.shape)}, expected {[size, *rest]}")
        if len(parts) == len(entry.theirs):
            ours[entry.ours] = parts[0] if len(parts) == 1 else torch.cat(parts)
    problems += [f"unknown {name}" for name in left]
    problems += [f"nothing for {name}" for name in expected if name not in ours and not problems]
    if problems:
        more = f" and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise ValueError("weights do not fit the configuration: " + "; ".join(problems[:10]) + more)
    return ours


def write_weights(rows: list[Row], ours: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Our weights by foreign names.  Raises ValueError when one of ours has no row."""
    theirs: dict[str, Tensor] = {}
    written = set()
    for entry in expand(rows, config.n_layers):
        if entry.ours not in ours:
            continue
        written.add(entry.ours)
        tensor = ours[entry.ours].detach()
        for part, piece in zip(entry.theirs, tensor.split(_sizes(entry, len(tensor), config)), strict=True):
            piece = part.write(piece, config) if part.write else piece
            theirs[part.name] = piece.to("cpu", copy=True).contiguous()
    unknown = sorted(set(ours) - written)
    if unknown:
        raise ValueError(f"no name in this family for {', '.join(unknown[:10])}")
    return theirs


def _sizes(entry: Row, total: int, config: TransformerConfig) -> list[int]:
    """How many rows of ours each part takes: queries, keys and values by their heads, all else evenly."""
    if len(entry.theirs) == 3:
        return [heads * config.head_width for heads in (config.n_heads, config.kv_heads, config.kv_heads)]
    return [total // len(entry.theirs)] * len(entry.theirs)
