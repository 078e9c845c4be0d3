"""What all routes of a server with models share."""

from dataclasses import dataclass

from headway.serving.errors import busy
from headway.serving.models import Models
from headway.serving.shared import Shared


@dataclass
class State(Shared):
    """The same with models."""

    models: Models

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
