"""Answers to data frames of Dask, a partition at a time."""

from typing import Any

from headway.integrations.batch import Batch


def threads() -> int | None:
    """The threads of this worker of Dask; None outside one."""
    from distributed import get_worker

    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return None


def answered(frame: Any, answer: Batch) -> Any:
    """The frame with columns of answers."""
    return frame.map_partitions(answer, meta=answer(frame._meta))
