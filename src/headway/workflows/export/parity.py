"""Compare a saved model with its copy in other programs: the answers, and the ids of difficult texts.

    found = compare(model, tokenizer, directory, pipe)   # the model as it was, and the directory it was saved to
    found.passed, found.max_difference, found.tokens_equal, found.problem

Letters: B batch, T length, S source length, D width, V vocabulary, C classes.
"""

import contextlib
import random
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.hub.directory import read_json
from headway.hub.download import one_line
from headway.hub.sentence_transformers import without_modules
from headway.models.transformer import EncoderDecoder
from headway.tasks.common.compare_answers import BOUND, NEW, Original
from headway.text.tokenizer import Tokenizer
from headway.workflows.export.choose_loader import loader_of, other_reader

INPUTS, BATCH, LONGEST = 32, 8, 48
"""Number of random inputs, batch size, and maximum tokens of each."""
LINES = 1000
"""Number of lines to tokenize."""
WORDS = (
    *("the", "fox", "isn't", "12:30", "3.14", "x=1;", "(ok)", "<b>", "---", "$5", "a_b", "HTTP/2", "naïve", "Ünïcödé"),
    *("İstanbul", "straße", "ÅNGSTRÖM", "Ελληνικά", "ΣΊΣΥΦΟΣ", "Привет,", "мир!", "שלום", "العربية", "فارسی", "हिन्दी"),
    *("বাংলা", "தமிழ்", "ไทยภาษา", "ქართული", "հայերեն", "አማርኛ", "한국어", "日本語の", "カタカナ", "ｶﾞ", "简体中文。"),
    *("Tiếng", "Việt", "e\u0301", "a\u0308\u0323", "ﬁne", "Ⅳ", "½㎏", "ＡＢＣ", "∑∫≠", "𝔘𝔫𝔦", "\ufffd", "▁a", "##ing"),
)  # fmt: skip
EMOJI = ("🙂", "👍🏽", "👩‍👩‍👧", "🏳️‍🌈", "🇩🇪", "☕️", "⚽", "\u200d", "\ufe0f")
SPACES = (" ", " ", " ", " ", "", "  ", "\t", "\u00a0", "\u2009", "\u3000", "\u200b", "\ufeff", "\u2028", "\r", "    ")


@dataclass(frozen=True)
class Parity:
    """The result of a comparison."""

    max_difference: float | None = None
    """the largest difference between two answers, NaN if one is not a number; None: not compared"""
    tokens_equal: bool | None = None
    """whether every line gave the same ids; None: not compared"""
    problem: str | None = None
    """what differs, or why nothing was compared"""
    version: str | None = None
    """of ``transformers``; None: unknown"""
    needs: str = "transformers"
    """the package to install or upgrade if nothing was compared"""
    door: str | None = None
    """how the directory was opened, as a user writes it"""
    texts: int = 0
    """how many texts were answered by both"""

    @property
    def checked(self) -> bool:
        """Whether ``transformers`` is installed and knows such models."""
        return self.version is not None

    @property
    def passed(self) -> bool:
        """Whether everything that was compared agrees."""
        return self.problem is None and self.checked


def compare(model: nn.Module, tokenizer: Tokenizer | None, directory: str | Path, pipe: Any = None) -> Parity:
    """Open a directory as users of other libraries do, and compare it with the model that was saved there.

    It compares the logits for 32 random inputs, the ids of 1,000 lines if there is a tokenizer, and the answers to some
    texts if ``pipe`` (the model's pipeline here) is given.  Nothing is downloaded.  If ``transformers`` is missing or
    too old for the family, ``checked`` is false.
    """
    with offline() as transformers:
        if transformers is None:
            return Parity(problem="transformers is not installed")
        try:
            return _compare(transformers, model, tokenizer, Path(directory), pipe)
        except ImportError as error:  # loading may need more than transformers itself
            needs = (error.name or "transformers").partition(".")[0].replace("_", "-")
            return Parity(problem=f"it cannot be opened here: {one_line(error)}", needs=needs)


