"""Tables with planted faults, each with the rows that it meant: ``python planted_tables.py FOLDER`` writes them.

A table is right if what is read equals the rows that were meant, or if a message names what ``refused`` says.
"""

import gzip
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

WORDS = ["the", "phone", "is", "great", "but", "its", "battery", "died", "after", "two", "days", "and", "then", "we"]
HEADER = ("text", "label")
Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Planted:
    """A table: its content, the rows that it meant, and what a message may name instead of reading them."""

    content: str | bytes
    meant: Rows
    refused: str = ""
    ending: str = "csv"
    options: tuple[str, ...] = ()
    header: tuple[str, ...] = HEADER
    reading: dict[str, str] = field(default_factory=dict)
    """the options of the command that ``data.open.read`` has too"""


def texts(count: int, seed: int = 1) -> list[str]:
    draw = random.Random(seed)
    return [f"{' '.join(draw.choices(WORDS, k=7))} {number}" for number in range(count)]


def labelled(count: int = 60, labels: tuple[str, ...] = ("pos", "neg", "mixed")) -> Rows:
    draw = random.Random(2)
    return [(text, draw.choice(labels)) for text in texts(count)]


def pairs(count: int) -> Rows:
    return [(one.capitalize() + ".", f"Z{two}.") for one, two in zip(texts(count), texts(count, 3), strict=True)]


def written(rows: Rows, delimiter: str = ",", end: str = "\n", header: tuple[str, ...] = HEADER) -> str:
    """A table of cells as they are: nothing is quoted."""
    return "".join(delimiter.join(row) + end for row in ([header, *rows] if header else rows))


def quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def stray(rows: Rows, first: int, last: int, column: int, delimiter: str = ",", **more: object) -> Planted:
    """A quote at the beginning of a cell, and one at the end of a cell of a later row, both meant as text."""
    meant = [list(row) for row in rows]
    meant[first][column] = '"' + meant[first][column]
    meant[last][column] += '"'
    cells = [tuple(row) for row in meant]
    content = written(cells, delimiter, header=more.get("header", HEADER))  # type: ignore[arg-type]
    return Planted(content, cells, f"line {first + 2}: the quote", **more)  # type: ignore[arg-type]


def cell(value: str, shown: str | None = None, refused: str = "", delimiter: str = ",", **more: object) -> Planted:
    """A text in the seventh row, which stands in the table as ``shown``."""
    rows = labelled()
    rows[6] = (value, "pos")
    before, after = written(rows[:6], delimiter), written(rows[7:], delimiter, header=())
    row = f"{value if shown is None else shown}{delimiter}pos\n"
    return Planted(before + row + after, rows, refused, **more)  # type: ignore[arg-type]


def line(text: str, refused: str, at: int = 6, meant: Rows | None = None) -> Planted:
    """A line of its own before a row."""
    rows = labelled()
    content = f"{written(rows[:at])}{text}\n{written(rows[at:], header=())}"
    return Planted(content, rows if meant is None else meant, refused)


def first_line(header: str, refused: str = "", form: str = "{},{}\n", **more: object) -> Planted:
    rows = labelled()
    return Planted(header + "".join(form.format(*row) for row in rows), rows, refused, **more)  # type: ignore[arg-type]


def labels(*names: str, refused: str = "", more: tuple[str, ...] = (), meant: dict[str, str] | None = None) -> Planted:
    """Rows with each of these labels in turn; ``meant`` says what some of them should be read as."""
    rows = [(text, names[number % len(names)]) for number, text in enumerate(texts(60))]
    read = [(text, (meant or {}).get(label, label)) for text, label in rows]
    return Planted(written(rows), read, refused, options=("--label-column", "label", *more))


