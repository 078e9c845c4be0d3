"""A text and a label in every row of a table."""

from dataclasses import replace

from headway.data.open.detected import TABLE, TEXT, Detected
from headway.data.records.rows import some
from headway.errors import InputError
from headway.tasks.columns import find_label, find_text, likely_labels, likely_texts, no_labels
from headway.tasks.given import Given
from headway.tasks.recognise import BY_LABELS, Recogniser
from headway.tasks.unsupported import check_plain_labels, judged_pair, losses, refuse


class LabelledTexts(Recogniser):
    """A column of texts and one of labels."""

    def fit(self, given: Given) -> int | None:
        """Where a label was named, or where a column that is not the text looks like one."""
        if given.shape not in self.reads:
            return None
        if given.label is not None:
            return BY_LABELS
        if given.shape != TABLE:
            return None
        texts = [given.text] if given.text else judged_pair(given) or [one.name for one in likely_texts(given)]
        return BY_LABELS if texts and likely_labels(given, texts[0]) else None

    def columns(self, given: Given) -> Detected:
        if given.shape == TEXT:
            raise no_labels(given)
        reasons: list[str] = []
        text = find_text(given, reasons)
        label = find_label(given, text, reasons)
        if label is None:
            names = some([column.name for column in given.columns if column.name != text]) or "none"
            raise InputError(
                f"{given.name}: no column looks like a label (a few values that repeat); besides the text {text!r}, "
                f"the columns are: {names}. Name one with --label-column."
            )
        chosen = replace(given, text=text, label=label)
        if given.asked is None:
            refuse(chosen)
        if given.label is None:
            check_plain_labels(given, label)
        reasons.append(
            f"a text and a label in every row: {self.task} (--task language_modeling to train on the text only)"
        )
        return Detected(self.task, text, label, reasons, warnings=losses(chosen))


RECOGNISER = LabelledTexts("classification")
