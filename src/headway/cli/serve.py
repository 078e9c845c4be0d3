"""``headway serve``: models behind HTTP, for programs and for people."""

import os
import shlex
import signal
import threading
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from headway.cli.common import device_option, interruptible, precision_option, threads_option
from headway.errors import InputError
from headway.formats.registry import ENGINES, TORCH
from headway.io.quantities import size
from headway.io.strict_json import read_text

KEY = "HEADWAY_API_KEY"


@click.command(short_help="Serve saved models over HTTP.")
@click.argument("run", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 is a free one.")
@click.option("--keys", help=f"File with a key on each line, or NAME KEY, for --host; or set {KEY}.")
@click.option("--insecure", is_flag=True, help="Listen on another address without a key.")
@click.option("--allowed-host", "hosts", multiple=True, help="Name by which clients call the server.")
@click.option("--origin", "origins", multiple=True, help="Origin of other web pages that may use it.")
@click.option("--prefix", default="", help="Path before all routes behind a proxy, such as /models.")
@click.option("--running", type=click.IntRange(1, 256), default=16, show_default=True, help="Texts computed together.")
@click.option("--queue", type=click.IntRange(0, 4096), default=64, show_default=True, help="Texts that may wait.")
@click.option("--strict", is_flag=True, help="Refuse unknown fields of OpenAI's routes instead of ignoring them.")
@click.option("--quiet", is_flag=True, help="Write no line about each request.")
@click.option("--dockerfile", metavar="DIR", help="Serve nothing; write a Dockerfile with all that it needs to DIR.")
@device_option
@precision_option
@click.option(
    "--engine",
    "engines",
    multiple=True,
    help=f"{', '.join(ENGINES[1:])} or auto, as of `headway predict`; NAME=ENGINE for one of the models.  "
    f"[default: {TORCH}]",
)
@threads_option
def command(
    run: tuple[str, ...],
    keys: str | None,
    quiet: bool,
    dockerfile: str | None,
    device: str,
    precision: str | None,
    engines: tuple[str, ...],
    **limits: Any,
) -> None:
    """Serve the models in RUN over HTTP until Ctrl-C or SIGTERM.

    RUN is a run, a Hugging Face directory or a hub id; NAME=RUN serves it under another name than its folder's.
    Programs use OpenAI's routes (/v1/completions, /v1/chat/completions, /v1/embeddings, /v1/models) or the verb of the
    model's task (/classify, /tag, /translate, ...); people open the address in a browser.  SIGHUP loads the models
    again.

    --dockerfile writes DIR, from which `docker build` makes an image that serves the same models with the same options.
    """
    how = {"device": device, "precision": precision}
    named = [_named(one) for one in run]
    _check_differ([name for name, _ in named])
    engine_of = _engines(engines, [name for name, _ in named])
    if dockerfile is not None:
        _write_container(named, dockerfile, {**how, "engine_of": engine_of}, limits)
        return
    _leave_on_sigterm()
    from headway.serving.app import serve
    from headway.serving.models import Models
    from headway.serving.settings import Settings

    values, names = _keys(keys)
    settings = Settings(keys=values, key_names=names, log=not quiet, **limits)
    models = Models(settings)
    for name, path in named:
        models.load(path, name, engine=engine_of[name], **how)

    def reload() -> None:
        for name, path in named:
            try:
                models.load(path, name, engine=engine_of[name], **how)
                click.echo(f"headway: {name} is loaded again", err=True)
            except InputError as error:
                click.echo(f"headway: {name} is not loaded again, the earlier one goes on: {error}", err=True)

    def said(address: str) -> None:
        for served in models:
            by = f"{served.loaded_as.get('precision', '')} by {served.loaded_as.get('engine', 'torch')}"
            route = f"{address}{settings.prefix}/{served.verb}"
            click.echo(f"headway: {served.name}: {served.spec.title}, {by}, {route}", err=True)
        click.echo(f"headway: open {address}{settings.prefix} in a browser; Ctrl-C stops", err=True)

    serve(models, settings, said, reload)


def _leave_on_sigterm() -> None:
    """Exit at once on SIGTERM while models are loaded; the server itself finishes its answers first.

    Without a handler, the first process of a container would go on.  SIGHUP asks for what is being done already.
    """
    if threading.current_thread() is threading.main_thread():
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, _frame: os._exit(128 + number))


