"""``headway train``: from a file to a run directory."""

import contextlib
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from click.core import ParameterSource

from headway.api import default_out, train_run
from headway.cli.common import SEVERAL, Answer, Headed, HeadedCommand, verb
from headway.cli.plan import PLANNED, lines, plan, plan_options
from headway.errors import InputError
from headway.io.quantities import duration, metric, size
from headway.tasks.registry import spec, values
from headway.training.option_fields import flag, groups, kind_of
from headway.training.options import TrainOptions
from headway.training.progress import Progress

NEEDS = ("starlette", "uvicorn", "h11", "prometheus_client")
PATIENCE = 3.0
"""What the page of ``--watch`` needs, and the seconds in which its server may tell open pages of the end."""


def summary(result: dict[str, Any], verdict: str, info: Mapping[str, Any]) -> list[str]:
    """The summary of a run, as lines for a person; ``info`` is headway.json."""
    from headway.reports.tables import columns_in_words
    from headway.reports.verdict import interval, kept_in_words

    task = spec(result["task"])
    names = {one.key: one.name if one.key == "accuracy" else one.key for one in task.metrics}
    judged, data = (found if isinstance(found := info.get(key), dict) else {} for key in ("verdict", "data"))
    own = {judged.get("metric"): interval(judged.get("interval"))}
    numbers = ", ".join(
        f"{name} {metric(result[key])}" + (f" ({own[key]})" if own.get(key) else "")
        for key, name in names.items()
        if result.get(key) is not None
    )
    asked = "--chat" if "conversations" in data else task.argument
    written = result.get("written")  # as many held-out pairs as there was time for
    numbers += f", bleu and chrf of {written:,} pairs" if written is not None else ""
    return [
        f"{numbers} ({result['parameters']:,} parameters, {result['steps']:,} steps, {duration(result['seconds'])})",
        *columns_in_words(info.get("metrics", {}), info.get("baselines", [])),
        verdict,
        *kept_in_words(info.get("kept")),
        *_disk(Path(result["out"])),
        f"saved in {result['out']}: see report.html; to use it: headway {task.verb} {result['out']} {asked}",
    ]


def _disk(run: Path) -> list[str]:
    from headway.training.store.contents import sizes

    found = sizes(run)
    if not found.resume:
        return [f"on disk: {size(found.total)}"] if found.total else []
    more = f", {size(found.snapshots)} are snapshots" if found.snapshots else ""
    return [
        f"on disk: {size(found.use)} to use the model, {size(found.resume)} to resume the run "
        f"(`headway clean {run} --checkpoints` frees this space){more}"
    ]


HEADINGS = {
    "data": "Data",
    "run": "Run",
    "architecture": "Model",
    "optimisation": "Training",
    "fine_tuning": "Fine-tuning",
    "for_tasks": "For some tasks",
    "runtime": "Computation",
}
"""The heading of each group of options."""
MOST_CHOICES = 5
"""Maximum number of choices shown next to an option's name; the help text lists more."""


def training_options(function: Any, texts: Mapping[str, str] = MappingProxyType({})) -> Any:
    """One option of the command per field of TrainOptions, in order; ``texts`` replaces the help of some."""
    headed = [(entry, HEADINGS[name]) for name, group in groups(TrainOptions).items() for entry in fields(group)]
    for entry, heading in reversed(headed):
        text = texts.get(entry.name, entry.metadata["help"])
        choices = values() if entry.name == "task" else entry.metadata["choices"]
        name = (f"--{flag(entry.name)}", entry.name)
        text = text[0].upper() + text[1:]
        if len(choices) > MOST_CHOICES:
            text += f": {', '.join(choices)}"
        told: dict[str, Any] = {"cls": Headed, "heading": heading, "common": entry.metadata["common"], "help": text}
        if kind_of(entry)[0] == "bool":
            function = click.option(*name, is_flag=True, **told)(function)
            continue
        kind: Any = click.Choice(choices) if choices else {"int": int, "float": float}.get(kind_of(entry)[0], str)
        if len(choices) > MOST_CHOICES:
            told["metavar"] = flag(entry.name).upper()
        if entry.metadata["several"]:
            told |= SEVERAL
        shown = entry.default not in (None, "")
        function = click.option(*name, type=kind, default=entry.default, show_default=shown, **told)(function)
    return function


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of the options of the present command, those that were given, whatever their values."""
    source = click.get_current_context().get_parameter_source
    return {name: value for name, value in options.items() if source(name) is not ParameterSource.DEFAULT}


def out_option(text: str) -> Any:
    return click.option("--out", cls=Headed, heading=HEADINGS["run"], help=text)


HELD_OUT = "Validation data, instead of a held-out part."
WATCHED = "Show the run in the browser while it trains, on an address of this machine."
of_data: dict[str, Any] = {"cls": Headed, "heading": HEADINGS["data"]}
validation_option: Any = click.option("--validation", multiple=True, metavar="INPUT...", help=HELD_OUT, **of_data)
watch_option: Any = click.option("--watch", is_flag=True, cls=Headed, heading=HEADINGS["run"], help=WATCHED)


class Train(HeadedCommand):
    """A command whose ``--validation`` takes every word up to the next option: ``train A B --validation C D``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = repeated(args, "--validation")
        n_files = words.count("--validation")
        rest = super().parse_args(ctx, words)
        if self._has_input(ctx):
            return rest
        if n_files > 2:
            raise click.UsageError("--validation takes every word after it; name what to train on first.")
        ctx.params.clear()  # the second word is the input: train --validation C A
        rest = super().parse_args(ctx, list(args))
        if not self._has_input(ctx):
            raise click.MissingParameter(ctx=ctx, param=self.params[0])
        return rest

    @staticmethod
    def _has_input(ctx: click.Context) -> bool:
        """Whether there is something to train on, or a model to plan without it."""
        return bool(ctx.params["inputs"] or ctx.params.get("parameters") is not None or ctx.resilient_parsing)


