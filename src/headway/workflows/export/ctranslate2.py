"""A model directory of CTranslate2: model.bin, config.json, its vocabularies, and the tokenizer's own files.

An encoder gives the vectors of tokens there, so what follows them, a pooling and the classifier's matrices, is written
beside it in ``head.json`` and ``head.npz`` (``ctranslate2_head``).

Letters: B batch, T length, D width, V vocabulary, C classes.
"""

from dataclasses import replace
from logging import ERROR
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.data.batches.batching import segments_of
from headway.errors import InputError
from headway.generation.sampling import Sampling
from headway.hub.download import one_line
from headway.hub.generation_config import TargetRules
from headway.models.heads import Gives, gives
from headway.models.transformer import Decoder, EncoderDecoder
from headway.runtime.engines.ctranslate2_engine import open_engine
from headway.runtime.engines.engine import Searching
from headway.tasks.checks import BOUND, NEW, worst
from headway.workflows.export.ctranslate2_head import apply_head, write_head
from headway.workflows.export.ctranslate2_model import FAMILIES, problem, specification, vocabulary
from headway.workflows.export.parity import TOKENIZER, Parity, different_line, own_texts, prompts, room
from headway.workflows.export.tally import HERE, THERE, Tally, timed
from headway.workflows.export.target import Subject, layout_advice

TYPES = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "int8": "int8_float32"}
"""The precision -> what CTranslate2 calls it."""
PROMPTS, TEXTS, BEAM = 16, 32, 5
"""How many prompts are continued and texts are read, and the width of the beams."""


def refuse(subject: Subject) -> None:
    """Raise InputError for a model with a part that CTranslate2 has not."""
    if (lacking := problem(subject.model)) is not None:
        families = f"CTranslate2 runs the families {', '.join(FAMILIES)}"
        advice = layout_advice(subject.model)
        if subject.family == "modernbert" and gives(subject.model) is not Gives.VOCABULARY:
            advice = "; to train an encoder for it, use --layout bert"
        raise InputError(f"{subject.directory}: {lacking}; {families}{advice}.")
    if isinstance(subject.model, Decoder) and hasattr(subject.pipe, "rules"):
        raise InputError(
            f"{subject.directory}: this translator is a decoder alone (--model decoder), and CTranslate2 translates by "
            "encoder-decoders; train one for it without --model."
        )
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
    import ctranslate2

    kind, results_of = "Encoder", _encoder
    if isinstance(subject.model, EncoderDecoder):
        kind, results_of = "Translator", _translator
    elif isinstance(subject.model, Decoder):
        kind, results_of = "Generator", _generator
    door = f"ctranslate2.{kind}(DIR)"
    found = Parity(reader="ctranslate2", version=ctranslate2.__version__, door=door)
    bound = BOUND if precision == "float32" else None
    before = ctranslate2.get_log_level()
    ctranslate2.set_log_level(ERROR)  # it warns of types that the processor computes in float32
    try:
        result = results_of(subject, directory, open_engine(directory, subject.model, precision), bound)
    except Exception as error:  # any error means that its users cannot use the directory
        return replace(found, problem=f"{door} cannot use it: {one_line(error)}")
    finally:
        ctranslate2.set_log_level(before)
    line = different_line(subject.tokenizer, directory)
    problems = [result.problem] if result.problem else []
    problems += [] if line is None else [f"tokenizer.json gives different ids for {line[:60]!r}"]
    return replace(
        result,
        reader=found.reader,
        version=found.version,
        door=door,
        tokens_equal=line is None if (directory / TOKENIZER).exists() else None,
        problem="; ".join(problems) or None,
        notes=(*result.notes, *_ends(subject)),
    )


def _ends(subject: Subject) -> list[str]:
    """What to know of a text that several tokens end: the model's files have room for one."""
    pipe = subject.pipe
    ends = sorted(getattr(pipe, "ends", ())) or sorted(getattr(getattr(pipe, "rules", None), "end", ()))
    if len(ends) < 2:
        return []
    tokens = [subject.tokenizer.target.tokens[number] for number in ends]
    return [f"several tokens end a text, of which its files name one: pass end_token={tokens}"]


