"""The speed of a model on this machine, and how its time and memory grow with the length T and the width D.

    curves = cost_curves(lengths=[128, 256, 512, 1024], kinds=["full", "windowed"])
    curves["rows"], curves["fits"]

    speed(headway.load("runs/notes"))       # tokens per second, reading and writing

Time is measured for one forward pass over one text without padding, in float32, on the model's device (for the curves,
on the CPU).  Memory is the peak of torch's allocations during that pass, minus those before it: activations and
workspace, without weights and without scratch space that a library allocates for itself.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp, log, sqrt
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from headway.errors import InputError
from headway.io.memory import ran_out
from headway.models.baselines import BaselineConfig, BaselineEncoder, RecurrentDecoder, RecurrentEncoderDecoder
from headway.models.config import TransformerConfig
from headway.models.device import PROCESSOR, model_device, wait_for
from headway.models.size import Wiring, forward_flops
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.recurrent import CELLS
from headway.tasks.registry import spec
from headway.tasks.task import Pipeline
from headway.training.evaluation.intervals import student
from headway.training.monitor.progress import NoProgress, Progress

SMALL = TransformerConfig(256, d_model=128, n_layers=2, n_heads=4)
"""The default model: a decoder with Llama's layout and 0.4 million parameters."""
WINDOW = 128
"""Keys that a token of a windowed model sees, itself included."""
REPEATS = 5
"""Measurements of each case, if there is time."""
LEAST = 0.02
"""Minimum seconds of one measurement; short calls are repeated."""
MARGIN = 1.3
"""How many times longer than predicted from smaller sizes a size may take."""
FLOOR = 4
"""A size is in a fit if it takes this many times as long as a single token: below, the call overhead dominates."""
BATCHES, LENGTHS, WRITTEN = (1, 8, 32), (32, 128, 512), 32
"""``speed``: texts per batch, tokens read per text, tokens written per text."""

WIRINGS: dict[type, Wiring] = {Encoder: "encoder", Decoder: "decoder", EncoderDecoder: "encoder-decoder"}
Kind = Callable[[TransformerConfig, type[nn.Module]], nn.Module]


def _transformer(window: int | None, config: TransformerConfig, wiring: type[nn.Module]) -> nn.Module:
    return wiring(config.but(window=window))


def _recurrent(cell: str, config: TransformerConfig, wiring: type[nn.Module]) -> nn.Module:
    return RECURRENT[wiring](
        BaselineConfig(cell, config.vocab_size, config.d_model, config.n_layers, config.max_length)
    )


RECURRENT: dict[type, Callable[[BaselineConfig], nn.Module]] = {
    Decoder: RecurrentDecoder,
    Encoder: BaselineEncoder,
    EncoderDecoder: RecurrentEncoderDecoder,
}
KINDS: dict[str, Kind] = {
    "full": partial(_transformer, None),
    "windowed": partial(_transformer, WINDOW),
    **{cell: partial(_recurrent, cell) for cell in CELLS},
}
"""Builders of each kind of model with the sizes of a configuration; the model takes ids (B, T)."""


