"""Check a saved model for correctness, on this machine: each check has a name, a value and its bound.

The reference for the KV cache is a model that reads everything again for each token.
Letters: B batch, T length, V vocabulary.
"""

import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.data.batches.batching import Batch, sent
from headway.errors import InputError
from headway.formats.exports import open_engine
from headway.formats.parity import BOUND, units_of
from headway.formats.subject import columns_of
from headway.generation.beam import beam_search
from headway.generation.decode import Conditional, decode
from headway.generation.sampling import Sampling
from headway.hub.adapters.locate import locate_model
from headway.hub.directory import has_family, load_model
from headway.models.baselines import BaselineConfig
from headway.models.config import TransformerConfig
from headway.models.device import model_device
from headway.models.own import OwnConfig
from headway.models.transformer import Decoder, EncoderDecoder
from headway.runtime.precision import FLOAT32, resolved
from headway.tasks.checks import token_vectors
from headway.tasks.registry import spec, task_named
from headway.training.loop.thread_parallel import ThreadParallel
from headway.training.loop.trainer import divide_and_clip
from headway.training.objective import Objective
from headway.training.progress import NoProgress, Progress
from headway.training.store.checkpoint import damaged
from headway.training.store.facts import read_facts
from headway.workflows.engines import SINGLE, answering, batch_difference, exports_in
from headway.workflows.export import export
from headway.workflows.load import load
from headway.workflows.precisions import held_out
from headway.workflows.verify.check import Check, Subject, bound_of, difference, different_lengths, read, worst
from headway.workflows.verify.resume import check_resume

NEW, PROMPT = 8, 32
"""Maximum tokens written and read: without a cache, all of them are read again for each new one."""
GRADIENT_BOUND = 1e-5
"""The largest allowed difference between two float32 gradients, as a fraction of the largest entry."""
PARTS = ([0], [1, 2, 3], [4])
"""The rows of each part: chosen so that their numbers of targets differ as much as possible."""
ROWS = sum(map(len, PARTS))
LEARNT = 48
"""Tokens of a text: a gradient costs three times as much as an answer."""
PRECISION_BOUNDS = {"bfloat16": 0.05, "float16": 0.02, "int8": 0.1, "int4": 0.5}
"""The allowed length of the difference over that of the outputs.  Random models of two to twelve layers were seen to
reach a third of it; a wrong scale or a wrong order of weights gives more than 1."""
PROMPTS = (23, 1, 7, 2)
"""Tokens of the prompts, or of the sources."""
CONTINUED, BEAM, LEAVES = 24, 3, 5
"""Maximum new tokens, a translator's beam width, and the step after which the first row leaves the batch."""
TIE = 1e-5
"""Two tokens whose logits are this close count as equally likely: rounding decides between them."""


def verify(run: str | Path, progress: Progress | None = None, *, device: str = "auto") -> dict[str, Any]:
    """Check a run, a Hugging Face directory or a hub id; ``task``, ``passed`` and ``checks``, each as ``Check.plain``.

    The model's directory is not changed: training and export use a temporary directory, which is removed.  Raises
    InputError if there is no such model or device, or if one of its files is damaged.
    """
    place, progress = locate_model(run).path, progress or NoProgress()
    subject = Subject(load(place, device=device, precision="float32"))
    checks: list[Check] = []
    with tempfile.TemporaryDirectory(prefix="headway-verify-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        to_do: list[tuple[str, Callable[[], Check]]] = [
            ("generating with the cache and without", lambda: check_cache(subject)),
            ("reading texts together and one by one", lambda: check_batch(subject)),
            ("answering in the precision of the run", lambda: check_precision(subject, place)),
            ("answering by the engines of the run", lambda: check_engines(place)),
            ("summing gradients", lambda: check_accumulation(subject)),
            ("exporting it for other programs", lambda: check_export(subject, place, folder / "export")),
            ("reading its checkpoints", lambda: check_checkpoints(place)),
            ("training, killing and resuming", lambda: check_resume(subject, place, folder, progress)),
        ]  # the longest last
        for words, check in to_do:
            progress.phase(words)
            began = time.monotonic()
            checks.append(replace(check(), seconds=round(time.monotonic() - began, 3)))
    passed = all(check.passed is not False for check in checks)
    return {"task": subject.pipe.task, "passed": passed, "checks": [check.plain() for check in checks]}


