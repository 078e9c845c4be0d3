"""The attention explorer: one page with the attention maps of a model on a text, and the script to view them.

It needs no other file and no network: its content policy allows only its own script and style sheet.
"""

import base64
import hashlib
import json
import math
import unicodedata
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headway.errors import InputError
from headway.reports.attention_store import FINENESS, Stored, largest_error, store
from headway.reports.style import CSS
from headway.reports.tables import table
from headway.reports.wording import Html, escape
from headway.tasks.inspection import Inside, Kind
from headway.tasks.registry import known

MOST_BYTES = 1_950_000
"""Maximum size of a page, for any text and model."""
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
    style, script = f"{CSS}{_part('explorer.css')}", f"{_part('explorer_maps.js')}{_part('explorer.js')}"
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"What {name} attends to"
    explorer = EXPLORER.replace("{reading}", (OF_TEXT if inside.patches is None else OF_IMAGE).strip())
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{MARK}\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title, 200)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"{_head(inside, title)}\n{explorer}\n{_numbers(inside)}\n{_explanation(inside, stored)}\n"
        f'</main>\n<script type="application/json" id="data">{_json(inside, stored)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


EXPLORER = """<noscript><p class="warn">A script draws the maps, but this browser runs none. The statistics of
all heads are below.</p></noscript>
<p class="warn" id="old" hidden>This browser is too old to unpack the maps (it lacks DecompressionStream). The
statistics of all heads are below.</p>
<div id="explorer" hidden>
<div id="kinds" role="tablist" aria-label="kind of attention"></div>
<section>
<h2>All heads</h2>
<div class="controls"><label>number below <select id="below"></select></label></div>
<div class="scroll"><div id="heads"></div></div>
</section>
<section>
<h2 id="head-name"></h2>
<div class="controls">
<label>shade <select id="shade"><option value="all">all rows alike, 0 to 1</option>
<option value="row">each row by its largest</option></select></label>
<button type="button" id="zoom" aria-pressed="false">zoom to 40 tokens</button>
</div>
<canvas id="map" tabindex="0" role="img"></canvas>
<dl id="numbers"></dl>
</section>
<section id="reading">
{reading}
<p class="label" id="queries-label"></p>
<div class="strip" id="queries" role="group" aria-labelledby="queries-label"></div>
<p class="label" id="keys-label"></p>
<div class="strip keys" id="keys" role="group" aria-labelledby="keys-label"></div>
<p id="said" aria-live="polite"></p>
<ol id="most"></ol>
</section>
</div>"""
OF_TEXT = """<h2>The text, token by token</h2>
<p class="soft">Point at a token, or move with the arrow keys: the others are shaded by how much it attends to them.</p>
"""
OF_IMAGE = """<h2>The image, patch by patch</h2>
<p class="soft">Point at a patch, or move with the arrow keys: the copy next to it shades all patches by its attention.
Patches are named by row and column; [CLS] stands for the whole image, and the class is read from it.</p>
"""
WRITING = (
    " The row of a token is of the step that reads it and writes the next: how it was written is in the row above."
)
MOST_PIXELS = 100_000
"""An image with more pixels is shown with every second or every fourth one."""


def _head(inside: Inside, title: str) -> Html:
    sizes = ", ".join(f"{len(names):,} tokens of the {axis}" for axis, names in inside.tokens.items())
    maps = next(iter(inside.kinds.values())).maps
    model = f"{known(inside.task).title}: {'a' if inside.wiring.startswith('d') else 'an'} {inside.wiring}"
    lines = [
        f'<h1 dir="auto">{escape(title, 200)}</h1>',
        f'<p class="soft">{escape(model)} with {maps.shape[0]} layers of {maps.shape[1]} heads; {escape(sizes)}.</p>',
    ]
    if inside.members > 1:
        lines.append(f'<p class="soft">The first of {inside.members} models; their answers are averaged.</p>')
    if inside.target is not None:
        lines.append(f"<p>Target: <bdi>{escape(inside.target, 2000)}</bdi></p>")
    return Html("\n".join(lines))


def _numbers(inside: Inside) -> Html:
    """The statistics of all heads as tables, which need no script."""
    parts = ["<h2>Statistics of all heads</h2>"]
    for key, kind in inside.kinds.items():
        names = [_measure(name) for name in kind.statistics]
        rows = []
        for layer, row in enumerate(np.stack(list(kind.statistics.values()), axis=-1)):
            for head, values in enumerate(row):
                rows.append([f"{layer + 1}.{head + 1}", *(f"{value:.3f}" for value in values)])
        found = table(["layer.head", *names], rows, numbers_from=1)
        parts.append(f"<details><summary>{escape(TITLES[key])}</summary>{found}</details>")
    return Html("\n".join(parts))


