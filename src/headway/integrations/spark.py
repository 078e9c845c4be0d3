"""Answers to data frames of Spark: by ``mapInPandas``, or as a column by ``predict_batch_udf``."""

from typing import Any

from headway.data.records.rows import occurs_twice
from headway.errors import InputError
from headway.integrations.batch import Batch
from headway.tasks.frames import AT_ONCE


def threads() -> int | None:
    """The processors of this task of Spark; None outside one."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return task.cpus() if task is not None else None


def answered(frame: Any, answer: Batch) -> Any:
    """The frame with columns of answers, by ``mapInPandas``."""
    from pyspark.sql.types import StructType

    schema = StructType([*frame.schema.fields, *_struct(answer, frame.columns).fields])
    if (twice := occurs_twice(map(str.casefold, schema.names))) is not None:
        raise InputError(f"{twice!r} names two columns to Spark, which does not tell capitals: rename one.")
    return frame.mapInPandas(lambda parts: map(answer, parts), schema)


def answer_udf(answer: Batch, rows: int = AT_ONCE) -> Any:
    """A function of a column of texts, by ``predict_batch_udf``: a struct with a field for each column of answers.

    So many ``rows`` are answered together.
    """
    from pyspark.ml.functions import predict_batch_udf

    return predict_batch_udf(lambda: answer.answers, return_type=_struct(answer), batch_size=rows)


def _struct(answer: Batch, columns: Any = ()) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(answer.schema(columns))