class Read:
    """Everything read so far: the ids of each row (B, T), which of them are tokens, and the row's original index.

    ``cached`` is the state of the model that reads the same with its cache, if there is one.
    """

    def __init__(self, cached: Any = None) -> None:
        self.ids = self.mask = self.rows = torch.empty(0, dtype=torch.int64)
        self.cached = cached

    def extend(self, ids: Tensor, mask: Tensor | None) -> None:
        """Append (B, T) ids."""
        mask = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        if self.ids.numel():
            ids, mask = torch.cat([self.ids, ids], dim=1), torch.cat([self.mask, mask], dim=1)
        else:
            self.rows = torch.arange(len(ids), device=ids.device)
        self.ids, self.mask = ids, mask

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows, in that order."""
        self.ids, self.mask, self.rows = self.ids[rows], self.mask[rows], self.rows[rows]
        if self.cached is not None:
            self.cached.reorder(rows)


class Uncached:
    """A decoder, or an encoder-decoder with its sources, without its cache: ``generation`` takes it as a model."""

    def __init__(self, model: Any):
        self.model = model

    def new_state(self) -> Read:
        return Read()

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Logits (B, V) of the next token of each row, from everything read so far."""
        state.extend(ids, mask)
        seen = None if bool(state.mask.all()) else state.mask
        if not isinstance(self.model, Conditional):
            return self.model.next_logits(state.ids, seen)
        pair = self.model
        across = None if pair.source_mask is None else pair.source_mask[state.rows]
        return pair.model.next_logits(state.ids, pair.source[state.rows], across, None, seen)


class Compared(Uncached):
    """A model with its cache, whose every answer is compared with the same model without."""

    def __init__(self, model: Any, forbidden: Collection[int] = ()):
        super().__init__(model)
        self.forbidden = list(forbidden)
        self.difference, self.largest = 0.0, 0.0
        self.tokens, self.tokens_equal = 0, True

    def new_state(self) -> Read:
        return Read(self.model.new_state())

    def next_logits(self, ids: Tensor, mask: Tensor | None = None, state: Any = None) -> Tensor:
        """Logits (B, V) with the cache."""
        logits = self.model.next_logits(ids, mask, state.cached)
        expected = super().next_logits(ids, mask, state)
        self.difference = worst(self.difference, difference(logits, expected))
        self.largest = max(self.largest, float(expected.abs().max()))
        self.tokens += len(logits)
        self.tokens_equal = self.tokens_equal and self._same_tokens(logits, expected)
        return logits

    def _same_tokens(self, logits: Tensor, expected: Tensor) -> bool:
        """Whether the most likely token of each row is the same, or equally likely up to rounding."""
        never = sent(self.forbidden, logits.device)
        logits, expected = (tensor.index_fill(1, never, float("-inf")) for tensor in (logits.float(), expected.float()))
        chosen, best = logits.argmax(dim=-1, keepdim=True), expected.amax(dim=-1, keepdim=True)
        return bool((expected.gather(1, chosen) >= best - TIE).all())


def check_cache(subject: Subject) -> Check:
    """Generate with the cache, greedily or with a beam, and compare each step's logits with those without it."""
    what = "logits with the cache and without, at each step of generation"
    if not subject.writes:
        return Check("cache", what, skipped="the model writes no text")
    compared = _translate(subject) if isinstance(subject.model, EncoderDecoder) else _continue(subject)
    problem = None if compared.tokens_equal else "the generated tokens differ with the cache and without"
    more = {"tokens": compared.tokens, "tokens_equal": compared.tokens_equal}
    return Check("cache", what, compared.difference, bound_of(compared.largest), problem, more=more)


