"""A task of texts with a number each: all but its loss and its answers, and, where it wants one, its own model."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor, nn

from headway.data.batches.batching import Batch, Examples, TargetKind
from headway.data.open.columns import Detected, number
from headway.data.records.corpus import Corpus
from headway.data.records.labels import BETWEEN, Labelled, labelled
from headway.data.records.split import few
from headway.data.records.table import Table
from headway.errors import InputError, shown
from headway.hub.directory import model_config
from headway.io.quantities import counted
from headway.models.config import TransformerConfig
from headway.models.heads import Gives, gives, n_outputs
from headway.models.own import OwnConfig, WithHead
from headway.models.transformer import Encoder
from headway.tasks.checks import Material, MaterialInputs, synthetic_table
from headway.tasks.held_out import EvaluationInputs
from headway.tasks.losses import RowLoss
from headway.tasks.readers import LabelReader, TextPipeline, label_parts, tokenizer_of
from headway.tasks.rows import encoded_texts, measured_rows
from headway.tasks.task import Task, TaskData, TaskInputs
from headway.training.options import TrainOptions

if TYPE_CHECKING:
    from headway.tasks.inspection import Inside


class TextTask(Task):
    """Texts with a number each; loss and answers are those of the subclass.

    Without ``new_model`` a new model is an encoder with a head of ``outputs`` numbers for each text, or with that of
    ``new_head``, and so is one that starts from a pretrained model (``--from``).  With ``reads_pairs`` an input is two
    texts, read as one row; the task's recogniser is then a ``recognise.TwoTextsAndValue``, and a model of its own is
    given (ids, mask, segments).
    """

    objective: ClassVar[RowLoss]
    needs: ClassVar[str] = "a table of texts with a number each"
    data: ClassVar[Any] = None
    """the class of its data: a ``rows_data.NumberData``, which is used where there is none"""
    reader: ClassVar[type[TextPipeline]] = TextPipeline
    """the class of its pipelines; where answers are labels, a ``readers.LabelReader``"""
    outputs: ClassVar[int] = 1
    """how many numbers a head gives for each text; the loss reads (B,) of one, (B, C) of several"""

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "objective") and cls.measure is TextTask.measure:
            raise TypeError(f"{cls.__name__} has no objective: name its loss, a headway.tasks.losses.RowLoss")

    @property
    def has_own_model(self) -> bool:
        """Whether a model from scratch is the one of ``new_model``."""
        return type(self).new_model is not TextTask.new_model

    @property
    def has_own_head(self) -> bool:
        """Whether models have the head of ``new_head``."""
        return type(self).new_head is not TextTask.new_head

    def new_head(self, config: TransformerConfig) -> nn.Module:
        """A head of the task's own, with any weights: vectors (B, T, D) and mask in, a tensor (B, ...) out."""
        raise NotImplementedError(f"the heads of {self.spec.name} are not its own")

    def new_model(self, config: OwnConfig) -> nn.Module:
        encoder = Encoder(TransformerConfig.from_dict(config.more))
        return WithHead(encoder, self.new_head(encoder.config))

    def value(self, written: str) -> float:
        """The target that a cell means; NaN where it means none."""
        return number(written)

    def answers(self, outputs: Tensor) -> list[Any]:
        """The answers, of which JSON can be made, to the outputs (B, ...) for some texts."""
        return outputs.tolist()

    def open_data(self, given: TaskInputs) -> TaskData:
        from headway.tasks.rows_data import NumberData

        return (self.data or NumberData)(self, given)

    def pipeline(self, model: nn.Module, directory: Path, facts: dict[str, Any]) -> TextPipeline:
        config = model_config(model)
        if issubclass(self.reader, LabelReader):
            return self.reader(self, directory, (model, *label_parts(model, directory, self.spec.problem)), facts)
        own = isinstance(config, OwnConfig) and config.task == self.spec.name
        if not own and (gives(model) is not Gives.ROW or n_outputs(model) != self.outputs):
            raise InputError(
                f"{directory / 'config.json'}: is no model for {self.spec.name}, whose head gives each text "
                f"{counted(self.outputs, 'number')}; found {n_outputs(model)}."
            )
        return self.reader(self, directory, (model, tokenizer_of(model, directory), []), facts)

    def held_out(self, pipe: Any, given: EvaluationInputs) -> Labelled:
        """The rows to measure.  Raises InputError for what is no table of such rows."""
        table = given.source_as(Table, f"a model for {self.spec.name} is measured on {self.needs}")
        return given.held_out(self.rows_of(table, given.found, given.options, pipe))

    def held_out_inputs(self, pipe: Any, given: EvaluationInputs, count: int) -> list[Any]:
        rows = self.held_out(pipe, given)
        return few(map(tuple, rows.cells) if self.reads_pairs else rows, count)

    def evaluate(self, pipe: Any, given: EvaluationInputs) -> dict[str, Any]:
        rows = given.sampled(self.held_out(pipe, given))
        targets = self.targets(rows, given.found, pipe)
        examples = encoded_texts(rows, pipe.tokenizer).cut(pipe.max_length).examples(targets)
        metrics = measured_rows(pipe, self.measure(pipe), examples, given.each)
        return {**metrics, "examples": len(rows)}

    def measure(self, pipe: Any) -> RowLoss:
        """The loss and the metrics of a pipeline, or of the data of a run."""
        return self.objective

    def sample_batch(self, pipe: Any, inputs: list[Any], targets: list[list[int]]) -> tuple[RowLoss, Batch]:
        borders = np.array([len(ids) // 2 for ids in inputs]) if self.reads_pairs else None
        count, width = len(inputs), max(1, n_outputs(pipe.model))
        values: np.ndarray = np.arange(count * width, dtype=float)
        values = values if width < 2 else values.reshape(count, -1) % 2
        return self.measure(pipe), Examples(inputs, values, TargetKind.ROW, borders=borders).together()

    def example(self, number: int, pipe: Any) -> str:
        """A cell that means a target, another one for each number."""
        return str(1 + number % 5)

    def synthetic_data(self, pipe: Any, given: MaterialInputs) -> Material:
        def row(number: int, text: str, other: str) -> dict[str, str]:
            two = {"text_column": text, "second_column": other} if self.reads_pairs else {"text_column": text}
            return {**two, "label_column": self.example(number, pipe)}

        return synthetic_table(pipe, given.folder, row)

    def inspect(self, pipe: Any, given: Any, target: str | None) -> "Inside | None":
        if self.reads_pairs or isinstance(model_config(pipe.model), OwnConfig):
            return None
        from headway.tasks.inspection import of_text

        return of_text(pipe, given, target, following=False)

    def some_inputs(self, source: Corpus | Table, found: Detected, count: int) -> list[Any]:
        if not self.reads_pairs or not isinstance(source, Table):
            return super().some_inputs(source, found, count)
        both = zip(source.values(found.text_column or ""), source.values(found.second_column or ""), strict=True)
        return few((pair for pair in both if all(map(str.strip, pair))), count)

    def targets(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        """The target of each row, float32 (N,) or (N, C); a pipeline or the data of a run may be ``known``."""
        return np.array([self.value(written) for written in rows.classes], dtype=np.float32)[rows.targets]

    def meant(self, rows: Labelled, found: Detected, known: Any = None) -> np.ndarray:
        """Whether each distinct cell of ``rows.classes`` means a target, bool (D,); those of several columns are one.

        Raises ValueError, with what is wrong, where cells together could mean two things.
        """
        return np.array([not math.isnan(self.value(cell)) for cell in rows.classes], dtype=bool)

    def expected(self, known: Any) -> str:
        """What a message about a cell without a target says of those that have one."""
        return ""

    def rows_of(self, table: Table, found: Detected, options: TrainOptions, known: Any = None) -> Labelled:
        """The rows that have a text, or two, and a value; other rows raise InputError."""
        policy, columns = options.data.on_bad_row, found.label_columns or (found.label_column or "",)
        ways: dict[str, Any] = {"on_bad_row": policy, "to_learn": False, "as_labels": False}
        value = columns[0] if len(columns) == 1 else columns
        rows = labelled(table, found.text_column or "", value, second_column=found.second_column, **ways)
        return self.with_value(rows, found, policy, known)

    def with_value(self, rows: Labelled, found: Detected, policy: str, known: Any = None) -> Labelled:
        """Those of the rows whose cell means a target; with another ``policy`` than "skip" others raise InputError."""
        table, named = rows.table, " or ".join(map(repr, found.label_columns or (found.label_column,)))
        try:
            missing = ~self.meant(rows, found, known)[rows.targets]
        except ValueError as error:
            raise InputError(f"{table.name}: column {named}: {error}.") from None
        wrong = np.flatnonzero(missing)
        if len(wrong) and policy != "skip":
            written = " and ".join(shown(cell) for cell in rows.classes[rows.targets[wrong[0]]].split(BETWEEN))
            what = f"which is no value for {self.spec.name}{self.expected(known)}"
            raise InputError(
                f"{table.name}: column {named} holds {written}, {what} ({table.places(rows.index[wrong].tolist())}). "
                "Correct it, or pass --on-bad-row skip."
            )
        if len(wrong):
            left_out = (
                f"{counted(len(wrong), 'row')} without a value left out ({table.places(rows.index[wrong].tolist())})"
            )
            kept = rows.part(np.flatnonzero(~missing))
            rows = replace(kept, warnings=[*rows.warnings, left_out])
        if not len(rows):
            raise InputError(f"{table.name}: no row has a value for {self.spec.name} in column {named}.")
        return rows
