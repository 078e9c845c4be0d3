"""The picture of the house shows the code as it is."""

import importlib.util
import json
import re
from pathlib import Path

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"


def _house():
    spec = importlib.util.spec_from_file_location("house", PICTURES / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_shows_the_imports_of_the_code():
    drawn = json.loads((PICTURES / "house.json").read_text(encoding="utf-8"))
    found = _house().house()
    assert drawn == found, "the code has changed: run `python docs/pictures/house.py` and commit what it writes"


def test_every_room_of_the_picture_is_named_on_the_page():
    drawn = json.loads((PICTURES / "house.json").read_text(encoding="utf-8"))
    page = (PICTURES.parent / "architecture.md").read_text(encoding="utf-8")
    svg = (PICTURES / "house.svg").read_text(encoding="utf-8")
    for layer in drawn["layers"]:
        assert f"`{layer}" in page, f"docs/architecture.md does not say what {layer} is"
        assert f">{layer}<" in svg


def test_the_readme_lists_the_folders_of_the_code():
    root = PICTURES.parent.parent
    part = (root / "README.md").read_text(encoding="utf-8").split("src/headway/\n")[1].split("\ntests/")[0]
    lines = {line.split("/")[0].split()[-1]: line for line in part.splitlines() if re.match(r"  \w+(, \w+)?/", line)}
    folders = {path.parent.name for path in (root / "src" / "headway").glob("*/__init__.py")}
    assert set(lines) == folders
    for folder, line in lines.items():
        for inner in re.findall(r"\b(\w+)/", line)[1:]:
            assert (root / "src" / "headway" / folder / inner).is_dir(), f"{folder}/{inner}"


def test_the_picture_is_readable():
    """No word is smaller than 14 of the 880 pixels that a page shows, leaves the picture, or meets another."""
    svg = (PICTURES / "house.svg").read_text(encoding="utf-8")
    wide, high = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    assert wide <= 900
    taken = []
    for attributes, inner in re.findall(r"<text ([^>]*)>(.*?)</text>", svg):
        x, y = (float(re.search(rf'\b{name}="([\d.]+)"', attributes)[1]) for name in "xy")
        found = re.search(r'font-size="([\d.]+)"', attributes)
        size, words = float(found[1]) if found else 15.0, re.sub(r"</?tspan[^>]*>", " ", inner).strip()
        wider = 0.55 if "bold" in attributes else 0.49  # of an em, about what a letter takes on average in Helvetica
        box = (x, y - 0.8 * size, x + wider * size * len(words), y + 0.25 * size)
        assert size >= 14 and box[2] <= wide and box[1] >= 0 and box[3] <= high, words
        for left, top, right, bottom in taken:
            assert box[2] <= left or right <= box[0] or box[3] <= top or bottom <= box[1], words
        taken.append(box)
    assert len(taken) > 20


def test_every_arrow_points_to_an_earlier_layer():
    order = _house().ORDER
    for arrow in _house().house()["imports"]:
        if arrow in ("reports > workflows", "reports > science"):
            continue  # what tests/test_imports.py names in POINTS_DOWN
        start, end = arrow.split(" > ")
        assert order.index(end) < order.index(start), arrow


def test_the_parser_counts_every_form_of_import(tmp_path):
    (tmp_path / "nn").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "nn" / "norm.py").write_text("import torch\n")
    (tmp_path / "models" / "size.py").write_text(
        "from headway import nn\nimport headway.nn.norm\n\n\ndef f():\n    from headway.nn.norm import RMSNorm\n"
    )
    found = _house().house(tmp_path)
    assert found == {"layers": {"nn": ["norm"], "models": ["size"]}, "imports": {"models > nn": 3}}
