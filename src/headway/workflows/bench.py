"""The speed of a model on this machine, and how its time and memory grow with the length T and the width D.

Time is measured for one forward pass over one text without padding, in float32, on the model's device (for the curves,
on the CPU).  Memory is the peak of torch's allocations during that pass, minus those before it: activations and
workspace, without weights and without scratch space that a library allocates for itself.
"""

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.errors import InputError
from headway.io.memory import ran_out
from headway.models.baselines import BaselineConfig, BaselineEncoder, RecurrentDecoder, RecurrentEncoderDecoder
from headway.models.config import TransformerConfig
from headway.models.device import device_of, model_device
from headway.models.own import OwnConfig
from headway.models.size import Wiring, forward_flops
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.models.wirings import Ensemble
from headway.nn.baselines import CELLS
from headway.runtime.precision import available
from headway.tasks.registry import spec
from headway.tasks.task import Pipeline
from headway.training.evaluation.intervals import student
from headway.training.progress import NoProgress, Progress
from headway.training.store.run_directory import clock, machine, versions
from headway.workflows import engines, precisions, timing
from headway.workflows.load import load

SMALL = TransformerConfig(256, d_model=128, n_layers=2, n_heads=4)
"""The default model: a decoder with Llama's layout and 0.4 million parameters."""
WINDOW = 128
"""Keys that a token of a windowed model sees, itself included."""
MARGIN = 1.3
"""How many times longer than predicted from smaller sizes a size may take."""
FLOOR = 4
"""A size is in a fit if it takes this many times as long as a single token: below, the call overhead dominates."""
BATCHES, LENGTHS, WRITTEN = (1, 8, 32), (32, 128, 512), 32
"""``speed``: texts per batch, tokens read per text, tokens written per text."""

WIRINGS: dict[type, Wiring] = {Encoder: "encoder", Decoder: "decoder", EncoderDecoder: "encoder-decoder"}
RECURRENT: dict[type, Callable[[BaselineConfig], nn.Module]] = {
    Decoder: RecurrentDecoder,
    Encoder: BaselineEncoder,
    EncoderDecoder: RecurrentEncoderDecoder,
}
KINDS = ("full", "windowed", *CELLS)
"""Kinds of new models with the sizes of a configuration."""