def _named(given: str) -> tuple[str, str]:
    """(name, run) of an argument; a name with = or / in it, such as a hub id, is one if RUN exists."""
    if Path(given).exists():
        return Path(given).resolve().name, given
    name, _, path = given.rpartition("=")
    if path and Path(path).exists():
        return name or Path(path).resolve().name, path
    name, is_named, path = given.partition("=")
    if is_named and "/" not in name:
        return name or Path(path).resolve().name, path
    return given, given


def _check_differ(names: list[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise InputError(f"two models are named {name!r}; name one of them otherwise: NAME=RUN.")


def _engines(given: tuple[str, ...], names: list[str]) -> dict[str, str]:
    """The engine of each model, from ENGINE for all and NAME=ENGINE for one.  Raises InputError."""
    own: dict[str, str] = {}
    for one in given:
        name, _, engine = one.rpartition("=")
        if name and name not in names:
            raise InputError(f"--engine {one}: no model is named {name!r}; there is {', '.join(names)}.")
        if own.setdefault(name, engine) != engine:
            raise InputError(f"--engine {one}: {name or 'the engine of all models'} is given twice.")
    return {name: own.get(name, own.get("", TORCH)) for name in names}


def _keys(file: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keys of a file, or of the environment, and the name of each."""
    if file is not None:
        lines = (line.strip() for line in read_text(Path(file), advice="expected a key on each line").splitlines())
        found = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
        if not found:
            raise InputError(f"--keys {file}: holds no key; expected one on each line.")
        return tuple(key for _, _, key in found), tuple(name.strip() for name, _, _ in found)
    return (os.environ[KEY],) if os.environ.get(KEY) else (), ()


AT_START = {
    "host": "the server in a container listens on every address of it",
    "keys": f"no key is written into an image; give {KEY} to the container when you start it",
    "insecure": "say it when you start the container: docker run IMAGE --insecure",
}
"""The options that are not of an image, and why."""


def _write_container(named: list[tuple[str, str]], out: str, how: dict[str, Any], limits: dict[str, Any]) -> None:
    """Write the directory of an image with the options that were given, and say how to build it."""
    from headway.serving.container.write import write_container
    from headway.serving.settings import Settings

    given = _given()
    for name, why in AT_START.items():
        if name in given:
            raise InputError(f"--{name} does not go with --dockerfile: {why}.")
    port = Settings(**limits).port
    if port == 0:
        raise InputError("--port 0 does not go with --dockerfile: the port of a container must be known.")
    options = [word for name, words in given.items() if name not in ("port", "dockerfile") for word in words]
    with interruptible(signal.SIGTERM):
        total = write_container(named, out, port=port, options=options, **how)
    click.echo(f"{out}: a Dockerfile for {', '.join(name for name, _ in named)}, with {size(total)} of models")
    click.echo(f"next: docker build -t headway-serve {shlex.quote(out)} (the Dockerfile says more)")


def _given() -> dict[str, list[str]]:
    """The options of this command line by name, each as the words that say the same."""
    from torch import get_num_threads

    context = click.get_current_context()
    found: dict[str, list[str]] = {}
    for option in context.command.params:
        name = option.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and is_given:
            value = get_num_threads() if name == "threads" else context.params[name]
            several = value if isinstance(value, tuple) else (value,)
            flag = option.opts[0]
            found[name] = [flag] if option.is_flag else [f"{flag}={one}" for one in several]
    return found
