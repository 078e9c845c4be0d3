"""The server that listens: it finishes what it has begun before it stops."""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from headway.serving.models import Models
from headway.serving.protocol import end_stalled
from headway.serving.settings import Settings
from headway.serving.state import State

LOOK = 0.05
"""Seconds between two looks at what is still being answered."""
AFTER = 3.0
"""Seconds for what was ended to tell its clients so."""
LAST = 6.0
"""Seconds after which the process ends, whatever its threads still compute."""


def draining_server(config: Any, models: Models, settings: Settings, state: State, said: Callable[[str], None]) -> Any:
    """A server of uvicorn that finishes what it answers; ``said`` is told the address once it listens."""
    import uvicorn

    class Server(uvicorn.Server):
        """A server that answers what it has begun before it stops, and refuses what is new."""

        signals = 0
        stop_at = 0.0

        def handle_exit(self, sig: int, frame: Any) -> None:
            self.signals += 1
            if self.signals == 1:
                self.stop_at = time.monotonic() + settings.drain_seconds
            else:
                self.stop_at = time.monotonic()

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                listens = self.servers[0].sockets[0].getsockname()
                said(f"http://{f'[{listens[0]}]' if ':' in listens[0] else listens[0]}:{listens[1]}")

        async def on_tick(self, counter: int) -> bool:
            end_stalled(self.server_state.connections, counter)
            if any(one.worker.fatal for one in models) and not self.stop_at:
                self.stop_at = time.monotonic() + settings.drain_seconds
            if self.stop_at and not state.draining:
                state.drain()
            if state.draining and (not state.active or time.monotonic() >= self.stop_at):
                await self._end()
                return True
            return await super().on_tick(counter)

        async def _end(self) -> None:
            """End what is still being answered, and wait until its clients know.

            What cannot be told to end, such as a long part of a pipeline, ends with the process.
            """
            status = int(any(one.worker.fatal for one in models))
            last = threading.Timer(LAST, os._exit, [status])
            last.daemon = True
            last.start()
            if state.active:
                state.abort()
                until = time.monotonic() + AFTER
                while state.active and time.monotonic() < until:
                    await asyncio.sleep(LOOK)
            self.should_exit = True

    return Server(config)
