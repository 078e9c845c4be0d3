"""Draw the house: the layers of src/headway as rooms, the imports between them as arrows, both read from the code.

python docs/pictures/house.py     writes house.svg and house.json beside this file
"""

import ast
import html
import json
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "src" / "headway"
GROUND = ("errors", "io")
ORDER = (
    *(*GROUND, "nn", "models", "text", "hub", "data", "generation"),
    *("training", "runtime", "tasks", "reports", "workflows", "science", "integrations", "serving", "cli"),
)
"""The layers from the ground up: each may import from those before it."""


def house(source: Path = SOURCE) -> dict[str, dict]:
    """{"layers": {name: its modules}, "imports": {"from > to": how many import statements}}, by parsing the code.

    Modules directly in the package, such as the front door, are left out unless they are a layer of their own.
    """
    layers: dict[str, list[str]] = {}
    imports: dict[str, int] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        if parts[0] not in ORDER:
            continue
        if parts[-1] != "__init__":
            layers.setdefault(parts[0], []).append(".".join(parts[1:]) or parts[0])
        for target in _targets(path):
            if target != parts[0] and target in ORDER:
                key = f"{parts[0]} > {target}"
                imports[key] = imports.get(key, 0) + 1
    ordered = {name: layers[name] for name in ORDER if name in layers}
    return {"layers": ordered, "imports": dict(sorted(imports.items()))}


def _targets(path: Path) -> list[str]:
    """The layer that each import statement of a file reaches."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headway":
            words = (node.module or "").split(".")
            found.extend([words[1]] if len(words) > 1 else [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            found.extend(a.name.split(".")[1] for a in node.names if a.name.startswith("headway."))
    return found


WIDTH, ROOM, GAP, LEFT = 880, 58, 14, 190
"""Pixels: of the picture, which pages show about as wide; the height of a room, between rooms, left of the rooms."""
COLOURS = ("#0072b2", "#b06f00", "#00795a", "#c04f00", "#a3527e", "#2b7fb0", "#5c5c5c")
LETTERS = 72
"""In a line of 15 pixels, in the room that is left beside a layer's name."""


def draw(found: dict[str, dict], path: Path, source: Path = SOURCE) -> None:
    """The rooms from top to bottom in the order of layers, arrows on their left, from the one that imports."""
    rooms = [name for name in found["layers"] if name not in GROUND]
    ground = [name for name in found["layers"] if name in GROUND]
    top = {name: 40 + (ROOM + GAP) * (i + 1) for i, name in enumerate(rooms)}
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(rooms)}
    height = 40 + (ROOM + GAP) * (len(rooms) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="15" fill="#222222">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(8, 24, "An arrow points to the layer that is imported from, in its colour; the wider, the more imports."),
        *_room(40, "#5c5c5c", "", ["importable from every layer but nn; those arrows are not drawn"], 0),
    ]
    names = "".join(f'<tspan dx="{14 * (i > 0)}">{name}</tspan>' for i, name in enumerate(ground))
    parts.append(f'<text x="{LEFT + 14}" y="64" font-size="15" font-weight="bold">{names}</text>')
    parts += [_arrow(key, count, top, colour) for key, count in found["imports"].items() if _drawn(key)]
    for name in rooms:
        parts += _room(top[name], colour[name], name, _lines(_said(source / name), LETTERS), len(found["layers"][name]))
    path.write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")


def _drawn(key: str) -> bool:
    """Whether an import is drawn: those of what is importable from everywhere would hide the rest."""
    return not set(key.split(" > ")) & set(GROUND)


def _text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{html.escape(words)}</text>'


def _room(y: int, colour: str, name: str, lines: list[str], modules: int) -> list[str]:
    """A layer: its name, what it is for, and how many modules it has."""
    parts = [
        f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 6}" height="{ROOM}" rx="8" fill="white" stroke="{colour}" '
        'stroke-width="2"/>'
    ]
    if name:
        parts.append(_text(LEFT + 14, y + 26, name, ' font-size="18" font-weight="bold"'))
        count = f"{modules} module{'s' * (modules > 1)}"
        parts.append(_text(LEFT + 14, y + 46, count, ' font-size="14" fill="#555555"'))
    x, first = (LEFT + 140, y + 25 + 10 * (len(lines) == 1)) if name else (LEFT + 14, y + 47)
    return [*parts, *(_text(x, first + 20 * row, line) for row, line in enumerate(lines))]


def _arrow(key: str, count: int, top: dict[str, int], colour: dict[str, str]) -> str:
    """A curve from the middle of a room's left side to another room, farther out the farther away that is."""
    start, end = key.split(" > ")
    y0, y1 = top[start] + ROOM / 2 - 8, top[end] + ROOM / 2 + 8
    rooms = abs(y1 - y0) / (ROOM + GAP)
    out, width = LEFT - 20 - 22 * min(rooms, 10) ** 0.85, 1 + 0.45 * count**0.55
    head = f"M{LEFT} {y1:g}l-11 -6v12z"
    return (
        f'<path d="M{LEFT} {y0:g}C{out:.1f} {y0:g} {out:.1f} {y1:g} {LEFT - 9} {y1:g}" fill="none" '
        f'stroke="{colour[end]}" stroke-width="{width:.1f}" stroke-opacity="0.75"/>'
        f'<path d="{head}" fill="{colour[end]}"/>'
    )


def _said(layer: Path) -> str:
    """The first sentence of what a layer says of itself."""
    said = ast.get_docstring(ast.parse((layer / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(said.split("\n\n")[0].split()).replace("``", "").partition(".  ")[0].removesuffix(".")


def _lines(words: str, width: int) -> list[str]:
    return textwrap.wrap(words, width)


def main(folder: Path = HERE) -> None:
    """Write the picture and its data."""
    found = house()
    (folder / "house.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(found, folder / "house.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
