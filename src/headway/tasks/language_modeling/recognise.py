"""Running text, and conversations."""

from headway.data.open.detected import CONVERSATIONS, IMAGES, TABLE, TEXT, Detected
from headway.data.records.dialogues import Dialogues
from headway.errors import InputError
from headway.tasks.given import Given
from headway.tasks.recognise import BY_TEXTS, BY_VALUES, RunningText

DIALOGUE = "dialogue"
"""The value of ``--task`` for conversations."""


class TextOrConversations(RunningText):
    """Running text, which any table with texts can be, and conversations."""

    reads = frozenset({TEXT, TABLE, CONVERSATIONS})
    trains = "a language model"

    def check(self, given: Given) -> None:
        if given.asked == DIALOGUE and given.shape not in (CONVERSATIONS, IMAGES):
            raise InputError(
                f'{given.name}: holds no conversations; --task dialogue needs a .jsonl whose lines have "messages", or '
                "a table with the columns instruction and output or prompt and completion; for other columns, use "
                "--text-column (the prompt) and --second-column (the reply)."
            )

    def wants_conversations(self, asked: str) -> bool:
        return asked == DIALOGUE

    def fit(self, given: Given) -> int | None:
        if given.shape == CONVERSATIONS:
            return BY_VALUES
        return BY_TEXTS if given.shape in self.reads else None

    def columns(self, given: Given) -> Detected:
        dialogues = given.source
        if not isinstance(dialogues, Dialogues):
            return super().columns(given)
        reasons = ['every line has "messages": language modelling of conversations, trained on the replies only']
        if dialogues.renamed:
            reasons.append('"conversations" of ShareGPT are read as "messages": human as user, gpt as assistant')
        if dialogues.turns:
            reasons = [f"conversations: {dialogues.turns}; language modelling, trained on the replies only"]
        reasons += [dialogues.unread] if dialogues.unread else []
        return Detected(self.task, None, None, reasons, chat=True)

    def ending(self, given: Given) -> str:
        two = len(given.corpus.sources) == 2 and given.only_column is None
        return self.words + (" (--task translation to pair them line by line)" if two else "")


RECOGNISER = TextOrConversations("language_modeling", "language modelling")