def _compare(transformers: Any, model: nn.Module, tokenizer: Tokenizer | None, directory: Path, pipe: Any) -> Parity:
    version = transformers.__version__
    entries = read_json(directory / "config.json")
    if entries.get("model_type") not in transformers.CONFIG_MAPPING:
        return Parity(problem=f"transformers {version} does not know models of type {entries.get('model_type')!r}")
    architecture = entries["architectures"][0]
    loader = loader_of(pipe, model, architecture)
    found = Parity(version=version, door=loader.words)
    try:
        with warnings.catch_warnings(action="ignore"):
            opened = loader.open(transformers, directory, architecture)
            difference = max_difference(without_modules(model)[0], opened.model)
    except ImportError:
        raise
    except Exception as error:  # any error means that other programs cannot use the directory
        other = other_reader(model, getattr(pipe, "labels", []))
        problem = f"{loader.words} with transformers {version} cannot use it: {one_line(error)}"
        return replace(found, problem=f"{problem}; {other}" if other else problem)
    problems = []
    if not difference <= BOUND:
        problems.append(f"the answers differ by {difference:.3g}, more than {BOUND:g}")
    texts: Sequence[str] = ()
    try:
        if tokenizer is not None:
            other = transformers.AutoTokenizer.from_pretrained(directory, local_files_only=True)
            line = different_line(tokenizer, other)
            found = replace(found, tokens_equal=line is None)
            problems += [] if line is None else [f"the tokenizers give different ids for {line[:60]!r}"]
        if loader.compare is not None and not problems:
            texts = () if tokenizer is None else own_texts(tokenizer, _room(model), loader.texts)
            value, differs = loader.compare(Original(pipe, model, directory, texts), opened.answers)
            difference = max(difference, value, key=lambda each: (each != each, each))
            if differs or not value <= BOUND:
                problems.append(f"{loader.words} {differs or f'gives scores that differ by {value:.3g}'}")
    except ImportError:
        raise
    except Exception as error:
        problems.append(f"{loader.words} with transformers {version} cannot use it: {one_line(error)}")
    return replace(found, max_difference=difference, texts=len(texts), problem="; ".join(problems) or None)


def _room(model: Any) -> int:
    """The tokens of a text that a model can read, with room for ``NEW`` new ones and the special tokens around it."""
    configs = [model.config, getattr(model, "encoder_config", model.config)]
    return max(1, min(LONGEST, *(config.max_length for config in configs)) - NEW - 4)


