"""The pretrained model that a run starts from (``--from``)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from headway.errors import InputError
from headway.hub.adapters.locate import locate_model
from headway.hub.directory import check_reads_text, load_model, model_config, read_config
from headway.hub.fingerprint import fingerprint
from headway.hub.preprocessor import ImagePreprocessor, preprocessor_of
from headway.models.adapt.freeze import freeze, set_dropout
from headway.models.adapt.lora import add_lora
from headway.models.adapt.vocabulary import train_new_rows
from headway.models.baselines import BaselineConfig
from headway.models.heads import Gives, TokenHead, gives
from headway.models.transformer import Decoder, EncoderDecoder
from headway.text.tokenizer import Tokenizer
from headway.training.plan import Plan
from headway.training.store.facts import check_files, read_facts


@dataclass(frozen=True)
class Base:
    """A loaded model with its processor: a tokenizer or an image preprocessor."""

    path: Path
    model: nn.Module
    processor: Tokenizer | ImagePreprocessor
    fingerprint: str
    """of its files (``hub.fingerprint``)"""
    facts: dict[str, Any] | None = None
    """of the run that it is, None for a model from elsewhere"""

    @property
    def tokenizer(self) -> Tokenizer:
        if not isinstance(self.processor, Tokenizer):
            raise TypeError("a model of images has no tokenizer")
        return self.processor

    @property
    def preprocessor(self) -> ImagePreprocessor:
        if not isinstance(self.processor, ImagePreprocessor):
            raise TypeError("a model of texts reads no images")
        return self.processor

    @property
    def config(self) -> Any:
        return model_config(self.model)


CHAT, TO_TEXT = "chat", "to text"
"""The kinds of base that can be trained on prompts and replies: a chat model, or an encoder-decoder."""


def talks(place: str) -> str | None:
    """Whether a base has a chat template or is an encoder-decoder; by its files, without its weights.

    Raises InputError where there is no model.
    """
    path = locate_model(place).path
    if not path.is_dir():
        return None  # loading it reports what is wrong
    if read_config(path).get("is_encoder_decoder") is True:
        return TO_TEXT
    return CHAT if Tokenizer.load(path).chat_template is not None else None


def load_base(place: str, *, images: bool = False) -> Base:
    """The model of a run, a Hugging Face directory or an id of the hub.

    A run's model has the dropout that it was trained with, which not every family's files record.  Raises InputError
    when there is none, and when it does not read the data: ``images``, or else texts.
    """
    path = locate_model(place).path
    if not path.is_dir():
        what = "is a file, not the directory of a model" if path.is_file() else "no such model directory"
        raise InputError(f"--from {place}: {what}; give the directory of a model, or a hub id (owner/name).")
    check_files(path, facts := read_facts(path))
    model = load_model(path)
    if (dropout := (facts or {}).get("plan", {}).get("model", {}).get("dropout")) is not None:
        set_dropout(model, dropout)
    if not images:
        check_reads_text(model, path)
        if isinstance(config := model_config(model), BaselineConfig):
            raise InputError(f"{path}: is {config.described}, only trained from scratch; name a Transformer.")
        return Base(path, model, Tokenizer.load(path, rows=model_config(model).vocab_size), fingerprint(path), facts)
    if getattr(model, "patches", None) is None:
        raise InputError(f"{path}: is a text model and cannot read images; name a ViT with --from.")
    return Base(path, model, preprocessor_of(model, path), fingerprint(path), facts)


def take_stack(base: Base, path: Path) -> None:
    """Give a base the embeddings and blocks of another model of its configuration; its head and pooler stay."""
    base.model.stack.load_state_dict(load_model(path).stack.state_dict())  # type: ignore[union-attr, operator]


def prepared_base(model: nn.Module, plan: Plan) -> nn.Module:
    """Prepare a base for the plan, in place: set its dropout, and freeze what is not trained.

    New tokens are trained even where all else is frozen.
    """
    set_dropout(model, plan.config.dropout)
    if plan.fine_tuning.lora is None:
        freeze(model, plan.fine_tuning.freeze)
    else:
        add_lora(model, plan.fine_tuning.lora, seed=plan.seed, first=plan.fine_tuning.freeze or 0)
    return train_new_rows(model)


def base_decoder(base: Base) -> Decoder:
    """A base that can continue a text; one without a head gets a head tied to its embedding.

    Raises InputError for any other base.
    """
    if isinstance(base.model, EncoderDecoder):
        raise InputError(
            f"{base.path}: is an encoder-decoder, which turns one text into another and cannot be trained to continue "
            "texts; name a decoder with --from."
        )
    if not isinstance(base.model, Decoder):
        raise InputError(
            f"{base.path}: is not a decoder, so it cannot be trained to continue texts; "
            "name a decoder with --from, or another --task."
        )
    model = base.model
    if gives(model) is not Gives.VOCABULARY:
        if not model.config.tied:
            raise InputError(
                f"{base.path}: has a {type(model.head).__name__} and no matrix for logits over tokens, so it cannot be "
                "trained to continue texts; name the language model it was made from with --from."
            )
        model.head = TokenHead(model.config, model.stack.embedding.tokens)  # type: ignore[arg-type]
    return model
