"""The pretrained model that a run begins from (``--from``)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from headway.errors import InputError
from headway.hub.directory import check_reads_text, load_model, model_config
from headway.hub.download import locate
from headway.hub.fingerprint import fingerprint
from headway.hub.preprocessor import ImagePreprocessor, preprocessor_of
from headway.hub.safe.config_file import read_config
from headway.models.adapt.dropout import set_dropout
from headway.models.adapt.freeze import freeze
from headway.models.adapt.lora import add_lora
from headway.models.adapt.vocabulary import train_new_rows
from headway.models.baselines import BaselineConfig
from headway.models.heads import TokenHead
from headway.models.transformer import Decoder, EncoderDecoder
from headway.text.tokenizer import Tokenizer
from headway.training.plan import Plan
from headway.training.store.facts import check_files, read_facts


@dataclass(frozen=True)
class Base:
    """A loaded model with its tokenizer, or with what is done to pictures before it reads them."""

    path: Path
    model: nn.Module
    processor: Tokenizer | ImagePreprocessor
    fingerprint: str
    """of its files (``hub.fingerprint``)"""

    @property
    def tokenizer(self) -> Tokenizer:
        """That of a model of texts."""
        if not isinstance(self.processor, Tokenizer):
            raise TypeError("a model of pictures has no tokenizer")
        return self.processor

    @property
    def preprocessor(self) -> ImagePreprocessor:
        """What is done to pictures before a model of pictures reads them."""
        if not isinstance(self.processor, ImagePreprocessor):
            raise TypeError("a model of texts reads no pictures")
        return self.processor

    @property
    def config(self) -> Any:
        """The model's configuration."""
        return model_config(self.model)


CHAT, TO_TEXT = "chat", "to text"
"""What a base can be that is trained on prompts and replies: one that talks, or one that turns texts into texts."""


def talks(place: str) -> str | None:
    """Whether a base has a chat template, or else turns one text into another; by its files, without its weights.

    Raises InputError for what is no model.
    """
    path = locate(place).path
    if not path.is_dir():
        return None  # what is wrong with it is said when it is loaded
    if read_config(path).get("is_encoder_decoder") is True:
        return TO_TEXT
    return CHAT if Tokenizer.load(path).chat_template is not None else None


def load_base(place: str, *, images: bool = False) -> Base:
    """The model of a run, of a Hugging Face directory or of an id of the hub.

    Raises InputError when there is none, and when it does not read what is to be learnt: ``images``, or else texts.
    """
    path = locate(place).path
    if not path.is_dir():
        what = "is a file, not the directory of a model" if path.is_file() else "no such model directory"
        raise InputError(f"--from {place}: {what}.")
    check_files(path, read_facts(path))
    model = load_model(path)
    if not images:
        check_reads_text(model, path)
        if isinstance(config := model_config(model), BaselineConfig):
            raise InputError(f"{path}: is a baseline ({config.kind}), trained from scratch alone; name a Transformer.")
        return Base(path, model, Tokenizer.load(path, rows=model_config(model).vocab_size), fingerprint(path))
    if getattr(model, "patches", None) is None:
        raise InputError(f"{path}: is a model of texts, which reads no pictures; name a ViT with --from.")
    return Base(path, model, preprocessor_of(model, path), fingerprint(path))


def take_stack(base: Base, path: Path) -> None:
    """Give a base the embeddings and blocks of another model of its configuration; its head and pooler stay."""
    base.model.stack.load_state_dict(load_model(path).stack.state_dict())  # type: ignore[union-attr, operator]


def prepared_base(model: nn.Module, plan: Plan) -> nn.Module:
    """A base made ready to be trained as planned: its dropout set, and what stays as it is frozen; in place.

    New tokens are trained where all else is frozen.
    """
    set_dropout(model, plan.config.dropout)
    if plan.fine_tuning.lora is None:
        freeze(model, plan.fine_tuning.freeze)
    else:
        add_lora(model, plan.fine_tuning.lora, seed=plan.seed, first=plan.fine_tuning.freeze or 0)
    return train_new_rows(model)


def base_decoder(base: Base) -> Decoder:
    """A base that can go on with a text; one without logits of its own is given its embedding to make them.

    Raises InputError for every other.
    """
    if isinstance(base.model, EncoderDecoder):
        raise InputError(
            f"{base.path}: is an encoder-decoder, which turns one text into another; it cannot be trained to continue "
            "texts. Name a decoder with --from."
        )
    if not isinstance(base.model, Decoder):
        raise InputError(
            f"{base.path}: is not a decoder, so it cannot be trained to continue texts; "
            "name one that is with --from, or another --task."
        )
    model = base.model
    if not isinstance(model.head, TokenHead):
        if not model.config.tied:
            raise InputError(
                f"{base.path}: has a {type(model.head).__name__} and no matrix for logits over tokens, so it cannot be "
                "trained to continue texts; name the language model it was made from with --from."
            )
        model.head = TokenHead(model.config, model.stack.embedding.tokens)  # type: ignore[arg-type]
    return model
