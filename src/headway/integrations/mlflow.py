"""A run as a model of MLflow: what ``mlflow.pyfunc`` loads."""

from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.integrations.batch import Batch


class Answers:
    """What MLflow calls: a frame with a column of texts in, a frame of answers out."""

    def __init__(self, run: str | Path, **options: Any):
        self.answer = Batch(run, **options)

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """The answers to the rows of a pandas frame, whose index they have; None where there is none, null in JSON."""
        from mlflow.exceptions import MlflowException

        try:
            answers = self.answer(model_input).drop(columns=model_input.columns)
        except InputError as error:  # its server answers others with a traceback
            raise MlflowException.invalid_parameter_value(str(error)) from None
        return answers.astype(object).where(answers.notna(), None)


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> Answers:
    """The model whose data are at ``path``; MLflow calls it by this name, with options of ``headway.Batch``."""
    return Answers(path, **(model_config or {}))
