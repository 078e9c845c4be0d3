"""What the tasks of the list do alike: files of their folders have fixed names, and are imported when they are needed.

data.py            open_data; SCALING where ``scale`` supports the task
measure.py         measure, held_out_inputs
export_check.py    LOADER: how another program opens what is saved
"""

from importlib import import_module
from typing import Any

from torch import nn

from headway.tasks.common.external_loader import ExternalLoader
from headway.tasks.common.inside import Inside
from headway.tasks.common.material import Material, MaterialInputs
from headway.tasks.task import EvaluationInputs, Scaling, Task, TaskData, TaskInputs


class FolderTask(Task):
    """A task with a folder in ``headway.tasks``, named as the task."""

    def open_data(self, given: TaskInputs) -> TaskData:
        data: TaskData = self.file("data").open_data(given)
        return data

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        metrics: dict[str, Any] = self.file("measure").measure(pipe, given)
        return metrics

    def held_out_inputs(self, pipe: Any, given: EvaluationInputs, count: int) -> list[Any]:
        inputs: list[Any] = self.file("measure").held_out_inputs(pipe, given, count)
        return inputs

    def external_loader(self, pipe: Any, model: nn.Module, architecture: str) -> ExternalLoader | None:
        loader: ExternalLoader = self.file("export_check").LOADER
        return loader

    def scaling(self) -> Scaling | None:
        return getattr(self.file("data"), "SCALING", None)

    def inspect(self, pipe: Any, given: Any, target: str | None) -> Inside:
        from headway.tasks.common.inspection import of_text

        return of_text(pipe, given, target, following=bool(self.spec.writes))

    def made_up(self, pipe: Any, given: MaterialInputs) -> Material | None:
        from headway.tasks.common.material import made_up_text

        return made_up_text(pipe, given.length, given.folder)

    def file(self, name: str) -> Any:
        """A module of the folder."""
        return import_module(f"headway.tasks.{self.spec.name}.{name}")
