"""``headway train --watch``: a page in the browser about a run while it trains, served by a process of its own."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click

from headway.errors import InputError

NEEDS = ("starlette", "uvicorn", "h11", "prometheus_client")
PATIENCE = 3.0
"""Seconds in which the server may tell open pages of the end."""


@contextlib.contextmanager
def watched(run: Path, wanted: bool) -> Iterator[None]:
    """While this context is active, serve the page of a run directory, which need not exist yet.

    Only the first of several processes does.  Raises InputError where the extra ``serve`` is missing, or no page can be
    served.
    """
    from headway.training.distributed.ranks import is_first

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
