"""Move or rename a module, a package, or a name in one; and everything that refers to it.

    python tools/move.py headway.tasks.spec headway.tasks.specification     # a module or a package
    python tools/move.py headway.tasks.task.Task headway.tasks.base.Base    # a class, a function or a constant

Imports, dotted references, names in strings (replaced attributes, entry points, lists in tests) and paths are rewritten
in src, tests, docs, examples, benchmarks and tools.  A name that goes to another module takes its imports along.  What
still has the old name as a word, and may mean it, is listed: that is for you.  ``ruff`` then sorts the imports.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("src", "tests", "docs", "examples", "benchmarks", "tools")
FILES = ("README.md", "Makefile", "pyproject.toml")
TEXTS = {".md", ".json", ".toml", ".yml", ".txt", ".svg", ".html", ".js", ".cfg"}

Edit = tuple[int, int, str]
"""Where replaced text begins and ends, in characters of the file, and what stands there instead."""


class Source:
    """A Python file: its text, its tree, and the edits that are to be made."""

    def __init__(self, path: Path):
        self.path, self.text = path, path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.edits: list[Edit] = []
        self._lines = self.text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """The character at a line (from 1) and a column (in bytes), as syntax trees count."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends."""
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def replace(self, node: ast.AST, text: str) -> None:
        """Put other text in place of a node."""
        self.edits.append((*self.span(node), text))

    def write(self) -> bool:
        """Make the edits; whether there were any."""
        for start, end, text in sorted(set(self.edits), reverse=True):
            self.text = self.text[:start] + text + self.text[end:]
        if self.edits:
            self.path.write_text(self.text, encoding="utf-8")
        return bool(self.edits)


def module_file(root: Path, module: str) -> Path | None:
    """The file of a module or the folder of a package; None if there is neither."""
    place = root / "src" / Path(*module.split("."))
    file = place.with_suffix(".py")
    return place if place.is_dir() else file if file.exists() else None


def files(root: Path) -> Iterator[Path]:
    """Every file that may name a module."""
    for folder in FOLDERS:
        yield from (path for path in sorted((root / folder).rglob("*")) if path.suffix in {".py", *TEXTS})
    yield from (root / name for name in FILES if (root / name).exists())


def statement(node: ast.ImportFrom, aliases: list[ast.alias], module: str | None = None) -> str:
    """An import of some of a statement's names."""
    names = ", ".join(f"{one.name} as {one.asname}" if one.asname else one.name for one in aliases)
    return f"from {module or node.module} import {names}"


def renamed(module: str, old: str, new: str) -> str | None:
    """What a module is called when ``old`` is called ``new``; None if that does not concern it."""
    return new + module[len(old) :] if module == old or module.startswith(old + ".") else None


def move_references(source: Source, old: str, new: str) -> None:
    """Let a file name a module, or what a module has, by its new dotted name: in imports, in code and in strings."""
    old_last, (new_parent, new_last) = old.rsplit(".", 1)[1], new.rsplit(".", 1)
    local: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            inside = renamed(node.module, old, new)
            moved = [one for one in node.names if f"{node.module}.{one.name}" == old]
            if inside is not None:
                source.replace(node, statement(node, node.names, inside))
            elif moved:
                local |= {one.name for one in moved if not one.asname}
                rest = [one for one in node.names if one not in moved]
                fresh = [ast.alias(new_last, one.asname) for one in moved]
                indent = " " * node.col_offset
                whole = [statement(node, rest)] if rest else []
                source.replace(node, f"\n{indent}".join([*whole, statement(node, fresh, new_parent)]))
        elif isinstance(node, ast.Import):
            for one in node.names:
                if (inside := renamed(one.name, old, new)) is not None:
                    source.replace(one, f"{inside} as {one.asname}" if one.asname else inside)
        elif isinstance(node, ast.Attribute) and dotted(node) == old:
            source.replace(node, new)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            start, end = source.span(node)
            text = source.text[start:end]
            if (changed := in_text(text, old, new)) != text:
                source.edits.append((start, end, changed))
    if local and old_last != new_last:
        rename_local(source, old_last, new_last)


