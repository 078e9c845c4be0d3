"""A text and a list of labels in every row of a table, or a column of 0 and 1 for each label."""

from dataclasses import replace

from headway.data.open.columns import Detected
from headway.tasks.data_facts import DataFacts
from headway.tasks.label_sets import HOLDS_LISTS, found_labels, label_lists
from headway.tasks.recognise import OfTable
from headway.tasks.unsupported import check_plain_labels


class LabelSets(OfTable):
    """A column of texts, and the labels of each: a list in one column, or one column of 0 and 1 for each label."""

    several_labels = True

    def find(self, facts: DataFacts) -> tuple[str, ...]:
        return found_labels(facts)

    def columns(self, facts: DataFacts) -> Detected:
        reasons: list[str] = []
        text = facts.find_text(reasons)
        labels = facts.labels or facts.cached(self.find) or (facts.find_label(text, reasons),)
        if labels[0] is None:
            raise facts.error("no column looks like lists of labels. Name one with --label-column.")
        task = f"{self.task}{', as asked' if facts.asked else ''} (--label-column to change)"
        if len(labels) > 1:
            reason = f"columns {', '.join(map(repr, labels))} say of each label whether a text has it: {task}"
            return Detected(self.task, text, None, [*reasons, reason], label_columns=labels)
        check_plain_labels(facts, labels[0])
        lists = label_lists(replace(facts, text=text, label=labels[0]))
        reason = HOLDS_LISTS.format(*lists) if lists else f"column {labels[0]!r} holds the labels"
        return Detected(self.task, text, labels[0], [*reasons, f"{reason}: {task}"])


RECOGNISER = LabelSets("multi_label")
