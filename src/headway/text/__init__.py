"""Strings to ids and back: tokenizers trained here or loaded from a Hugging Face directory, and conversations."""

from headway.text.chat import DEFAULT_TEMPLATE, render_chat, with_chat
from headway.text.chat_ids import encode_chat
from headway.text.extend import Extended, extend
from headway.text.stream import StopStrings, StreamDecoder
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
