"""Tables as conversations: of messages, of Alpaca's instruction, input and output, of prompt and completion."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import islice, pairwise

from headway.data.formats.json_lines import Malformed, from_json, text_of
from headway.data.records.chunks import chunked, numbered_rows
from headway.data.records.dialogues import KEY, REPLY, SYSTEM, Dialogues, Noticed, checked, conversations
from headway.data.records.rows import BadRows, OpenTable, shorten
from headway.data.records.table import Table, read_table
from headway.errors import InputError
from headway.text.chat.template import Message

JOINT = "\n\n"
"""What stands between an instruction and its input; an empty input is left out."""
FORMS = {
    "instruction": ("output", "response", "completion", "answer"),
    "prompt": ("completion", "response", "output", "reply"),
}
"""By the name of the column that is said to the model, what the column of its replies is called."""
ASKED = {**FORMS, "question": ("answer", "response")}
"""The same where conversations are asked for; else a question with its answer is a text and its target."""
INPUT, HISTORY = "input", "history"


@dataclass(frozen=True)
class Turns:
    """The columns of a table of conversations."""

    prompt: str
    reply: str
    input: str | None = None
    """joined to the prompt, where it is not empty"""
    system: str | None = None
    """the message of the system, where it is not empty"""
    history: str | None = None
    """the turns before the prompt, a list of pairs"""

    @property
    def words(self) -> str:
        """The columns in words."""
        before = f"{self.system!r} as the system message, " if self.system else ""
        before += f"{self.history!r} as the turns before, " if self.history else ""
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
            history = names.get(HISTORY) if HISTORY not in (one, other) else None
            return Turns(names[one], names[other], given, system, history)
    return None


def as_dialogues(table: Table, turns: Turns | None, on_bad_row: str = "error") -> Dialogues:
    """Each row of a table as a conversation, its messages or these turns.  Raises InputError, naming the row."""
    noticed = Noticed()

    def opened(bads: Sequence[BadRows], tallies: object) -> Iterator[OpenTable]:
        rows = numbered_rows(table.chunks())
        for bad, (start, end) in zip(bads, pairwise([*table.starts, len(table)]), strict=True):
            filled = (row for row in islice(rows, end - start) if any(cell.strip() for cell in row[1].values()))
            messages_of = checked if turns is None else lambda row: _messages(row, turns)
            yield OpenTable([KEY], chunked([KEY], conversations(filled, messages_of, bad, noticed)))

    found = read_table(table.paths, opened, on_bad_row, repr((table.reading, turns, on_bad_row)), held=table.held)
    if not len(found):
        raise InputError(f"{table.name}: there is no conversation in this file.")
    own = vars(found) | {"fingerprint": table.fingerprint, "skipped": [*table.skipped, *found.skipped]}
    words = "" if turns is None else turns.words
    return Dialogues(**own, renamed=noticed.renamed, unread=noticed.unread, turns=words)


def _messages(row: dict[str, str], turns: Turns) -> tuple[list[Message], list[str]]:
    """The conversation of a row, as ``checked`` returns it.  Raises Malformed."""
    said, reply = _of_cell(row[turns.prompt], "user"), _of_cell(row[turns.reply], REPLY)
    given = row[turns.input] if turns.input else ""
    if not any(text_of(message["content"]).strip() for message in said):
        raise Malformed(f"column {turns.prompt!r} is empty; expected a prompt.")
    if not any(text_of(message["content"]).strip() for message in reply):
        raise Malformed(f"column {turns.reply!r} is empty; expected a reply.")
    if given.strip():
        said[-1] = {**said[-1], "content": text_of(said[-1]["content"]) + JOINT + given}
    system = [{"role": "system", "content": row[turns.system]}] if turns.system and row[turns.system].strip() else []
    history = _turns_before(row[turns.history], turns.history) if turns.history else []
    others = {name: cell for name, cell in row.items() if name not in astuple(turns)}
    return checked({**others, KEY: [*system, *history, *said, *reply]})


def _turns_before(cell: str, name: str) -> list[Message]:
    """A list of pairs, a prompt and its reply each, as messages.  Raises Malformed."""
    pairs = from_json(cell) if cell.strip() else []
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise Malformed(f"column {name!r} holds {shorten(cell)}, expected a list of pairs of a prompt and a reply.")
    return [{"role": role, "content": text} for pair in pairs for role, text in zip(("user", REPLY), pair, strict=True)]


def _of_cell(cell: str, role: str) -> list[Message]:
    """A cell as a message of that role, or as the messages that it lists in JSON, as trl writes them."""
    listed = from_json(cell) if cell.startswith("[{") else None
    if isinstance(listed, list) and all(isinstance(one, dict) and {"role", "content"} <= set(one) for one in listed):
        return listed
    return [{"role": role, "content": cell}]