@torch.no_grad()
def max_difference(ours: nn.Module, theirs: Any) -> float:
    """The largest difference between the answers of a model and its copy in ``transformers``, over 32 random inputs.

    Inputs have from 1 to 48 tokens, and come in padded batches of 8.  Raises RuntimeError for answers of other shapes.
    """
    draw = torch.Generator().manual_seed(0)
    largest = 0.0
    for _ in range(INPUTS // BATCH):
        found, expected = _answers(ours, theirs, draw)
        if found.shape != expected.shape:
            raise RuntimeError(f"the answers have shape {list(expected.shape)}, expected {list(found.shape)}")
        largest = max(largest, float((found - expected).abs().max()), key=lambda value: (value != value, value))
    return largest


def different_line(tokenizer: Tokenizer, theirs: Any) -> str | None:
    """The first of 1,000 lines for which two tokenizers give different ids, as source or target; None: none."""
    texts = lines(tokenizer)
    kinds = [
        (tokenizer.encode_batch(texts, special=True), theirs(texts)),
        (tokenizer.encode_batch(texts), theirs(texts, add_special_tokens=False)),
    ]
    if tokenizer.target is not tokenizer:
        kinds.append((tokenizer.target.encode_batch(texts, special=True), theirs(text_target=texts)))
    for found, expected in kinds:
        for text, one, other in zip(texts, found, expected["input_ids"], strict=True):
            if one != list(other):
                return text
    return None


def lines(tokenizer: Tokenizer) -> list[str]:
    """Lines of mixed scripts, emoji and odd spaces, and lines of the tokenizer's own tokens; none spells a special one.

    Other programs read a special token that a text spells as that token; Headway reads it as text, so that nobody can
    insert one by accident or on purpose.
    """
    draw = random.Random(0)
    specials = [token for side in (tokenizer, tokenizer.target) for token in (side.tokens[i] for i in side.special_ids)]
    plain = sorted(set(range(tokenizer.vocab_size)) - tokenizer.special_ids)
    found: list[str] = []
    while len(found) < LINES:
        if len(found) % 4 == 3:
            text = tokenizer.decode(draw.choices(plain, k=draw.randint(1, 17))).replace("\n", " ")
        else:
            words = (draw.choice(EMOJI if draw.random() < 0.1 else WORDS) for _ in range(draw.randint(0, 11)))
            text = draw.choice(SPACES) + "".join(word + draw.choice(SPACES) for word in words)
        if not text.lstrip().startswith(">>") and not any(token and token in text for token in specials):
            found.append(text)
    return found


def own_texts(tokenizer: Tokenizer, longest: int, count: int) -> list[str]:
    """Texts of a tokenizer's own tokens, ``longest`` of them at most; none spells a special token."""
    draw = random.Random(0)
    known = [number for number, token in enumerate(tokenizer.tokens) if token and number not in tokenizer.special_ids]
    specials = [tokenizer.tokens[number] for number in tokenizer.special_ids]
    found: list[str] = []
    for _ in range(50 * count):
        text = " ".join(tokenizer.decode(draw.choices(known, k=draw.randint(1, longest))).split())
        fits = text and len(tokenizer.encode(text)) <= longest and not text.startswith(">>")
        if fits and not any(token and token in text for token in specials):
            found.append(text)
        if len(found) == count:
            break
    return found


def _answers(ours: Any, theirs: Any, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """The outputs of both for one batch, at the positions that hold tokens."""
    patches = getattr(ours, "patches", None)
    if patches is not None:
        images = torch.randn(BATCH, patches.channels, *patches.image_size, generator=draw)
        return ours(images), _of(theirs(pixel_values=images))
    pad = theirs.config.pad_token_id
    lengths = [LONGEST, *torch.randint(1, LONGEST + 1, (BATCH - 1,), generator=draw).tolist()]
    if isinstance(ours, EncoderDecoder):
        source, mask = _batch(ours.encoder_config, lengths, pad, draw)
        target, _ = _batch(ours.config, [max(lengths[1:])] * BATCH, pad, draw)
        answer = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target)
        return ours(source, target, mask), _of(answer)
    if pad is None and hasattr(theirs, "score"):
        lengths = lengths[:1]  # a decoder's classifier finds the last token by the padding: without, one at a time
    ids, mask = _batch(ours.config, lengths, pad, draw)
    found, expected = ours(ids, mask), _of(theirs(input_ids=ids, attention_mask=mask.long()))
    return (found[mask], expected[mask]) if found.dim() == 3 and found.shape == expected.shape else (found, expected)


def _batch(config: Any, lengths: list[int], pad: int | None, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random ids (B, T); padding exactly where ``mask`` (B, T) is false."""
    lengths = [min(length, config.max_length) for length in lengths]
    ids = torch.randint(0, config.vocab_size, (len(lengths), max(lengths)), generator=draw)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    if pad is not None:
        ids = ids.where(ids != pad, (pad + 1) % config.vocab_size).masked_fill(~mask, pad)
    return ids, mask


def _of(answer: Any) -> Tensor:
    return (answer.logits if "logits" in answer else answer.last_hidden_state).float()


@contextlib.contextmanager
def offline() -> Iterator[Any]:
    """``transformers``, silenced and offline inside the context; None if it is missing."""
    try:
        from huggingface_hub import constants

        before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
        try:
            import transformers
            from transformers.utils import logging as theirs
        except BaseException:
            constants.HF_HUB_OFFLINE = before
            raise
    except ImportError:
        yield None
        return
    verbosity, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity(CRITICAL)
    theirs.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield transformers
    finally:
        constants.HF_HUB_OFFLINE = before
        theirs.set_verbosity(verbosity)
        if bars:
            theirs.enable_progress_bar()
