"""Name tables: the correspondence of a family's weight names and ours, in both directions.

A row maps one of our parameters to foreign ones.  Several foreign parameters may be stacked along their first axis to
form one of ours (queries, keys and values), and a part may need a change of layout that ``read`` makes and ``write``
reverses. "{i}" stands for the layer number.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headway.models.config import TransformerConfig

Change = Callable[[Tensor, TransformerConfig], Tensor]


@dataclass(frozen=True)
class Part:
    """One foreign parameter, with its changes of layout for reading and writing."""

    name: str
    read: Change | None = None
    write: Change | None = None


@dataclass(frozen=True)
class Row:
    """One of our parameters, and the foreign ones stacked in it."""

    ours: str
    theirs: tuple[Part, ...]

    def at(self, layer: int) -> "Row":
        """The row for one layer."""
        parts = tuple(replace(part, name=part.name.replace("{i}", str(layer))) for part in self.theirs)
        return Row(self.ours.replace("{i}", str(layer)), parts)


Names = Mapping[str, "str | Part | tuple[str | Part, ...]"]
"""Our modules -> theirs, or the several that are stacked in it; a name with .weight or .bias is of a parameter."""


def within(ours: str, theirs: str, names: Names) -> dict[str, tuple[Part, ...]]:
    """The table of modules inside two others: one of ours and one of theirs, each with its dot."""
    rows = {}
    for name, parts in names.items():
        several = parts if isinstance(parts, tuple) else (parts,)
        known = (Part(part) if isinstance(part, str) else part for part in several)
        rows[ours + name] = tuple(replace(part, name=theirs + part.name) for part in known)
    return rows


def each(name: str, *words: str) -> tuple[str, ...]:
    """Names with each of the words in place of {}."""
    return tuple(name.replace("{}", word) for word in words)


def name_rows(names: Names) -> list[Row]:
    """The rows of a table: for each module one for its weight and one for its bias; missing ones are skipped."""
    rows = []
    for ours, parts in within("", "", names).items():
        if ours.endswith((".weight", ".bias")):
            rows.append(Row(ours, parts))
        else:
            for kind in ("weight", "bias"):
                rows.append(Row(f"{ours}.{kind}", tuple(replace(part, name=f"{part.name}.{kind}") for part in parts)))
    return rows


def by_columns(name: str) -> Part:
    """A matrix that is stored (input, output); its bias is a vector."""
    return Part(name, _turned, _turned)


def _turned(tensor: Tensor, _: TransformerConfig) -> Tensor:
    return tensor.T if tensor.dim() == 2 else tensor


def scaled(name: str, factor: Callable[[TransformerConfig], float]) -> Part:
    """A part that is ``factor`` times theirs."""
    return Part(name, lambda tensor, config: tensor * factor(config), lambda tensor, config: tensor / factor(config))


def expand(rows: list[Row], expected: Iterable[str]) -> Iterator[Row]:
    """The rows for the ``expected`` names; a row with "{i}" once for each layer."""
    names = list(expected)
    known = set(names)
    for entry in rows:
        if "{i}" in entry.ours:
            pattern = re.compile(re.escape(entry.ours).replace(r"\{i\}", r"(\d+)"))
            matches = (pattern.fullmatch(name) for name in names)
            yield from (entry.at(layer) for layer in sorted(int(match.group(1)) for match in matches if match))
        elif entry.ours in known:
            yield entry


def read_weights(
    rows: list[Row], theirs: Mapping[str, Callable[[], Tensor]], expected: dict[str, Tensor], config: TransformerConfig
) -> Iterator[tuple[str, Tensor]]:
    """Foreign weights with our names, in float32, one layer after the other; each is read when its turn comes.

    Raises ValueError, at the end, when a name or shape is missing, unknown or wrong: all weights must be used, and none
    is guessed.
    """
    used: set[str] = set()
    ours: set[str] = set()
    problems: list[str] = []
    entries = _by_layer(expand(rows, expected))
    last = {entry.ours: place for place, entry in enumerate(entries)}  # a weight with two names has that of the second
    for place, entry in enumerate(entries):
        missing = [part.name for part in entry.theirs if part.name not in theirs]
        used.update(part.name for part in entry.theirs)
        if missing:
            problems += [f"missing {name}" for name in missing]
            continue
        total, *rest = expected[entry.ours].shape
        parts = []
        for part, size in zip(entry.theirs, _sizes(entry, total, config), strict=True):
            tensor = theirs[part.name]()
            try:
                piece = tensor.float() if part.read is None else part.read(tensor.float(), config)
            except (RuntimeError, IndexError):  # the layout does not allow the change
                piece = tensor
            if list(piece.shape) == [size, *rest]:
                parts.append(piece)
            else:
                wanted = torch.empty([size, *rest], device="meta")
                wanted = wanted if part.write is None else part.write(wanted, config)
                problems.append(f"{part.name} has shape {list(tensor.shape)}, expected {list(wanted.shape)}")
        if len(parts) == len(entry.theirs):
            ours.add(entry.ours)
            if place == last[entry.ours]:
                yield entry.ours, parts[0] if len(parts) == 1 else torch.cat(parts)
    problems += [f"unknown {name}" for name in theirs if name not in used]
    problems += [f"nothing for {name}" for name in expected if name not in ours and not problems]
    if problems:
        more = f" and {len(problems) - 10} more" if len(problems) > 10 else ""
        raise ValueError("weights do not fit the configuration: " + "; ".join(problems[:10]) + more)


def _by_layer(entries: Iterable[Row]) -> list[Row]:
    """The rows with those of one layer, such as its matrix and its bias, next to each other."""
    rows: dict[str, list[Row]] = {}
    for entry in entries:
        rows.setdefault(entry.ours.rpartition(".")[0], []).append(entry)
    return [entry for layer in rows.values() for entry in layer]


def write_weights(rows: list[Row], ours: dict[str, Tensor], config: TransformerConfig) -> dict[str, Tensor]:
    """Our weights by foreign names.  Raises ValueError when one of ours has no row."""
    theirs: dict[str, Tensor] = {}
    written = set()
    for entry in expand(rows, ours):
        written.add(entry.ours)
        tensor = ours[entry.ours].detach()
        for part, piece in zip(entry.theirs, tensor.split(_sizes(entry, len(tensor), config)), strict=True):
            piece = part.write(piece, config) if part.write else piece
            theirs[part.name] = piece.to("cpu", copy=True).contiguous()
    unknown = sorted(set(ours) - written)
    if unknown:
        raise ValueError(f"this family has no such weights: {', '.join(unknown[:10])}")
    return theirs


def _sizes(entry: Row, total: int, config: TransformerConfig) -> list[int]:
    """How many of our rows each part takes: queries, keys and values by their heads, otherwise equal numbers."""
    if len(entry.theirs) == 3 and config.kv_heads != config.n_heads:
        return [heads * config.head_width for heads in (config.n_heads, config.kv_heads, config.kv_heads)]
    return [total // len(entry.theirs)] * len(entry.theirs)
