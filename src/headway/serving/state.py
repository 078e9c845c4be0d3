"""What all routes of a server share: settings, what is counted (for Prometheus), and whether it is stopping."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headway.serving.responses import busy
from headway.serving.settings import Settings

if TYPE_CHECKING:  # a server that only shows a run needs no torch
    from headway.serving.models import Models

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Bounds of the histograms."""


class Metrics:
    """Counters and histograms of one server, as Prometheus reads them.  No label holds what a client sent."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.registry = CollectorRegistry()

        def counter(name: str, help: str, *labels: str) -> Any:
            return Counter(f"headway_{name}", help, labels, registry=self.registry)

        def seconds(name: str, help: str) -> Any:
            return Histogram(f"headway_{name}_seconds", help, ("model",), registry=self.registry, buckets=SECONDS)

        self.requests = counter("requests", "Requests by route and status.", "route", "status")
        self.rejected = counter("rejected", "Requests that were refused before any work, by reason.", "reason")
        self.cancelled = counter("cancelled", "Texts whose client left.", "model")
        self.prompt_tokens = counter("prompt_tokens", "Tokens that were read.", "model")
        self.completion_tokens = counter("completion_tokens", "Tokens that were written.", "model")
        self.first_token = seconds("time_to_first_token", "From the request to its first token.")
        self.between_tokens = seconds("inter_token", "Between two tokens of a text.")
        self.whole = seconds("request", "From the request to the end of its answer.")
        self.queued = seconds("queue", "From the request to the beginning of its computation.")

    def watch(self, look: Callable[[], Iterable[tuple[dict[str, str], int, int]]]) -> None:
        """Show (labels, running, queued) of each model at the time of asking."""
        from prometheus_client.core import GaugeMetricFamily

        class Watch:
            """Reads the numbers when they are asked for."""

            def collect(self) -> Iterable[Any]:
                rows = list(look())
                running = GaugeMetricFamily("headway_running", "Texts that are being computed.", labels=["model"])
                queued = GaugeMetricFamily("headway_queued", "Texts that wait.", labels=["model"])
                names = ("model", "task", "version", "precision", "engine")
                info = GaugeMetricFamily("headway_model_info", "The models that are served.", labels=names)
                for labels, now, later in rows:
                    running.add_metric([labels["model"]], now)
                    queued.add_metric([labels["model"]], later)
                    info.add_metric([labels.get(name, "") for name in names], 1)
                return [running, queued, info]

        self.registry.register(Watch())  # type: ignore[arg-type]

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


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
