"""Write tables, damage them in ways whose meaning is known, and read them: fuzz_tables.py [SECONDS] [SEED].

A table must be read as it is meant, row by row, or be refused in one line: no row may be lost, joined to another or
moved to another label in silence.  It is read twice, as training reads it and as answering does.  What goes wrong is
printed with the seed of its case; ``fuzz_tables.py 0 SEED`` repeats that case alone.  Exit status 1 when there was any.
"""

import csv
import gzip
import io
import json
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

from fuzz import drive

from headway.data.open.read import read_rows
from headway.data.records.labels import labelled
from headway.errors import InputError
from headway.training.options import TrainOptions
from headway.workflows.input import read_input

SECONDS = 5.0
BYTES = 2 * 2**30
"""Of address space, above what was imported."""
LABELS = (("good", "bad"), ("1", "2", "3"), ("yes", "no", "not sure"), ("Défaut", "Ärger", "日本"), ("A,B", "C"))
WORDS = (
    *("the", "cat", "sat", "on", "a", "mat", "old", "doors", "12", "3.5", "naïve", "日本語", "🙂", "it's", '"quoted"'),
    *("-", "=1+1", "a;b", "x|y", "50%", "null", "N/A", "#1", "e-mail", "1,000", "(ok)", "\\n", "\\", "{}", "[1]"),
)
Rows = list[tuple[str, str]]
REFUSED: Rows | None = None
"""What is meant by damage that leaves no sure meaning."""


