"""What all routes of a server share."""

import time
from dataclasses import dataclass, field

from headway.serving.metrics import Metrics
from headway.serving.models import Models
from headway.serving.settings import Settings


@dataclass
class State:
    """The models of a server, its settings and metrics, and whether it is stopping."""

    models: Models
    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False
    active: int = 0
    """requests that are being answered"""
    started: float = field(default_factory=time.monotonic)

    def drain(self) -> None:
        """Admit nothing new."""
        self.draining = True
        for served in self.models:
            served.places.closed = "the server is stopping"

    def abort(self) -> None:
        """End what is still being computed; its clients get an error."""
        for served in self.models:
            served.worker.abort()
