"""The shapes that data have, whatever they are for."""

from headway.data.images.image_table import ImageTable
from headway.data.records.corpus import Corpus
from headway.data.records.dialogues import Dialogues
from headway.data.records.table import Table

TEXT, TABLE, ALIGNED, CONVERSATIONS, IMAGES = "text", "table", "aligned lines", "conversations", "images"
"""Running text (of a table with one column too), rows with several columns, two files with aligned lines,
lists of messages, images with a class each."""
WITHOUT_COLUMNS = (ALIGNED, CONVERSATIONS, IMAGES)
"""Data whose parts are known, so that no column can be named."""


def shape(source: Corpus | Table) -> str:
    """The shape of what was read."""
    if isinstance(source, Corpus):
        return TEXT
    if isinstance(source, ImageTable):
        return IMAGES
    if isinstance(source, Dialogues):
        return CONVERSATIONS
    return TABLE if source.paired is None else ALIGNED
