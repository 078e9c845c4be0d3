"""Which runs to make in a given time: sizes times numbers of tokens, and one larger run that is left out of the fit.

Each size is trained on each number of tokens, with the whole schedule over its own tokens (Hoffmann et al. 2022).  All
have as many layers and heads of one width, since each kind of model follows a law of its own (docs/scaling.md).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from headway.errors import InputError
from headway.io.quantities import duration
from headway.science.scaling.law import Run, check_varied, compute
from headway.tasks.task import Scaling

SIZES, LENGTHS = 5, 4
"""How many sizes and numbers of tokens, each about the half of the next."""
FEWEST_SIZES = 4
FEWEST, MOST = 2.0, 80.0
"""Tokens for each parameter: with fewer a run is early in its training, with more it shows little of what D does."""
WANTED = 10.0
"""Of the largest size on the most tokens."""
LEAST_WANTED, MOST_WANTED = 4.0, 20.0
PASSES = 4.0
"""Over the text, at most: up to there a repeated text is nearly as good as a new one (Muennighoff et al. 2023)."""
LEFT_OUT_TIMES = 2.1
"""The compute of the run that is left out, over that of the largest other: 2 at least, however N is counted."""
LEFT_OUT_SIZE = math.sqrt(2.0)
"""Its parameters over those of the largest other, about; the rest comes from more tokens."""
MOST_HEADS = 64
SNAPSHOTS = 4
"""How often the run that is left out is evaluated and its model kept, to be probed; the others once, at their end."""
LARGEST_BATCH = 4096
"""Tokens of a step at most."""
LEAST_STEPS = 150
"""Of the shortest run: fewer would be warm-up and decay alone."""
USED = 0.85
"""The share of the time that is planned for runs; the rest is for what takes longer here than was measured, and the
fit."""
OVERHEAD = 2.0
"""Seconds of each run in addition to its steps: reading, the baselines, saving."""


def rate(width: int) -> float:
    """The highest learning rate of Adam for a width; Muon's is ``plan.MUON_RATE`` times that.

    The wider, the smaller the steps that a model can take.  The two constants were chosen by trying rates at widths of
    32 and 128 on source code; the trials are not kept.
    """
    return 5e-3 * (128 / width) ** 0.6


@dataclass(frozen=True)
class Shape:
    """A size of model."""

    width: int
    layers: int
    heads: int
    parameters: int
    """all of them"""
    blocks: int
    """without embeddings and output matrix"""


@dataclass(frozen=True)
class Cell(Shape):
    """One run of the grid."""

    name: str
    steps: int
    tokens: int
    learning_rate: float
    seconds: float
    """that it will take, about"""
    held_out: bool = False


@dataclass(frozen=True)
class Grid:
    """All runs, the smallest compute first and the one that is left out last; and what is the same for all."""

    cells: tuple[Cell, ...]
    length: int
    batch_tokens: int
    precision: str
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """That all will take, about."""
        return sum(cell.seconds for cell in self.cells)

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> "Grid":
        """Of what ``asdict`` makes of a grid, from JSON."""
        cells, notes = tuple(Cell(**cell) for cell in plain["cells"]), tuple(plain["notes"])
        return Grid(**{**plain, "cells": cells, "notes": notes})


@dataclass(frozen=True)
class Text:
    """What the plan needs to know of the text."""

    tokens: int
    """of training"""
    held_out: int
    """of validation"""
    vocab_size: int


@dataclass(frozen=True)
class Kind:
    """What all models of a study share."""

    layers: int
    head_width: int
    widest: int
    """a study with a wider model is made of a kind that comes later"""


KINDS = (Kind(2, 16, 96), *(Kind(layers, 32, 128 * layers) for layers in (2, 3, 4, 6, 8, 12, 16)))
"""The first is for a few minutes.  Heads of 16 are late to learn to look back, so it follows the law less well."""


def shapes(vocab_size: int, length: int, kind: Kind, scaling: Scaling) -> list[Shape]:
    """The sizes of a kind to choose from: of 1, 2, 3 and more heads."""
    sizes = []
    for heads in range(1, MOST_HEADS + 1):
        width = kind.head_width * heads
        count = scaling.parameters(scaling.config(vocab_size, width, kind.layers, heads, length))
        sizes.append(Shape(width, kind.layers, heads, count["total"], kind.layers * count["block"]))
    return sizes


def plan_grid(
    text: Text,
    seconds: float,
    speed: Callable[[Shape], float],
    *,
    length: int,
    kind: Kind,
    scaling: Scaling,
    precision: str = "float32",
    batch_tokens: int | None = None,
    before: float = 0.0,
) -> Grid:
    """The grid that fits ``seconds``; ``speed`` says how many tokens a second a size is trained on here.

    ``before`` are the seconds of the user's time that all else takes; only a message speaks of them.

    Raises InputError for a time or a text that are too short for any, and for a grid that could not be fitted.
    """
    plan = _Planner(text, speed, length, precision, batch_tokens, shapes(text.vocab_size, length, kind, scaling))
    wanted = USED * seconds
    best: tuple[float, Grid] | None = None
    for largest in plan.choices[FEWEST_SIZES - 1 :]:
        if largest.parameters * LEAST_WANTED > PASSES * text.tokens:
            break
        if (grid := plan.filled(wanted, largest)) is not None:
            of_largest = max(cell.tokens for cell in grid.cells if not cell.held_out) / largest.parameters
            idle = max(0.0, math.log(0.8 * wanted / grid.seconds))
            cost = abs(math.log(of_largest / WANTED)) + 2 * idle
            if best is None or cost < best[0]:
                best = cost, grid
    if best is None:
        raise InputError(plan.too_little(seconds, before))
    grid = best[1]
    check_varied([Run(cell.parameters, cell.tokens, 1.0) for cell in grid.cells if not cell.held_out])
    if grid.seconds < 0.75 * wanted:
        why = f"only about {duration(grid.seconds)} are used: more would need more epochs, or give too few tokens"
        return replace(grid, notes=(*grid.notes, why))
    return grid


@dataclass(frozen=True)
class _Planner:
    """What all grids of one kind have in common on this text and machine."""

    text: Text
    speed: Callable[[Shape], float]
    length: int
    precision: str
    batch_tokens: int | None
    choices: list[Shape]

    def too_little(self, seconds: float, before: float) -> str:
        """Why there is no grid."""
        smallest, tokens = self.choices[FEWEST_SIZES - 1], self.text.tokens
        if smallest.parameters * LEAST_WANTED > PASSES * tokens / 2:
            return (
                f"the text has {tokens:,} tokens for training, too few for a scaling law, even of small models: "
                f"{PASSES:g} epochs give fewer than {LEAST_WANTED:g} tokens for each parameter. Add text."
            )
        needed = 8 * LEAST_WANTED * smallest.parameters / self.speed(smallest) + OVERHEAD * SIZES * LENGTHS
        enough = 10 * math.ceil((needed / USED + before) / 10)
        return f"--time {seconds + before:.0f}s is too short for a grid of runs here; expected {enough}s or more."

    def filled(self, seconds: float, largest: Shape) -> Grid | None:
        """The grid with that largest size, on as many tokens as the time allows; None where that is no good grid."""
        above = [shape for shape in self.choices if shape.parameters > largest.parameters]
        if not above:
            return None
        left_out = min(above, key=lambda shape: abs(math.log(shape.parameters / largest.parameters / LEFT_OUT_SIZE)))
        ratio = min(left_out.parameters / largest.parameters, left_out.blocks / largest.blocks)
        growth = max(LEFT_OUT_TIMES / ratio, 1.0)  # of tokens
        low, high = LEAST_WANTED, min(MOST_WANTED, PASSES * self.text.tokens / growth / largest.parameters)
        if high < low:
            return None

        def at(ratio: float) -> Grid:
            return self.grid(largest, left_out, growth, ratio * largest.parameters)

        if at(low).seconds > seconds:
            return None
        for _ in range(20):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if at(middle).seconds <= seconds else (low, middle)
        return at(low)

    def grid(self, largest: Shape, left_out: Shape, growth: float, most: float) -> Grid:
        """The grid of that largest size on ``most`` tokens; ``growth`` times as many for the run left out."""
        heads = [largest.heads]
        while len(heads) < SIZES and heads[-1] > 1:  # each time about half the parameters
            heads.append(min(heads[-1] - 1, round(heads[-1] / math.sqrt(2))))
        lengths = [most / 2**i for i in range(LENGTHS)][::-1]
        batch = min(LARGEST_BATCH, max(4 * self.length, lengths[0] / LEAST_STEPS)) // self.length * self.length
        batch = self.batch_tokens or int(batch)
        cells = [
            self.cell(self.choices[number - 1], tokens, batch)
            for number in heads[::-1]
            for tokens in lengths
            if FEWEST <= tokens / self.choices[number - 1].parameters <= MOST
        ]
        cells.sort(key=lambda one: compute(one.parameters, one.tokens))
        last = self.cell(left_out, growth * most, batch, held_out=True)
        passes = last.tokens / self.text.tokens
        notes = (f"the longest run takes {passes:.2f} epochs; {PASSES:g} would be allowed",)
        return Grid((*cells, last), self.length, batch, self.precision, notes)

    def cell(self, shape: Shape, tokens: float, batch: int, held_out: bool = False) -> Cell:
        """A run of a size on about so many tokens."""
        steps = max(1, (math.ceil if held_out else round)(tokens / batch))
        evaluated = self.text.held_out / 2 * (SNAPSHOTS if held_out else 1)
        sizes = {"steps": steps, "tokens": steps * batch}
        seconds = (steps * batch + evaluated) / self.speed(shape) + OVERHEAD
        name = f"{'left-out' if held_out else 'run'}-{shape.width}x{shape.layers}-{steps}"
        return Cell(
            **vars(shape), **sizes, name=name, learning_rate=rate(shape.width), seconds=seconds, held_out=held_out
        )
