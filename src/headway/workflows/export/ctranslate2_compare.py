"""Compare a model of CTranslate2 with its original: through Generator, Translator or Encoder, as its users open it.

Letters: B batch, T length, D width, V vocabulary, C classes.
"""

import random
import time
from dataclasses import replace
from logging import ERROR
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from torch import Tensor

from headway.generation.sampling import Sampling
from headway.hub.download import one_line
from headway.models.heads import ClassificationHead
from headway.models.transformer import Decoder, EncoderDecoder
from headway.tasks.common.compare_answers import BOUND, NEW, behind, worst
from headway.text.backend import RustBackend
from headway.workflows.export.ctranslate2_head import apply_head
from headway.workflows.export.ctranslate2_model import vocabulary
from headway.workflows.export.parity import Parity, lines, magnitude, own_texts, room
from headway.workflows.export.target import Subject

PROMPTS, TEXTS, BEAM = 16, 32, 5
"""How many prompts are continued and texts are read, and the width of the beams."""


def compare_with_ctranslate2(subject: Subject, directory: Path, precision: str) -> Parity:
    """Logits and greedy tokens, scores and beams, or vectors; with the ids of the tokenizer's file beside the model."""
    import ctranslate2

    kind, compare = "Encoder", _encoder
    if isinstance(subject.model, EncoderDecoder):
        kind, compare = "Translator", _translator
    elif isinstance(subject.model, Decoder):
        kind, compare = "Generator", _generator
    door = f"ctranslate2.{kind}(DIR)"
    found = Parity(reader="ctranslate2", version=ctranslate2.__version__, door=door)
    bound = BOUND if precision == "float32" else None
    before = ctranslate2.get_log_level()
    ctranslate2.set_log_level(ERROR)  # it warns of types that the processor computes in float32
    try:
        opened = getattr(ctranslate2, kind)(str(directory), device="cpu", intra_threads=torch.get_num_threads())
        result = compare(subject, directory, opened, bound)
    except Exception as error:  # any error means that its users cannot use the directory
        return replace(found, problem=f"{door} cannot use it: {one_line(error)}")
    finally:
        ctranslate2.set_log_level(before)
    equal = _same_ids(subject, directory)
    problems = [result.problem] if result.problem else []
    if equal is False:
        problems.append("tokenizer.json gives other ids than the tokenizer here")
    return replace(
        result,
        reader=found.reader,
        version=found.version,
        door=door,
        tokens_equal=equal,
        problem="; ".join(problems) or None,
        notes=(*result.notes, *_ends(subject)),
    )


def _ends(subject: Subject) -> list[str]:
    """What to know of a text that several tokens end: the model's files have room for one."""
    pipe: Any = subject.pipe
    ends = sorted(getattr(pipe, "ends", ())) or sorted(getattr(getattr(pipe, "rules", None), "end", ()))
    if len(ends) < 2:
        return []
    tokens = [_tokenizer(subject).target.tokens[number] for number in ends]
    return [f"several tokens end a text, of which its files name one: pass end_token={tokens}"]


