"""Answers to batches of rows, by a run that is loaded once in each process: for engines that send batches to workers.

    answer = headway.Batch("runs/tickets")         # small, and pickled by the run's path
    answer(frame)                                  # the same kind of batch, with columns of answers

Spark, Ray, Dask, polars and MLflow call it (``headway.integrations``), and anything else that maps batches can.
"""

import socket
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from headway import __version__
from headway.data.open.in_memory import Held, in_memory
from headway.data.records.rows import columns_named
from headway.errors import InputError, shown
from headway.hub.adapters.locate import locate_model
from headway.hub.fingerprint import full_fingerprint
from headway.tasks.command import free_names
from headway.tasks.frames import arrow_type
from headway.workflows.load import load

ENGINES = {"ray": "ray", "pyspark": "spark", "distributed": "dask"}
"""Engines by the name of their package, each with the module here that knows how many threads it gave this process."""
_loaded: dict[tuple[Any, ...], Any] = {}
"""The pipelines of this process, by what they were loaded from."""
_one_at_a_time = threading.RLock()


class Batch:
    """A callable: a batch of rows in, the same batch with columns of answers out.

    ``run``, ``device``, ``precision`` and ``engine`` are those of ``headway.load``; ``text_column`` is by default that
    of the run; ``options`` are those of the task's verb (``max_tokens=20``).

    It is pickled as the run's path: the run lies at the same path on every worker, with the same version of Headway,
    which is checked there.  A process loads a run once, with as many threads as its engine gave it, and answers one
    batch at a time.
    """

    def __init__(
        self,
        run: str | Path,
        text_column: str | None = None,
        *,
        device: str = "auto",
        precision: str | None = None,
        engine: str = "torch",
        **options: Any,
    ):
        """Raises InputError as ``headway.load`` does."""
        here = Path(run)
        self.run = str(here.absolute()) if here.exists() else str(run)
        self.how: dict[str, Any] = {"device": device, "precision": precision, "engine": engine}
        self.options, self.version = options, __version__
        self.model = full_fingerprint(locate_model(run).path)
        """what identifies the model that answers"""
        self.text_column = text_column or self.pipe.text_column
        self.types: dict[str, Any] = self.pipe.answer_types(**options)
        """the columns that an answer adds, and the Python type of each"""

    def __call__(self, rows: Any) -> Any:
        """The batch with columns of answers, null where a row has no text; of its own kind.

        ``rows`` are a dict of arrays or lists, an Arrow table or record batch, or a frame of pandas or polars.  Raises
        InputError where the column of texts is not there, or holds something else.
        """
        return self._answered(rows, self.text_column)

    def answers(self, texts: Sequence[Any]) -> dict[str, Any]:
        """The columns of answers to some texts, an array each; null for null, NaN and texts of blanks.

        Raises InputError for anything else.
        """
        _, *columns = self._answered({"text": list(texts)}, "text").values()
        return dict(zip(self.types, columns, strict=True))

    def _answered(self, rows: Any, column: str | None) -> Any:
        held = in_memory(rows)
        if held is not None and column is not None:
            _check_texts(held, columns_named(column, held.columns))
        with _one_at_a_time:
            return self.pipe.predict(rows, column, **self.options)

    def schema(self, columns: Sequence[str] = ()) -> Any:
        """The Arrow schema of the answers, with the names that they have beside some ``columns``."""
        import pyarrow

        names = free_names(self.types, columns)
        return pyarrow.schema([(names[field], arrow_type(kind)) for field, kind in self.types.items()])

    @property
    def pipe(self) -> Any:
        """The pipeline in this process.  Raises InputError where the run is not there, or is not the same."""
        key = (self.run, self.model, *self.how.values())
        with _one_at_a_time:
            if key not in _loaded:
                _loaded[key] = self._load()
            return _loaded[key]

    def _load(self) -> Any:
        where = f"on {socket.gethostname()}"
        if self.version != __version__:
            raise InputError(
                f"{where} is Headway {__version__}, where the job began {self.version}; install the same version."
            )
        if Path(self.run).is_absolute() and not Path(self.run).is_dir():
            raise InputError(
                f"{self.run}: there is no such run {where}; copy it to the same path on every worker, or to a disk "
                "that all share."
            )
        if full_fingerprint(locate_model(self.run).path) != self.model:
            raise InputError(f"{self.run}: {where} is another model than where the job began; copy it again.")
        for package, name in ENGINES.items():
            if package in sys.modules and (count := import_module(f"headway.integrations.{name}").threads()):
                torch.set_num_threads(count)
        return load(self.run, **self.how)


def _check_texts(held: Held, columns: Sequence[str]) -> None:
    """Raise InputError where columns of texts hold something else."""
    cells = held.part(0, held.count)
    for column in (column for column in columns if column in cells):
        for row, cell in enumerate(cells[column]):
            if cell is not None and cell == cell and not isinstance(cell, str):
                raise InputError(
                    f"{held.what}, {held.place(row)}: column {column!r} holds {shown(str(cell))}, which is "
                    f"{type(cell).__name__}; expected texts. Make it a column of texts in every part of the data."
                )
