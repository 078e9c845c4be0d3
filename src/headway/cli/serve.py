"""``headway serve``: models behind HTTP, for programs and for people."""

import os
from pathlib import Path
from typing import Any

import click

from headway.cli.common import device_option, engine_option, precision_option, threads_option
from headway.errors import InputError

KEY = "HEADWAY_API_KEY"


@click.command(short_help="Serve saved models over HTTP.")
@click.argument("run", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 is a free one.")
@click.option("--keys", help=f"File with a key on each line, for --host; or set {KEY}.")
@click.option("--insecure", is_flag=True, help="Listen on another address without a key.")
@click.option("--allowed-host", "hosts", multiple=True, help="Name by which clients call the server.")
@click.option("--origin", "origins", multiple=True, help="Origin of other web pages that may use it.")
@click.option("--running", type=click.IntRange(1, 256), default=16, show_default=True, help="Texts computed together.")
@click.option("--queue", type=click.IntRange(0, 4096), default=64, show_default=True, help="Texts that may wait.")
@click.option("--strict", is_flag=True, help="Refuse unknown fields of OpenAI's routes instead of ignoring them.")
@click.option("--quiet", is_flag=True, help="Write no line about each request.")
@device_option
@precision_option
@engine_option
@threads_option
def command(
    run: tuple[str, ...],
    keys: str | None,
    quiet: bool,
    device: str,
    precision: str | None,
    engine: str,
    **limits: Any,
) -> None:
    """Serve the models in RUN over HTTP until Ctrl-C or SIGTERM.

    RUN is a run, a Hugging Face directory or a hub id; NAME=RUN serves it under another name than its folder's.
    Programs use OpenAI's routes (/v1/completions, /v1/chat/completions, /v1/embeddings, /v1/models) or the verb of the
    model's task (/classify, /tag, /translate, ...); people open the address in a browser.  SIGHUP loads the models
    again.
    """
    from headway.serving.models import Models
    from headway.serving.run import serve
    from headway.serving.settings import Settings

    settings = Settings(keys=_keys(keys), log=not quiet, **limits)
    how = {"device": device, "precision": precision, "engine": engine}
    models = Models(settings)
    named = [_named(one) for one in run]
    _check_differ([name for name, _ in named])
    for name, path in named:
        models.load(path, name, **how)

    def reload() -> None:
        for name, path in named:
            try:
                models.load(path, name, **how)
                click.echo(f"headway: {name} is loaded again", err=True)
            except InputError as error:
                click.echo(f"headway: {name} is not loaded again, the earlier one goes on: {error}", err=True)

    def said(address: str) -> None:
        for served in models:
            click.echo(f"headway: {served.name}: {served.spec.title}, {address}/{served.verb}", err=True)
        click.echo(f"headway: open {address} in a browser; Ctrl-C stops", err=True)

    serve(models, settings, said, reload)


def _named(given: str) -> tuple[str, str]:
    """(name, run) of an argument."""
    name, is_named, path = given.partition("=")
    if is_named and not Path(given).exists() and "/" not in name:
        return name, path
    return Path(given).resolve().name if Path(given).exists() else given, given


def _check_differ(names: list[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise InputError(f"two models are named {name!r}; name one of them otherwise: NAME=RUN.")


def _keys(file: str | None) -> tuple[str, ...]:
    """The keys of a file, or of the environment."""
    from headway.io.strict_json import read_text

    if file is not None:
        lines = (line.strip() for line in read_text(Path(file), advice="expected a key on each line").splitlines())
        found = tuple(line for line in lines if line and not line.startswith("#"))
        if not found:
            raise InputError(f"--keys {file}: holds no key; expected one on each line.")
        return found
    return (os.environ[KEY],) if os.environ.get(KEY) else ()