class Table:
    """Rows as the records of a file."""

    def __init__(self, choose: random.Random):
        self.choose = choose
        self.kind = choose.choice(("csv", "csv", "csv", "tsv", "jsonl", "json"))
        self.delimiter = "\t" if self.kind == "tsv" else choose.choice(",,,;|")
        self.quoting = choose.choice((csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        self.end = choose.choice(("\n", "\n", "\r\n"))
        labels = choose.choice(LABELS)
        self.rows: Rows = [(self._text(), labels[n % len(labels)]) for n in range(choose.choice((24, 60, 400)))]
        choose.shuffle(self.rows)
        self.names = ["text", "label"]
        self.records = [self.record(row) for row in self.rows]

    def _text(self) -> str:
        """A text that no other row has, of one line or, where a quote can hold them, of several."""
        words = self.choose.choices(WORDS, k=self.choose.randint(2, 12))
        text = " ".join([*words, str(self.choose.randrange(10**9))])
        return text.replace(" a ", "\na ") if self.choose.random() < 0.1 else text

    def record(self, row: tuple[str, ...]) -> str:
        """A row as the file has it, without the end of its line."""
        if self.kind in ("jsonl", "json"):
            return json.dumps(dict(zip(self.names, row, strict=False)), ensure_ascii=self.choose.random() < 0.5)
        place = io.StringIO()
        csv.writer(place, delimiter=self.delimiter, quoting=self.quoting).writerow(row)
        return place.getvalue().removesuffix("\r\n")

    def content(self) -> str:
        """The text of the file."""
        if self.kind == "json":
            return "[" + ",\n".join(self.records) + "]"
        head = [] if self.kind == "jsonl" else [self.record(tuple(self.names))]
        return self.end.join([*head, *self.records]) + self.end

    def some(self) -> int:
        """The number of a row, neither the first nor the last."""
        return self.choose.randrange(1, len(self.records) - 1)


Damage = Callable[[Table], list[Rows | None]]
"""Spoils a table; the rows that may be read, each as a whole, with REFUSED where it may be refused."""


def nothing(table: Table) -> list[Rows | None]:
    return [table.rows]


def lost(table: Table) -> list[Rows | None]:
    at = table.some()
    del table.records[at]
    return [[row for n, row in enumerate(table.rows) if n != at]]


def twice(table: Table) -> list[Rows | None]:
    at = table.some()
    table.records.insert(at, table.records[at])
    return [[*table.rows[:at], table.rows[at], *table.rows[at:]]]


def other_label(table: Table) -> list[Rows | None]:
    """A row of a new class is what the file says, however rare."""
    at = table.some()
    rows = [*table.rows]
    rows[at] = (rows[at][0], rows[at][1] + "x")
    table.records[at] = table.record(rows[at])
    return [rows, REFUSED]


def no_label(table: Table) -> list[Rows | None]:
    at = table.some()
    table.records[at] = table.record((table.rows[at][0], ""))
    return [REFUSED]


def no_text(table: Table) -> list[Rows | None]:
    at = table.some()
    table.records[at] = table.record(("", table.rows[at][1]))
    return [[row for n, row in enumerate(table.rows) if n != at], REFUSED]


def spaces(table: Table) -> list[Rows | None]:
    """Blank space around a label is none of it."""
    at = table.some()
    table.records[at] = table.record((table.rows[at][0], f" {table.rows[at][1]} "))
    return [table.rows]


def blank_line(table: Table) -> list[Rows | None]:
    table.records.insert(table.some(), "")
    return [table.rows, REFUSED] if table.kind == "json" else [table.rows]


def cut(table: Table) -> list[Rows | None]:
    """In the middle of a record, which is the last."""
    at = table.some()
    del table.records[at + 1 :]
    record = table.records[at]
    table.records[at] = record[: table.choose.randrange(1, len(record))]
    whole = next((n for n in range(len(record)) if record[:n] == table.records[at]), 0)
    partial = _read_alone(table, record[:whole]) if table.kind not in ("json", "jsonl") else None
    return [REFUSED, *([[*table.rows[:at], partial]] if partial else [])]


def _read_alone(table: Table, record: str) -> tuple[str, str] | None:
    """A record that was cut, where it still has its fields: nobody can tell it from a whole one."""
    try:
        cells = next(csv.reader(io.StringIO(record), delimiter=table.delimiter, strict=True), [])
    except csv.Error:
        return None
    return (cells[0], cells[1].strip()) if len(cells) == 2 and cells[1].strip() else None


def joined(table: Table) -> list[Rows | None]:
    at = table.some()
    table.records[at : at + 2] = ["".join(table.records[at : at + 2])]
    return [REFUSED]


def not_text(table: Table) -> list[Rows | None]:
    """A byte that is no text, written as a mark here."""
    at = table.some()
    place = table.choose.randrange(1, len(table.records[at]))
    table.records[at] = f"{table.records[at][:place]}\udcff{table.records[at][place:]}"
    return [REFUSED]


def nul(table: Table) -> list[Rows | None]:
    at = table.some()
    place = table.choose.randrange(1, len(table.records[at]))
    table.records[at] = f"{table.records[at][:place]}\0{table.records[at][place:]}"
    return [REFUSED]


def no_delimiter(table: Table) -> list[Rows | None]:
    at = table.some()
    text, label = (table.record((cell,)) for cell in table.rows[at])
    table.records[at] = text + label
    return [REFUSED]


def more_fields(table: Table) -> list[Rows | None]:
    at = table.some()
    more = table.choose.choice(("", "x"))
    ends = (table.records[at], more)
    table.records[at] = table.delimiter.join(ends if table.choose.random() < 0.5 else ends[::-1])
    return [REFUSED]


def opened(table: Table) -> list[Rows | None]:
    """A quote before a field that has none."""
    at = table.some()
    table.records[at] = f'"{table.rows[at][0]}{table.delimiter}{table.rows[at][1]}'
    return [REFUSED]


def not_closed(table: Table) -> list[Rows | None]:
    at = table.some()
    text = table.rows[at][0].replace('"', '""')
    table.records[at] = f'"{text}{table.delimiter}{table.rows[at][1]}'
    return [REFUSED]


def broken_line(table: Table) -> list[Rows | None]:
    at = table.some()
    text, label = (cell.replace('"', "'").replace(table.delimiter, " ").replace("\n", " ") for cell in table.rows[at])
    place = table.choose.randrange(1, len(text) + len(label))
    record = f"{text}{table.delimiter}{label}"
    end = table.choose.choice(("\n", "\r"))
    table.records[at] = f"{record[:place]}{end}{record[place:]}"
    rows = [*table.rows[:at], (text, label), *table.rows[at + 1 :]]
    return [REFUSED, *([rows] if place == len(text) + len(label) else [])]


def header_again(table: Table) -> list[Rows | None]:
    table.records.insert(table.some(), table.record(tuple(table.names)))
    return [REFUSED]


def other_order(table: Table) -> list[Rows | None]:
    table.names.reverse()
    table.records = [table.record(row[::-1]) for row in table.rows]
    return [table.rows]


def one_more_column(table: Table) -> list[Rows | None]:
    table.names.append("note")
    table.records = [table.record((*row, str(n))) for n, row in enumerate(table.rows)]
    return [table.rows]


def title(table: Table) -> list[Rows | None]:
    table.records.insert(0, table.record(tuple(table.names)))
    table.names = ["All reviews", ""]
    return [REFUSED]


def key_lost(table: Table) -> list[Rows | None]:
    at, key = table.some(), table.choose.choice(table.names)
    table.records[at] = json.dumps({name: cell for name, cell in json.loads(table.records[at]).items() if name != key})
    rows = [row for n, row in enumerate(table.rows) if n != at]
    return [REFUSED, *([rows] if key == "text" else [])]


def key_twice(table: Table) -> list[Rows | None]:
    at = table.some()
    table.records[at] = f'{table.records[at][:-1]}, "{table.choose.choice(table.names)}": "else"}}'
    return [REFUSED]


def other_type(table: Table) -> list[Rows | None]:
    at, key = table.some(), table.choose.choice(table.names)
    value = table.choose.choice((None, ["a", "b"], {"a": 1}, 1e999))
    table.records[at] = json.dumps({**json.loads(table.records[at]), key: value})
    rows = [row for n, row in enumerate(table.rows) if n != at]
    return [REFUSED, *([rows] if key == "text" and value is None else [])]


def no_brace(table: Table) -> list[Rows | None]:
    at = table.some()
    table.records[at] = table.records[at][: table.choose.choice((-1, -2))]
    return [REFUSED]


ANY = (nothing, nothing, lost, twice, other_label, no_label, no_text, spaces, blank_line, cut, joined, not_text, nul)
DELIMITED = (no_delimiter, more_fields, opened, not_closed, broken_line, header_again, other_order, one_more_column)
OBJECTS = (key_lost, key_twice, other_type, no_brace, other_order, one_more_column)


def encoded(table: Table, damage: Damage) -> tuple[bytes, str, bool]:
    """The bytes of the file, the end of its name, and whether the damage of its coding may be refused only."""
    text, choose = table.content(), table.choose
    coding = choose.choice(("utf-8", "utf-8", "utf-8-sig")) if damage is not not_text else "utf-8"
    content = text.encode(coding, "surrogateescape")
    if choose.random() > 0.15:
        return content, f".{table.kind}", False
    packed = gzip.compress(content)
    if choose.random() < 0.5:
        return packed, f".{table.kind}.gz", False
    place = choose.randrange(12, len(packed))
    broken = packed[:place] if choose.random() < 0.5 else packed[:place] + b"\x55\xaa" + packed[place + 2 :]
    return broken, f".{table.kind}.gz", broken != packed


def both_ways(path: Path) -> tuple[Rows | None, list[tuple[str, str]] | None, list[str]]:
    """The rows as training reads them, as answering reads them (REFUSED: they are refused), and what was said."""
    found: list[Rows | None] = [REFUSED, REFUSED]
    said = []
    with warnings.catch_warnings(action="ignore"):
        try:
            options = TrainOptions(task="classification", text_column="text", label_column="label")
            rows = labelled(read_input([path], options)[0], "text", "label")
            found[0] = list(zip(rows.texts, rows.labels, strict=True))
        except InputError as error:
            said.append(str(error))
        try:
            table = read_rows(path)
            found[1] = [(row["text"], row["label"].strip()) for row in table.rows] if "text" in table.columns else []
        except InputError as error:
            said.append(str(error))
    return found[0], found[1], said


def case(number: int, folder: Path) -> tuple[str, str | None]:
    """(what happened, what should not have): its number decides everything."""
    choose = random.Random(number)
    table = Table(choose)
    damage: Damage = choose.choice((*ANY, *(OBJECTS if table.kind in ("json", "jsonl") else (*DELIMITED, title))))
    meant = damage(table)
    content, suffix, broken = encoded(table, damage)
    path = folder / f"case{suffix}"
    path.write_bytes(content)
    what = f"case {number}: {damage.__name__}, {suffix}, {table.delimiter!r}"
    began = time.process_time()
    try:
        learnt, read, said = both_ways(path)
    except BaseException:
        return "crashed", f"{what}: {traceback.format_exc()}"
    if (seconds := time.process_time() - began) > SECONDS:
        return "slow", f"{what}: took {seconds:.1f} s"
    if unclear := [one for one in said if "\n" in one or str(path) not in one]:
        return "unclear", f"{what}: {unclear[0][:500]}"
    meant = [REFUSED] if broken else meant
    usable = [rows for rows in meant if rows is not REFUSED]
    if learnt is REFUSED and REFUSED not in meant:
        return "refused wrongly", f"{what}: {said[0][:500]}"
    if learnt is not REFUSED and learnt not in usable:
        return "read wrongly", f"{what}: {_first_difference(learnt, (usable or [table.rows])[0])}"
    if (
        read is not REFUSED
        and damage not in (no_label, no_text, key_lost, other_type, title, cut)
        and read not in usable
    ):
        return "read wrongly", f"{what}: for answers: {_first_difference(read, (usable or [table.rows])[0])}"
    return ("refused" if learnt is REFUSED else "read"), None


def _first_difference(found: Rows, expected: Rows) -> str:
    for at, (one, other) in enumerate(zip(found, expected, strict=False)):
        if one != other:
            return f"row {at + 1} is {one!r:.200}, and was {other!r:.200}; {len(found)} rows for {len(expected)}"
    return f"{len(found)} rows for {len(expected)}"


def main(seconds: float = 3600.0, first: int | None = None) -> int:
    """Fuzz for that long."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + BYTES, most))
    with tempfile.TemporaryDirectory() as folder:
        return drive(lambda number: case(number, Path(folder)), seconds, first)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
