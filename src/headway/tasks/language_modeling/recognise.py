"""Running text, and conversations."""

from collections.abc import Mapping

from headway.data.open.columns import CONVERSATIONS, IMAGES, TABLE, TEXT, Detected
from headway.data.records.dialogues import Dialogues
from headway.tasks.data_facts import DataFacts
from headway.tasks.recognise import BY_TEXTS, BY_VALUES, RunningText

DIALOGUE = "dialogue"
"""The value of ``--task`` for conversations."""


class TextOrConversations(RunningText):
    """Running text, which any table with texts can be, and conversations."""

    fits: Mapping[str, int] = {CONVERSATIONS: BY_VALUES, TEXT: BY_TEXTS, TABLE: BY_TEXTS}
    reads = frozenset(fits)
    trains = "a language model"

    def check(self, facts: DataFacts) -> None:
        if facts.asked == DIALOGUE and facts.shape not in (CONVERSATIONS, IMAGES):
            raise facts.error(
                'holds no conversations; --task dialogue needs a .jsonl whose lines have "messages", or a table with '
                "the columns instruction and output or prompt and completion; for other columns, use --text-column "
                "(the prompt) and --second-column (the reply)."
            )

    def wants_conversations(self, asked: str) -> bool:
        return asked == DIALOGUE

    def columns(self, facts: DataFacts) -> Detected:
        dialogues = facts.source
        if not isinstance(dialogues, Dialogues):
            return super().columns(facts)
        reasons = ['every line has "messages": language modelling of conversations, trained on the replies only']
        if dialogues.renamed:
            reasons.append('"conversations" of ShareGPT are read as "messages": human as user, gpt as assistant')
        if dialogues.turns:
            reasons = [f"conversations: {dialogues.turns}; language modelling, trained on the replies only"]
        reasons += [dialogues.unread] if dialogues.unread else []
        return Detected(self.task, None, None, reasons, chat=True)

    def ending(self, facts: DataFacts) -> str:
        two = len(facts.source.sources) == 2 and facts.only_column is None
        return self.words + (" (--task translation to pair them line by line)" if two else "")


RECOGNISER = TextOrConversations("language_modeling", "language modelling")
