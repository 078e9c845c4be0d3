"""Texts that come with Python, read from its standard library when they are asked for, and synthetic pairs of texts."""

import ast
import datetime
import random
import sysconfig
import tokenize
import warnings
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

from headway.data.records.repeats import text_key
from headway.errors import InputError

LEFT_OUT = {
    *("test", "tests", "idle_test", "idlelib", "lib2to3", "encodings", "pydoc_data", "turtledemo", "ensurepip"),
    *("site-packages", "dist-packages", "__pycache__"),
}
"""Folders of tests, of tables, and of packages that are not Python's own."""
SHORTEST, LONGEST = 6, 24
"""Tokens of a line of code that can have a slip worth finding."""
WIDEST = 24
"""Characters of a token in such a line; only strings are longer."""
KINDS = {tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING}
BETWEEN = {tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT, tokenize.ENCODING, tokenize.ENDMARKER}
LABELS = ("fine", "slip")
Line = tuple[str, ...]
"""The tokens of a line of code."""


def standard_library() -> Path:
    """Where the source of this Python's standard library is."""
    return Path(sysconfig.get_paths()["stdlib"])


def source_files(folder: Path | None = None, *, seed: int = 0) -> list[Path]:
    """The Python files of a folder (or of the standard library), no tests, in an order drawn by ``seed``."""
    root = folder or standard_library()
    files = [path for path in root.rglob("*.py") if LEFT_OUT.isdisjoint(path.relative_to(root).parts[:-1])]
    files.sort(key=lambda path: path.relative_to(root).as_posix())
    random.Random(seed).shuffle(files)
    return files


def source_code(n_characters: int, *, folder: Path | None = None, seed: int = 0) -> str:
    """Whole source files without their comment lines, one after another, until there are so many characters.

    Raises InputError when there is none.
    """
    pieces, length = [], 0
    for text in _texts(source_files(folder, seed=seed)):
        code = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
        pieces.append("\n".join(code).strip() + "\n\n")
        length += len(pieces[-1])
        if length >= n_characters:
            break
    return _some("".join(pieces), folder)


def documentation(n_characters: int, *, folder: Path | None = None, seed: int = 0) -> str:
    """The topics of Python's help, then docstrings until there are so many characters, all in an order by ``seed``.

    Raises InputError when there is none.
    """
    pieces = [topic.strip() for topic in _topics((folder or standard_library()) / "pydoc_data" / "topics.py")]
    length = sum(map(len, pieces))
    for text in _texts(source_files(folder, seed=seed)):
        if length >= n_characters:
            break
        pieces.append("\n\n".join(_docstrings(text)))
        length += len(pieces[-1])
    random.Random(seed).shuffle(pieces)
    return _some("".join(f"{piece}\n\n" for piece in pieces if piece), folder)


def lines_with_slips(n_rows: int, *, folder: Path | None = None, seed: int = 0) -> list[tuple[str, str]]:
    """Rows (line of code, label): "fine" as it was written, or "slip" with two of its tokens exchanged.

    Each line of the source is used once, in one of the two ways, and all are written alike, one space between tokens:
    only the order of the tokens tells the labels apart.  Raises InputError when there are too few lines.
    """
    known: dict[str, Line] = {}
    for text in _texts(source_files(folder, seed=seed)):
        for line in _lines(text):
            known.setdefault(text_key(" ".join(line)), line)
        if len(known) >= n_rows:
            break
    random_ = random.Random(seed)
    rows, used = list[tuple[str, str]](), set(known)
    for line in list(known.values())[:n_rows]:
        label, shown = LABELS[len(rows) % 2], " ".join(line)
        if label == "slip":
            shown = " ".join(exchanged(line, random_))
            if text_key(shown) in used:
                continue  # as another line has it, or the same in other letters
            used.add(text_key(shown))
        rows.append((shown, label))
    if len(rows) < 20:
        raise InputError(f"{folder or standard_library()}: {len(rows)} lines of code found; expected 20 or more.")
    random_.shuffle(rows)
    return rows