def rename_local(source: Source, old: str, new: str) -> None:
    """Rename what a module binds, wherever the module reads it; a function's own variable of that name stays."""
    pattern = re.compile(rf"\b{re.escape(old)}\b")
    pending: list[ast.AST] = [source.tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and old in own_names(node):
            continue
        pending.extend(ast.iter_child_nodes(node))
        start, end = source.span(node) if hasattr(node, "lineno") else (0, 0)
        if isinstance(node, ast.Name) and node.id == old and source.text[start:end] == old:
            source.replace(node, new)
        for one in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                start, end = source.span(one)
                source.edits.append((start, end, pattern.sub(new, source.text[start:end])))


def own_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The parameters of a function and the variables that it assigns."""
    names = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    stored = (one for one in ast.walk(function) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
    return names | {one.id for one in stored}


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of an expression of attributes; "" of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    before = dotted(node.value) if isinstance(node, ast.Attribute) else ""
    return f"{before}.{node.attr}" if before else ""


def in_text(text: str, old: str, new: str) -> str:
    """A text in which dotted names and paths are the new ones."""
    text = re.sub(rf"(?<![\w.]){re.escape(old)}(?!\w)", new, text)
    for before, after in ((old, new), (old.partition(".")[2], new.partition(".")[2])):
        slashed = before.replace(".", "/")
        if "/" in slashed:
            pattern = rf"(?<![\w-]){re.escape(slashed)}(?=\.py\b|/|[\s\"'`,)\]]|$)"
            text = re.sub(pattern, after.replace(".", "/"), text)
    return text


def move_module(root: Path, old: str, new: str) -> None:
    """Move the file or the folder, and let every file follow."""
    place = module_file(root, old)
    assert place is not None
    target = root / "src" / Path(*new.split("."))
    target = target if place.is_dir() else target.with_suffix(".py")
    if target.exists():
        raise SystemExit(f"{target} exists")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "mv", str(place), str(target)], cwd=root, check=True)
    for path in files(root):
        if path.suffix == ".py":
            source = Source(path)
            move_references(source, old, new)
            source.write()
        else:
            rewrite(path, old, new)


def rewrite(path: Path, old: str, new: str) -> None:
    """Let a file that is not Python follow."""
    text = path.read_text(encoding="utf-8")
    if (changed := in_text(text, old, new)) != text:
        path.write_text(changed, encoding="utf-8")


def definition(source: Source, name: str) -> tuple[int, int]:
    """Where a name of a module is defined: its comment before and its docstring behind included, whole lines."""
    body = source.tree.body
    for number, node in enumerate(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {getattr(node, "name", None), *(getattr(one, "id", None) for one in targets)}
        if name not in names or isinstance(node, ast.Expr):
            continue
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        last, after = node.end_lineno, body[number + 1 : number + 2]
        if after and isinstance(node, ast.Assign | ast.AnnAssign) and is_docstring(after[0]):
            last = after[0].end_lineno
        lines = source.text.splitlines()
        while first > 1 and lines[first - 2].startswith("#"):
            first -= 1
        return source.at(first, 0), source.at(last, 0) + len(source.text[source.at(last, 0) :].split("\n", 1)[0]) + 1
    raise SystemExit(f"{source.path} does not define {name}")


def is_docstring(node: ast.AST) -> bool:
    """Whether a statement is a string alone."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def bound(node: ast.stmt) -> list[tuple[str, str]]:
    """The names that an import binds, each with an import of it alone."""
    if isinstance(node, ast.ImportFrom):
        return [(one.asname or one.name, statement(node, [one])) for one in node.names]
    if isinstance(node, ast.Import):
        return [
            (one.asname or one.name.split(".")[0], f"import {one.name}" + (f" as {one.asname}" if one.asname else ""))
            for one in node.names
        ]
    return []


def used(tree: ast.AST) -> set[str]:
    """The names that a piece of code reads, in annotations that are strings too."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            names.add(node.value)
    return names


def move_code(root: Path, old: str, new: str) -> None:
    """Take the definition of a name to another module, with the imports that it needs."""
    (old_module, old_name), (new_module, new_name) = old.rsplit(".", 1), new.rsplit(".", 1)
    source = Source(file_of(root, old_module))
    start, end = definition(source, old_name)
    code = source.text[start:end]
    rest = source.text[:start].rstrip("\n") + "\n\n\n" + source.text[end:].lstrip("\n")
    names = used(ast.parse(code))
    imports = [line for node in source.tree.body for name, line in bound(node) if name in names]
    here = {name for node in ast.parse(rest).body for name in defined(node)}
    imports += [f"from {old_module} import {name}" for name in sorted(names & here)]
    target = root / "src" / Path(*new_module.split(".")).with_suffix(".py")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f'"""{new_name}."""\n', encoding="utf-8")
    if old_name in used(ast.parse(rest)):
        rest = insert_imports(rest, [f"from {old_module} import {old_name}"])  # what refers to it follows below
    source.path.write_text(rest, encoding="utf-8")
    with_code = target.read_text(encoding="utf-8").rstrip("\n") + "\n\n\n" + code
    own = f"from {new_module} import "
    target.write_text(insert_imports(with_code, [one for one in imports if not one.startswith(own)]), encoding="utf-8")
    if old_name != new_name:
        moved = Source(target)
        rename_local(moved, old_name, new_name)
        rename_definition(moved, old_name, new_name)
        moved.write()
    subprocess.run(["git", "add", str(target)], cwd=root, check=True)


def defined(node: ast.stmt) -> set[str]:
    """The names that a statement of a module defines, imports excepted."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def insert_imports(text: str, imports: list[str]) -> str:
    """A module's text with more imports, after its docstring."""
    body = ast.parse(text).body
    line = body[0].end_lineno if body and is_docstring(body[0]) else 0
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:line], "\n", *(f"{one}\n" for one in imports), *lines[line:]])


