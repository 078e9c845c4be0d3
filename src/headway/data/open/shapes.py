"""The shapes that data have, whatever they are for."""

from headway.data.images.pictures import Pictures
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.table import Table

TEXT, TABLE, ALIGNED, CONVERSATIONS, PICTURES = "text", "table", "aligned lines", "conversations", "images"
"""Running text (of a table with one column too), rows with several columns, two files with aligned lines,
lists of messages, images with a class each."""
WITHOUT_COLUMNS = (ALIGNED, CONVERSATIONS, PICTURES)
"""Data whose parts are known, so that no column can be named."""


def shape(source: Corpus | Table) -> str:
    """The shape of what was read."""
    if isinstance(source, Corpus):
        return TEXT
    if isinstance(source, Pictures):
        return PICTURES
    if isinstance(source, Dialogues):
        return CONVERSATIONS
    return TABLE if source.paired is None else ALIGNED
