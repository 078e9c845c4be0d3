"""A model directory of CTranslate2: model.bin, config.json, its vocabularies, and the tokenizer's own files.

An encoder gives the vectors of tokens there, so what follows them, a pooling and the classifier's matrices, is written
beside it in ``head.json`` and ``head.npz`` (``formats.ctranslate2.specification``).

Letters: T length, D width.
"""

from collections.abc import Iterator
from pathlib import Path

import torch

from headway.formats.compare import TEXTS, Comparison, Tally
from headway.formats.ctranslate2.engine import engine_class, open_engine
from headway.formats.ctranslate2.specification import (
    FAMILIES,
    apply_head,
    lacking,
    specification,
    vocabulary,
    write_head,
)
from headway.formats.parity import BOUND, Parity, exceeding, same_ids
from headway.formats.subject import Subject
from headway.hub.generation_config import TargetRules
from headway.io.strict_json import read_object
from headway.models.heads import Gives, PoolingHead, gives
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.runtime.engine import OF_TOKENS, Engine, Inputs

TYPES = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "int8": "int8_float32"}
"""The precision -> what CTranslate2 calls it."""
WRITTEN = 16
"""How many texts are continued or translated."""


def problem(subject: Subject) -> str | None:
    """The part of the model that CTranslate2 has not."""
    if (part := lacking(subject.model)) is not None:
        advice = subject.layout_advice
        several = getattr(getattr(subject.model, "head", None), "scale", None) is not None
        if subject.family == "modernbert" and gives(subject.model) is not Gives.VOCABULARY and not several:
            advice = "; to train an encoder for it, use --layout bert"
        return f"{part}; CTranslate2 runs the families {', '.join(FAMILIES)}{advice}"
    if isinstance(subject.model, Decoder) and hasattr(subject.pipe, "rules"):
        return (
            "this translator is a decoder alone (--model decoder), and CTranslate2 translates by encoder-decoders; "
            "train one for it without --model"
        )
    return None if subject.tokenizer else "CTranslate2 reads tokens, and this model has no tokenizer"


def write(subject: Subject, directory: Path, precision: str) -> None:
    """What CTranslate2 loads, the tokenizer, and of an encoder its head."""
    model, tokenizer, target = subject.model, subject.tokenizer, subject.tokenizer.target
    rules = getattr(subject.pipe, "rules", TargetRules(()))  # only of a translator
    spec = specification(model, forbidden=rules.forbidden)
    names = vocabulary(target, model.config.vocab_size)
    if isinstance(model, EncoderDecoder):
        spec.register_source_vocabulary(vocabulary(tokenizer, model.encoder_config.vocab_size))
        spec.register_target_vocabulary(names)
        begin, end = rules.start[0], rules.end[0]
        spec.config.decoder_start_token = names[begin]
    else:
        spec.register_vocabulary(names)
        end = (tokenizer.end_of_text if tokenizer.end_of_text is not None else tokenizer.sep) or 0
        begin = tokenizer.begin_of_text if tokenizer.begin_of_text is not None else end
    spec.config.eos_token = names[end]
    spec.config.bos_token = names[begin]
    spec.config.unk_token = names[target.unknown or 0]
    spec.validate()
    spec.optimize(quantization=TYPES[precision])
    spec.save(str(directory))
    tokenizer.save(directory)
    write_head(subject, directory)


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """By the engine that opens it: outputs for random inputs, the answers to texts, and the ids of 1,000 lines."""
    import ctranslate2

    door = f"ctranslate2.{engine_class(subject.model).opener}(DIR)"
    parity = Parity(reader="ctranslate2", version=ctranslate2.__version__, door=door)
    level, tally = ctranslate2.get_log_level(), Tally()
    try:
        engine = open_engine("ctranslate2", directory, subject.model, precision)
        comparison = Comparison(subject, texts=TEXTS if isinstance(subject.model, Encoder) else WRITTEN)
        bound = BOUND if precision == "float32" else None
        result = comparison.of(engine, bound, tally)
        problems = [result.problem, *_head_problems(comparison, engine, directory, bound)]
        problems += [_early_end(subject, tally.written, directory)]
    except Exception as error:  # any error means that its users cannot use the directory
        return parity.unusable(error)
    finally:
        ctranslate2.set_log_level(level)
    equal, ids = same_ids(subject.tokenizer, directory, "tokenizer.json gives")
    return parity.holding(result, *problems, ids, tokens_equal=equal, notes=(*_notes(subject), *result.notes))


@torch.no_grad()
def _head_problems(comparison: Comparison, engine: Engine, directory: Path, bound: float | None) -> list[str]:
    """What differs in the answers by ``head.json``, as its readers compute them from the vectors of tokens."""
    if not isinstance(comparison.model, Encoder):
        return []
    head, tally = comparison.model.head or PoolingHead(), Tally()
    for row in (row for inputs in comparison.read for row in inputs.rows):
        vectors = engine.outputs(Inputs(torch.tensor([row])))[OF_TOKENS]  # (1, T, D)
        tally.compare(head(vectors, None)[0], torch.from_numpy(apply_head(vectors[0].numpy(), directory)))
    return exceeding(tally.difference, bound and bound * tally.size, "by head.json the answers differ")


def _early_end(subject: Subject, written: list[list[int]], directory: Path) -> str | None:
    """The token at which the files say that a text ends, where it was written and ends none here."""
    if not written:
        return None
    names = vocabulary(subject.tokenizer, subject.model.config.vocab_size)
    end = names.index(read_object(directory / "config.json")["eos_token"])
    wrong = end not in subject.pipe.ends and any(end in tokens for tokens in written)
    return f"it ends a text at {names[end]!r}, which ends none here" if wrong else None


def _notes(subject: Subject) -> Iterator[str]:
    """What to know of an encoder, of what a target begins with, and of a text that several tokens end."""
    if isinstance(subject.model, Encoder):
        yield "CTranslate2 gives the vectors of tokens; head.json says what to do with them"
        return
    pipe, target = subject.pipe, subject.tokenizer.target
    rules = getattr(pipe, "rules", TargetRules(()))
    if prefix := [target.tokens[number] for number in rules.start[1:]]:
        yield f"a target begins with {' '.join(prefix)}: pass target_prefix=[{prefix}]"
    ends = sorted(getattr(pipe, "ends", ())) or sorted(rules.end)
    if len(ends) > 1:  # the model's files have room for one
        tokens = [target.tokens[number] for number in ends]
        yield f"several tokens end a text, of which its files name one: pass end_token={tokens}"
