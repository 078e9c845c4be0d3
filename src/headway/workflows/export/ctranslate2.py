"""A model directory of CTranslate2: model.bin, config.json, its vocabularies, and the tokenizer's own files.

An encoder gives the vectors of tokens there, so what follows them, a pooling and the classifier's matrices, is written
beside it in ``head.json`` and ``head.npz`` (``ctranslate2_head``).
"""

from pathlib import Path

from headway.errors import InputError
from headway.hub.generation_config import TargetRules
from headway.models.heads import MaskedTokenHead
from headway.models.transformer import EncoderDecoder
from headway.workflows.export.ctranslate2_compare import compare_with_ctranslate2
from headway.workflows.export.ctranslate2_head import write_head
from headway.workflows.export.ctranslate2_model import FAMILIES, problem, specification, vocabulary
from headway.workflows.export.parity import Parity
from headway.workflows.export.target import Subject, layout_advice

TYPES = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "int8": "int8_float32"}
"""The precision -> what CTranslate2 calls it."""


def refuse(subject: Subject) -> None:
    """Raise InputError for a model with a part that CTranslate2 has not."""
    if (lacking := problem(subject.model)) is not None:
        families = f"CTranslate2 runs the families {', '.join(FAMILIES)}"
        advice = layout_advice(subject.model)
        if subject.family == "modernbert" and not isinstance(subject.model.head, MaskedTokenHead):
            advice = "; to train an encoder for it, use --layout bert"
        raise InputError(f"{subject.directory}: {lacking}; {families}{advice}.")
    if subject.tokenizer is None:
        raise InputError(f"{subject.directory}: CTranslate2 reads tokens, and this model has no tokenizer.")


def write(subject: Subject, directory: Path, precision: str) -> None:
    """What CTranslate2 loads, the tokenizer, and of an encoder its head."""
    rules = getattr(subject.pipe, "rules", TargetRules(()))  # only of a translator
    spec = specification(subject.model, forbidden=rules.forbidden)
    tokenizer = subject.tokenizer
    if isinstance(subject.model, EncoderDecoder):
        spec.register_source_vocabulary(vocabulary(tokenizer, subject.model.encoder_config.vocab_size))
        targets = vocabulary(tokenizer.target, subject.model.config.vocab_size)
        spec.register_target_vocabulary(targets)
        spec.config.decoder_start_token = targets[rules.start[0]]
        spec.config.eos_token = targets[rules.end[0]]
        spec.config.bos_token = targets[rules.start[0]]
        spec.config.unk_token = targets[tokenizer.target.unknown or 0]
    else:
        names = vocabulary(tokenizer, subject.model.config.vocab_size)
        spec.register_vocabulary(names)
        end = tokenizer.end_of_text if tokenizer.end_of_text is not None else tokenizer.sep
        begin = tokenizer.begin_of_text if tokenizer.begin_of_text is not None else end
        spec.config.eos_token = names[end or 0]
        spec.config.bos_token = names[begin or 0]
        spec.config.unk_token = names[tokenizer.unknown or 0]
    spec.validate()
    spec.optimize(quantization=TYPES[precision])
    spec.save(str(directory))
    tokenizer.save(directory)
    write_head(subject, directory)


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """Through Generator, Translator or Encoder: logits, greedy tokens, beams, vectors, and the ids of 1,000 lines."""
    return compare_with_ctranslate2(subject, directory, precision)
