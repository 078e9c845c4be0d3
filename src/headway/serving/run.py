"""Run a server until it is told to stop: what is being answered is finished first."""

import contextlib
import json
import logging
import resource
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from headway.errors import InputError, RunFailed
from headway.serving.app import create_app
from headway.serving.draining import AFTER, draining_server
from headway.serving.models import Models
from headway.serving.protocol import protocol
from headway.serving.settings import Settings
from headway.serving.warned import listen


def serve(models: Models, settings: Settings, said: Callable[[str], None], reload: Callable[[], None]) -> int:
    """Serve some models until SIGTERM or Ctrl-C, and return the exit status: 0, or 1 after a fatal error.

    The first signal lets answers be finished, for at most ``drain_seconds``; the second ends them.  ``said`` is told
    the address once it listens, ``reload`` is called on SIGHUP.  Raises InputError for an address that is taken.
    """
    import uvicorn

    listen()
    logging.basicConfig(handlers=[JsonLines()])
    warnings.filterwarnings("ignore", module=r"PIL\.")  # what Pillow warns of, a request is told
    app = create_app(models, settings)
    _allow_files(settings.connections + 64)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=protocol(settings),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=settings.header_bytes,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=int(AFTER),
        lifespan="on",
    )
    server = draining_server(config, models, settings, app.state.headway, said)
    _on_hangup(reload)
    try:
        server.run()
    except SystemExit:
        raise InputError(
            f"--host {settings.host} --port {settings.port}: cannot listen there; is another server running? Name "
            "another port with --port."
        ) from None
    fatal = [one for one in models if one.worker.fatal]
    if fatal:
        raise RunFailed(f"the model {fatal[0].name} cannot go on: {fatal[0].worker.fatal}")
    return 0


class JsonLines(logging.Handler):
    """What libraries log, each as one line in the form of the lines about requests."""

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.msg, OSError):  # a port that is taken, which ``run_server`` says
            return
        line = {"time": round(record.created, 3), "level": record.levelname.lower(), "from": record.name}
        print(json.dumps({**line, "message": self.format(record)}), file=sys.stderr, flush=True)


def _on_hangup(reload: Callable[[], None]) -> None:
    """Call ``reload`` in a thread of its own on SIGHUP, where there is such a signal."""
    import signal

    def begin(_number: int, _frame: Any) -> None:
        threading.Thread(target=reload, daemon=True, name="headway-reload").start()

    if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGHUP, begin)


def _allow_files(count: int) -> None:
    """Let the process open as many files as it has connections, where the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))
