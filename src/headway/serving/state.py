"""What all routes of a server share: settings, what is counted (for Prometheus), and whether it is stopping."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from headway.serving.responses import busy
from headway.serving.settings import Settings

if TYPE_CHECKING:  # a server that only shows a run needs no torch
    from headway.serving.models import Models, Served

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Bounds of the histograms."""
USED = "headway.used"
"""Where a request keeps its model, and ``usage``, which counts its tokens."""
ABOUT_MODEL = ("model", "task", "version", "precision", "engine")


class Metrics:
    """Counters and histograms of one server, as Prometheus reads them.  No label holds what a client sent."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()

        def counted(kind: Any, name: str, help: str, *labels: str, **more: Any) -> Any:
            return kind(f"headway_{name}", help, labels, registry=self.registry, **more)

        def seconds(name: str, help: str) -> Any:
            return counted(Histogram, f"{name}_seconds", help, "model", buckets=SECONDS)

        counter, gauge = partial(counted, Counter), partial(counted, Gauge)
        self.requests = counter("requests", "Requests by route and status.", "route", "status")
        self.rejected = counter("rejected", "Requests that were refused before any work, by reason.", "reason")
        self.cancelled = counter("cancelled", "Texts whose client left.", "model")
        self.prompt_tokens = counter("prompt_tokens", "Tokens that were read.", "model")
        self.completion_tokens = counter("completion_tokens", "Tokens that were written.", "model")
        self.first_token = seconds("time_to_first_token", "From the request to its first token.")
        self.between_tokens = seconds("inter_token", "Between two tokens of a text.")
        self.whole = seconds("request", "From the request to the end of its answer.")
        self.queued = seconds("queue", "From the request to the beginning of its computation.")
        self.running = gauge("running", "Texts that are being computed.", "model")
        self.waiting = gauge("queued", "Texts that wait.", "model")
        self.info = gauge("model_info", "The models that are served.", *ABOUT_MODEL)

    def text(self, models: "Iterable[Served]") -> bytes:
        """Everything, as Prometheus reads it, with what the models compute now."""
        from prometheus_client import generate_latest

        for gauge in (self.running, self.waiting, self.info):
            gauge.clear()
        for served in models:
            running = served.worker.running
            self.running.labels(served.name).set(running)
            self.waiting.labels(served.name).set(max(0, served.places.taken - running))
            about = {"model": served.name, **served.loaded_as}
            self.info.labels(*(about.get(name, "") for name in ABOUT_MODEL)).set(1)
        return generate_latest(self.registry)


@dataclass
class State:
    """What all routes of a server share."""

    settings: Settings
    models: "Models" = ()  # type: ignore[assignment]  # a server that only shows a run has none
    metrics: Metrics = field(default_factory=Metrics)
    draining: bool = False
    active: int = 0
    """requests that are being answered"""
    started: float = field(default_factory=time.monotonic)

    def find(self, request: Any, name: str | None, verb: str | None = None) -> "Served":
        """``Models.find``, noted for the line that is logged about a request.  Raises RequestError."""
        served = self.models.find(name, verb)
        request.scope[USED] = {"model": served.name}
        return served

    def check_place(self) -> None:
        """Raise RequestError where no model has a place for one more text."""
        if self.models and self.models.full:
            raise busy(
                "every model computes as many texts as it may, and as many wait: try again", self.models.retry_after
            )