def _measure(name: str) -> str:
    title, unit = MEASURES[name]
    return f"{title} ({unit})" if unit else title


def _explanation(inside: Inside, stored: dict[str, Stored] | None) -> Html:
    """The explanation of the page, and its precision."""
    used = {name for kind in inside.kinds.values() for name in kind.statistics}
    longest = max(max(kind.maps.shape[-2:]) for kind in inside.kinds.values())
    terms = "".join(f"<dt>{escape(_measure(m))}</dt><dd>{escape(MEANINGS[m])}</dd>" for m in MEASURES if m in used)
    return Html(
        "<h2>How to read this</h2>\n<p>Each row of a map is a token that attends, each column one that is attended to; "
        "the weights of a row add up to 1. Colours follow the root of a weight, so that small ones can be seen."
        + (" A small map shows the largest weight of each of its cells." if longest > 64 else "")
        + (WRITING if inside.next else "")
        + f"</p>\n<dl>{terms}<dt>even attention</dt><dd>over all {longest:,} tokens would have an entropy of "
        f"{math.log(longest):.2f} nats</dd></dl>\n<p>{escape(_exactness(inside, stored), 2000)}</p>"
    )


def _exactness(inside: Inside, stored: dict[str, Stored] | None) -> str:
    measured = (
        "The weights are those that the model uses: applied to its values they reproduce the output of its fused "
        f"kernel within {inside.difference:.1e}. "
    )
    if stored is None:
        return measured
    first = next(iter(stored.values()))
    said = f"On this page each is rounded to a multiple of 1/{first.q:,}; "
    if first.q < FINENESS[0]:
        cells = " or ".join(f"{size} × {size} tokens" for size in sorted({one.cell for one in stored.values()}))
        said += f"those below {0.5 / first.q:.2g}, which that rounds away, are left out and shown as their mean over "
        said += f"cells of {cells}; "
    error = max(largest_error(stored[name], kind.maps) for name, kind in inside.kinds.items())
    return f"{measured}{said}the largest difference is {error:.1e}."


def explorer_data(inside: Inside, most: int) -> dict[str, Any]:
    """What ``explorer.js`` draws, in about ``most`` characters.  Raises InputError for maps that do not fit."""
    stored = store({key: (kind.maps, kind.causal) for key, kind in inside.kinds.items()}, most)
    if stored is None:
        raise InputError("the maps of this text have too many weights to be sent; give a shorter text.")
    return _data(inside, stored)


def _json(inside: Inside, stored: dict[str, Stored] | None) -> str:
    """The data of the page, with the special characters of HTML escaped."""
    text = json.dumps(_data(inside, stored), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(inside: Inside, stored: dict[str, Stored] | None) -> dict[str, Any]:
    kinds = [_kind(name, kind, None if stored is None else stored[name]) for name, kind in inside.kinds.items()]
    return {
        "kinds": kinds,
        "tokens": inside.tokens,
        "next": inside.next,
        "direction": {axis: _direction(names) for axis, names in inside.tokens.items()},
        "measures": {name: [*titled, MEANINGS[name]] for name, titled in MEASURES.items()},
        "patches": None if inside.patches is None else _patches(inside.patches),
    }


def _kind(name: str, kind: Kind, stored: Stored | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "title": TITLES[name],
        "queries": kind.queries,
        "keys": kind.keys,
        "causal": kind.causal,
        "shape": kind.maps.shape[-2:],
        "statistics": {key: np.round(values.astype(float), 4).tolist() for key, values in kind.statistics.items()},
    }
    if stored is not None:
        found |= {"q": stored.q, "cell": stored.cell, "maps": stored.maps, "rests": stored.rests}
    return found


def _patches(patches: np.ndarray) -> dict[str, Any]:
    """An image for the page: its patches in order, as a zlib stream in base64."""
    rows, columns = patches.shape[:2]
    while patches[..., 0].size > MOST_PIXELS and min(patches.shape[2:4]) > 1:
        patches = patches[:, :, ::2, ::2]
    stream = base64.b64encode(zlib.compress(patches.tobytes(), 9)).decode("ascii")
    return {"rows": rows, "columns": columns, "height": patches.shape[2], "width": patches.shape[3], "pixels": stream}


def _direction(names: Sequence[str]) -> str:
    """The direction of a text: that of most of its letters."""
    found = [unicodedata.bidirectional(c) for name in names for c in name]
    return "rtl" if sum(d in ("R", "AL") for d in found) > found.count("L") else "ltr"


def _part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"
