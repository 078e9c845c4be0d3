"""Running text, as language models and masked language models recognise it: text, or one column of a table."""

from dataclasses import replace

from headway.data.open.detected import Detected
from headway.data.open.shapes import TEXT
from headway.data.records.dialogues import check_column
from headway.errors import InputError
from headway.tasks.common.columns import find_text, no_labels
from headway.tasks.common.given import Given
from headway.tasks.common.unsupported import check_plain, refuse_targets
from headway.tasks.recognise import Recogniser


class RunningText(Recogniser):
    """Running text, whole or as the rows of a column; labels are not read."""

    running_text = True

    def __init__(self, task: str, words: str):
        """``words``: the task in words, for the reasons."""
        super().__init__(task)
        self.words = words

    def columns(self, given: Given) -> Detected:
        if given.shape == TEXT:
            return self._text(given)
        if given.label is not None:
            raise InputError("a language model has no label; leave out --label-column, or use --task classification.")
        reasons: list[str] = []
        text = find_text(given, reasons)
        if given.text is None:
            check_column(given.table.path, text, next((value for value in given.values(text) if value.strip()), ""))
        if given.asked is not None:
            return Detected(self.task, text, None, [*reasons, f"task: {self.words}, as asked"])
        if given.text is None:
            check_plain(given.name, text, given.values(text))
        refuse_targets(replace(given, text=text))
        reasons.append(f"no column looks like a label: {self.words} (--label-column to classify)")
        return Detected(self.task, text, None, reasons)

    def _text(self, given: Given) -> Detected:
        if given.label is not None:
            raise no_labels(given)
        column = given.only_column
        if column is not None and given.text is None:
            first = next((text for text, _ in given.corpus.chunks()), "")
            check_column(given.corpus.paths[0], column, first)
            check_plain(given.name, column, [] if given.asked else [first])
        why = "running text" if column is None else f"one column, {column!r}: each row is a document"
        return Detected(self.task, column, None, [f"{why}: {self.ending(given)}"])

    def ending(self, given: Given) -> str:
        """The task in words, at the end of the reason for running text."""
        return f"{self.words}, as asked"
