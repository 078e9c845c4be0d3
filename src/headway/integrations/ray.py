"""Answers to data sets of Ray, by actors that load the run once each."""

import os
from typing import Any

from headway.integrations.batch import Batch

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray reports its use unless it is told not to


def threads() -> int | None:
    """The processors of this task or actor of Ray; None outside one."""
    import ray

    try:
        resources = ray.get_runtime_context().get_assigned_resources() if ray.is_initialized() else {}
    except AssertionError:  # in the program that asks the workers
        return None
    return max(1, int(resources["CPU"])) if "CPU" in resources else None


class Actor:
    """What ``map_batches`` makes actors of."""

    def __init__(self, answer: Batch):
        self.answer = answer

    def __call__(self, rows: Any) -> Any:
        return self.answer(rows)


def answered(dataset: Any, answer: Batch, *, actors: int = 1, cpus: float = 1, **how: Any) -> Any:
    """The data set with columns of answers, by ``actors`` of so many processors; ``how`` are of ``map_batches``."""
    told = {"fn_constructor_args": [answer], "concurrency": actors, "num_cpus": cpus, "batch_format": "pyarrow", **how}
    return dataset.map_batches(Actor, **told)
