"""Strings to ids and back: tokenizers trained here or loaded from a Hugging Face directory."""

from headway.text.stream import StopStrings, StreamDecoder
from headway.text.tokenizer import Tokenizer
from headway.text.train import KINDS, train_tokenizer

__all__ = ["KINDS", "StopStrings", "StreamDecoder", "Tokenizer", "train_tokenizer"]
