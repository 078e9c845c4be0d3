"""What all routes of a server share, whether it has models or only shows a run."""

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headway.serving.errors import busy
from headway.serving.metrics import Metrics
from headway.serving.settings import Settings

if TYPE_CHECKING:  # a server that only shows a run needs no torch
    from headway.serving.models import Models


@dataclass
class Shared:
    """The settings and metrics of a server, and whether it is stopping."""

    settings: Settings
    metrics: Metrics = field(default_factory=Metrics, kw_only=True)
    draining: bool = field(default=False, kw_only=True)
    active: int = field(default=0, kw_only=True)
    """requests that are being answered"""
    started: float = field(default_factory=time.monotonic, kw_only=True)

    def check_place(self) -> None:
        """Raise RequestError where nothing more that needs a model can be admitted."""


@dataclass
class State(Shared):
    """What all routes of a server with models share."""

    models: "Models"

    def check_place(self) -> None:
        """Raise RequestError where no model has a place for one more text."""
        if self.models.full:
            raise busy(
                "every model computes as many texts as it may, and as many wait: try again", self.models.retry_after
            )

    def drain(self) -> None:
        """Admit nothing new."""
        self.draining = True
        for served in self.models:
            served.places.closed = "the server is stopping"

    def abort(self) -> None:
        """End what is still being computed; its clients get an error."""
        for served in self.models:
            served.worker.abort()