def _continue(subject: Subject) -> Compared:
    """Continue prompts of different lengths in one batch; one of them leaves it early."""
    context, rows = subject.model.config.max_length, token_vectors(subject.model)
    forbidden = sorted(number for number in subject.pipe.tokenizer.special_ids if number < rows)
    compared = Compared(subject.model, forbidden)
    texts = subject.texts([min(length, max(1, context // 2)) for length in PROMPTS])
    how: dict[str, Any] = {"max_tokens": CONTINUED, "context": context, "forbidden": forbidden}
    steps = decode(compared, texts, Sampling(temperature=0), **how, device=subject.device)
    step: Any = next(steps)
    for count in range(1, CONTINUED):
        try:
            step = steps.send({0} if count == LEAVES and 0 in step else set())
        except StopIteration:
            break
    return compared


@torch.no_grad()
def _translate(subject: Subject) -> Compared:
    """Translate sources of different lengths by beam search, which reorders the hypotheses at every step."""
    pipe: Any = subject.pipe
    sources = subject.texts([min(length, subject.longest) for length in PROMPTS])
    compared = Compared(Conditional(pipe.model, sources, subject.device), pipe.rules.forbidden)
    beams(compared, sources, pipe, BEAM, CONTINUED)
    return compared


def beams(model: Any, sources: Sequence[Sequence[int]], pipe: Any, beam: int, most: int) -> list[tuple[int, ...]]:
    """The best target of each source, of at most so many tokens."""
    rules, room = pipe.rules, max(1, min(most, pipe.longest_target - len(pipe.rules.start)))
    how: dict[str, Any] = {"end": rules.end, "forbidden": rules.forbidden, "device": pipe.runtime.device}
    hypotheses = beam_search(model, [list(rules.start) for _ in sources], beam=beam, max_tokens=room, **how)
    return [best.ids for best, *_ in hypotheses]


def check_batch(subject: Subject) -> Check:
    """Read texts of 1 to ``LONGEST`` tokens in one padded batch and one by one, and compare the answers.

    Text is generated without the cache, which has its own check.
    """
    lengths = different_lengths(subject.longest)
    texts = subject.inputs(lengths)
    value, largest = 0.0, 0.0
    for left in (False, True) if isinstance(subject.model, Decoder) else (False,):
        together = read(subject, subject.model, texts, left=left)
        for text, answer in zip(texts, together, strict=True):
            alone = read(subject, subject.model, [text])[0]
            value, largest = worst(value, difference(answer, alone)), max(largest, float(alone.abs().max()))
    inputs = "images" if subject.pipe.tokenizer is None else f"texts of {min(lengths)} to {max(lengths)} tokens"
    answers, problem, more = spec(subject.pipe.task).outputs, None, {}
    if subject.writes:
        answers += ", and greedy generation"
        prompts = subject.texts(different_lengths(min(PROMPT, subject.longest)))
        more["tokens_equal"] = _write(subject, prompts) == [_write(subject, [text])[0] for text in prompts]
        problem = None if more["tokens_equal"] else "the generated tokens differ between a batch and each text alone"
    what = f"{answers}: {len(texts)} {inputs} together and one by one"
    return Check("batch", what, value, bound_of(largest), problem, more=more)


@torch.no_grad()
def _write(subject: Subject, texts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Greedy generation for texts in one batch."""
    pipe: Any = subject.pipe
    if isinstance(subject.model, EncoderDecoder):
        return beams(Uncached(Conditional(pipe.model, texts, subject.device)), texts, pipe, 1, NEW)
    context = pipe.model.config.max_length
    prompts = [text[: max(1, context // 2)] for text in texts]
    written: list[tuple[int, ...]] = [() for _ in texts]
    greedy, device = Sampling(temperature=0), subject.device
    for step in decode(Uncached(pipe.model), prompts, greedy, max_tokens=NEW, context=context, device=device):
        for row, token in step.items():
            written[row] += (token,)
    return written


def check_accumulation(subject: Subject) -> Check:
    """Compute the gradient of a batch of five texts, and that of its three parts, each divided once.

    The texts have one length, so that padding, which has its own check, is none of what differs.
    """
    what = f"the gradient of a batch against the sum over its {len(PARTS)} parts of different sizes, without dropout"
    tokens = min(LEARNT, subject.longest)
    written = subject.one.config.max_length if isinstance(subject.one, EncoderDecoder) else None
    targets = [] if written is None else subject.targets([min(LEARNT, written)] * ROWS)
    trial = task_named(subject.pipe.task).sample_batch(subject.pipe, subject.inputs([tokens] * ROWS), targets)
    if trial is None:
        why = "its loss of a batch is not the sum over its rows, so the parts of a batch are another task"
        return Check("accumulation", what, skipped=why)
    task, batch = trial
    whole = _gradient(subject.one, task, [batch])
    parts = _gradient(subject.one, task, [batch.rows(torch.tensor(rows)) for rows in PARTS])
    largest = max(float(gradient.abs().max()) for gradient in whole)
    apart = torch.tensor([difference(one, other) for one, other in zip(whole, parts, strict=True)]).max()
    value = float(apart) / largest if largest else float("nan")
    problem = None if largest else "the gradient is zero"
    return Check("accumulation", what, value, GRADIENT_BOUND, problem)


def _gradient(model: nn.Module, task: Objective, batches: list[Batch]) -> list[Tensor]:
    """The gradient of each parameter over some batches, divided by all their targets."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    targets = 0.0
    with ThreadParallel(1) as shares:
        for batch in batches:
            targets += shares.add_gradient(model, task, batch.to(model_device(model)), "float32", parameters)[1]
    divide_and_clip(parameters, targets, 0.0)
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    for p in parameters:
        p.grad = None
    return gradients


def check_precision(subject: Subject, place: Path) -> Check:
    """Read texts in float32 and in the precision that the run stores, and compare the outputs as wholes."""
    name = resolved(None, read_facts(place), subject.device)
    if name == FLOAT32:
        return Check("precision", "the precision that the run answers in", skipped="it answers in float32")
    texts = subject.inputs(different_lengths(subject.longest))
    lower = load(place, device=str(subject.device), precision=name)
    pairs = zip(read(subject, lower.model, texts), read(subject, subject.model, texts), strict=True)
    norms = [torch.stack([(one - exact).double().norm(), exact.double().norm()]) for one, exact in pairs]
    apart, whole = torch.stack(norms).norm(dim=0).tolist()
    what = f"{name} and float32: the outputs for {len(texts)} inputs"
    return Check("precision", what, apart / max(whole, 1e-30), PRECISION_BOUNDS[name])


def check_engines(place: Path) -> Check:
    """Answer inputs together and one by one by each engine whose export lies in the run."""
    what = "answers of the engines to inputs together and one by one"
    differences: dict[str, float] = {}
    try:
        if exports := exports_in(str(place)):
            pipe = load(place, device="cpu", precision=FLOAT32)
            inputs = held_out(str(place), pipe, SINGLE)
        for name, precision in exports:
            with suppress(InputError):  # of an export that cannot be used
                engine = open_engine(name, place, pipe.model, precision)
                differences[f"{name} in {precision}"] = batch_difference(answering(pipe, engine), inputs)
    except InputError as error:
        return Check("engines", what, skipped=str(error))
    if not differences:
        return Check("engines", what, skipped="no export that an engine here can use lies in it")
    name, value = max(differences.items(), key=lambda one: one[1])
    return Check("engines", f"{what}; most apart those of {name}", value, BOUND)


def check_checkpoints(directory: Path) -> Check:
    """Compare every file of the checkpoints in a run directory with its recorded size and SHA-256."""
    checkpoints = damaged(directory / "checkpoints")
    what = f"damaged checkpoints among {len(checkpoints)}"
    if not checkpoints:
        return Check("checkpoints", what, skipped="there are no checkpoints here")
    problems = [f"{path.name}: {problem}" for path, problem in checkpoints.items() if problem is not None]
    return Check("checkpoints", what, float(len(problems)), 0.0, "; ".join(problems) or None)


def check_export(subject: Subject, directory: Path, folder: Path) -> Check:
    """Export the model in ``directory`` to ``folder``, load the export, and compare the answers with the model's."""
    what = "answers of the model and of its export"
    config = getattr(subject.pipe.model, "config", None)
    if isinstance(config, BaselineConfig | TransformerConfig | OwnConfig) and not has_family(subject.pipe.model):
        return Check("export", what, skipped="no other program supports this model")
    try:
        exported = export(directory, folder)
    except InputError as error:
        return Check("export", what, None, BOUND, f"it cannot be exported: {error}")
    parity = exported.parity
    more = {parity.reader: parity.version, "door": parity.door, "tokens_equal": parity.tokens_equal}
    value = float("nan") if parity.max_difference is None else parity.max_difference
    by = f"{parity.door} with {parity.reader} {parity.version}"
    if not exported.made:
        return Check("export", f"{what}, read through {by}", value, BOUND, parity.problem, more=more)
    texts = subject.inputs(different_lengths(subject.longest))
    columns = columns_of(subject.pipe)
    models = [(pipe.model, folder / name) for name, pipe in columns.items()] or [(load_model(directory), folder)]
    both = ((read(subject, model, texts), read(subject, load_model(place), texts), model) for model, place in models)
    pairs = ((*pair, model) for before, after, model in both for pair in zip(before, after, strict=True))
    own = worst(*(difference(one / (size := units_of(model, one)), other / size) for one, other, model in pairs))
    if not parity.checked:  # reading by Headway alone does not show that other programs can read it
        reason = f"not checked: {parity.problem}; Headway reads its own export with the same answers"
        skipped = reason if own <= BOUND else None
        return Check("export", f"{what}, read by Headway", own, BOUND, skipped=skipped, more=more)
    return Check("export", f"{what}, read by Headway and through {by}", worst(value, own), BOUND, more=more)
