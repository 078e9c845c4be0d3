"""Modules and names are moved with everything that refers to them."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BEFORE = {
    "src/shop/__init__.py": '"""A shop."""\n',
    "src/shop/goods/__init__.py": "",
    "src/shop/goods/fruit.py": '''"""Fruit."""

import math
from pathlib import Path

SWEET = 3
"""How sweet an apple is."""


def size(radius: float) -> float:
    """Of an apple."""
    return math.pi * radius**SWEET


class Apple:
    """An apple."""

    def other(self, other: "Apple | None") -> "Apple":
        return other or Apple()


def basket() -> list[Apple]:
    """Two apples."""
    return [Apple(), Apple()] if Path() else []
''',
    "src/shop/till.py": '''"""The till."""

import shop.goods.fruit
from shop.goods import fruit
from shop.goods.fruit import Apple, size

WHERE = "shop.goods.fruit.Apple"


def pay(apple: Apple) -> float:
    """The price."""
    fruit = size(1.0)
    return fruit + (3.0 if isinstance(apple, shop.goods.fruit.Apple) else 0.0)


def kind() -> str:
    """What is sold."""
    return f"{fruit.Apple.__name__} of {fruit.__name__}"
''',
    "tests/test_till.py": '''"""The till."""

from shop.goods import fruit
from shop.till import kind, pay


def test_it(monkeypatch):
    assert pay(fruit.Apple()) > 3
    monkeypatch.setattr("shop.goods.fruit.size", lambda radius: 5.0)
    monkeypatch.setattr(fruit, "SWEET", 1)
    assert fruit.size(1) and kind().endswith(fruit.__name__)
''',
    "docs/shop.md": "[Fruit](../src/shop/goods/fruit.py) has `shop.goods.fruit.Apple`, and an Apple is sweet.\n",
    "pyproject.toml": '[project.entry-points."shop"]\nfruit = "shop.goods.fruit:Apple"\n',
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A small project."""
    for name, text in BEFORE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def files(shop: Path) -> list[Path]:
    """The files of the project."""
    return [path for path in shop.rglob("*.*") if path.suffix in (".py", ".md", ".toml")]


def moved(shop: Path, old: str, new: str) -> dict[str, str]:
    """Every file after a move, whose tests still pass; and as "" what the tool printed."""
    command = [sys.executable, str(ROOT / "tools" / "move.py"), old, new, "--root", str(shop)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    ran = subprocess.run(tests, cwd=shop, env={"PYTHONPATH": "src", "PATH": ""}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout
    found = {str(path.relative_to(shop)): path.read_text() for path in files(shop)}
    return {"": done.stdout, **found}


def test_a_module_is_moved_to_another_folder(shop: Path):
    after = moved(shop, "shop.goods.fruit", "shop.pome")
    assert "src/shop/goods/fruit.py" not in after and "class Apple" in after["src/shop/pome.py"]
    assert "from shop.pome import Apple, size" in after["src/shop/till.py"]
    assert 'WHERE = "shop.pome.Apple"' in after["src/shop/till.py"]
    assert "shop.pome.Apple)" in after["src/shop/till.py"]
    assert '"shop.pome.size"' in after["tests/test_till.py"]
    assert after["docs/shop.md"].startswith("[Fruit](../src/shop/pome.py) has `shop.pome.Apple`")
    assert 'fruit = "shop.pome:Apple"' in after["pyproject.toml"]


def test_a_variable_of_the_modules_name_stays(shop: Path):
    after = moved(shop, "shop.goods.fruit", "shop.goods.pome")
    assert "    fruit = size(1.0)\n    return fruit +" in after["src/shop/till.py"]
    assert 'f"{pome.Apple.__name__} of {pome.__name__}"' in after["src/shop/till.py"]


def test_a_package_is_moved_with_its_modules(shop: Path):
    after = moved(shop, "shop.goods", "shop.wares")
    assert "class Apple" in after["src/shop/wares/fruit.py"]
    assert "from shop.wares import fruit" in after["tests/test_till.py"]


def test_a_name_is_renamed_where_it_is(shop: Path):
    after = moved(shop, "shop.goods.fruit.Apple", "shop.goods.fruit.Pear")
    assert 'def other(self, other: "Pear | None") -> "Pear":' in after["src/shop/goods/fruit.py"]
    assert "def pay(apple: Pear)" in after["src/shop/till.py"] or "Pear" in after["src/shop/till.py"]
    assert "docs/shop.md:1" in after[""]  # "an Apple is sweet" is for a person


def test_a_name_goes_to_another_module_with_its_imports(shop: Path):
    after = moved(shop, "shop.goods.fruit.size", "shop.sizes.size")
    assert "import math" in after["src/shop/sizes.py"] and "import math" not in after["src/shop/goods/fruit.py"]
    assert "from shop.goods.fruit import SWEET" in after["src/shop/sizes.py"]
    assert "from shop.sizes import size" in after["src/shop/till.py"]
    assert '"shop.sizes.size"' in after["tests/test_till.py"]


def test_a_constant_takes_its_docstring_along(shop: Path):
    after = moved(shop, "shop.goods.fruit.SWEET", "shop.taste.SWEET")
    assert 'SWEET = 3\n"""How sweet an apple is."""' in after["src/shop/taste.py"]
    assert "from shop.taste import SWEET" in after["src/shop/goods/fruit.py"]


def test_an_unknown_name_is_refused(shop: Path):
    command = [sys.executable, str(ROOT / "tools" / "move.py"), "shop.goods.fruit.Plum", "shop.goods.Plum"]
    done = subprocess.run([*command, "--root", str(shop)], capture_output=True, text=True)
    assert done.returncode == 1 and "does not define Plum" in done.stderr


def test_lines_are_counted_by_their_characters(tmp_path: Path):
    spec = importlib.util.spec_from_file_location("move", ROOT / "tools" / "move.py")
    move = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(move)
    path = tmp_path / "a.py"
    path.write_text('x = "é"; y = x\n', encoding="utf-8")
    source = move.Source(path)
    move.rename_local(source, "y", "z")
    assert source.write() and path.read_text(encoding="utf-8") == 'x = "é"; z = x\n'