def repeated(words: Sequence[str], option: str) -> list[str]:
    """The words of a command line with ``option`` repeated before each of its words: --o a b as --o a --o b."""
    found: list[str] = []
    taking = False
    for word in words:
        if word.startswith(f"{option}="):
            taking = True
            found += [option, word.removeprefix(f"{option}=")]
        elif word.startswith("-"):
            taking = word == option
            found += [] if taking else [word]
        else:
            found += [option, word] if taking else [word]
    return found


@contextlib.contextmanager
def watched(run: Path, wanted: bool) -> Iterator[None]:
    """While this context is active, serve the page of a run directory, which need not exist yet.

    Only the first of several processes does.  Raises InputError where the extra ``serve`` is missing, or no page can be
    served.
    """
    from headway.training.ranks import is_first

    if not wanted or not is_first():
        yield
        return
    if any(find_spec(name) is None for name in NEEDS):
        raise InputError(
            "--watch needs fastapi, uvicorn and prometheus-client: pip install 'headway[serve]', or leave it out."
        )
    server, address = _started(run)
    click.echo(f"watch it at {address}", err=True)
    try:
        yield
    finally:
        _end(server)


def _started(run: Path) -> tuple["subprocess.Popen[bytes]", str]:
    """The process that serves the page, and its address."""
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
            port = listening.getsockname()[1]
            server = subprocess.Popen(
                [sys.executable, "-P", "-m", "headway.serving.watch_server", str(run.absolute()), str(os.getpid())],
                stdin=listening.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the training, which then saves; the page shows that too
            )
    except OSError as error:
        raise InputError(f"--watch: no page can be served ({error.strerror or error}); leave it out.") from None
    return server, f"http://127.0.0.1:{port}"


def _end(server: "subprocess.Popen[bytes]") -> None:
    """End the process, however it is; say where it had ended before."""
    status = server.poll()
    if status is not None:
        click.echo(f"headway: warning: the page of --watch ended before the training (status {status})", err=True)
        return
    server.terminate()
    try:
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        server.kill()
        server.wait()


@verb(Train)
@click.argument("inputs", nargs=-1, metavar="INPUT...")
@out_option("Run directory. [default: runs/ and the input's name, or both names of two aligned files]")
@validation_option
@training_options
@watch_option
@plan_options
def command(
    inputs: tuple[str, ...],
    out: str | None,
    validation: tuple[str, ...],
    progress: Progress,
    planning: bool,
    watch: bool,
    **options: Any,
) -> Answer | None:
    """Train a model on INPUT: .txt, .csv, .tsv, .jsonl, each also as .gz, .parquet, .xlsx, two aligned files, a folder
    of such files, of texts or images by class, .npz, or a data set of the hub (owner/name, owner/name@revision:split).

    The task, the columns, the tokenizer and the size are chosen automatically and printed, each with the option that
    changes it.  Run the same command again to resume a run that was stopped.
    """
    from headway.cli.main import STARTED

    asked = {name: options.pop(name) for name in PLANNED}
    options = given_options(options)
    if planning:
        if watch:
            raise InputError("--watch shows a training, and --plan does not train; leave one of them out.")
        planned = plan(inputs, validation, progress, asked, options, STARTED)
        return Answer(planned, lines(planned))
    for name, value in asked.items():
        if value is not None:
            raise InputError(f"--{flag(name)} is for --plan, which does not train; leave it out or add --plan.")
    line = ["headway", *(shlex.quote(word) for word in sys.argv[1:])]

    place, chosen = Path(out) if out is not None else default_out(inputs), TrainOptions(**options)
    with watched(place, watch):
        run = train_run(inputs, chosen, place, validation, started=STARTED, progress=progress, command=line)
    from headway.reports.record import read_record
    from headway.reports.verdict import verdict
    from headway.training.ranks import is_first
    from headway.workflows.train.outcome import result

    if not is_first():
        return None
    record, found = read_record(run.path), result(run)
    return Answer(found, summary(found, verdict(record), record.info))
