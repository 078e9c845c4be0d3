"""What the gate needs of a server, whether it has models or only shows a run."""

import time
from dataclasses import dataclass, field

from headway.serving.metrics import Metrics
from headway.serving.settings import Settings


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
