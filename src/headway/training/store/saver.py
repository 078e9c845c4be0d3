"""Checkpoints written in the background: the state is copied, and training continues while the copy is written."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from headway.io.quantities import size
from headway.training.distributed.ranks import Ranks
from headway.training.hardware.memory import out_of_memory
from headway.training.store.checkpoint import SaveFailed, copied, save_checkpoint, save_shared, size_of


class Saver:
    """Saves one checkpoint at a time in ``directory``, in its own thread.

    An error is raised by the next call of any method, as SaveFailed; where ``on_error`` is "continue", it is only
    passed to ``warn``, and the next checkpoint is tried.
    """

    def __init__(self, directory: Path, warn: Callable[[str], None], on_error: str = "continue"):
        self.directory, self.warn, self.on_error = directory, warn, on_error
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._seen_room = False
        self.latest: int | None = None
        """the step of the newest checkpoint that was written"""

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Where training ends with an error, finish the checkpoint that is being written."""
        if self._thread is not None and kind is not None and issubclass(kind, Exception):
            self._thread.join()

    def save(self, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Start to save copies of the arguments.  Waits for the checkpoint before it."""
        self.wait()
        self._check_room(tensors)
        with out_of_memory(f"while step {step} was saved"):
            own = copied(tensors)
        thread = threading.Thread(target=self._write, args=(step, own, state), daemon=True)
        self._thread = thread
        thread.start()

    def check(self) -> None:
        """Report an error of the background thread, if there was one, without waiting."""
        error, self._error = self._error, None
        if error is None:
            return
        if not isinstance(error, SaveFailed) or self.on_error == "stop":
            raise error
        self.warn(f"{error}. Training continues without it, and the next one will be tried (--on-save-error)")

    def wait(self) -> None:
        """Wait until nothing is being written, and ``check``."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.check()

    def _write(self, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        try:
            with out_of_memory(f"while step {step} was saved"):
                left = save_checkpoint(self.directory, step, tensors, state)
        except BaseException as error:
            self._error = error
            return
        self.latest = step
        for path in left:
            self.warn(f"{path}: is no longer needed, but cannot be removed")

    def _check_room(self, tensors: dict[str, Tensor]) -> None:
        """Warn, once, where there is no space for two more checkpoints."""
        if self._seen_room:
            return
        self._seen_room = True
        place = next(folder for folder in (self.directory, *self.directory.parents) if folder.exists())
        free, needed = shutil.disk_usage(place).free, size_of(tensors)
        if free < 2 * needed:
            self.warn(
                f"{place}: only {size(free)} free; a checkpoint needs {size(needed)}, and there are "
                "three while one is written"
            )


class SharedSaver(Saver):
    """Saves a model that is sharded over ``ranks``: all write at once, before training continues."""

    def __init__(self, directory: Path, warn: Callable[[str], None], ranks: Ranks):
        super().__init__(directory, warn, "stop")
        self.ranks = ranks

    def save(self, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Save now; all ranks take part.  Raises SaveFailed."""
        with out_of_memory(f"while step {step} was saved"):
            save_shared(self.directory, step, tensors, state, self.ranks)
        self.latest = step
