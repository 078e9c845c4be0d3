"""What ``headway.load`` returns, by the name of the task; written by tools/load_types.py."""

from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

from headway.tasks.classification.task import Classifier
from headway.tasks.embedding.task import Embedder
from headway.tasks.image_classification.task import ImageClassifier
from headway.tasks.language_modeling.pipeline import Generator
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.tasks.multi_column.task import ColumnsReader
from headway.tasks.readers import TextPipeline
from headway.tasks.task import Pipeline
from headway.tasks.text_to_text.pipeline import Translator
from headway.tasks.token_classification.task import Tagger

class How(TypedDict, total=False):
    device: str
    precision: str | None
    engine: str

@overload
def load(path: str | Path, task: Literal["image_classification"], **how: Unpack[How]) -> ImageClassifier: ...
@overload
def load(path: str | Path, task: Literal["translation"], **how: Unpack[How]) -> Translator: ...
@overload
def load(path: str | Path, task: Literal["classification"], **how: Unpack[How]) -> Classifier: ...
@overload
def load(path: str | Path, task: Literal["token_classification"], **how: Unpack[How]) -> Tagger: ...
@overload
def load(path: str | Path, task: Literal["language_modeling"], **how: Unpack[How]) -> Generator: ...
@overload
def load(path: str | Path, task: Literal["masked_lm"], **how: Unpack[How]) -> MaskFiller: ...
@overload
def load(path: str | Path, task: Literal["embedding"], **how: Unpack[How]) -> Embedder: ...
@overload
def load(path: str | Path, task: Literal["multi_label"], **how: Unpack[How]) -> TextPipeline: ...
@overload
def load(path: str | Path, task: Literal["regression"], **how: Unpack[How]) -> TextPipeline: ...
@overload
def load(path: str | Path, task: Literal["ratings"], **how: Unpack[How]) -> TextPipeline: ...
@overload
def load(path: str | Path, task: Literal["multi_column"], **how: Unpack[How]) -> ColumnsReader: ...
@overload
def load(path: str | Path, task: Literal["text_to_text"], **how: Unpack[How]) -> Translator: ...
@overload
def load(path: str | Path, task: str | None = ..., **how: Unpack[How]) -> Pipeline: ...
