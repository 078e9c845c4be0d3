"""What a server counts, in the text format of Prometheus.  No label holds what a client sent."""

from collections.abc import Callable, Iterable
from typing import Any

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Bounds of the histograms."""


class Metrics:
    """Counters and histograms of one server."""

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
