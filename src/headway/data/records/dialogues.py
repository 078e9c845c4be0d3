"""Conversations: rows with ``messages``, a list of {role, content}, or with columns of prompts and replies."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from headway.data.formats.json_lines import Malformed, from_json, json_objects, json_type, text_of
from headway.data.formats.parquet import open_parquet
from headway.data.open.files import Tally, kind, lines
from headway.data.records.rows import BadRows, OpenTable, chunked, numbered_rows, place_of, shorten
from headway.data.records.table import Table, read_table
from headway.errors import InputError
from headway.text.chat import MEANT, Message

KEY = "messages"
ROLES = ("system", "user", "assistant", "tool")
REPLY = "assistant"
"""The role that a model is trained to speak."""
SHARE_KEY = "conversations"
SHARE_ROLES = {"human": "user", "gpt": "assistant"}
"""The roles of ShareGPT that have other names here."""
NAMES = (KEY, SHARE_KEY, "conversation", "dialogue", "dialog")
"""What columns of conversations are called."""
MOST_MESSAGES = 10_000
SYSTEM = ("system", "system_prompt")
"""What the system message of a conversation is called where it is not among the messages."""
WEIGHT = "weight"
"""Of a message, 0 where it is context and not a target: OpenAI's name, as which the others are kept."""
WEIGHTS = (WEIGHT, "train", "training", "loss", "loss_scale")
TARGET = {"0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
"""Whether a reply is a target, by its weight as it is written."""
READ = ("role", "content", *WEIGHTS)
"""The fields of a message that are read."""
_PREFERENCE = "Headway has no task for preferences yet; keep the preferred reply as the last message and remove it"
REFUSED = {
    **MEANT,
    **dict.fromkeys(("chosen", "rejected", "rejected_response", "rejected_messages"), _PREFERENCE),
    "history": "write its turns into the messages",
    **dict.fromkeys(("chat_template", "chat_template_kwargs"), "the template is that of the model; remove it"),
    "train_detail": "a reply is trained on as a whole; use weight 0 to leave it out",
}
"""Fields that would change the result and are not read, of conversations and of messages, with what to do."""
JUDGED = ("label", "kto_tag")
"""Fields that are false where a reply is a bad example, as KTO has them."""


@dataclass
class Dialogues(Table):
    """A table of conversations; its one column, "messages", has each as JSON."""

    renamed: bool = False
    """Whether some are written in the words of ShareGPT."""
    unread: str = ""
    """A line about the fields that were not read."""
    turns: str = ""
    """The columns that they were made of, in words, where they stood in a table."""

    @property
    def conversations(self) -> Iterator[list[Message]]:
        """All of them, as they are read."""
        return map(json.loads, self.values(KEY))


@dataclass
class Noticed:
    """What reading conversations has shown."""

    renamed: bool = False
    fields: dict[str, tuple[int, str]] = field(default_factory=dict)
    """In how many conversations each field is that was not read, and where the first of them is."""

    @property
    def unread(self) -> str:
        """A line about these fields."""
        named = [f"{name} ({count:,} times, the first in {place})" for name, (count, place) in self.fields.items()]
        return f"fields of conversations that are not read: {', '.join(named)}" if named else ""


def holds_dialogues(path: Path, encoding: str | None) -> bool:
    """Whether the first object of a JSON Lines or Parquet file has a list of messages; reads no further."""
    bad = BadRows(path, "skip")
    if kind(path) == "parquet":
        return holds_messages(open_parquet(path, bad, None))
    first = next(json_objects(path, lines(path, encoding, None), bad), None) if kind(path) == "jsonl" else None
    return first is not None and isinstance(_in_our_words(first[1]).get(KEY), list)


def holds_messages(table: Table | OpenTable) -> bool:
    """Whether the first row of a table has a list of messages."""
    if {KEY, SHARE_KEY}.isdisjoint(table.columns):
        return False
    rows = numbered_rows(table.chunks() if isinstance(table, Table) else table.chunks)
    return any(isinstance(_in_our_words(row).get(KEY), list) for _, row in islice(rows, 1))


def check_column(path: Path, column: str, first: str) -> None:
    """Raise InputError when a column that was taken for texts is one of conversations in a form that is not read.

    Such are lists and objects, and any value of the very keys of conversations; ``first`` is the first value.
    """
    written = re.match(r"""\s*[\[{]\s*[\[{"']""", first) is not None
    if (written and column.lower() in NAMES) or (column in (KEY, SHARE_KEY) and kind(path) == "jsonl"):
        raise InputError(
            f'{path}: conversations are expected in a .jsonl file, each line with "{KEY}", a list of '
            f'{{"role": ..., "content": ...}}; column {column!r} holds {shorten(first)}. '
            f"To train on it as plain text, name it with --text-column {column}."
        )


def read_dialogues(paths: Sequence[Path], encoding: str | None, on_bad_row: str) -> Dialogues:
    """The conversations of files, one a row, each of them checked.  Raises InputError, naming file and row."""
    noticed = Noticed()

    def opened(path: Path, bad: BadRows, tally: Tally | None) -> OpenTable:
        if kind(path) == "parquet":
            objects = numbered_rows(open_parquet(path, bad, tally).chunks)
        else:
            objects = json_objects(path, lines(path, encoding, tally), bad)
        return OpenTable([KEY], chunked([KEY], conversations(objects, checked, bad, noticed)))

    none, reading = "there is no conversation in this file.", repr((encoding, on_bad_row))
    table = read_table(paths, partial(map, opened, paths), on_bad_row, reading, none=none)
    return Dialogues(**vars(table), renamed=noticed.renamed, unread=noticed.unread)


def without_oldest_turn(messages: list[Message]) -> list[Message] | None:
    """A conversation without the first message that is not the system's, and what follows it up to the user's next.

    None where no user speaks again, so that nothing could be left out.
    """
    spoken = [number for number, message in enumerate(messages) if message["role"] != "system"]
    users = [number for number in spoken[1:] if messages[number]["role"] == "user"]
    if not users:
        return None
    return [message for number, message in enumerate(messages) if message["role"] == "system" or number >= users[0]]


def conversations(
    objects: Iterable[tuple[int, Any]],
    messages_of: Callable[[Any], tuple[list[Message], list[str]]],
    bad: BadRows,
    noticed: Noticed,
) -> Iterator[tuple[int, list[str]]]:
    """The line of each conversation, and its messages as JSON; ``messages_of`` is or uses ``checked``."""
    for line, row in objects:
        try:
            messages, unread = messages_of(row)
        except Malformed as error:
            bad.add(line, str(error))
            continue
        noticed.renamed |= KEY not in row and SHARE_KEY in row
        for name in dict.fromkeys(unread):
            count, first = noticed.fields.get(name, (0, f"{bad.path.name}, {place_of(bad.path, line, bad.held)}"))
            noticed.fields[name] = count + 1, first
        yield line, [json.dumps(messages, ensure_ascii=False)]


def _in_our_words(row: dict[str, Any]) -> dict[str, Any]:
    """ShareGPT's ``conversations`` as ``messages``, and messages that a cell holds; any other object as it is."""
    key = KEY if KEY in row else SHARE_KEY
    messages = from_json(row[key]) if isinstance(row.get(key), str) else row.get(key)
    if key == KEY or not isinstance(messages, list):
        return {**row, key: messages} if key in row else row
    others = {name: value for name, value in row.items() if name != SHARE_KEY}
    return {**others, KEY: [_renamed(message) for message in messages]}


def _renamed(message: Any) -> Any:
    """A message of {from, value} as one of {role, content}; any other as it is."""
    if not isinstance(message, dict) or "from" not in message:
        return message
    role = message["from"]
    role = SHARE_ROLES.get(role, role) if isinstance(role, str) else role
    others = {name: value for name, value in message.items() if name not in ("from", "value")}
    return {**others, "role": role, "content": message.get("value")}


def checked(row: dict[str, Any]) -> tuple[list[Message], list[str]]:
    """The messages of one object, role and content of each, and the names of the fields that are not read.

    A reply that is no target has a weight of 0.  Raises Malformed, also for unread fields that would change the result.
    """
    row = _in_our_words(row)
    if KEY not in row:
        raise Malformed(f"no {KEY!r} here; expected a list of messages, each with role and content.")
    messages = row[KEY]
    if not isinstance(messages, list):
        raise Malformed(f"{KEY!r} is {json_type(messages)}, expected a list of messages with role and content.")
    if not messages:
        raise Malformed("the conversation is empty; expected at least a message and a reply.")
    if len(messages) > MOST_MESSAGES:
        raise Malformed(f"the conversation has {len(messages):,} messages; expected at most {MOST_MESSAGES:,}.")
    _refuse("the conversation", row)
    if judged := [key for key in JUDGED if text_of(row.get(key)).casefold() in ("false", "0")]:
        raise Malformed(
            f"{judged[0]!r} is {text_of(row[judged[0]])}: this reply is a bad example; leave such rows out, "
            "or remove the field."
        )
    kept = [_message(message, number) for number, message in enumerate(messages, start=1)]
    kept = [*_system(row, kept[0]), *kept]
    if (last := kept[-1]["role"]) != REPLY:
        raise Malformed(f"the last message has the role {last!r}; a conversation must end with a reply ({REPLY!r}).")
    if len(kept) == 1:
        raise Malformed("the reply has no message before it that it answers.")
    if not any(message["role"] == REPLY and message.get(WEIGHT, 1) for message in kept):
        raise Malformed("no reply is trained on: all have the weight 0; leave the conversation out.")
    unread = _unread(row, (KEY, *SYSTEM))
    return kept, unread + [name for one in messages for name in _unread(one, READ, " of messages")]


def _unread(fields: dict[str, Any], read: Sequence[str], place: str = "") -> list[str]:
    return [f"{key!r}{place}" for key, value in fields.items() if key not in read and _filled(value)]


def _filled(value: Any) -> bool:
    """Whether a field says something; in tables, an empty list is "[]"."""
    return bool(value) and value not in ("[]", "{}", "null")


def _refuse(what: str, fields: dict[str, Any]) -> None:
    """Raise Malformed for a field that would change the result."""
    for key, value in fields.items():
        if key in REFUSED and _filled(value):
            raise Malformed(f"{what} has {key!r}, which is not read: {REFUSED[key]}.")


def _system(row: dict[str, Any], first: Message) -> list[Message]:
    """The system message that stands next to the messages, unless the first message is the same."""
    system = next((row[key] for key in SYSTEM if _filled(row.get(key))), None)
    if system is None or first == {"role": "system", "content": system}:
        return []
    if not isinstance(system, str) or first["role"] == "system":
        raise Malformed(f"the system text {shorten(text_of(system))} is not the first message's; keep one of the two.")
    return [{"role": "system", "content": system}]


def _message(message: Any, number: int) -> Message:
    if not isinstance(message, dict):
        raise Malformed(f"message {number} is {json_type(message)}, expected an object with role and content.")
    role, content = message.get("role"), message.get("content")
    _refuse(f"message {number}", message)
    if role not in ROLES:
        shown = shorten(role) if isinstance(role, str) else json_type(role)
        raise Malformed(f"message {number} has the role {shown}; expected one of {', '.join(ROLES)}.")
    if not isinstance(content, str):
        raise Malformed(f"message {number}: its content is {json_type(content)}, expected a text.")
    if re.search("[\0\ud800-\udfff]", content):
        raise Malformed(f"message {number} contains an escaped NUL or half a character; expected text. Remove it.")
    if role == REPLY and not content.strip():
        raise Malformed(f"message {number} is an empty reply; remove it, or write the reply.")
    kept = {"role": role, "content": content}
    return kept if _is_target(message, number) else {**kept, WEIGHT: 0}


def _is_target(message: dict[str, Any], number: int) -> bool:
    """Whether a message is trained on if it is a reply.  Raises Malformed for weights other than 0 and 1."""
    weights = {key: text_of(value).casefold() for key, value in message.items() if key in WEIGHTS and text_of(value)}
    is_reply = message["role"] == REPLY
    for key, value in weights.items():
        if value not in TARGET or (TARGET[value] and not is_reply):
            expected = "0 (context) or 1 (target)" if is_reply else "0, as only replies are trained on"
            raise Malformed(f"message {number}: its {key!r} is {shorten(value)}, expected {expected}.")
    return not is_reply or all(TARGET[value] for value in weights.values())


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
            joined = names.get(INPUT) if one == "instruction" and other != INPUT else None
            history = names.get(HISTORY) if HISTORY not in (one, other) else None
            return Turns(names[one], names[other], joined, system, history)
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

    made = read_table(table.paths, opened, on_bad_row, repr((table.reading, turns, on_bad_row)), held=table.held)
    if not len(made):
        raise InputError(f"{table.name}: there is no conversation in this file.")
    own = vars(made) | {"fingerprint": table.fingerprint, "skipped": [*table.skipped, *made.skipped]}
    words = "" if turns is None else turns.words
    return Dialogues(**own, renamed=noticed.renamed, unread=noticed.unread, turns=words)


def _messages(row: dict[str, str], turns: Turns) -> tuple[list[Message], list[str]]:
    """The conversation of a row, as ``checked`` returns it.  Raises Malformed."""
    prompt, reply = _of_cell(row[turns.prompt], "user"), _of_cell(row[turns.reply], REPLY)
    joined = row[turns.input] if turns.input else ""
    for column, messages, what in ((turns.prompt, prompt, "prompt"), (turns.reply, reply, "reply")):
        if not any(text_of(message["content"]).strip() for message in messages):
            raise Malformed(f"column {column!r} is empty; expected a {what}.")
    if joined.strip():
        prompt[-1] = {**prompt[-1], "content": text_of(prompt[-1]["content"]) + JOINT + joined}
    system = [{"role": "system", "content": row[turns.system]}] if turns.system and row[turns.system].strip() else []
    history = _turns_before(row[turns.history], turns.history) if turns.history else []
    others = {name: cell for name, cell in row.items() if name not in astuple(turns)}
    return checked({**others, KEY: [*system, *history, *prompt, *reply]})


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
