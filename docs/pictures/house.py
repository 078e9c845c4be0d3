"""Draw the house: the layers of src/headway as rooms, the imports between them as arrows, both read from the code.

python docs/pictures/house.py     writes house.svg and house.json beside this file
"""

import ast
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "src" / "headway"
ORDER = (
    *("errors", "forked", "storage", "regular_file", "standard_streams", "strict_json"),
    *("nn", "models", "text", "hub", "data", "generation"),
    *("tasks", "training", "inference", "science", "reports", "serving", "cli"),
)
"""The layers from the ground up: each may import from those before it."""
GROUND = ("errors", "forked", "storage", "regular_file", "standard_streams", "strict_json")


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


def draw(found: dict[str, dict], path: Path) -> None:
    """The rooms from top to bottom in the order of layers, arrows on their left, from the one that imports."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

    colours = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#6b6b6b")
    names = list(found["layers"])
    with plt.rc_context({"svg.hashsalt": "headway", "svg.fonttype": "none", "figure.facecolor": "white"}):
        figure, axis = plt.subplots(figsize=(9.6, 0.62 * len(names) + 0.7), layout="constrained")
        axis.set_xlim(-5.2, 18.5)
        axis.set_ylim(-len(names) + 0.3, 1.05)
        axis.axis("off")
        place = {name: -i for i, name in enumerate(names)}
        for name, y in place.items():
            colour = colours[y % len(colours)]
            room = FancyBboxPatch((0, y - 0.34), 18.2, 0.68, boxstyle="round,pad=0,rounding_size=0.12", zorder=3)
            room.set(facecolor="white", edgecolor=colour, linewidth=1.8)
            axis.add_patch(room)
            axis.text(0.3, y, name, va="center", fontsize=11, fontweight="bold", color="#222222", zorder=4)
            for row, line in enumerate(lines := _wrapped(found["layers"][name], name)):
                axis.text(3.6, y + 0.13 * (len(lines) - 1) - 0.26 * row, line, va="center", fontsize=7.5, zorder=4)
        for key, count in found["imports"].items():
            start, end = key.split(" > ")
            if end in GROUND:
                continue  # importable from everywhere; drawn they would hide the rest
            down = place[start] < place[end]
            arrow = FancyArrowPatch(
                (0, place[start] + 0.08),
                (0, place[end] - 0.08),
                connectionstyle=f"arc3,rad={-0.42 if down else 0.42}",
                arrowstyle="-|>",
                mutation_scale=9,
                linewidth=0.7 + 0.32 * count**0.75,
                color=colours[place[end] % len(colours)],
                alpha=0.75,
                shrinkA=0,
                shrinkB=0,
            )
            axis.add_patch(arrow)
        note = "An arrow points to the layer imported from, in its colour; the more imports, the wider."
        axis.text(-5.0, 0.85, note, fontsize=8.5, va="center")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
        plt.close(figure)


def _wrapped(modules: list[str], layer: str, width: int = 84) -> list[str]:
    """Names in lines of at most ``width`` characters."""
    if layer in GROUND:
        return ["every layer but nn may import it; those arrows are not drawn"]
    lines, line = [], ""
    for i, name in enumerate(modules):
        piece = name + (", " if i < len(modules) - 1 else "")
        if len(line) + len(piece) > width:
            lines.append(line)
            line = ""
        line += piece
    return [*lines, line]


def main(folder: Path = HERE) -> None:
    """Write the picture and its data."""
    found = house()
    (folder / "house.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(found, folder / "house.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
