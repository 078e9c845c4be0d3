"""The command line: verb -> module, and what every verb shares - messages, exit statuses, the clock."""

import os
import signal
import sys
import threading
import time
import warnings
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

STARTED = time.monotonic()
"""When the command began: what ``--time`` is counted from."""

SPIN = "3000"
"""How long a thread of torch waits awake for the others.  With the usual 300,000 turns, any other busy program slows
training several times, since the threads then wait for one that is not running; on a quiet machine nothing changes."""

VERBS = {
    "train": "Train a model on your file.",
    "tune": "Search the options of training, and keep the best model.",
    "evaluate": "Measure a saved model on a file.",
    "generate": "Continue a text with a language model.",
    "classify": "Name the label of a text, or of every text in a file.",
    "translate": "Turn a text, or every text in a file, into another.",
    "fill": "Fill in what a text leaves open.",
    "embed": "Turn texts into vectors, compare them, or find the nearest.",
    "explain": "Show a saved model block by block.",
    "attention": "Show who attends to whom in a saved model, as one page.",
    "verify": "Check that a saved model keeps its promises, on this machine.",
    "scale": "Train sizes of a language model, fit a scaling law and foretell a larger run.",
    "export": "Write a saved model for other programs, and prove that they read the same model.",
    "compare": "Train several kinds of model on your file, side by side.",
    "bench": "Measure how fast a model is here, and how its cost grows.",
    "demo": "Train small models on text that Python carries, and show what they learn.",
}


class Verbs(click.Group):
    """The verbs; a verb's module is imported when it is asked for, so that help does not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        return import_module(f"headway.cli.{cmd_name}").command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb's command; an unknown verb is answered with the one that was probably meant."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            close = get_close_matches(args[0], VERBS, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else f" There are {', '.join(VERBS)}."
            ctx.fail(f"there is no command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; when nobody reads the output any more, as after ``| head``, leave quietly."""
        try:
            found = super().invoke(ctx)
            sys.stdout.flush()
            return found
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="headway", message="headway %(version)s")
def headway() -> None:
    """Train, run and use Transformers on your own file, on the computer you have.

    \b
      headway demo                              see small Transformers learn, in a few minutes
      headway train reviews.csv --time 5m       from a file to a model, in the time you have
      headway classify runs/reviews "Great!"    use it
    """


def _leave(number: int, frame: object) -> None:
    """Ctrl-C while nothing is being trained: leave at once.  An exception could break off the loading of a library."""
    shown_again = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides the cursor
    os.write(2, shown_again + b"\nheadway: interrupted\n")
    os._exit(130)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit status: 0 done, 2 wrong input, 130 interrupted, 1 anything else."""
    from headway.errors import InputError

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal cannot show is no reason to fail
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *place: print(f"headway: warning: {message}", file=sys.stderr)
            headway.main(arguments, prog_name="headway", standalone_mode=False)
    except InputError as error:
        print(f"headway: {getattr(error, 'on_command_line', error)}", file=sys.stderr)
        sys.exit(2)
    except click.UsageError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        print(f"headway: {error.format_message()}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort) as error:
        said = str(error.__cause__ or error) if isinstance(error, click.Abort) else str(error)  # click hides it
        print(f"headway: {said or 'interrupted'}", file=sys.stderr)
        sys.exit(130)