def encoded(encoding: str, refused: str = "", *options: str, mixed: str = "") -> Planted:
    """Letters beyond ASCII in an encoding, the row at line 9 in another one."""
    rows = [(f"{text} café où {i}", label) for i, (text, label) in enumerate(labelled())]
    lines = written(rows).splitlines(keepends=True)
    content = b"".join(text.encode(mixed if mixed and at == 8 else encoding) for at, text in enumerate(lines))
    if encoding == "utf-16":
        content = written(rows).encode(encoding)
    return Planted(content, rows, refused, options=options, reading={"encoding": options[1]} if options else {})


ROWS = labelled()
POEM = "\n".join(f"line {number}, with a comma; and more" for number in range(300))
LETTER = 'Dear Bob,\n\nit says "hello, you",\nand so do I.\n'
INCHES = [(f'a 5" screen {text}', label) for text, label in ROWS]
NUMBERS = [(("007", "1e5", "1.50", "+3", "0x1F", "1_000")[i % 6] + str(i), label) for i, (_, label) in enumerate(ROWS)]
TRIPLES = [(str(number), *row) for number, row in enumerate(ROWS, 101)]
AS_TEXT = ("--labels-as-text",)
SIDES = ("source", "target")
TRANSLATION = ("--task", "translation")

TABLES = {
    "stray quotes two rows apart": stray(ROWS, 10, 12, 0),
    "stray quotes 150 rows apart": stray(labelled(200), 20, 170, 0),
    "stray quotes in labels": stray(labelled(80), 1, 77, 1),
    "stray quotes in pairs": stray(pairs(400), 50, 300, 0, "\t", ending="tsv", header=SIDES, options=TRANSLATION),
    "stray quotes in targets": stray(pairs(99), 7, 9, 1, "\t", ending="tsv", header=SIDES, options=TRANSLATION),
    "stray quotes with semicolons": stray(ROWS, 3, 40, 0, ";"),
    "stray quotes, compressed": stray(ROWS, 3, 4, 0, ending="csv.gz"),
    "stray quotes between columns": stray(TRIPLES, 5, 30, 1, header=("id", *HEADER)),
    "a quote that is never closed": cell('"open to the end', refused="line 8: the quote"),
    "three stray quotes": Planted(stray(ROWS, 9, 20, 0).content + '"and one more,pos\n', [], "line 1"),
    "a quoted first word": cell('"Best" camera ever', refused="row 8: a closing quote"),
    "a quoted word in the middle": cell('the "best" camera ever'),
    "a quote at the end": cell('he said "never again"'),
    "inch marks": Planted(written(INCHES), INCHES),
    "doubled quotes": cell('say "hello" twice', '"say ""hello"" twice"'),
    "doubled quotes without quotes around": cell('say ""hello"" twice'),
    "apostrophes": cell("'tis the phone's 'best' part'"),
    "delimiters in quotes": cell("well, yes, and no", '"well, yes, and no"'),
    "a poem of 300 lines": cell(POEM, quoted(POEM)),
    "a letter with quotes": cell(LETTER, quoted(LETTER)),
    "every cell quoted": first_line('"text","label"\n', form='"{}","{}"\n'),
    "a blank before a quote": cell('"a, b"', ' "a, b"', "row 8: this row has 3 fields"),
    "decimal commas with semicolons": cell("12,5 cm and 3,75 kg", delimiter=";"),
    "a tab in quotes": cell("left\tright", '"left\tright"', delimiter="\t", ending="tsv", header=HEADER),
    "a tab without quotes": cell("a\tb", None, "row 8: this row has 3 fields", "\t", ending="tsv"),
    "bars": cell("one, two; three", delimiter="|"),
    "a carriage return in quotes": cell("one\rtwo", '"one\rtwo"'),
    "CRLF in quotes": cell("one\r\ntwo", '"one\r\ntwo"'),
    "CRLF": Planted(written(ROWS, end="\r\n"), ROWS),
    "carriage returns alone": Planted(written(ROWS, end="\r"), ROWS, "row 1"),
    "a carriage return without quotes": cell("one\rtwo", refused="row 8"),
    "separators of lines in Unicode": cell("one\u2028two\x85three\u2029four"),
    "vertical tabs": cell("one\x0btwo\x0cthree\x1cfour"),
    "NUL": cell("one\0two", refused="row 8"),
    "a byte order mark": Planted("\ufeff" + written(ROWS), ROWS),
    "UTF-16": encoded("utf-16", "", "--encoding", "utf-16"),
    "UTF-16 without a word": encoded("utf-16", "--encoding utf-16"),
    "cp1252": encoded("cp1252", "", "--encoding", "cp1252"),
    "Latin-1 without a word": encoded("latin-1", "line 2: byte"),
    "UTF-8 with one line in Latin-1": encoded("utf-8", "line 9: byte", mixed="latin-1"),
    "no header": Planted(written(ROWS, header=()), ROWS, "line 1: this does not look like a header"),
    "pairs without a header": Planted(
        written(pairs(101), "\t", header=()), pairs(101), "line 1: this does not", "tsv", TRANSLATION, SIDES
    ),
    "a name twice": first_line("text,text\n", "line 1: the header has 'text' twice"),
    "the header twice": line("text,label", "row 8: this row repeats the header"),
    "a header with blanks and a mark": first_line("\ufeff text , label\n"),
    "another order": Planted("label,text\n" + "".join(f"{label},{text}\n" for text, label in ROWS), ROWS),
    "an index without a name": Planted(",text,label\n" + written(TRIPLES, header=()), ROWS),
    "columns without names": first_line("text,,\n", "line 1", "{},{},x\n"),
    "a short row": line("only a text", "row 8: this row has 1 field"),
    "a delimiter at the end of a row": line("a text,pos,", "row 8: this row has 3 fields"),
    "a comment": line("# written by hand", "row 8: this row has 1 field"),
    "empty lines": first_line("\n\ntext,label\n\n", form="{},{}\n\n"),
    "words for nothing": labels("NA", "null", "yes", refused="rows 2, 3, 5"),
    "words for nothing, as text": labels("NA", "null", "nan", "None", "N/A", "n/a", more=AS_TEXT),
    "equal numbers": labels("1", "2", "1.0", "01", refused="rows"),
    "equal numbers, as text": labels("1.1", "1.10", "2", "02", more=AS_TEXT),
    "large ids": labels("9007199254740992", "9007199254740993"),
    "spellings": labels("Yes", "yes", "YES", "True", "TRUE", "true"),
    "blanks after labels": labels("yes", "yes ", "no", meant={"yes ": "yes"}),
    "one label": labels("yes", refused="only one label in column 'label' ('yes', 60 rows)"),
    "names of columns exchanged": Planted(
        written(ROWS, header=HEADER[::-1]), ROWS, "column 'label' has 60 distinct values in 60 rows"
    ),
    "texts that look like numbers": Planted(written(NUMBERS), NUMBERS, options=("--text-column", "text")),
    "empty labels": labels("yes", "no", "", refused="rows 4, 7"),
}
assert len(TABLES) >= 60
REAL = (
    *("a quote at the end", "doubled quotes without quotes around", "a poem of 300 lines", "a letter with quotes"),
    *("a carriage return in quotes", "CRLF in quotes", "separators of lines in Unicode", "another order"),
    *("UTF-16", "words for nothing, as text"),
)
"""Tables that the tests train on, and whose answers they compare row by row."""


def write(name: str, folder: Path) -> Path:
    """A table, and next to it the rows that it meant."""
    made, stem = TABLES[name], name.replace(" ", "-").replace(",", "")
    path = folder / f"{stem}.{made.ending}"
    content = made.content if isinstance(made.content, bytes) else made.content.encode()
    path.write_bytes(gzip.compress(content, mtime=0) if made.ending.endswith("gz") else content)
    meant = [dict(zip(made.header, row, strict=True)) for row in made.meant]
    (folder / f"{stem}.meant.json").write_text(json.dumps({"rows": meant, "or refused": made.refused}, indent=1))
    return path


if __name__ == "__main__":
    for each in TABLES:
        print(write(each, Path(sys.argv[1])))
