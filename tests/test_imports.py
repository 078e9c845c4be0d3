"""Imports point one way: from each layer to itself and to those above it."""

import ast
import fnmatch
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "headway"
LAYERS = [
    *("nn", "models", "text", "hub", "data", "generation", "training", "runtime", "formats", "tasks"),
    *("reports", "workflows", "science", "api", "integrations", "sklearn", "serving", "cli"),
]
FOLDERS = {path.name for path in (ROOT / "tasks").iterdir() if path.is_dir()}
"""The folders in ``tasks``."""
TYPED = "workflows.load"
"""Names the pipeline of each task, for type checkers: the overloads of ``headway.load``."""
GROUND = {"errors", "io"}
"""Importable from everywhere but nn."""
NN_MAY = {"collections", "concurrent", "contextlib", "functools", "math", "threading", "time", "torch", "typing"}
NN_MAY |= {"os", "pathlib"}  # nn.threads: a fork waits for threads that are ending
EXTRAS = {
    *("fastapi", "starlette", "uvicorn", "prometheus_client", "matplotlib", "pyarrow", "PIL", "huggingface_hub"),
    *("sentencepiece", "optuna", "ctranslate2", "onnx", "onnxruntime", "sacrebleu", "tensorboard", "transformers"),
    *("sqlalchemy", "sentence_transformers", "gguf", "llama_cpp", "onnxscript", "openvino", "google"),
    *("python_calamine", "xlsxwriter", "pandas", "pyspark", "ray", "distributed", "mlflow", "datasets"),
}
HEAVY = {"torch", "sklearn", "scipy"}
MODULES = sorted(ROOT.rglob("*.py"))


def name(path):
    """nn/norm.py -> nn.norm"""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path):
    """(module, whether inside a function) for every import of a file; those for type checkers alone are left out."""
    found = []

    def visit(node, inside):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            found.extend((module, True) for module, _ in _of(node.body))
            return
        found.extend((module, inside) for module, _ in _of([node]))
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside or function)

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return found


def _of(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "headway":  # from headway import nn
                yield from ((f"headway.{alias.name}", node) for alias in node.names)
            else:
                yield node.module, node


def allowed(layer, target):
    """Whether a module of one layer may import from another."""
    if target in GROUND or target == "__version__":
        return layer != "nn"
    if layer in GROUND or target not in LAYERS:
        return False
    return LAYERS.index(target) <= LAYERS.index(layer)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_point_one_way(path):
    layer = name(path).split(".")[0]
    if layer in ("__init__", "__main__"):
        return  # the front door opens on everything; what it may load at once is tested below
    assert layer in {*LAYERS, *GROUND}, f"{layer} has no place in the order of layers"
    for module, _ in imports(path):
        if module.startswith("headway."):
            target = module.split(".")[1]
            assert allowed(layer, target), f"{name(path)} imports {module}: {layer} may not import {target}"


def folder_of(module):
    """The task in whose folder a module is: "classification" of tasks.classification.data; None outside."""
    parts = module.split(".")
    return parts[1] if parts[0] == "tasks" and len(parts) > 2 and parts[1] in FOLDERS else None


@pytest.mark.parametrize("path", [path for path in MODULES if folder_of(name(path))], ids=name)
def test_a_task_imports_no_other_task(path):
    folder = folder_of(name(path))
    for module, _ in imports(path):
        inside = module.removeprefix("headway.")
        found = folder_of(inside + ".x" if inside.count(".") == 1 else inside)
        assert found in (None, folder), f"{name(path)}: {module}"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if folder_of(name(path)) is None and name(path) != TYPED], ids=name
)
def test_nobody_outside_tasks_imports_one_nor_does_what_tasks_share(path):
    for module, _ in imports(path):
        assert folder_of(module.removeprefix("headway.") + ".x") is None, f"{name(path)} imports {module}"


@pytest.mark.parametrize("path", [path for path in MODULES if name(path).startswith("nn.")], ids=name)
def test_nn_imports_torch_alone(path):
    outside = {module.split(".")[0] for module, _ in imports(path) if not module.startswith("headway.nn")}
    assert outside <= NN_MAY


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_extras_are_imported_inside_functions(path):
    """A base install must be able to import every module."""
    early = {module for module, inside in imports(path) if module.split(".")[0] in EXTRAS and not inside}
    assert not early, f"{name(path)} imports {early} at once: an extra belongs inside the function that needs it"