@torch.no_grad()
def _generator(subject: Subject, directory: Path, engine: Any, bound: float | None) -> Parity:
    """Logits at every position of prompts, and the tokens that are written greedily after them."""
    model, names, tally = subject.model, vocabulary(subject.tokenizer, subject.model.config.vocab_size), Tally()
    early = []
    for prompt in prompts(subject.tokenizer, model.config.vocab_size, room(model), PROMPTS):
        there = torch.from_numpy(np.array(engine.opened.forward_batch([prompt])))[0]  # (T, V)
        tally.compare(model(torch.tensor([prompt]))[0], there)
        with timed(tally.seconds, THERE):
            written = engine.opened.generate_batch(
                [[names[number] for number in prompt]], max_length=NEW, beam_size=1, include_prompt_in_result=False,
                return_end_token=True,
            )[0].sequences_ids[0]  # fmt: skip
        with timed(tally.seconds, HERE):
            list(subject.pipe.runtime.write([prompt], Sampling(temperature=0), max_tokens=len(written)))
        logits = model(torch.tensor([prompt + written[:-1]]))[0, len(prompt) - 1 :]  # (T, V)
        tally.choose(logits, torch.tensor(written))
        if len(written) < NEW and written[-1] not in subject.pipe.ends:
            early.append(f"it ends a text at {names[written[-1]]!r}, which ends none here")
    found = tally.parity(
        bound,
        PROMPTS,
        f"the logits of {PROMPTS} prompts",
        "the logits differ",
        "it continues a text with other tokens, apart",
    )
    return replace(found, problem=found.problem or next(iter(early), None))


@torch.no_grad()
def _translator(subject: Subject, directory: Path, engine: Any, bound: float | None) -> Parity:
    """The targets that the engine finds with one beam and with several, and the log-probability of every token."""
    model, tokenizer, tally = subject.model, subject.tokenizer, Tally()
    sources = [tokenizer.encode(text, special=True) for text in own_texts(tokenizer, room(model), PROMPTS) or ["a"]]
    names = vocabulary(tokenizer, model.encoder_config.vocab_size)
    given = [[names[number] for number in source] for source in sources]
    targets = vocabulary(tokenizer.target, model.config.vocab_size)
    prefix = [targets[number] for number in subject.pipe.rules.start[1:]]
    greedy = _search(subject, engine, sources, given, targets, 1, tally)
    _search(subject, engine, sources, given, targets, BEAM, tally)
    for source, tokens, ids in zip(sources, given, greedy, strict=True):
        target = [*prefix, *(targets[number] for number in ids)]
        here = _log_probabilities(subject, source, [*ids, subject.pipe.rules.end[0]])
        there = engine.opened.score_batch([tokens], [target], max_input_length=0)[0].log_probs[-len(here) :]
        tally.compare(here, torch.tensor(there))
    found = tally.parity(
        bound,
        len(sources),
        f"the log-probabilities of {3 * len(sources)} targets",
        "the log-probabilities of tokens differ",
        "it writes other targets, whose log-probability is lower",
    )
    notes = (f"a target begins with {' '.join(prefix)}: pass target_prefix=[{prefix}]",) if prefix else ()
    return replace(found, notes=notes)


