"""Language modelling of running text and of conversations, in words and names, and the command that runs its models."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headway.errors import InputError, field
from headway.tasks.command import Command, Inputs, Option
from headway.tasks.spec import OF_KINDS, OF_TEXTS, TRY_ANOTHER, TaskSpec
from headway.training.evaluation.metric import BITS_PER_BYTE, PERPLEXITY, VAL_LOSS

SPEC = TaskSpec(
    name="language_modeling",
    heads=(("decoder", "vocabulary"),),
    title="Language model",
    verb="generate",
    help="Continue a text with a language model.",
    unit="token",
    loss_unit="nats per token",
    logits=1.0,
    outputs="logits of every token",
    metrics=(VAL_LOSS, BITS_PER_BYTE, PERPLEXITY),
    compared=(BITS_PER_BYTE, VAL_LOSS),
    writes="continuations",
    answer_unit="tokens written",
    models=("transformer", "rnn", "lstm", "gru"),
    options=OF_TEXTS | OF_KINDS | {"layout", "stream", "label_smoothing", "validation_windows"},
    aliases=("dialogue",),
    advice_if_baseline_wins=(
        "That baseline is not kept; train longer, or start from a pretrained model (--from).",
        TRY_ANOTHER,
    ),
    supports=frozenset({"ranks", "planning"}),
)


OF_CHAT = ("chat", "system")
"""Options that say how, and not what, is written."""
SHARE: dict[str, Any] = {"type": float, "show_default": False, "least": 0, "most": 1}
"""What is said of an option that is a probability."""


class Generate(Command):
    """The continuation of each text."""

    spec = SPEC
    answers = str
    key = "continuation"
    needs = "a language model"
    does = "Continue PROMPT with the language model in RUN."
    notes = (
        "With --chat, what is said to the model is read line by line from the terminal or from standard input (PROMPT, "
        "where it is given, is the first line), and its replies are written as they come.  /help lists the commands: "
        "/reset starts over, /exit leaves, and so do the end of the input and Ctrl-C.  When the conversation is longer "
        "than the model reads, its oldest turns are forgotten, with a notice; never the system message.  With --json, "
        "replies go to standard error, and the results are the messages of the conversation."
    )
    options = (
        Option("chat", "Hold a conversation, by the model's chat template.", bool),
        Option("system", "With --chat: the system message.", goes_with="chat"),
        Option("max_tokens", "Maximum length of the continuation in tokens.", int, 200, least=1, most=1 << 16),
        Option("temperature", "0 always takes the likeliest token.", float, 0.8, least=0),
        Option("top_k", "Choose among the k likeliest tokens (0 or -1: all).", int, 0, show_default=False, least=-1),
        Option("top_p", "Choose among the likeliest tokens of this total probability.", default=1.0, **SHARE),
        Option("min_p", "Leave out tokens this much less likely than the likeliest.", default=0.0, **SHARE),
        Option("repetition_penalty", "Above 1: repeat less.", float, 1.0, show_default=False),
        Option("stop", "End before this text (may be given several times).", several=True),
        Option("seed", "The same seed gives the same text.", int, least=0, most=(1 << 63) - 1),
    )
    one_input = "PROMPT"
    interactive = "chat"

    def __init__(self, pipe: Any, inputs: Inputs, options: dict[str, Any]):
        super().__init__(pipe, inputs, options)
        self.ways = _ways(options)

    @classmethod
    def endings(cls, options: dict[str, Any]) -> tuple[str, ...]:
        return (".txt", ".csv", ".jsonl")

    @classmethod
    def check(cls, options: dict[str, Any], to: str | None) -> None:
        if to is not None and options["chat"]:
            raise InputError(f"--to {to}: a conversation is not written to a file; leave out --to, or --chat.")

    @classmethod
    def conversation(cls, pipe: Any, options: dict[str, Any], notice: Callable[[str], None]) -> Any:
        from headway.tasks.language_modeling.pipeline import Conversation

        return Conversation(pipe, options["system"], notice, _ways(options))

    def notice(self) -> str:
        if self.pipe.tokenizer.chat_template is None:
            return ""
        return f"this is a chat model: `headway generate {self.inputs.run} --chat` starts a conversation"

    def stream(self, value: str) -> Iterator[str]:
        return self.pipe.stream(value, **self.ways)

    def answer(self, part: Sequence[str]) -> Sequence[str]:
        return self.pipe(part, **self.ways)

    def lines(self, start: int, found: Sequence[str]) -> Iterator[str]:
        return (field(self.inputs.values[number] + one) for number, one in enumerate(found, start))


def _ways(options: dict[str, Any]) -> dict[str, Any]:
    """How a text is continued, as the pipeline takes it."""
    kept = {name: value for name, value in options.items() if name not in OF_CHAT}
    return {**kept, "stop": list(kept["stop"])}


COMMAND = Generate