def file_of(root: Path, module: str) -> Path:
    """The file that holds the code of a module."""
    place = module_file(root, module)
    if place is None:
        raise SystemExit(f"there is no module {module}")
    return place / "__init__.py" if place.is_dir() else place


def rename_definition(source: Source, old: str, new: str) -> None:
    """Let a class or a function of a module have another name."""
    for node in source.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name == old:
            start = source.at(node.lineno, node.col_offset)
            match = re.compile(rf"\b(class|def)\s+({re.escape(old)})\b").search(source.text, start)
            assert match is not None
            source.edits.append((*match.span(2), new))


def move_name(root: Path, old: str, new: str) -> None:
    """Move a name to another module, or rename it where it is, and let every file follow."""
    (old_module, old_name), (new_module, new_name) = old.rsplit(".", 1), new.rsplit(".", 1)
    if old_module != new_module:
        move_code(root, old, new)
    for path in files(root):
        if path.suffix != ".py":
            rewrite(path, old, new)
            continue
        source = Source(path)
        move_references(source, old, new)
        follow_attributes(source, old, new)
        if old_module == new_module and path == file_of(root, old_module):
            rename_local(source, old_name, new_name)
            rename_definition(source, old_name, new_name)
        source.write()


def follow_attributes(source: Source, old: str, new: str) -> None:
    """``module.Name``, where the module was imported from its package, becomes ``Name`` with an import of its own."""
    old_module, old_name = old.rsplit(".", 1)
    new_module, new_name = new.rsplit(".", 1)
    parent, _, last = old_module.rpartition(".")
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom) or node.module != parent:
            continue
        for one in node.names:
            if one.name == last:
                local = f"{one.asname or one.name}.{old_name}"
                hits = [found for found in ast.walk(source.tree) if dotted(found) == local]
                for found in hits:
                    if old_module == new_module:
                        source.replace(found, f"{one.asname or one.name}.{new_name}")
                    else:
                        source.replace(found, new_name)
                if hits and old_module != new_module:
                    start, _ = source.span(node)
                    source.edits.append((start, start, f"from {new_module} import {new_name}\n{' ' * node.col_offset}"))


def leftovers(root: Path, old: str) -> list[str]:
    """Lines that still have the last part of a name as a word, in strings, comments and pages."""
    word = old.rsplit(".", 1)[1]
    pattern = re.compile(rf"(?<![\w]){re.escape(word)}(?!\w)")
    found = []
    for path in files(root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if pattern.search(line) and (path.suffix != ".py" or re.search(rf"[\"'#`].*\b{re.escape(word)}\b", line)):
                found.append(f"{path.relative_to(root)}:{number}: {line.strip()[:120]}")
    return found


def main() -> None:
    """Move."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent)
    given = parser.parse_args()
    root = given.root.resolve()
    move = move_module if module_file(root, given.old) else move_name
    move(root, given.old, given.new)
    places = [str(root / folder) for folder in FOLDERS if (root / folder).exists()]
    for command in (["check", "--select", "I,F401,F811", "--fix"], ["format"]):
        subprocess.run([sys.executable, "-m", "ruff", *command, "--quiet", *places], cwd=root)
    left = leftovers(root, given.old)
    print(f"{len(left)} lines may still mean {given.old}:" if left else "nothing is left", *left, sep="\n  ")


if __name__ == "__main__":
    main()
