"""Tokenizers, trained here or loaded from a Hugging Face directory, and chat templates."""

from headway.text.chat import DEFAULT_TEMPLATE, encode_chat, render_chat, with_chat
from headway.text.extend import Extended, extend
from headway.text.stream_decoder import StopStrings, StreamDecoder
from headway.text.tokenizer import Tokenizer
from headway.text.train import KINDS, train_tokenizer

__all__ = [
    "DEFAULT_TEMPLATE",
    "KINDS",
    "Extended",
    "StopStrings",
    "StreamDecoder",
    "Tokenizer",
    "encode_chat",
    "extend",
    "render_chat",
    "train_tokenizer",
    "with_chat",
]
