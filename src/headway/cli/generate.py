"""``headway generate``: continue a text."""

import sys
import time

import click

from headway.cli.common import emit, output_options, standard_input
from headway.errors import InputError


@click.command(short_help="Continue a text with a language model.")
@click.argument("run")
@click.argument("prompt")
@click.option("--max-tokens", type=int, default=200, show_default=True, help="Longest continuation in tokens.")
@click.option("--temperature", type=float, default=0.8, show_default=True, help="0 always takes the likeliest token.")
@click.option("--top-k", type=int, default=0, help="Choose among the k likeliest tokens (0: all).")
@click.option("--top-p", type=float, default=1.0, help="Choose among the likeliest tokens of this total probability.")
@click.option("--min-p", type=float, default=0.0, help="Leave out tokens this much less likely than the likeliest.")
@click.option("--repetition-penalty", type=float, default=1.0, help="Above 1: repeat less.")
@click.option("--stop", multiple=True, help="End before this text (may be given several times).")
@click.option("--seed", type=int, help="The same seed gives the same text.")
@output_options
def command(run: str, prompt: str, as_json: bool, quiet: bool, **options) -> None:
    """Continue PROMPT with the language model in RUN; "-" reads the prompt from standard input."""
    started = time.monotonic()
    from headway.inference.generator import Generator
    from headway.inference.load import load

    pipe = load(run)
    if not isinstance(pipe, Generator):
        raise InputError(f"{run}: holds a model for {pipe.task}; generate needs a language model.")
    text = standard_input() if prompt == "-" else prompt
    options["stop"] = list(options["stop"])
    if as_json:
        continuation = pipe(text, **options)
        seconds = time.monotonic() - started
        emit({"task": pipe.task, "seconds": seconds, "results": [continuation]}, True, [])
        return
    pieces = pipe.stream(text, **options)  # raises what is wrong before anything is shown
    sys.stdout.write(text)
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.write(piece)
        sys.stdout.flush()
    sys.stdout.write("\n")
