"""Trackers: what a run's log is given is also sent to TensorBoard, Trackio, MLflow or Weights & Biases."""

import contextlib
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headway.errors import InputError

Send = Callable[[Mapping[str, float], int], object]
PROJECT = "headway"


@contextlib.contextmanager
def tensorboard(run: "Tracking") -> Iterator[Send]:
    from torch.utils.tensorboard import SummaryWriter

    board = SummaryWriter(str(run.path / "tensorboard"))

    def send(values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            board.add_scalar(name, value, step)
        board.flush()

    yield send
    board.close()


@contextlib.contextmanager
def trackio(run: "Tracking") -> Iterator[Send]:
    theirs = import_module("trackio").init(PROJECT, name=run.name, config=run.options, resume="allow")
    yield lambda values, step: theirs.log(dict(values), step=step)
    theirs.finish()


@contextlib.contextmanager
def wandb(run: "Tracking") -> Iterator[Send]:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    library = import_module("wandb")
    how = {"id": run.key, "resume": "allow", "dir": str(run.path), "config": run.options}
    settings = library.Settings(init_timeout=REACHED_IN, login_timeout=REACHED_IN, console="off")
    theirs = library.init(project=PROJECT, name=run.name, settings=settings, **how)
    yield lambda values, step: theirs.log(dict(values), step=step)
    theirs.finish()


@contextlib.contextmanager
def mlflow(run: "Tracking") -> Iterator[Send]:
    usual = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1"}
    for name, value in {**usual, "MLFLOW_HTTP_REQUEST_TIMEOUT": str(REACHED_IN)}.items():
        os.environ.setdefault(name, value)
    client, entities = import_module("mlflow").MlflowClient(), import_module("mlflow.entities")
    wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
    experiment = client.get_experiment_by_name(wanted)
    experiment_id = client.create_experiment(wanted) if experiment is None else experiment.experiment_id
    before = client.search_runs([experiment_id], f"tags.headway = '{run.key}'")
    if before:
        theirs = before[0].info.run_id
        client.update_run(theirs, "RUNNING")
    else:
        theirs = client.create_run(experiment_id, run_name=run.name, tags={"headway": run.key}).info.run_id
        client.log_batch(theirs, params=[entities.Param(name, str(value)) for name, value in run.options.items()])

    def send(values: Mapping[str, float], step: int) -> None:
        now = int(time.time() * 1000)
        client.log_batch(theirs, [entities.Metric(name, value, now, step) for name, value in values.items()])

    yield send
    client.set_terminated(theirs)


REACHED_IN = 10
"""Seconds in which a server must answer."""
OPENED: dict[str, Callable[["Tracking"], AbstractContextManager[Send]]] = {
    one.__name__: one for one in (tensorboard, trackio, mlflow, wandb)
}
"""Contexts that give a function of numbers by name and their step; where a tracker lies and who may write there is its
own business (``MLFLOW_TRACKING_URI``, ``WANDB_MODE=offline``)."""
PACKAGES = {"tensorboard": "'headway[track]'", "mlflow": "mlflow-skinny"}
"""What pip installs, where it is not called like the tracker."""


def check_installed(name: str) -> None:
    """Raise InputError where the library of a tracker is not installed."""
    if find_spec(name) is None:
        raise InputError(f"--track {name} needs {name}: pip install {PACKAGES.get(name, name)}.")


class Tracking:
    """The tracker ``name`` of the run at ``path``, open; a failure is one warning, and training goes on without it."""

    def __init__(self, name: str, path: Path, facts: Mapping[str, Any], warn: Callable[[str], None]):
        self.tracker, self.path, self.warn = name, path, warn
        options = {**facts.get("options", {}), "task": facts.get("task")}
        self.options = {one: value for one, value in options.items() if value not in (None, False)}
        self.key = hashlib.sha256(f"{path.absolute()} {facts.get('started', '')}".encode()).hexdigest()[:8]
        """the same when the run is resumed, another one for a new run at the same place"""
        self.name = f"{path}-{self.key}"
        self._open, self._send = contextlib.ExitStack(), None
        with self._trying():
            self._send = self._open.enter_context(OPENED[name](self))

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
            self.warn(f"--track {self.tracker}: {reason}; training goes on without it")