@torch.no_grad()
def _generator(subject: Subject, directory: Path, opened: Any, bound: float | None) -> Parity:
    """Logits at every position of prompts, and the tokens that are written greedily after them."""
    model, names = subject.model, vocabulary(subject.tokenizer, subject.model.config.vocab_size)
    difference, lag, equal, asked, size = 0.0, 0.0, 0, 0, 1.0
    seconds = [0.0, 0.0]
    for prompt in _prompts(subject):
        logits = torch.from_numpy(np.array(opened.forward_batch([prompt])))[0]  # (T, V)
        difference = worst(difference, model(torch.tensor([prompt]))[0] - logits)
        start = time.monotonic()
        written = opened.generate_batch(
            [[names[number] for number in prompt]], max_length=NEW, beam_size=1, include_prompt_in_result=False,
            return_end_token=True,
        )[0].sequences_ids[0]  # fmt: skip
        middle = time.monotonic()
        list(_pipe(subject).runtime.write([prompt], Sampling(temperature=0), max_tokens=len(written)))
        seconds = [seconds[0] + time.monotonic() - middle, seconds[1] + middle - start]
        ours = model(torch.tensor([prompt + written[:-1]]))[0, len(prompt) - 1 :]  # (T, V)
        size = max(size, magnitude(ours))
        lag = worst(lag, behind(ours, torch.tensor(written)))
        equal += int((ours.argmax(dim=-1) == torch.tensor(written)).sum())
        asked += len(written)
    bound = None if bound is None else bound * size
    problems = []
    if bound is not None and not difference <= bound:
        problems.append(f"the logits differ by {difference:.3g}, more than {bound:g}")
    if bound is not None and not lag <= bound:
        problems.append(f"it continues a text with other tokens, apart by {lag:.3g}, more than {bound:g}")
    return Parity(
        difference,
        over=f"the logits of {PROMPTS} prompts",
        bound=bound,
        agreement=(equal, asked),
        texts=PROMPTS,
        problem="; ".join(problems) or None,
        seconds=(seconds[0], seconds[1]),
    )


def _translator(subject: Subject, directory: Path, opened: Any, bound: float | None) -> Parity:
    """The tokens and scores of targets, and the log-probability of every token of one.

    Greedy search must write the same targets.  Beams must have the scores that their targets have here, but they may
    end at others: CTranslate2 ends a search when enough targets are finished, Headway when none can become better.
    """
    pipe, tokenizer = _pipe(subject), _tokenizer(subject)
    rules, model = pipe.rules, subject.model
    names = vocabulary(tokenizer, model.encoder_config.vocab_size)
    targets = vocabulary(tokenizer.target, model.config.vocab_size)
    sources = [tokenizer.encode(text, special=True) for text in own_texts(tokenizer, room(model), PROMPTS) or ["a"]]
    given = [[names[number] for number in source] for source in sources]
    prefix = [targets[number] for number in rules.start[1:]]
    most = NEW + len(rules.start)
    equal, lag, difference, size, seconds = 0, 0.0, 0.0, 1.0, [0.0, 0.0]
    for beam in (1, BEAM):
        start = time.monotonic()
        found = opened.translate_batch(
            given, target_prefix=[prefix] * len(given) if prefix else None, beam_size=beam, length_penalty=1.0,
            min_decoding_length=0, max_decoding_length=most - 1, max_input_length=0, return_scores=True,
        )  # fmt: skip
        middle = time.monotonic()
        ours = pipe.runtime.search(sources, rules, beam=beam, most=[NEW] * len(sources))
        seconds = [seconds[0] + time.monotonic() - middle, seconds[1] + middle - start]
        for source, one, other in zip(sources, ours, found, strict=True):
            ids = [targets.index(token) for token in other.hypotheses[0]][len(prefix) :]
            score = _score(subject, source, ids)
            written = len(_finished(subject, ids))
            there = other.scores[0] * (written + len(prefix)) / written  # it counts the prefix in the length
            difference = worst(difference, torch.tensor(score - there))
            equal += ids == list(one[0].ids)
            if beam == 1:
                lag = max(lag, _score(subject, source, list(one[0].ids)) - score)
    for source, tokens in zip(sources, given, strict=True):
        ids = list(pipe.runtime.search([source], rules, beam=1, most=[NEW])[0][0].ids)
        scores = opened.score_batch([tokens], [[*prefix, *(targets[number] for number in ids)]], max_input_length=0)[0]
        expected = _log_probabilities(subject, source, [*ids, rules.end[0]])
        size = max(size, magnitude(expected))
        difference = worst(difference, torch.tensor(scores.log_probs[-len(expected) :]) - expected)
    bound = None if bound is None else bound * size
    problems = []
    if bound is not None and not difference <= bound:
        problems.append(f"the log-probabilities of tokens differ by {difference:.3g}, more than {bound:g}")
    if bound is not None and not lag <= bound:
        problems.append(f"it writes other targets, whose log-probability is lower by {lag:.3g}, more than {bound:g}")
    return Parity(
        difference,
        over=f"the log-probabilities of {3 * len(sources)} targets",
        bound=bound,
        agreement=(equal, 2 * len(sources)),
        texts=len(sources),
        problem="; ".join(problems) or None,
        seconds=(seconds[0], seconds[1]),
        notes=(f"a target begins with {' '.join(prefix)}: pass target_prefix=[{prefix}]",) if prefix else (),
    )


