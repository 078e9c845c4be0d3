"""Plots of the inside of a model, from the arrays of ``models``: maps, statistics, positions, lens, attributions.

Each writes ``place``.png and ``place``.svg.  Arrays are numpy's or torch's, on the CPU and without gradients.

Letters: L layers, H heads, T queries, S keys, D width, V vocabulary, K guesses.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.models.analysis.statistics import PositionTable
from headway.reports.explorer import measure
from headway.reports.plots import line, plotted
from headway.reports.wording import short

MOST_NAMES = 32
"""Maximum tokens named along an axis; with more, the axis has numbers."""
SHADES = "Blues"
SIGNED = "RdBu_r"


def draw_maps(place: Path, maps: Any, queries: Sequence[str] = (), keys: Sequence[str] = ()) -> None:
    """Weights (L, H, T, S) of every head, layers down and heads across; tokens are named if there is space."""
    weights = np.asarray(maps)
    layers, heads, n_queries, n_keys = weights.shape
    side = max(1.1, min(2.6, 7.5 / heads))
    named = n_keys * 0.11 < side and n_queries * 0.11 < side
    width, height = max(3.2, side * heads + 1.0), max(2.4, side * layers * min(1.5, n_queries / n_keys) + 0.9)
    with plotted(place, rows=layers, columns=heads, width=width, height=height) as axes:
        for number, axis in enumerate(axes):
            layer, head = divmod(number, heads)
            image = axis.imshow(weights[layer, head] ** 0.5, cmap=SHADES, vmin=0, vmax=1, interpolation="nearest")
            axis.set_title(f"{layer + 1}.{head + 1}", fontsize=8)
            _ticks(axis.set_xticks, keys if named and layer == layers - 1 else (), turned=True)
            _ticks(axis.set_yticks, queries if named and head == 0 else ())
            axis.grid(False)
        figure = axes[0].figure
        figure.supxlabel("token attended to; each map is layer.head", fontsize=9)
        figure.supylabel("token that attends", fontsize=9)
        bar = figure.colorbar(image, ax=axes, shrink=0.8, aspect=30, fraction=0.04, pad=0.01, label="weight")
        bar.set_ticks([0, 0.1**0.5, 0.25**0.5, 0.5**0.5, 1], labels=["0", "0.1", "0.25", "0.5", "1"])


def draw_statistics(place: Path, statistics: Mapping[str, Any]) -> None:
    """Statistics (L, H) by name, as ``head_statistics`` has them: one panel each, layers down and heads across."""
    columns = 2 if len(statistics) == 4 else min(3, len(statistics))
    rows = -(-len(statistics) // columns)
    with plotted(place, rows=rows, columns=columns, width=max(3.4, 2.5 * columns), height=2.3 * rows) as axes:
        for axis, (name, values) in zip(axes, statistics.items(), strict=False):
            table = np.asarray(values)
            top = None if name in ("entropy", "distance") else 1
            image = axis.imshow(table, cmap=SHADES, vmin=0, vmax=top, aspect="auto", interpolation="nearest")
            axis.set(title=measure(name), xlabel="head", ylabel="layer")
            axis.title.set_fontsize(9)
            for set_ticks, count in ((axis.set_xticks, table.shape[1]), (axis.set_yticks, table.shape[0])):
                every = range(0, count, -(-count // 8))
                set_ticks(list(every), labels=[str(number + 1) for number in every])
            axis.grid(False)
            axis.figure.colorbar(image, ax=axis)
        for axis in axes[len(statistics) :]:
            axis.set_visible(False)


def draw_positions(place: Path, tables: Mapping[str, PositionTable]) -> None:
    """The result of ``position_tables``, one panel each: a table, wavelengths, or biases by distance."""
    with plotted(place, columns=len(tables), width=4.4 * len(tables) + 0.6, height=3.4) as axes:
        for axis, (name, table) in zip(axes, tables.items(), strict=True):
            values = np.asarray(table.values)
            prefix = "" if name == "self" else f"{name}: "
            if table.kind in ("sinusoidal", "learned"):
                top = float(np.abs(values).max()) or 1.0
                image = axis.imshow(values, cmap=SIGNED, vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
                axis.set(title=f"{prefix}{table.kind} table", xlabel="entry of the vector", ylabel="position (tokens)")
                axis.grid(False)
                axis.figure.colorbar(image, ax=axis, label="value")
            elif table.kind == "rotary":
                axis.semilogy(range(1, len(values) + 1), values, **line(0))
                axis.set(title=f"{prefix}rotary wavelengths", xlabel="pair of entries", ylabel="tokens in one turn")
            else:
                ahead = np.arange(values.shape[1]) - values.shape[1] // 2
                seen = ahead <= 0 if table.causal else ahead > -len(ahead)
                for head, bias in enumerate(values[:8]):
                    axis.plot(ahead[seen], bias[seen], color=line(head)["color"], label=f"head {head + 1}")
                kind = "ALiBi" if table.kind == "alibi" else "T5 (relative)"
                axis.set(title=f"{prefix}{kind} biases", xlabel="key minus query (tokens)", ylabel="added to the score")
                axis.legend(fontsize=7)


def draw_lens(place: Path, probabilities: Any, tokens: Sequence[str], vocabulary: Sequence[str]) -> None:
    """The most likely token after each layer, (L + 1, T, V) probabilities, shaded by its probability.

    ``tokens`` are the T input tokens, ``vocabulary`` the V output tokens.
    """
    sure = np.asarray(probabilities)
    best, top = sure.argmax(axis=-1), sure.max(axis=-1)  # (L + 1, T)
    rows, columns = best.shape
    with plotted(place, width=max(4.5, 0.62 * columns + 1.8), height=0.36 * rows + 1.5) as (axis,):
        image = axis.imshow(top, cmap=SHADES, vmin=0, vmax=1, aspect="auto", origin="lower", interpolation="nearest")
        for layer in range(rows):
            for at in range(columns):
                colour = "white" if top[layer, at] > 0.55 else "black"
                name = short(vocabulary[best[layer, at]], 8)
                axis.text(at, layer, name, ha="center", va="center", fontsize=8, color=colour, parse_math=False)
        _ticks(axis.set_xticks, tokens, turned=True)
        axis.set_yticks(range(rows), labels=["embedding", *(str(layer) for layer in range(1, rows))])
        axis.set(xlabel="token read", ylabel="after layer")
        axis.grid(False)
        axis.figure.colorbar(image, ax=axis, label="probability")


def draw_attribution(place: Path, values: Any, tokens: Sequence[str], what: str = "the logit") -> None:
    """Gradient times input (T,) as a bar for each token, with its sign."""
    parts = np.asarray(values)
    with plotted(place, height=max(2.2, 0.22 * len(parts) + 1.0), width=6) as (axis,):
        colours = [line(0)["color"] if part >= 0 else line(1)["color"] for part in parts]
        axis.set_axisbelow(True)
        axis.barh(range(len(parts)), parts, color=colours)
        axis.axvline(0, color="#595959", linewidth=0.8)
        _ticks(axis.set_yticks, tokens, most=200)
        axis.invert_yaxis()
        axis.set(xlabel=f"gradient × input: the effect of scaling the vector on {what}", ylabel="token")
        axis.grid(axis="y", visible=False)


def _ticks(set_ticks: Any, names: Sequence[str], *, turned: bool = False, most: int = MOST_NAMES) -> None:
    """Tokens as tick labels, literally: a dollar sign does not start a formula."""
    shown = names if len(names) <= most else ()
    turn = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if turned else {}
    set_ticks(range(len(shown)), labels=[short(name, 12) for name in shown], fontsize=7, parse_math=False, **turn)
