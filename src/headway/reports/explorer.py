"""The attention explorer: one page with the attention maps of a model on a text, and the script to view them.

It needs no other file and no network: its content policy allows only its own script and style sheet.
"""

import base64
import hashlib
import math
import unicodedata
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.reports.attention_store import FINENESS, Stored, largest_error, store
from headway.reports.page import part, render
from headway.reports.tables import Table
from headway.tasks.inspection import Inside, Kind
from headway.tasks.registry import known

MOST_BYTES = 1_950_000
"""Maximum size of a page, for any text and model."""
MOST_PIXELS = 100_000
"""An image with more pixels is shown with every second or every fourth one."""
MARK = '<meta name="generator" content="headway attention">'
"""The start of every such page, which distinguishes it from a file of the user's."""
TITLES = {
    "self": "self-attention",
    "encoder": "encoder: source to source",
    "decoder": "decoder: target to target",
    "cross": "cross-attention: target to source",
}
MEASURES = {
    "entropy": ("entropy", "nats"),
    "confidence": ("largest weight, mean", ""),
    "distance": ("mean distance", "tokens"),
    "patch_distance": ("mean distance", "patches"),
    "previous_token": ("previous-token score", ""),
    "induction": ("induction score", ""),
}
MEANINGS = {
    "entropy": "how spread out the attention is: 0 if all weight is on one token, ln n if it is even over n",
    "confidence": "the largest weight of each token, on average",
    "distance": "the distance of the tokens that it attends to, weighted by attention",
    "patch_distance": "the distance of the patches that a patch attends to, weighted by attention",
    "previous_token": "the weight on the previous token, on average over the text",
    "induction": "the weight on the token after an earlier occurrence of the same token, measured on random tokens "
    "repeated once, not on this text",
}


def attention_page(inside: Inside, name: str) -> str:
    """The page about ``inside``; ``name`` is the model's, for the title.  At most ``MOST_BYTES`` bytes of UTF-8.

    Raises InputError for maps that do not fit even with the coarsest rounding.
    """
    kinds = {key: (kind.maps, kind.causal) for key, kind in inside.kinds.items()}
    empty = _page(inside, name, None)
    stored = store(kinds, MOST_BYTES - len(empty.encode()) - 2000)
    if stored is None:
        raise InputError(
            f"the maps of this text have {sum(kind.maps.size for kind in inside.kinds.values()):,} weights, too many "
            "for one page; give a shorter text."
        )
    return _page(inside, name, stored)


def _page(inside: Inside, name: str, stored: dict[str, Stored] | None) -> str:
    """The page with its maps, or without them to find the space that they have."""
    style, script = part("report.css") + part("explorer.css"), part("explorer_maps.js") + part("explorer.js")
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
    kinds = list(inside.kinds.values())
    longest = max(max(kind.maps.shape[-2:]) for kind in kinds)
    even = f"over all {longest:,} tokens would have an entropy of {math.log(longest):.2f} nats"
    terms = [(measure(name), MEANINGS[name]) for name in MEASURES if any(name in kind.statistics for kind in kinds)]
    wiring = f"{'a' if inside.wiring.startswith('d') else 'an'} {inside.wiring}"
    return render(
        "explorer.html",
        mark=MARK,
        policy=f"{policy}base-uri 'none'; form-action 'none'",
        title=f"What {name} attends to",
        style=style,
        script=script,
        model=f"{known(inside.task).title}: {wiring}",
        shape=kinds[0].maps.shape,
        sizes=", ".join(f"{len(names):,} tokens of the {axis}" for axis, names in inside.tokens.items()),
        members=inside.members,
        target=inside.target,
        patches=inside.patches is not None,
        tables=[(TITLES[key], _numbers(kind)) for key, kind in inside.kinds.items()],
        longest=longest,
        next=inside.next,
        terms=[*terms, ("even attention", even)],
        exactness=_exactness(inside, stored),
        data=_data(inside, stored),
    )


def _numbers(kind: Kind) -> Table:
    """The statistics of all heads as a table, which needs no script."""
    rows = [
        [f"{layer}.{head}", *(f"{value:.3f}" for value in values)]
        for layer, row in enumerate(np.stack(list(kind.statistics.values()), axis=-1), 1)
        for head, values in enumerate(row, 1)
    ]
    return Table(["layer.head", *map(measure, kind.statistics)], rows)


def measure(name: str) -> str:
    """The title of a statistic, with its unit."""
    title, unit = MEASURES.get(name, (name.replace("_", " "), ""))
    return f"{title} ({unit})" if unit else title


def _exactness(inside: Inside, stored: dict[str, Stored] | None) -> str:
    measured = (
        "The weights are those that the model uses: applied to its values they reproduce the output of its fused "
        f"kernel within {inside.difference:.1e}. "
    )
    if stored is None:
        return measured
    first = next(iter(stored.values()))
    how = f"On this page each is rounded to a multiple of 1/{first.q:,}; "
    if first.q < FINENESS[0]:
        cells = " or ".join(f"{size} × {size} tokens" for size in sorted({one.cell for one in stored.values()}))
        how += f"those below {0.5 / first.q:.2g}, which that rounds away, are left out and shown as their mean over "
        how += f"cells of {cells}; "
    error = max(largest_error(stored[name], kind.maps) for name, kind in inside.kinds.items())
    return f"{measured}{how}the largest difference is {error:.1e}."


def explorer_data(inside: Inside, most: int) -> dict[str, Any]:
    """What ``explorer.js`` draws, in about ``most`` characters.  Raises InputError for maps that do not fit."""
    stored = store({key: (kind.maps, kind.causal) for key, kind in inside.kinds.items()}, most)
    if stored is None:
        raise InputError("the maps of this text have too many weights to be sent; give a shorter text.")
    return _data(inside, stored)


def _data(inside: Inside, stored: dict[str, Stored] | None) -> dict[str, Any]:
    kinds = []
    for name, kind in inside.kinds.items():
        described: dict[str, Any] = {
            "title": TITLES[name],
            "queries": kind.queries,
            "keys": kind.keys,
            "causal": kind.causal,
            "shape": kind.maps.shape[-2:],
            "statistics": {key: np.round(values.astype(float), 4).tolist() for key, values in kind.statistics.items()},
        }
        if stored is not None:
            maps = stored[name]
            described |= {"q": maps.q, "cell": maps.cell, "maps": maps.maps, "rests": maps.rests}
        kinds.append(described)
    return {
        "kinds": kinds,
        "tokens": inside.tokens,
        "next": inside.next,
        "direction": {axis: _direction(names) for axis, names in inside.tokens.items()},
        "measures": {name: [*titled, MEANINGS[name]] for name, titled in MEASURES.items()},
        "patches": None if inside.patches is None else _patches(inside.patches),
    }


def _patches(patches: np.ndarray) -> dict[str, Any]:
    """An image for the page: its patches in order, as a zlib stream in base64."""
    rows, columns = patches.shape[:2]
    while patches[..., 0].size > MOST_PIXELS and min(patches.shape[2:4]) > 1:
        patches = patches[:, :, ::2, ::2]
    stream = base64.b64encode(zlib.compress(patches.tobytes(), 9)).decode("ascii")
    return {"rows": rows, "columns": columns, "height": patches.shape[2], "width": patches.shape[3], "pixels": stream}


def _direction(names: Sequence[str]) -> str:
    """The direction of a text: that of most of its letters."""
    directions = [unicodedata.bidirectional(c) for name in names for c in name]
    return "rtl" if sum(d in ("R", "AL") for d in directions) > directions.count("L") else "ltr"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
