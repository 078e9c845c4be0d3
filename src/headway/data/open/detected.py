"""What was detected about data: shape, task, columns and reasons."""

from dataclasses import dataclass, field

COLUMNS = ("text_column", "label_column", "second_column")
"""The options that name columns."""
TEXT, TABLE, ALIGNED, CONVERSATIONS, IMAGES = "text", "table", "aligned lines", "conversations", "images"
"""Running text (of a table with one column too), rows with several columns, two files with aligned lines,
lists of messages, images with a class each."""
WITHOUT_COLUMNS = (ALIGNED, CONVERSATIONS, IMAGES)
"""Data whose parts are known, so that no column can be named."""


@dataclass(frozen=True)
class Detected:
    """What was detected; `reasons` are messages, each with the option that would change it."""

    task: str
    text_column: str | None
    label_column: str | None
    reasons: list[str]
    second_column: str | None = None
    """The other text of each pair: the match of the first (embedding) or the target (translation)."""
    chat: bool = False
    """Whether these are conversations."""
    warnings: list[str] = field(default_factory=list)
    """Messages about what training on the data in this way loses."""
    label_columns: tuple[str, ...] = ()
    """Several columns of 0 and 1, one for each label, in place of the label column."""
