"""The process that serves the page of ``headway train --watch``, beside the training and without any part in it.

    python -P -m headway.serving.watch_server DIRECTORY PARENT

Its standard input is the socket that it listens on; PARENT is the id of the training process.  It leaves on SIGTERM,
and by itself when that process is gone, however that ended.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

from headway.serving.protocol import end_stalled, protocol
from headway.serving.settings import Settings
from headway.serving.watch_app import WatchApp

RECENT = 10.0
"""A page that asked within so many seconds is still open."""
LAST = 0.3
"""Seconds in which an open page that is just between two questions asks the last one."""
AFTER = 1.5
"""Seconds that the last answers may take."""
NICER = 10
"""Training comes first: how much this process yields to it."""


def main(directory: str, parent: int, listening: socket.socket) -> None:
    """Serve the page of a run directory on a listening socket until the process ``parent`` ends."""
    import uvicorn

    settings = Settings(port=listening.getsockname()[1], connections=64)
    app = WatchApp(Path(directory), settings)

    class Server(uvicorn.Server):
        """A server that tells open pages of the end before it leaves."""

        ended_at = 0.0

        def handle_exit(self, sig: int, frame: Any) -> None:
            self._end()

        def _end(self) -> None:
            if not self.ended_at:
                self.ended_at = time.monotonic()
                app.ending.set()

        async def on_tick(self, counter: int) -> bool:
            end_stalled(self.server_state.connections, counter)
            if os.getppid() != parent:
                self._end()
            if self.ended_at:
                now = time.monotonic()
                is_open = app.asked_at is not None and self.ended_at - app.asked_at < RECENT
                is_over = not app.shared.active and (not is_open or now > self.ended_at + LAST)
                if is_over or now > self.ended_at + AFTER:
                    return True
            return await super().on_tick(counter)

    config = uvicorn.Config(
        app,
        http=protocol(settings),
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=settings.header_bytes,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        lifespan="off",
    )
    Server(config).run(sockets=[listening])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICER)
    main(sys.argv[1], int(sys.argv[2]), socket.socket(fileno=0))