def bench(
    run: str,
    *,
    end: float,
    device: str = "auto",
    full: bool = False,
    store: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The speed of a model, as ``headway bench RUN --json`` prints it: ``rows`` as of ``speed``, and the ``machine``.

    Where the run's data are there, also its ``precisions`` and the ``best`` of them, and, of a run with exports, its
    ``engines`` and ``best_engines``.  All ends at ``end`` of ``time.monotonic``; ``full`` as in ``precisions``.
    ``store`` keeps what was measured in the run, with that precision, or the "best", as the one it answers in.  Raises
    InputError as ``load`` does, and where ``store`` is no precision of the device, or cannot be stored.
    """
    progress = progress or NoProgress()
    third = time.monotonic() + (end - time.monotonic()) / 3
    pipe = load(run, device=device)
    rows = speed(pipe, limit=third - time.monotonic(), progress=progress)
    result = {"task": pipe.task, "rows": rows, "machine": machine(pipe.runtime.device)}
    del pipe
    names = ("best", *available(device_of(device)))
    if store is not None and store not in names:
        raise InputError(f"--store {store}: it can be {', '.join(names[:-1])} or {names[-1]}.")
    try:
        half = (end - time.monotonic()) / 2
        measured = precisions.precisions(run, limit=half, device=device, full=full, progress=progress)
        best = precisions.best(measured)
        result |= {"precisions": precisions.plain(measured), "best": best}
    except InputError as error:
        if store is not None:
            raise
        warnings.warn(f"the precisions were not measured: {error}", stacklevel=2)
    if store is not None:
        precisions.stored(Path(run), measured, best if store == "best" else store)
    try:
        answering = engines.engines(run, limit=end - time.monotonic(), progress=progress)
    except InputError as error:
        warnings.warn(f"the engines were not measured: {error}", stacklevel=2)
        return result
    if not answering:
        return result
    if store is not None:
        engines.stored(Path(run), answering)
    return result | {"engines": answering, "best_engines": engines.best(answering)}


@dataclass
class Case:
    """One kind of model of one width, reading texts of one length."""

    axis: str
    kind: str
    length: int
    width: int
    model: nn.Module
    bytes: int = 0
    seconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.call, wiring = _reading(self.model, 1, self.length), WIRINGS.get(type(self.model))
        config: Any = self.model.config
        self.flops = None if wiring is None else forward_flops(config, 1, self.length, wiring=wiring)
        """of a forward pass, by models.size; None for other models than Transformers"""

    @property
    def size(self) -> int:
        """The length or the width, whichever varies."""
        return self.length if self.axis == "length" else self.width

    @property
    def named(self) -> dict[str, Any]:
        return {"axis": self.axis, "kind": self.kind, "length": self.length, "width": self.width}

    def plain(self) -> dict[str, Any]:
        """As a row of results: ``seconds`` is the median, ``spread`` the minimum and maximum."""
        return {**self.named, **timing.summary(self.seconds, self.bytes, self.length), "flops": self.flops}


def curves(
    run: str | None, *, lengths: Sequence[int], widths: Sequence[int], kinds: Sequence[str], **limits: Any
) -> dict[str, Any]:
    """``cost_curves`` for the sizes of a run's model, or of ``SMALL``, with the machine and the sizes of the models.

    ``limits`` are its ``limit`` and ``progress``.  Raises InputError for a run that is not of a Transformer of texts.
    """
    config, wiring, task = SMALL, Decoder, "cost"
    if run is not None:
        pipe = load(run, device="cpu")
        model: Any = pipe.model.members[0] if isinstance(pipe.model, Ensemble) else pipe.model
        if isinstance(pipe.model.config, BaselineConfig | OwnConfig):
            raise InputError(
                f"{run}: this is {pipe.model.config.described}, and the plots need the sizes of a Transformer; "
                "name a Transformer or no RUN, and choose recurrent kinds with --kinds."
            )
        if getattr(model, "patches", None) is not None:
            raise InputError(
                f"{run}: this model reads images of one size, so its length cannot vary; name another model."
            )
        config, wiring, task = pipe.model.config, type(model), pipe.task
    measured = cost_curves(config, wiring, lengths=lengths, widths=widths, kinds=kinds, **limits)
    facts = {"model": asdict(config), "window": WINDOW, "machine": machine(), "versions": versions(), "date": clock()}
    return {"task": task, **measured, **facts}


def cost_curves(
    config: TransformerConfig = SMALL,
    wiring: type[nn.Module] = Decoder,
    *,
    lengths: Sequence[int] = (),
    widths: Sequence[int] = (),
    kinds: Sequence[str] = ("full", "windowed", "lstm"),
    limit: float | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Time and memory of new models with the sizes of a configuration against T (``lengths``) and D (``widths``).

    ``rows`` has one entry for each case, as ``Case.plain``; ``fits`` the exponents of time and memory, as ``power``,
    for each axis and kind (with the exponents of the FLOPs), over the sizes whose time is above the floor.  Against D,
    texts have the smallest of the lengths, or 256 tokens; an encoder-decoder reads a source as long as its target.
    Cases that do not fit in ``limit`` seconds or in memory are skipped and listed in ``left_out`` with the reason.
    Raises InputError for an unknown kind.
    """
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        raise InputError(f"--kinds: {unknown[0]!r} is unknown; the kinds are {', '.join(KINDS)}.")
    end = None if limit is None else time.monotonic() + limit
    progress = progress or NoProgress()
    series: dict[tuple[str, str], list[Case]] = {}
    floors: dict[tuple[str, str], float] = {}
    stopped: dict[tuple[str, str], str] = {}
    left_out: list[dict[str, Any]] = []
    for case in _cases(config, wiring, lengths, widths, kinds):
        key = (case.axis, case.kind)
        before = series.get(key, [])
        if end is not None and before:
            expected = before[-1].seconds[0] * (case.size / before[-1].size) ** 2
            another_round = sum(max(timing.LEAST, c.seconds[0]) for one in series.values() for c in one)
            if time.monotonic() + 2 * another_round + 4 * expected > end:
                stopped.setdefault(key, "time")
        if key not in stopped:
            progress.phase(f"{case.kind}: {case.length:,} tokens, width {case.width}")
            try:
                if not before:
                    one_token = _reading(case.model, 1, 1)
                    one_token()
                    case.call()  # what a process allocates once, such as to time its products, is not of this size
                    floors[key] = FLOOR * timing.seconds(one_token)
                case.bytes = timing.peak_bytes(case.call)  # also the warm-up of larger sizes
                case.seconds.append(timing.seconds(case.call))
            except (MemoryError, RuntimeError) as error:
                if not ran_out(error):
                    raise
                stopped[key] = "memory"
        if key in stopped:
            left_out.append({**case.named, "for_want_of": stopped[key]})
        else:
            series.setdefault(key, []).append(case)
    progress.phase("repeating the measurements")
    cases = [case for measured in series.values() for case in measured]
    timing.in_turn([case.call for case in cases], times=[case.seconds for case in cases], end=end)
    fits = [_fit(measured, floors[key]) for key, measured in series.items()]
    return {"rows": [case.plain() for case in cases], "fits": fits, "left_out": left_out}


def _cases(
    config: TransformerConfig,
    wiring: type[nn.Module],
    lengths: Sequence[int],
    widths: Sequence[int],
    kinds: Sequence[str],
) -> Iterator[Case]:
    """From the shortest to the longest and from the narrowest to the widest."""
    lengths, widths = sorted(set(lengths)), sorted(set(widths))
    shortest = lengths[0] if lengths else 256
    config = config.but(max_length=max([config.max_length, shortest, *lengths]))
    wide = [widened(config, width) for width in widths]  # raises before anything is measured
    for kind in kinds:
        if lengths:
            model = _new(kind, config, wiring)
            yield from (Case("length", kind, length, config.d_model, model) for length in lengths)
        for wider in wide:
            yield Case("width", kind, shortest, wider.d_model, _new(kind, wider, wiring))


def _new(kind: str, config: TransformerConfig, wiring: type[nn.Module]) -> nn.Module:
    """A new model of a kind; it takes ids (B, T)."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind not in CELLS:
            return wiring(config.but(window=WINDOW if kind == "windowed" else None)).eval()
        sizes = BaselineConfig(kind, config.vocab_size, config.d_model, config.n_layers, config.max_length)
        return RECURRENT[wiring](sizes).eval()


def widened(config: TransformerConfig, width: int) -> TransformerConfig:
    """The same with another width: as many heads of the same width as fit, and everything else in proportion.

    Raises InputError if the width is not a multiple of the head width.
    """
    head, readers = config.head_width, config.n_heads // config.kv_heads
    if width % (head * readers):
        raise InputError(
            f"--widths: {width} is not a multiple of {head * readers}, the width of a head or group of heads."
        )
    n_heads, d_ff = width // head, config.d_ff and config.d_ff * width // config.d_model
    return config.but(d_model=width, n_heads=n_heads, n_kv_heads=n_heads // readers, d_head=head, d_ff=d_ff)


def _fit(cases: Sequence[Case], floor: float) -> dict[str, Any]:
    """The exponents of one kind over the sizes that take longer than ``floor`` seconds."""
    chosen = [case for case in cases if statistics.median(case.seconds) >= floor]
    fit: dict[str, Any] = {"axis": cases[0].axis, "kind": cases[0].kind, "floor_seconds": floor}
    sizes = [case.size for case in chosen]
    if len(chosen) < 2:
        return {**fit, "seconds": None, "bytes": None, "flops": None}
    flops = [case.flops for case in chosen if case.flops is not None]
    return {
        **fit,
        "seconds": power(sizes, [case.seconds for case in chosen]),
        "bytes": power(sizes, [[case.bytes] for case in chosen]) if all(case.bytes for case in chosen) else None,
        "flops": power(sizes, [[n] for n in flops]) if len(flops) == len(chosen) else None,
    }


def speed(pipe: Pipeline, *, limit: float | None = None, progress: Progress | None = None) -> list[dict[str, Any]]:
    """The speed of a pipeline's model at a few batch sizes and lengths: reading and, for a language model, writing.

    "read" is a forward pass over texts of ``length`` tokens; "write" is ``length`` tokens one after the other, with the
    KV cache, after a prompt of ``LENGTHS[0]``.  Cases that would exceed ``limit`` seconds are skipped.
    """
    end = None if limit is None else time.monotonic() + limit
    progress = progress or NoProgress()
    model: Any = pipe.model
    device, most = model_device(model), model.config.max_length
    lengths = list(dict.fromkeys(min(length, most) for length in LENGTHS))
    if getattr(model, "patches", None) is not None:  # an image model reads images of one size
        lengths = [most]
    cases = [("read", batch, length, _reading(model, batch, length)) for length in lengths for batch in BATCHES]
    written = min(WRITTEN, most - min(LENGTHS[0], most // 2))
    if spec(pipe.task).writes == "continuations" and written > 0:
        cases += [("write", batch, written, _writing(model, batch, written)) for batch in BATCHES]
    cases.sort(key=lambda case: case[1] * case[2])
    cases[0][3]()  # what a process allocates once is not of the first size
    rows: list[dict[str, Any]] = []
    each: dict[str, float] = {}  # seconds per token, by kind
    for kind, batch, length, call in cases:
        expected = MARGIN * each.get(kind, max(each.values(), default=0.0)) * batch * length
        if end is not None and time.monotonic() + 2 * expected > end:  # one call to measure memory, one timed
            continue
        progress.phase(f"{kind}: {batch} x {length:,} tokens")
        peak = timing.peak_bytes(call, device)
        seconds = partial(timing.seconds, device=device)
        (times,) = timing.in_turn([call], end=end, more=len(cases), clock=seconds)
        each[kind] = statistics.median(times) / (batch * length)
        row = {"kind": kind, "batch": batch, "length": length}
        rows.append({**row, **timing.summary(times, peak, batch * length)})
    if left_out := len(cases) - len(rows):
        progress.warn(f"{left_out} of {len(cases)} sizes were skipped for lack of time (raise --time)")
    return sorted(rows, key=lambda row: (row["kind"], row["length"], row["batch"]))


def _reading(model: nn.Module, batch: int, length: int) -> Callable[[], object]:
    """A forward pass over random tokens, or over images of random pixels."""
    generator = torch.Generator().manual_seed(0)
    config: Any = model.config
    patches: Any = getattr(model, "patches", None)
    if patches is None:
        ids = torch.randint(config.vocab_size, (batch, length), generator=generator)
    else:
        ids = torch.randn(batch, patches.channels, *patches.image_size, generator=generator)
    ids = ids.to(model_device(model))

    @torch.inference_mode()
    def read() -> object:
        return model(ids, ids) if isinstance(model, EncoderDecoder) else model(ids)

    return read


def _writing(model: Decoder, batch: int, length: int) -> Callable[[], object]:
    """Greedy generation of ``length`` tokens."""
    generator = torch.Generator().manual_seed(0)
    prompt = min(LENGTHS[0], model.config.max_length // 2)
    ids = torch.randint(model.config.vocab_size, (batch, prompt), generator=generator).to(model_device(model))

    @torch.inference_mode()
    def write() -> object:
        state, last = model.new_state(), ids
        for _ in range(length):
            last = model.next_logits(last, state=state).argmax(dim=-1, keepdim=True)  # (B, 1)
        return last

    return write


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the least-squares line through the points."""
    return statistics.linear_regression(x, y).slope


def power(sizes: Sequence[int], repeats: Sequence[Sequence[float]]) -> dict[str, Any]:
    """The exponent e and factor c of c sizeᵉ through the geometric means of the repeated measurements at each size.

    The repeats are rounds, each over all sizes in turn, so each round has an exponent of its own, and what is slow for
    a whole round moves none of them.  ``interval`` is Student's 95 % interval of their mean: how far noise moves the
    exponent (None for a single round).  The other two show whether the points lie on a straight line: ``without_one``
    is the minimum and maximum exponent with one size left out (None below three sizes), ``last`` the exponent between
    the last two sizes.
    """
    x = [log(size) for size in sizes]
    rounds = [[log(value) for value in one] for one in zip(*repeats, strict=True)]
    y = [statistics.fmean(values) for values in zip(*rounds, strict=True)]
    exponent, count = slope(x, y), len(rounds)
    half = student(count) * statistics.stdev(slope(x, one) for one in rounds) / sqrt(count) if count > 1 else None
    left_out = [slope([*x[:i], *x[i + 1 :]], [*y[:i], *y[i + 1 :]]) for i in range(len(x))] if len(x) > 2 else []
    return {
        "exponent": exponent,
        "factor": exp(statistics.fmean(y) - exponent * statistics.fmean(x)),
        "interval": None if half is None else [exponent - half, exponent + half],
        "without_one": [min(left_out), max(left_out)] if left_out else None,
        "last": slope(x[-2:], y[-2:]),
        "sizes": list(sizes),
    }
