"""Trackers: what a run's log is given is also sent to TensorBoard, Trackio, MLflow or Weights & Biases.

A tracker is a context that gives a function of numbers by name and their step.  Where it lies and who may write there
is its own business (``MLFLOW_TRACKING_URI``, ``WANDB_MODE=offline``).
"""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway.errors import InputError

Send = Callable[[Mapping[str, float], int], object]
PROJECT = "headway"


@dataclass(frozen=True)
class Tracked:
    """What a tracker is told of a run."""

    run: Path
    started: str
    options: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The same when the run is resumed, another one for a new run at the same place."""
        return hashlib.sha256(f"{self.run.absolute()} {self.started}".encode()).hexdigest()[:8]

    @property
    def name(self) -> str:
        return f"{self.run}-{self.key}"


@contextlib.contextmanager
def tensorboard(tracked: Tracked) -> Iterator[Send]:
    from torch.utils.tensorboard import SummaryWriter

    board = SummaryWriter(str(tracked.run / "tensorboard"))

    def send(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            board.add_scalar(name, value, step)
        board.flush()

    yield send
    board.close()


@contextlib.contextmanager
def trackio(tracked: Tracked) -> Iterator[Send]:
    run = import_module("trackio").init(PROJECT, name=tracked.name, config=dict(tracked.options), resume="allow")
    yield lambda values, step: run.log(dict(values), step=step)
    run.finish()


@contextlib.contextmanager
def wandb(tracked: Tracked) -> Iterator[Send]:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    library = import_module("wandb")
    how = {"id": tracked.key, "resume": "allow", "dir": str(tracked.run), "config": dict(tracked.options)}
    settings = library.Settings(init_timeout=REACHED_IN, login_timeout=REACHED_IN, console="off")
    run = library.init(project=PROJECT, name=tracked.name, settings=settings, **how)
    yield lambda values, step: run.log(dict(values), step=step)
    run.finish()


@contextlib.contextmanager
def mlflow(tracked: Tracked) -> Iterator[Send]:
    usual = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
    for name, value in {**usual, "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REACHED_IN)}.items():
        os.environ.setdefault(name, value)
    client, entities = import_module("mlflow").MlflowClient(), import_module("mlflow.entities")
    wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    experiment = client.get_experiment_by_name(wanted)
    experiment_id = client.create_experiment(wanted) if experiment is None else experiment.experiment_id
    before = client.search_runs([experiment_id], f"tags.headway = '{tracked.key}'")
    if before:
        run = before[0].info.run_id
        client.update_run(run, "RUNNING")
    else:
        run = client.create_run(experiment_id, run_name=tracked.name, tags={"headway": tracked.key}).info.run_id
        client.log_batch(run, params=[entities.Param(name, str(value)) for name, value in tracked.options.items()])

    def send(values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        client.log_batch(run, [entities.Metric(name, value, now, step) for name, value in values.items()])

    yield send
    client.set_terminated(run)


REACHED_IN = 10
"""Seconds in which a server must answer."""
OPENED: dict[str, Callable[[Tracked], AbstractContextManager[Send]]] = {
    one.__name__: one for one in (tensorboard, trackio, mlflow, wandb)
}
PACKAGES = {"tensorboard": "'headway[track]'", "mlflow": "mlflow-skinny"}
"""What pip installs, where it is not called like the tracker."""


def check_installed(name: str) -> None:
    """Raise InputError where the library of a tracker is not installed."""
    if find_spec(name) is None:
        raise InputError(f"--track {name} needs {name}: pip install {PACKAGES.get(name, name)}.")


class Tracking:
    """A run's tracker, open; a failure is one warning, after which training goes on without it."""

    def __init__(self, name: str, tracked: Tracked, warn: Callable[[str], None]):
        self.name, self.warn = name, warn
        self._open, self._send = contextlib.ExitStack(), None
        with self._trying():
            self._send = self._open.enter_context(OPENED[name](tracked))

    def log(self, event: str, values: Mapping[str, Any]) -> None:
        """Send the numbers of a step or an evaluation."""
        numbers = {f"{event}/{name}": value for name, value in values.items() if isinstance(value, int | float)}
        if self._send is not None and event in ("step", "evaluation"):
            with self._trying():
                self._send({name: value for name, value in numbers.items() if name != f"{event}/step"}, values["step"])

    def close(self) -> None:
        """Send what is left."""
        if self._send is not None:
            with self._trying():
                self._open.close()

    @contextlib.contextmanager
    def _trying(self) -> Iterator[None]:
        """Warn, and stop tracking, where it fails; nothing is printed where results are."""
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        except Exception as error:
            self._send = None
            reason = f"cannot be reached ({f'{type(error).__name__}: {error}'.splitlines()[0][:200]})"
            if isinstance(error, OSError) and error.strerror:
                reason = f"cannot be written ({error.strerror})"
            self.warn(f"--track {self.name}: {reason}; training goes on without it")