MODULE = {"scikit-learn": "sklearn", "pillow": "PIL", "llama-cpp-python": "llama_cpp", "protobuf": "google"}
MODULE |= {"dask": "distributed", "mlflow-skinny": "mlflow"}
"""The module of a package that has another name."""
CHECKED_WITH = {"transformers", "sentence_transformers", "peft"}
"""Other programs, by which an export is checked where they are installed."""


def _declared():
    """The modules of the packages that pyproject.toml declares: of the base install, and of the extras but dev."""
    said = tomllib.loads((ROOT.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = said["optional-dependencies"]
    of_extras = [one for extra, those in extras.items() if extra not in ("dev", "peers") for one in those]
    groups = (said["dependencies"], of_extras)
    names = [{re.split(r"[<>=!~\[ ]", package)[0] for package in group} for group in groups]
    return [{MODULE.get(name, name.replace("-", "_")) for name in group} for group in names]


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    base, extras = _declared()
    found = {module.split(".")[0] for path in MODULES for module, _ in imports(path)}
    found |= {"tensorboard" for path in MODULES for module, _ in imports(path) if module == "torch.utils.tensorboard"}
    found -= {*sys.stdlib_module_names, "headway", *CHECKED_WITH}
    assert found - EXTRAS == base, "what is no extra is for every install"
    assert found & EXTRAS == extras - base, "an extra may ask for a later version of a package of every install"


def needed_at_once(start, seen=None):
    """Every module that importing one loads, itself and what it imports outside functions."""
    seen = set() if seen is None else seen
    if start in seen:
        return seen
    seen.add(start)
    for module, inside in imports(start):
        if module.startswith("headway") and not inside:
            parts = module.split(".")[1:]
            for end in range(len(parts) + 1):  # a package's __init__ is run on the way
                place = ROOT.joinpath(*parts[:end])
                for path in (place / "__init__.py", place.with_suffix(".py")):
                    if path.is_file():
                        needed_at_once(path, seen)
    return seen


LIGHT = [
    *(ROOT / "__init__.py", ROOT / "cli" / "main.py", ROOT / "cli" / "answer.py"),
    *(path for path in MODULES if name(path).startswith("text.")),
    *(path for path in MODULES if folder_of(name(path)) and path.stem in ("spec", "command", "recognise")),
]


@pytest.mark.parametrize("path", [path for path in LIGHT if path.exists()], ids=name)
def test_help_and_text_need_no_torch(path):
    for module in needed_at_once(path):
        early = {found for found, inside in imports(module) if not inside}
        heavy = {found for found in early if found.split(".")[0] in HEAVY or found == "safetensors.torch"}
        assert not heavy, f"{name(path)} loads {name(module)}, which imports {heavy}"


def test_answers_need_no_distributed_training():
    """torch's parts for it take a second to import, which every verb that loads a model would wait for."""
    for module in needed_at_once(ROOT / "workflows" / "load.py"):
        early = {found for found, inside in imports(module) if not inside and found.startswith("torch.distributed")}
        assert not early, f"headway.load loads {name(module)}, which imports {early}"


def test_the_rules_bite(tmp_path):
    """The parser sees imports of every form, and the order forbids what it should."""
    path = tmp_path / "module.py"
    path.write_text(
        "from headway import cli\nimport headway.nn.norm, torch.nn\n\n\nclass A:\n    import onnx\n\n"
        "    def f(self):\n        from datasets import load_dataset\n"
    )
    assert set(imports(path)) == {
        ("headway.cli", False), ("headway.nn.norm", False), ("torch.nn", False), ("onnx", False), ("datasets", True),
    }  # fmt: skip
    assert allowed("hub", "models") and allowed("hub", "errors") and allowed("cli", "serving")
    assert not (allowed("nn", "models") or allowed("nn", "errors") or allowed("errors", "nn") or allowed("hub", "data"))
    assert EXTRAS.isdisjoint(sys.stdlib_module_names)


def test_every_file_that_is_no_module_is_installed_too():
    said = tomllib.loads((ROOT.parent.parent / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = said["tool"]["setuptools"]["package-data"]["headway"]
    others = [path for path in ROOT.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    assert len(others) >= 4
    for path in others:
        assert any(fnmatch.fnmatch(str(path.relative_to(ROOT)), one) for one in patterns), f"{path.name} is left out"
