"""A text and a label in every row of a table."""

from dataclasses import replace

from headway.data.open.columns import TABLE, TEXT, Detected
from headway.data.records.rows import some
from headway.tasks.data_facts import TEXT_AND_LABEL, DataFacts
from headway.tasks.recognise import BY_LABELS, Recogniser
from headway.tasks.unsupported import check_plain_labels, losses, refuse


class LabelledTexts(Recogniser):
    """A column of texts and one of labels."""

    def fit(self, facts: DataFacts) -> int | None:
        """Where a label was named, or where a column that is not the text looks like one."""
        if facts.label is not None:
            return BY_LABELS if facts.shape in self.reads else None
        text = facts.possible_text if facts.shape == TABLE else None
        return BY_LABELS if text is not None and facts.likely_labels(text) else None

    def columns(self, facts: DataFacts) -> Detected:
        if facts.shape == TEXT:
            raise facts.no_table(TEXT_AND_LABEL)
        reasons: list[str] = []
        text = facts.find_text(reasons)
        label = facts.find_label(text, reasons)
        if label is None:
            names = some([column.name for column in facts.columns if column.name != text]) or "none"
            raise facts.error(
                f"no column looks like a label (a few values that repeat); besides the text {text!r}, the columns are: "
                f"{names}. Name one with --label-column."
            )
        chosen = replace(facts, text=text, label=label)
        if facts.asked is None:
            refuse(chosen)
        if facts.label is None:
            check_plain_labels(facts, label)
        reasons.append(
            f"a text and a label in every row: {self.task} (--task language_modeling to train on the text only)"
        )
        return Detected(self.task, text, label, reasons, warnings=losses(chosen))


RECOGNISER = LabelledTexts("classification")
