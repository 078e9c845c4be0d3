"""``headway generate``: continue a text."""

import time
import warnings
from typing import Any

import click

from headway.cli.common import emit, output_options, show, standard_input, threads_option
from headway.errors import InputError


@click.command(short_help="Continue a text with a language model.")
@click.argument("run")
@click.argument("prompt", required=False)
@click.option("--chat", is_flag=True, help="Hold a conversation, in the form that the model's chat template gives it.")
@click.option("--system", help="With --chat: the system message, what the model is told beforehand.")
@click.option("--max-tokens", type=int, default=200, show_default=True, help="Longest continuation in tokens.")
@click.option("--temperature", type=float, default=0.8, show_default=True, help="0 always takes the likeliest token.")
@click.option("--top-k", type=int, default=0, help="Choose among the k likeliest tokens (0: all).")
@click.option("--top-p", type=float, default=1.0, help="Choose among the likeliest tokens of this total probability.")
@click.option("--min-p", type=float, default=0.0, help="Leave out tokens this much less likely than the likeliest.")
@click.option("--repetition-penalty", type=float, default=1.0, help="Above 1: repeat less.")
@click.option("--stop", multiple=True, help="End before this text (may be given several times).")
@click.option("--seed", type=int, help="The same seed gives the same text.")
@threads_option
@output_options
def command(
    run: str, prompt: str | None, chat: bool, system: str | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Continue PROMPT with the language model in RUN; "-" reads the prompt from standard input.

    With --chat, what is said to the model is read line by line from the terminal or from standard input (PROMPT, where
    it is given, is the first line), and its replies are written as they come.  /help lists the commands: /reset starts
    over, /exit leaves, and so do the end of the input and Ctrl-C.  When the conversation is longer than the model
    reads, its oldest turns are forgotten, with a notice; never the system message.  With --json, replies go to standard
    error, and the results are the messages of the conversation.
    """
    if prompt is None and not chat:
        raise click.MissingParameter(param_hint="'PROMPT'", param_type="argument")
    if system is not None and not chat:
        raise click.UsageError("--system is for a conversation: it goes with --chat.")
    started = time.monotonic()
    from headway.tasks.language_modeling.pipeline import Generator
    from headway.workflows.load import load

    pipe = load(run)
    if not isinstance(pipe, Generator):
        raise InputError(f"{run}: holds a model for {pipe.task}; generate needs a language model.")
    options["stop"] = list(options["stop"])
    if chat:
        from headway.cli.chat import converse

        first = [] if prompt in (None, "-") else [str(prompt)]
        messages, interrupted = converse(pipe, first, system, as_json=as_json, quiet=quiet, options=options)
        emit({"task": pipe.task, "seconds": time.monotonic() - started, "results": messages}, as_json, [])
        if interrupted:
            raise KeyboardInterrupt
        return
    if pipe.tokenizer.chat_template is not None and not quiet:
        warnings.warn(f"this model has learnt to reply: `headway generate {run} --chat` talks with it", stacklevel=2)
    text = standard_input() if prompt == "-" else str(prompt)
    if as_json:
        continuation = pipe(text, **options)
        seconds = time.monotonic() - started
        emit({"task": pipe.task, "seconds": seconds, "results": [continuation]}, True, [])
        return
    pieces = pipe.stream(text, **options)  # raises what is wrong before anything is shown
    show(text)
    for piece in pieces:
        show(piece)
    show("\n")
