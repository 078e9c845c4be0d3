"""Load what was saved, as the pipeline of its task."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import InputError
from headway.forked import check_threads
from headway.hub.directory import load_model, model_config, read_json
from headway.hub.download import locate
from headway.hub.generation import TargetRules, target_rules, warn_of_settings
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.hub.preprocessor import preprocessor_of
from headway.inference.classifier import Classifier
from headway.inference.embedder import Embedder
from headway.inference.generator import Generator
from headway.inference.image_classifier import ImageClassifier
from headway.inference.mask_filler import MaskFiller
from headway.inference.translator import Translator
from headway.models.ensemble import Ensemble
from headway.models.heads import ClassificationHead, MaskedTokenHead, PoolingHead, TokenHead
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.regular_file import check_name
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
    if getattr(model, "patches", None) is not None:
        return _image_classifier(model, directory)
    if isinstance(model, EncoderDecoder) and isinstance(model.head, TokenHead):
        words = Tokenizer.load(directory, rows=model.encoder_config.vocab_size)
        warn_of_settings(directory)
        return Translator(model, words, target_rules(directory, model.config.vocab_size))
    tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
    if isinstance(model, Decoder) and isinstance(model.head, TokenHead):
        if facts.get("task") == Translator.task:  # sources with their targets behind them
            end = tokenizer.end_of_text
            return Translator(model, tokenizer, TargetRules(start=(), end=() if end is None else (end,)))
        warn_of_settings(directory)
        return Generator(model, tokenizer)
    if isinstance(model, Encoder | Decoder) and isinstance(model.head, ClassificationHead):
        _check_one_label(directory)
        labels = _labels(directory, model.head.out.out_features)
        members = [] if alone else _members(directory, facts)
        return Classifier(Ensemble([load_model(path) for path in members]) if members else model, tokenizer, labels)
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
    _check_one_label(directory)
    if not (directory / PREPROCESSOR).exists():
        raise InputError(
            f"{directory}: is a model of images without {PREPROCESSOR}, which says how pictures become what it reads. "
            "From Python, `headway.load_model` gives the model."
        )
    labels = _labels(directory, model.head.out.out_features)
    return ImageClassifier(model, preprocessor_of(model, directory), labels)


def _check_one_label(directory: Path) -> None:
    path = directory / "config.json"
    kind = read_json(path).get("problem_type")
    if kind not in (None, "single_label_classification"):
        raise InputError(
            f"{path}: problem_type is {str(kind)[:60]!r}; a classifier here names one label for each text "
            "(single_label_classification), and reading its scores so would be wrong."
        )


def _members(directory: Path, facts: Mapping[str, Any]) -> list[Path]:
    """The runs with other seeds whose answers are averaged (``train --seeds``), if this is a run of that kind."""
    names = facts.get("members", [])
    for name in names:
        check_files(directory / name, read_facts(directory / name))
    return [directory / name for name in names]


def _labels(directory: Path, n_classes: int) -> list[str]:
    """The names of the classes in order; LABEL_0, LABEL_1 and so on where ``config.json`` has none."""
    path = directory / "config.json"
    names = read_json(path).get("id2label") or {str(i): f"LABEL_{i}" for i in range(n_classes)}
    if not isinstance(names, dict) or {str(i) for i in range(n_classes)} != set(names):
        raise InputError(f"{path}: id2label must name each of the {n_classes} classes, from 0 to {n_classes - 1}.")
    labels = [str(names[str(i)]) for i in range(n_classes)]
    if len(set(labels)) < n_classes:
        raise InputError(f"{path}: id2label gives two classes the same name; found {', '.join(labels)}.")
    return labels
