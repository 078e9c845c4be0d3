"""Conversations: JSON Lines whose objects have ``messages``, a list of {role, content} that ends with a reply.

ShareGPT's ``conversations``, a list of {from, value}, are read as these.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.data.formats.json_lines import Malformed, json_objects, json_type
from headway.data.open.files import kind, lines
from headway.data.records.chunks import chunked
from headway.data.records.rows import BadRows, OpenTable, shorten
from headway.data.records.table import Table
from headway.errors import InputError

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

Message = dict[str, Any]


@dataclass
class Dialogues(Table):
    """A table of conversations; its one column, "messages", has each as JSON."""

    renamed: bool = False
    """Whether some are written in the words of ShareGPT."""
    turns: str = ""
    """The columns that they were made of, in words, where they stood in a table."""

    @property
    def conversations(self) -> Iterator[list[Message]]:
        """All of them, as they are read."""
        return map(json.loads, self.values(KEY))


def holds_dialogues(path: Path, encoding: str | None) -> bool:
    """Whether the first object of a JSON Lines file has a list of messages; reads no further."""
    if kind(path) != "jsonl":
        return False
    first = next(json_objects(path, lines(path, encoding, None), BadRows(path, "skip")), None)
    return first is not None and isinstance(_in_our_words(first[1]).get(KEY), list)


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


def open_dialogues(path: Path, found: Iterator[str], bad: BadRows, renamed: set[Path]) -> OpenTable:
    """The lines that were ``found`` in a file as a table of conversations, each of them checked.

    The path joins ``renamed`` where some are in the words of ShareGPT.
    """
    return OpenTable([KEY], chunked([KEY], _conversations(path, found, bad, renamed)))


def without_oldest_turn(messages: list[Message]) -> list[Message] | None:
    """A conversation without the first message that is not the system's, and what follows it up to the user's next.

    None where no user speaks again, so that nothing could be left out.
    """
    said = [number for number, message in enumerate(messages) if message["role"] != "system"]
    users = [number for number in said[1:] if messages[number]["role"] == "user"]
    if not users:
        return None
    return [message for number, message in enumerate(messages) if message["role"] == "system" or number >= users[0]]


def _conversations(
    path: Path, found: Iterator[str], bad: BadRows, renamed: set[Path]
) -> Iterator[tuple[int, list[str]]]:
    """The line of each conversation, and its messages as JSON."""
    for line, one in json_objects(path, found, bad):
        ours = _in_our_words(one)
        try:
            messages = checked(ours)
        except Malformed as error:
            bad.add(line, str(error))
            continue
        if ours is not one:
            renamed.add(path)
        yield line, [as_json(messages)]


def as_json(messages: list[Message]) -> str:
    """A conversation as it stands in a table."""
    return json.dumps(messages, ensure_ascii=False)


def _in_our_words(found: dict[str, Any]) -> dict[str, Any]:
    """ShareGPT's ``conversations`` as ``messages``; any other object as it is."""
    said = found.get(SHARE_KEY)
    if KEY in found or not isinstance(said, list):
        return found
    return {KEY: [_renamed(message) for message in said]}


def _renamed(message: Any) -> Any:
    """A message of {from, value} as one of {role, content}; any other as it is."""
    if not isinstance(message, dict) or "from" not in message:
        return message
    role = message["from"]
    role = SHARE_ROLES.get(role, role) if isinstance(role, str) else role
    return {**message, "role": role, "content": message.get("value")}


def checked(found: dict[str, Any]) -> list[Message]:
    """The messages of one object, role and content of each.  Raises Malformed."""
    if KEY not in found:
        raise Malformed(f"no {KEY!r} here; expected a list of messages, each with role and content.")
    messages = found[KEY]
    if not isinstance(messages, list):
        raise Malformed(f"{KEY!r} is {json_type(messages)}, expected a list of messages with role and content.")
    if not messages:
        raise Malformed("the conversation is empty; expected at least a message and a reply.")
    if len(messages) > MOST_MESSAGES:
        raise Malformed(f"the conversation has {len(messages):,} messages; expected at most {MOST_MESSAGES:,}.")
    kept = [_message(message, number) for number, message in enumerate(messages, start=1)]
    if kept[-1]["role"] != REPLY:
        raise Malformed(
            f"the last message has the role {kept[-1]['role']!r}; a conversation must end with a reply (role "
            f"{REPLY!r})."
        )
    if len(kept) == 1:
        raise Malformed("the reply has no message before it that it answers.")
    return kept


def _message(message: Any, number: int) -> Message:
    if not isinstance(message, dict):
        raise Malformed(f"message {number} is {json_type(message)}, expected an object with role and content.")
    role, content = message.get("role"), message.get("content")
    for key in ("tool_calls", "function_call"):
        if message.get(key):
            raise Malformed(f"message {number} has {key!r}; conversations can hold only text.")
    if role not in ROLES:
        shown = shorten(role) if isinstance(role, str) else json_type(role)
        raise Malformed(f"message {number} has the role {shown}; expected one of {', '.join(ROLES)}.")
    if not isinstance(content, str):
        raise Malformed(f"message {number}: its content is {json_type(content)}, expected a text.")
    if re.search("[\0\ud800-\udfff]", content):
        raise Malformed(f"message {number} contains an escaped NUL or half a character; expected text. Remove it.")
    if role == REPLY and not content.strip():
        raise Malformed(f"message {number} is an empty reply; remove it, or write the reply.")
    return {"role": role, "content": content}
