"""Names of columns that hold texts, labels or scores."""

TEXT_NAMES = frozenset(
    [
        *("text", "texts", "review", "sentence", "tweet", "content", "question", "comment"),
        *("body", "message", "title", "description", "document", "post"),
    ]
)
LABEL_NAMES = frozenset(
    [
        *("label", "labels", "class", "classes", "category", "sentiment", "target"),
        *("stars", "rating", "type", "y", "topic", "intent", "emotion"),
    ]
)
SURE_LABEL_NAMES = frozenset(["label", "labels", "class"])
"""A column with such a name is the label, whatever it holds."""

SCORE_NAMES = frozenset(["score", "scores", "similarity", "similarityscore", "sim", "label", "labels", "relatedness"])
"""Columns that score a pair, where they hold numbers."""

HEADER_NAMES = TEXT_NAMES | LABEL_NAMES | {"id", "source", "name", "date", "tag"}
"""Names that are never mistaken for values of a row."""