@dataclass
class Case:
    """One kind of model of one width, reading texts of one length."""

    axis: str
    kind: str
    length: int
    width: int
    flops: int | None
    """of a forward pass, by models.size; None for other models than Transformers"""
    call: Callable[[], object]
    one_token: Callable[[], object]
    bytes: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The length or the width, whichever varies."""
        return self.length if self.axis == "length" else self.width

    def plain(self) -> dict[str, Any]:
        """As a row of results: ``seconds`` is the median, ``spread`` the minimum and maximum."""
        middle = statistics.median(self.seconds)
        return {
            **{"axis": self.axis, "kind": self.kind, "length": self.length, "width": self.width},
            **{"seconds": middle, "spread": [min(self.seconds), max(self.seconds)], "repeats": len(self.seconds)},
            **{"bytes": self.bytes, "tokens_per_second": self.length / middle, "flops": self.flops},
        }


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
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise InputError(f"--kinds: {unknown[0]!r} is unknown; the kinds are {', '.join(KINDS)}.")
    end = None if limit is None else time.monotonic() + limit
    progress = progress or NoProgress()
    cases: list[Case] = []
    floors: dict[tuple[str, str], float] = {}
    left_out: list[dict[str, Any]] = []
    for case in _cases(config, wiring, lengths, widths, kinds):
        key = (case.axis, case.kind)
        before = [c for c in cases if (c.axis, c.kind) == key]
        expected = before[-1].seconds[0] * (case.size / before[-1].size) ** 2 if before else 0.0
        another_round = sum(max(LEAST, c.seconds[0]) for c in cases)
        left = {"axis": case.axis, "kind": case.kind, "length": case.length, "width": case.width}
        stopped = [entry["for_want_of"] for entry in left_out if (entry["axis"], entry["kind"]) == key]
        if end is not None and before and time.monotonic() + 2 * another_round + 4 * expected > end:
            stopped.append("time")
        if stopped:
            left_out.append({**left, "for_want_of": stopped[0]})
            continue
        progress.phase(f"{case.kind}: {case.length:,} tokens, width {case.width}")
        try:
            if not before:
                case.one_token()
                case.call()  # what a process allocates once, such as to time its products, is not of this size
                floors[key] = FLOOR * seconds(case.one_token)
            case.bytes = peak_bytes(case.call)  # also the warm-up of larger sizes
            case.seconds.append(seconds(case.call))
        except (MemoryError, RuntimeError) as error:
            if not ran_out(error):
                raise
            left_out.append({**left, "for_want_of": "memory"})
            continue
        cases.append(case)
    progress.phase("repeating the measurements")
    for _ in range(REPEATS - 1):  # all cases in turn, so that a slow phase affects all alike
        if end is not None and time.monotonic() + sum(max(LEAST, c.seconds[0]) for c in cases) > end:
            break
        for case in cases:
            case.seconds.append(seconds(case.call))
    series = {key: [c for c in cases if (c.axis, c.kind) == key] for key in floors}
    fits = [_fit(measured, floors[key]) for key, measured in series.items() if measured]
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
    at = lengths[0] if lengths else 256
    for width in widths:
        widened(config, width)  # raises before anything is measured
    for kind in kinds:
        sized = config.but(max_length=max([config.max_length, at, *lengths]))
        if lengths:
            model = _new(kind, sized, wiring)
            yield from (_case("length", kind, sized, model, length) for length in lengths)
        for width in widths:
            wide = widened(sized, width)
            yield _case("width", kind, wide, _new(kind, wide, wiring), at)


def _new(kind: str, config: TransformerConfig, wiring: type[nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return KINDS[kind](config, wiring).eval()


def _case(axis: str, kind: str, config: TransformerConfig, model: nn.Module, length: int) -> Case:
    own: Any = getattr(model, "config", None)
    flops = forward_flops(own, 1, length, wiring=WIRINGS[type(model)]) if type(model) in WIRINGS else None
    return Case(axis, kind, length, config.d_model, flops, _reading(model, 1, length), _reading(model, 1, 1))


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
    last = cases[-1]
    chosen = [case for case in cases if statistics.median(case.seconds) >= floor]
    found: dict[str, Any] = {"axis": last.axis, "kind": last.kind, "floor_seconds": floor}
    sizes = [case.size for case in chosen]
    if len(chosen) < 2:
        return {**found, "seconds": None, "bytes": None, "flops": None}
    flops = [case.flops for case in chosen if case.flops is not None]
    return {
        **found,
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
    model, device, rows = pipe.model, model_device(pipe.model), []
    most = model.config.max_length
    patches = getattr(model, "patches", None)  # an image model reads images of one size
    for length in [most] if patches is not None else dict.fromkeys(min(length, most) for length in LENGTHS):
        for batch in BATCHES:
            rows.append(("read", batch, length, _reading(model, batch, length)))
    written = min(WRITTEN, most - min(LENGTHS[0], most // 2))
    if spec(pipe.task).writes == "continuations" and written > 0:
        rows += [("write", batch, written, _writing(pipe.model, batch, written)) for batch in BATCHES]
    found: list[dict[str, Any]] = []
    each: dict[str, float] = {}  # seconds per token, by kind
    rows.sort(key=lambda row: row[1] * row[2])
    rows[0][3]()  # what a process allocates once is not of the first size
    for kind, batch, length, call in rows:
        expected = MARGIN * each.get(kind, max(each.values(), default=0.0)) * batch * length
        if end is not None and time.monotonic() + 2 * expected > end:  # one call to measure memory, one timed
            continue
        progress.phase(f"{kind}: {batch} x {length:,} tokens")
        peak = peak_bytes(call, device)
        times = repeated(call, device, end, len(rows))
        middle = statistics.median(times)
        each[kind] = middle / (batch * length)
        row = {"kind": kind, "batch": batch, "length": length, "seconds": middle}
        row |= {"spread": [min(times), max(times)], "repeats": len(times)}
        found.append({**row, "bytes": peak, "tokens_per_second": batch * length / middle})
    if left_out := len(rows) - len(found):
        progress.warn(f"{left_out} of {len(rows)} sizes were skipped for lack of time (raise --time)")
    return sorted(found, key=lambda row: (row["kind"], row["length"], row["batch"]))


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


def seconds(call: Callable[[], object], device: torch.device = PROCESSOR) -> float:
    """Seconds of one call, until the device is done; short calls are repeated for ``LEAST`` seconds."""
    began, times = time.perf_counter(), 0
    while True:
        call()
        wait_for(device)
        times += 1
        passed = time.perf_counter() - began
        if passed >= LEAST:
            return passed / times


def repeated(call: Callable[[], object], device: torch.device, end: float | None, more: int = 1) -> list[float]:
    """The ``seconds`` of one call, and of up to ``REPEATS`` while there is time for ``more`` of them until ``end``."""
    times = [seconds(call, device)]
    while len(times) < REPEATS and (end is None or time.monotonic() + more * max(LEAST, times[0]) < end):
        times.append(seconds(call, device))
    return times


def peak_bytes(call: Callable[[], object], device: torch.device = PROCESSOR) -> int:
    """The peak of torch's allocations on the device during a call, minus those before it.

    0 for a device (mps) that does not report it.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    if device != PROCESSOR:
        call()
        return 0
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would write lines to standard error
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        call()
    held = highest = 0
    for event in watched.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            highest = max(highest, held)
    return highest


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
