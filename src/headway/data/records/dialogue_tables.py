"""Tables of prompts and replies as conversations: Alpaca's instruction, input and output; prompt and completion."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise

from headway.data.formats.json_lines import Malformed
from headway.data.records.chunks import Chunk, LineNumbers, chunked
from headway.data.records.dialogues import KEY, REPLY, Dialogues, Message, as_json, checked
from headway.data.records.rows import BadRows
from headway.data.records.table import StreamedRows, Table
from headway.errors import InputError

JOINT = "\n\n"
"""What stands between an instruction and its input; an empty input is left out."""
FORMS = {
    "instruction": ("output", "response", "completion", "answer"),
    "prompt": ("completion", "response", "output", "reply"),
}
"""By the name of the column that is said to the model, what the column of its replies is called."""
ASKED = {**FORMS, "question": ("answer", "response")}
"""The same where conversations are asked for; else a question with its answer is a text and its target."""
INPUT, SYSTEM = "input", ("system", "system_prompt")


@dataclass(frozen=True)
class Turns:
    """The columns of a table of conversations."""

    prompt: str
    reply: str
    input: str | None = None
    """joined to the prompt, where it is not empty"""
    system: str | None = None
    """the message of the system, where it is not empty"""

    @property
    def words(self) -> str:
        """The columns in words."""
        before = f"{self.system!r} as the system message, " if self.system else ""
        joined = f" and {self.input!r}" if self.input else ""
        return f"{before}{self.prompt!r}{joined} as the prompt, {self.reply!r} as the reply"


def turns_of(
    columns: Sequence[str], prompt: str | None = None, reply: str | None = None, *, asked: bool = False
) -> Turns | None:
    """The columns of prompts and replies by their names, or those that are named; None where there are none.

    ``asked``: a question and its answer are a conversation too.
    """
    names = {name.strip().casefold(): name for name in columns}
    pairs = [(one, other) for one, others in (ASKED if asked else FORMS).items() for other in others]
    if prompt is not None or reply is not None:
        if prompt is None or reply is None or prompt == reply or not {prompt, reply} <= set(columns):
            return None
        pairs = [(prompt.strip().casefold(), reply.strip().casefold())]
    for one, other in pairs:
        if one in names and other in names:
            system = next((names[name] for name in SYSTEM if name in names and name not in (one, other)), None)
            given = names.get(INPUT) if one == "instruction" and other != INPUT else None
            return Turns(names[one], names[other], given, system)
    return None


def as_dialogues(table: Table, turns: Turns, on_bad_row: str = "error") -> Dialogues:
    """Each row of a table as a conversation.  Raises InputError, naming the row, for one without a prompt or reply."""

    def files(bads: Sequence[BadRows]) -> Iterator[Iterator[Chunk]]:
        """The conversations of each file."""
        rows = (row for chunk in table.chunks() for row in zip(chunk.numbers, chunk.rows(), strict=True))
        for bad, (start, end) in zip(bads, pairwise([*table.starts, len(table)]), strict=True):
            yield chunked([KEY], _conversations(islice(rows, end - start), turns, bad))

    def stream() -> Iterator[Chunk]:
        return chain.from_iterable(files([BadRows(path, on_bad_row) for path in table.paths]))

    numbers, starts = LineNumbers(), []
    bads = [BadRows(path, on_bad_row) for path in table.paths]
    for bad, chunks in zip(bads, files(bads), strict=True):
        starts.append(len(numbers))
        for chunk in chunks:
            numbers.extend(chunk.numbers)
        bad.check(len(numbers) - starts[-1])
    if not numbers:
        raise InputError(f"{table.name}: there is no conversation in this file.")
    return Dialogues(
        table.paths,
        [KEY],
        StreamedRows(stream, len(numbers)),
        numbers,
        table.fingerprint,
        table.n_bytes,
        [*table.skipped, *(one for bad in bads for one in bad.skipped)],
        starts,
        stream=stream,
        reading=repr((table.reading, turns, on_bad_row)),
        turns=turns.words,
    )


def _conversations(
    rows: Iterable[tuple[int, dict[str, str]]], turns: Turns, bad: BadRows
) -> Iterator[tuple[int, list[str]]]:
    """The line of each conversation, and its messages as JSON; rows without anything are left out."""
    for line, row in rows:
        if not any(value.strip() for value in row.values()):
            continue
        try:
            messages = _messages(row, turns)
        except Malformed as error:
            bad.add(line, str(error))
            continue
        yield line, [as_json(messages)]


def _messages(row: dict[str, str], turns: Turns) -> list[Message]:
    """The conversation of a row.  Raises Malformed."""
    said, reply = _of_cell(row[turns.prompt], "user"), _of_cell(row[turns.reply], REPLY)
    given = row[turns.input] if turns.input else ""
    if not any(message["content"].strip() for message in said):
        raise Malformed(f"column {turns.prompt!r} is empty; expected a prompt.")
    if not any(message["content"].strip() for message in reply):
        raise Malformed(f"column {turns.reply!r} is empty; expected a reply.")
    if given.strip():
        said[-1] = {**said[-1], "content": said[-1]["content"] + JOINT + given}
    system = [{"role": "system", "content": row[turns.system]}] if turns.system and row[turns.system].strip() else []
    return checked({KEY: [*system, *said, *reply]})


def _of_cell(cell: str, role: str) -> list[Message]:
    """A cell as a message of that role, or as the messages that it lists in JSON, as trl writes them."""
    if cell.startswith("[{"):
        try:
            found = json.loads(cell)
        except (ValueError, RecursionError):
            found = []
        if found and all(isinstance(one, dict) and {"role", "content"} <= set(one) for one in found):
            return [{"role": one["role"], "content": str(one["content"])} for one in found]
    return [{"role": role, "content": cell}]
