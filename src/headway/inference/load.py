"""Load what was saved, as the pipeline of its task."""

from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.hub.directory import load_model, model_config
from headway.hub.download import locate
from headway.hub.generation import warn_of_settings
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.hub.preprocessor import preprocessor_of
from headway.inference.embedder import Embedder
from headway.inference.generator import Generator
from headway.inference.image_classifier import ImageClassifier
from headway.inference.mask_filler import MaskFiller
from headway.io.forked import check_threads
from headway.io.regular_file import check_name
from headway.models.heads import ClassificationHead, MaskedTokenHead, PoolingHead, TokenHead
from headway.models.transformer import Decoder, Encoder
from headway.tasks.classification.pipeline import Classifier
from headway.tasks.common.labels import labels_of
from headway.tasks.registry import NAMES, room
from headway.tasks.translation.pipeline import Translator
from headway.text.tokenizer import Tokenizer
from headway.training.facts import check_files, read_facts

Pipeline = Generator | Classifier | MaskFiller | Embedder | Translator | ImageClassifier


def load(path: str | Path) -> Pipeline:
    """The pipeline of a run directory, of a Hugging Face directory, or of an id of the hub.

    Raises InputError when there is none, when a file of it is damaged, or when its model answers no task known here.

    The pipeline computes in several threads, which a child process made by ``os.fork`` does not have: there it would
    wait forever, so it raises RuntimeError.  Make processes with ``multiprocessing.get_context("spawn")`` and load in
    each, or fork first, or call ``torch.set_num_threads(1)`` in the child.
    """
    check_name(str(path), "the model's directory:")
    check_threads()
    directory = locate(path).path
    if not directory.is_dir():
        raise InputError(f"{path}: no such model directory; `headway train FILE --out DIR` makes one.")
    if not (directory / "config.json").exists():
        raise InputError(f"{path}: there is no config.json, so no model has been saved here yet.")
    check_files(directory, read_facts(directory))
    return pipeline_of(load_model(directory), directory)


def pipeline_of(model: Any, directory: Path, *, alone: bool = False) -> Pipeline:
    """The pipeline of a model that was loaded from ``directory``.

    ``alone`` leaves out the other members of a run with several seeds.  Raises InputError as ``load`` does.
    """
    facts = read_facts(directory) or {}
    facts = {key: value for key, value in facts.items() if key != "members"} if alone else facts
    for name in NAMES:
        if (pipe := room(name).pipeline(model, directory, facts)) is not None:
            return pipe
    if getattr(model, "patches", None) is not None:
        return _image_classifier(model, directory)
    tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
    if isinstance(model, Decoder) and isinstance(model.head, TokenHead):
        warn_of_settings(directory)
        return Generator(model, tokenizer)
    if isinstance(model, Encoder) and isinstance(model.head, MaskedTokenHead):
        return MaskFiller(model, tokenizer)
    if isinstance(model, Encoder) and (model.head is None or isinstance(model.head, PoolingHead)):
        return Embedder(model, tokenizer)
    raise InputError(f"{directory / 'config.json'}: this model answers no task that is known here.")


def _image_classifier(model: Any, directory: Path) -> ImageClassifier:
    """Raises InputError for a model of images that is no classifier."""
    if not isinstance(model.head, ClassificationHead):
        raise InputError(
            f"{directory}: is a model of images without a classifier, which gives vectors. From Python, "
            "`headway.load_model` gives it, and `headway.data.images` makes of pictures what it reads; "
            "`headway train FOLDER --from` it makes a classifier."
        )
    if not (directory / PREPROCESSOR).exists():
        raise InputError(
            f"{directory}: is a model of images without {PREPROCESSOR}, which says how pictures become what it reads. "
            "From Python, `headway.load_model` gives the model."
        )
    labels = labels_of(directory, model.head.out.out_features)
    return ImageClassifier(model, preprocessor_of(model, directory), labels)