@torch.no_grad()
def _encoder(subject: Subject, directory: Path, opened: Any, bound: float | None) -> Parity:
    """The vectors of the tokens of texts, and the vector or the logits of each text by ``head.json``."""
    model, tokenizer = subject.model, _tokenizer(subject)
    texts = own_texts(tokenizer, room(model), TEXTS) or ["a"]
    difference, equal, size, seconds = 0.0, 0, 1.0, [0.0, 0.0]
    classifies = isinstance(model.head, ClassificationHead)
    for text in texts:
        ids = tokenizer.encode(text, special=True)
        start = time.monotonic()
        vectors = np.array(opened.forward_batch([ids]).last_hidden_state)[0]  # (T, D)
        there = apply_head(vectors, directory)
        middle = time.monotonic()
        here = model(torch.tensor([ids]))[0] if classifies else torch.from_numpy(_pipe(subject)(text))
        seconds = [seconds[0] + time.monotonic() - middle, seconds[1] + middle - start]
        ours = model.stack(torch.tensor([ids]))[0]  # (T, D)
        size = max(size, magnitude(ours), magnitude(here))
        difference = worst(difference, ours - torch.from_numpy(vectors))
        difference = worst(difference, here - torch.from_numpy(there))
        equal += int(here.argmax()) == int(there.argmax())
    bound = None if bound is None else bound * size
    problem = None
    if bound is not None and not difference <= bound:
        problem = f"the vectors or logits differ by {difference:.3g}, more than {bound:g}"
    return Parity(
        difference,
        over=f"the vectors{' and logits' if classifies else ''} of {len(texts)} texts",
        bound=bound,
        agreement=(equal, len(texts)) if classifies else None,
        texts=len(texts),
        problem=problem,
        seconds=(seconds[0], seconds[1]),
        notes=("CTranslate2 gives the vectors of tokens; head.json says what to do with them",),
    )


def _prompts(subject: Subject) -> list[list[int]]:
    """Texts of the tokenizer's own tokens as ids, and random ids."""
    tokenizer: Any = subject.tokenizer
    most = room(subject.model)
    found = [tokenizer.encode(text) for text in own_texts(tokenizer, most, PROMPTS // 2)]
    draw = random.Random(0)
    while len(found) < PROMPTS:
        found.append([draw.randrange(subject.model.config.vocab_size) for _ in range(draw.randint(1, most))])
    return found


@torch.no_grad()
def _log_probabilities(subject: Subject, source: list[int], target: list[int]) -> Tensor:
    """ln p of each token of a target: (T,)."""
    rules = _pipe(subject).rules
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
    return ids if len(ids) >= NEW else [*ids, _pipe(subject).rules.end[0]]


def _same_ids(subject: Subject, directory: Path) -> bool | None:
    """Whether ``tokenizer.json`` gives our ids for 1,000 lines; None for a tokenizer without such a file."""
    tokenizer: Any = subject.tokenizer
    if not isinstance(tokenizer.backend, RustBackend):
        return None
    theirs = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    texts = lines(tokenizer)
    ours = tokenizer.encode_batch(texts, special=True)
    return ours == [found.ids for found in theirs.encode_batch(texts)]


def _pipe(subject: Subject) -> Any:
    return subject.pipe


def _tokenizer(subject: Subject) -> Any:
    return subject.tokenizer
