"""The command line: verb -> module, and what all verbs share: messages, exit statuses, the clock.

What ``--help`` does not need is imported where it is used.
"""

import contextlib
import errno
import gc
import os
import signal
import sys
import threading
import time
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from headway.io.standard_streams import OutputLost, guard_standard_streams
from headway.tasks import registry

STARTED = time.monotonic()
"""When the command began: ``--time`` counts from here, or, of a process of its own, from the process's beginning."""
LONGEST_START = 60.0
"""Seconds after which a process is not taken to have begun for this command."""

SPIN = "3000"
"""How long a thread of torch spins while it waits for the others.  With the default of 300,000 turns, any other busy
program slows training several times, since threads spin for one that is not running; on an idle machine nothing
changes."""

SYSTEM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM)
"""Errors of the system, not ours: a disk that is full or broken, or missing permissions."""

PREDICT = registry.ANY
OF_TASKS = {one.verb: one.help for one in map(registry.spec, registry.NAMES) if one.verb != PREDICT}
"""The verbs that use the models of a task; tasks that share a verb have the same help for it."""

VERBS = {
    "train": "Train a model on your file.",
    "tune": "Search the training options, and keep the best model.",
    "evaluate": "Measure a saved model on a file.",
    PREDICT: "Use a saved model, whatever its task.",
    **OF_TASKS,
    "explain": "Show a saved model block by block.",
    "attention": "Show the attention of a saved model, as one page.",
    "verify": "Check that a saved model works correctly on this machine.",
    "scale": "Train language models of several sizes, fit a scaling law and predict a larger run.",
    "clean": "Free the disk space that a run does not need.",
    "export": "Write a saved model for other programs, and check that they read the same model.",
    "serve": "Serve saved models over HTTP.",
    "compare": "Train several kinds of model on your file, side by side.",
    "bench": "Measure a model's speed on this machine, and how its cost grows.",
    "demo": "Train small models on text that comes with Python, and show what they learn.",
}


@cache
def verbs_of_others() -> dict[str, str]:
    """The verbs of tasks of other packages; one that is taken is left out with a warning."""
    found: dict[str, str] = {}
    for spec in map(registry.spec, registry.usable()):
        if spec.verb in VERBS or spec.verb in found:
            if spec.verb != PREDICT:
                warnings.warn(
                    f"the task {spec.name!r} uses the verb {spec.verb!r}, which is another command", stacklevel=2
                )
        else:
            found[spec.verb] = spec.help or f"Use a model for {spec.name.replace('_', ' ')}."
    return found


class Verbs(click.Group):
    """The verbs; a verb's module is imported when it is used, so that help does not wait for torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS, *verbs_of_others()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS and cmd_name not in verbs_of_others():
            return None
        if cmd_name in OF_TASKS or cmd_name not in VERBS or cmd_name == PREDICT:
            from headway.cli import answer

            return answer.predict() if cmd_name == PREDICT else answer.command(cmd_name)
        from headway.cli.common import check_names_of_files

        command: click.Command = import_module(f"headway.cli.{cmd_name}").command
        check_names_of_files(command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb's command; the error for an unknown verb suggests the closest one."""
        if args and args[0] not in VERBS and not args[0].startswith("-") and args[0] not in verbs_of_others():
            from difflib import get_close_matches

            known = self.list_commands(ctx)
            close = get_close_matches(args[0], known, n=1)
            meant = f" Did you mean {close[0]!r}?" if close else f" The commands are {', '.join(known)}."
            ctx.fail(f"there is no command {args[0]!r}.{meant}")
        from headway.cli.common import in_our_words

        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if command is None else in_our_words(command, rest)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*VERBS.items(), *verbs_of_others().items()])


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
    """Ctrl-C outside training: exit at once.  An exception could interrupt the import of a library."""
    shown_again = b"\x1b[?25h" if os.isatty(2) else b""  # a progress bar hides the cursor
    with contextlib.suppress(OSError):
        os.write(2, shown_again + b"\nheadway: interrupted\n")
    os._exit(130)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its status: 0 done, 2 wrong input, 130 interrupted, 1 any other error."""
    global STARTED
    STARTED = time.monotonic() - (_age() if arguments is None else 0.0)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    os.environ.setdefault("GOMP_SPINCOUNT", SPIN)
    guard_standard_streams()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)
    threading.excepthook = _in_thread
    status = _run(arguments)
    if arguments is None:
        gc.freeze()  # the process ends: to look for garbage once more would take a second
    if status:
        sys.exit(status)


def _age() -> float:
    """Seconds since this process began; 0 where the system does not say, or where it did other things before."""
    with contextlib.suppress(OSError, AttributeError, ValueError, IndexError):
        stat = Path("/proc/self/stat").read_text(encoding="utf-8", errors="replace")
        ticks = int(stat.rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return age if 0 <= age <= LONGEST_START else 0.0
    return 0.0


def _run(arguments: list[str] | None) -> int:
    """Run the verb; returns its exit status.  An error is printed as one message."""
    from headway.errors import InputError, RunFailed

    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            headway.main(arguments, prog_name="headway", standalone_mode=False)
        sys.stdout.flush()
        return 0
    except OutputLost as error:
        return 0 if error.reader_left else _say(str(error), 1)
    except InputError as error:
        return _say(getattr(error, "on_command_line", error), 2)
    except RunFailed as error:
        return _say(error, 1)
    except click.UsageError as error:
        error.show()
        return 2
    except click.ClickException as error:
        return _say(error.format_message(), error.exit_code)
    except (KeyboardInterrupt, click.Abort) as error:
        said = str(error.__cause__ or error) if isinstance(error, click.Abort) else str(error)  # click wraps it
        return _say(said or "interrupted", 130)
    except Exception as error:
        from headway.io.memory import ran_out

        if ran_out(error):
            return _say("out of memory; close other programs, give smaller inputs, or use a smaller model", 1)
        if not isinstance(error, OSError) or error.errno not in SYSTEM:
            raise
        return _say(f"{error.filename or 'a file'}: cannot be read or written ({error.strerror})", 1)


def _in_thread(given: Any, otherwise: Any = threading.excepthook) -> None:
    """Print a system error in a library's thread, such as one that writes files, as one line."""
    error = given.exc_value
    if isinstance(error, OSError) and error.errno in SYSTEM:
        _say(f"warning: {error.filename or 'a file'}: cannot be read or written ({error.strerror})")
    else:
        otherwise(given)


def _warn(message: object, *place: Any, **more: Any) -> None:
    _say(f"warning: {message}")


def _say(text: object, status: int = 0) -> int:
    """Print a line on standard error; returns ``status``."""
    from headway.errors import printable

    print(f"headway: {printable(text)}", file=sys.stderr)
    return status