def _search(
    subject: Subject, engine: Any, sources: list[list[int]], given: list[list[str]], targets: list[str], beam: int,
    tally: Tally,
) -> list[list[int]]:  # fmt: skip
    """Compare the targets that ``--engine ctranslate2`` finds for sources, and their scores; the ids of those here.

    Greedy search must write the same targets.  Beams must have the scores that their targets have here, but may end at
    others: CTranslate2 ends a search when as many are finished, Headway when none can become better.  None may score
    lower than those that CTranslate2 itself finds for this score.
    """
    rules = subject.pipe.rules
    prefix = [targets[number] for number in rules.start[1:]]
    how = Searching(replace(rules, end=rules.end[:1]), [NEW] * len(sources), beam)
    with timed(tally.seconds, THERE):
        found = engine.search(sources, how)
    with timed(tally.seconds, HERE):
        searched = subject.pipe.runtime.search(sources, rules, beam=beam, most=how.limits)
    direct = engine.opened.translate_batch(
        given, target_prefix=[prefix] * len(given) if prefix else None, beam_size=beam, length_penalty=1.0,
        min_decoding_length=0, max_decoding_length=NEW + len(prefix), max_input_length=0,
    )  # fmt: skip
    ours = [list(best[0].ids) for best in searched]
    for source, one, (other, *_), theirs in zip(sources, ours, found, direct, strict=True):
        score = _score(subject, source, list(other.ids))
        tally.compare(torch.tensor(score), torch.tensor(other.score))
        tally.count(torch.tensor(list(other.ids) == one))
        best = one if beam == 1 else [targets.index(token) for token in theirs.hypotheses[0]][len(prefix) :]
        tally.lag = worst(tally.lag, torch.tensor(_score(subject, source, best) - score).clamp(min=0))
    return ours


@torch.no_grad()
def _encoder(subject: Subject, directory: Path, engine: Any, bound: float | None) -> Parity:
    """The vectors of the tokens of texts, and the vector or the logits of each text by ``head.json``."""
    model, tokenizer, tally = subject.model, subject.tokenizer, Tally()
    texts = own_texts(tokenizer, room(model), TEXTS) or ["a"]
    classifies = gives(model) is Gives.ROW
    for text in texts:
        ids = tokenizer.encode(text, special=True)
        with timed(tally.seconds, THERE):
            vectors = np.array(engine.opened.forward_batch([ids]).last_hidden_state)[0]  # (T, D)
            there = torch.from_numpy(apply_head(vectors, directory))
        with timed(tally.seconds, HERE):
            here = model(torch.tensor([ids]))[0] if classifies else torch.from_numpy(subject.pipe(text))
        tally.compare(model.stack(torch.tensor([ids]))[0], torch.from_numpy(vectors))
        tally.compare(here, there)
        if model.config.segments > 1:
            segments = segments_of([len(ids) // 2], len(ids))
            pair = engine.opened.forward_batch([ids], token_type_ids=segments.tolist()).last_hidden_state
            tally.compare(model.stack(torch.tensor([ids]), segments=segments), torch.from_numpy(np.array(pair)))
        if classifies:
            tally.count(here.argmax() == there.argmax())
    over = f"the vectors{' and logits' if classifies else ''} of {len(texts)} texts"
    found = tally.parity(bound, len(texts), over, "the vectors or logits differ")
    return replace(found, notes=("CTranslate2 gives the vectors of tokens; head.json says what to do with them",))


@torch.no_grad()
def _log_probabilities(subject: Subject, source: list[int], target: list[int]) -> Tensor:
    """ln p of each token of a target: (T,)."""
    rules = subject.pipe.rules
    given = torch.tensor([[*rules.start, *target[:-1]]])
    logits = subject.model(torch.tensor([source]), given)[0, len(rules.start) - 1 :]
    if rules.forbidden:
        logits[:, list(rules.forbidden)] = -torch.inf
    return logits.log_softmax(dim=-1).gather(1, torch.tensor(target)[:, None])[:, 0]


def _score(subject: Subject, source: list[int], ids: list[int]) -> float:
    """The log-probability of a target, by its length."""
    return float(_log_probabilities(subject, source, _finished(subject, ids)).mean())


def _finished(subject: Subject, ids: list[int]) -> list[int]:
    """A target with its end, unless it was cut off before it."""
    return ids if len(ids) >= NEW else [*ids, subject.pipe.rules.end[0]]
