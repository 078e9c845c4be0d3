"""Load what was saved, as the pipeline of its task."""

from pathlib import Path

from headway.errors import InputError
from headway.hub.directory import load_model, model_config, read_json
from headway.inference.classifier import Classifier
from headway.inference.generator import Generator
from headway.models.heads import ClassificationHead
from headway.models.transformer import Decoder, Encoder
from headway.text.tokenizer import Tokenizer

Pipeline = Generator | Classifier


def load(path: str | Path) -> Pipeline:
    """The pipeline of a run directory or of a Hugging Face directory.

    Raises InputError when there is none, when a file of it is damaged, or when its model answers no task known here.
    """
    directory = Path(path)
    if not directory.is_dir():
        raise InputError(f"{path}: no such model directory; `headway train FILE --out DIR` makes one.")
    if not (directory / "config.json").exists():
        raise InputError(f"{path}: there is no config.json, so no model has been saved here yet.")
    model = load_model(directory)
    tokenizer = Tokenizer.load(directory, rows=model_config(model).vocab_size)
    if isinstance(model, Decoder):
        return Generator(model, tokenizer)
    if isinstance(model, Encoder) and isinstance(model.head, ClassificationHead):
        names = read_json(directory / "config.json").get("id2label", {})
        labels = [names[key] for key in sorted(names, key=int)]
        return Classifier(model, tokenizer, labels)
    raise InputError(f"{directory / 'config.json'}: this model neither continues texts nor names labels.")
