"""Nothing outside ``tasks/`` goes by a task's name or verb: what differs between tasks is asked of the registry."""

import ast

import pytest
from test_imports import MODULES, folder_of, name

from headway.tasks.registry import NAMES, spec

NAMED = {*NAMES, *(spec(task).verb for task in NAMES)}
LIST = "tasks.registry"
"""Where tasks are listed."""
ALLOWED = {
    "cli.demo",  # trains models of its own
}
ANOTHER_WORD = {
    *("models.size", "training.optimizers"),  # the embedding of a model
    *("data.formats.json_lines", "data.open.columns"),  # a key or a column of a file
    *("serving.openapi", "serving.openai.embeddings"),  # a key of OpenAI's answers
}


def texts(node):
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}


def by_name(tree):
    """What a module compares with, looks up by or lists, of the names and verbs of tasks, with the line of each."""
    for node in ast.walk(tree):
        found = set()
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                found |= texts(side) if not isinstance(side, ast.Call | ast.Subscript) else set()
        elif isinstance(node, ast.Dict):
            found |= {text for key in node.keys if isinstance(key, ast.Constant) for text in texts(key)}
        elif isinstance(node, ast.MatchValue) or (
            isinstance(node, ast.Tuple | ast.List | ast.Set) and all(isinstance(e, ast.Constant) for e in node.elts)
        ):
            found |= texts(node)
        yield from ((node.lineno, word) for word in sorted(found & NAMED))


@pytest.mark.parametrize(
    "path", [path for path in MODULES if folder_of(name(path)) is None and name(path) != LIST], ids=name
)
def test_no_module_goes_by_the_name_of_a_task(path):
    found = list(by_name(ast.parse(path.read_text(encoding="utf-8"))))
    if name(path) in ALLOWED | ANOTHER_WORD:
        return
    assert not found, f"{path}: goes by the name of a task in {found}; ask tasks.registry.spec instead"


def test_the_rule_bites():
    module = 'if task == "translation":\n    pass\nUSES = {"classification": 1}\nmatch verb:\n    case "classify":\n'
    module += '        pass\nif task in ("masked_lm", "embedding"):\n    pass\ntrain(task="masked_lm")\n'
    assert {line for line, _ in by_name(ast.parse(module))} == {1, 3, 5, 7}