def exchanged(line: Line, random_: random.Random) -> Line:
    """The line with two of its tokens, drawn at random among those that differ, in each other's place."""
    pairs = [(i, j) for j in range(len(line)) for i in range(j) if line[i].casefold() != line[j].casefold()]
    if not pairs:
        return line
    i, j = random_.choice(pairs)
    return (*line[:i], line[j], *line[i + 1 : j], line[i], *line[j + 1 :])


def _texts(paths: list[Path]) -> Iterator[str]:
    """What the files hold; those that cannot be read are passed over."""
    for path in paths:
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in someone else's strings
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _docstrings(text: str) -> Iterator[str]:
    """The docstrings of a module, its classes and functions that are longer than a few words."""
    for node in ast.walk(_parsed(text) or ast.Module([], [])):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if len(docstring) > 40:
                yield docstring


def _topics(path: Path) -> list[str]:
    """The values of the dictionary that a module of texts assigns; none where there is no such file."""
    module = next((_parsed(text) for text in _texts([path])), None)
    for statement in module.body if module is not None else []:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Dict):
            values = statement.value.values
            return [entry.value for entry in values if isinstance(entry, ast.Constant) and isinstance(entry.value, str)]
    return []


def _lines(text: str) -> Iterator[Line]:
    """The statements that stand on one line each, imports and decorators left out, as tokens."""
    tokens: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(StringIO(text).readline):
            if token.type == tokenize.NEWLINE:
                if _fits(tokens):
                    yield tuple(token.string for token in tokens)
                tokens = []
            elif token.type not in BETWEEN:
                tokens.append(token)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return


def _fits(tokens: list[tokenize.TokenInfo]) -> bool:
    """Whether a statement makes a row.  F-strings are left out: newer Pythons cut them in pieces."""
    if not SHORTEST <= len(tokens) <= LONGEST or tokens[0].string in ("import", "from", "@"):
        return False
    return tokens[0].start[0] == tokens[-1].end[0] and all(
        token.type in KINDS
        and len(token.string) <= WIDEST
        and not (token.type == tokenize.STRING and "f" in token.string[:2].lower().split(token.string[-1])[0])
        for token in tokens
    )


def _some(text: str, folder: Path | None) -> str:
    if not text.strip():
        raise InputError(f"{folder or standard_library()}: no Python source could be read there.")
    return text


LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2049, 12, 31)
FORMS = ("{day} {month} {year}", "{month} {day}, {year}", "{weekday}, {day} {month} {year}", "{day}.{number}.{year}")
MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def copies(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Words of 4 to 12 letters, and the same again."""
    return [(word, word) for word in _words(count, seed)]


def reversals(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Words of 4 to 12 letters, and the same reversed."""
    return [(word, word[::-1]) for word in _words(count, seed)]


def dates(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Days as people write them ("3 March 1987", "March 3, 1987", "3.3.1987"), and as ISO 8601 does ("1987-03-03")."""
    choose = random.Random(seed)
    pairs = []
    for _ in range(count):
        day = FIRST + datetime.timedelta(days=choose.randrange((LAST - FIRST).days + 1))
        form, month = choose.choice(FORMS), MONTHS[day.month - 1]
        parts = {"day": day.day, "month": choose.choice([month, month[:3]]), "number": day.month, "year": day.year}
        pairs.append((form.format(**parts, weekday=WEEKDAYS[day.weekday()]), day.isoformat()))
    return pairs


TOYS: dict[str, Callable[[int, int], list[tuple[str, str]]]] = {"copy": copies, "reverse": reversals, "dates": dates}
"""By name."""


def _words(count: int, seed: int) -> list[str]:
    choose = random.Random(seed)
    return ["".join(choose.choices(LETTERS, k=choose.randint(4, 12))) for _ in range(count)]
