"""What ``bench`` measures: exponents of known curves, exact bytes, what is left out, the rows of real models."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.errors import InputError
from headway.models.config import TransformerConfig
from headway.models.size import forward_flops
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.workflows import bench, timing
from headway.workflows.bench import power, slope

KINDS = ("full", "windowed", "gru")
TINY = TransformerConfig(
    31, d_model=24, n_layers=2, n_heads=6, n_kv_heads=3, d_ff=48, max_length=7, positions="learned"
)


@dataclass
class Fake:
    """Stands for a pass over so many tokens."""

    length: int

    def __call__(self) -> None:
        pass


@pytest.fixture
def quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes that take 1 ms and 1 µs for each pair of tokens, and 100 bytes a token."""
    monkeypatch.setattr(bench, "_reading", lambda model, batch, length: Fake(length))
    monkeypatch.setattr(timing, "seconds", lambda call, *_: 1e-3 + 1e-6 * call.length**2)
    monkeypatch.setattr(timing, "peak_bytes", lambda call, *_: 100 * call.length)


def test_the_exponent_of_a_power():
    sizes = [16, 32, 64, 128]
    fit = power(sizes, [[3.0 * n**1.7] * 3 for n in sizes])
    assert fit["exponent"] == pytest.approx(1.7) and fit["factor"] == pytest.approx(3.0)
    assert fit["interval"] == pytest.approx([1.7, 1.7]) and fit["without_one"] == pytest.approx([1.7, 1.7])
    assert fit["sizes"] == sizes


def test_the_interval_tells_noise_and_the_one_without_a_size_tells_a_bend():
    noisy = power([16, 64], [[1.0, 1.2, 0.9], [4.0, 5.0, 3.0]])
    each = [math.log(4 * ratio) / math.log(4) for ratio in (1.0, 5 / 4.8, 3 / 3.6)]
    half = 4.3027 * np.std(each, ddof=1) / 3**0.5
    assert noisy["interval"] == pytest.approx([np.mean(each) - half, np.mean(each) + half], rel=1e-4)
    assert noisy["exponent"] == pytest.approx(np.mean(each)) and noisy["without_one"] is None
    slow = power([16, 64], [[1.0, 3.0, 7.0], [4.0, 12.0, 28.0]])
    assert slow["interval"] == pytest.approx([1.0, 1.0]), "a round that is slow as a whole moves nothing"
    bent = power([16, 64, 256], [[1.0], [4.0], [64.0]])
    assert bent["last"] == pytest.approx(2.0) and bent["interval"] is None, "one round says nothing of noise"
    assert bent["without_one"] == pytest.approx([1.0, 2.0])
    assert slope([0, 1, 2], [5, 3, 1]) == -2


def test_a_fit_begins_where_the_work_outweighs_the_call(quadratic: None):
    found = bench.cost_curves(TINY, lengths=[64, 16, 32, 128, 256], kinds=["full"])
    assert [row["length"] for row in found["rows"]] == [16, 32, 64, 128, 256]
    (fit,) = found["fits"]
    assert fit["floor_seconds"] == pytest.approx(4.004e-3) and fit["seconds"]["sizes"] == [64, 128, 256]
    assert 1.8 < fit["seconds"]["exponent"] < 2 and fit["bytes"]["exponent"] == pytest.approx(1.0)
    assert fit["flops"]["exponent"] > 1
    assert [row["repeats"] for row in found["rows"]] == [timing.REPEATS] * 5 and found["left_out"] == []
    assert found["rows"][0]["tokens_per_second"] == pytest.approx(16 / (1e-3 + 256e-6))


def test_what_takes_too_long_is_left_out_and_named(quadratic: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "seconds", lambda call, *_: 1e-3 * call.length)
    began = time.monotonic()
    found = bench.cost_curves(TINY, lengths=[16, 1024, 4096, 8192], kinds=["full"], limit=5)
    assert time.monotonic() - began < 2
    assert [row["length"] for row in found["rows"]] == [16]
    assert [(entry["length"], entry["for_want_of"]) for entry in found["left_out"]] == [
        (1024, "time"),
        (4096, "time"),
        (8192, "time"),
    ]
    assert found["fits"][0]["seconds"] is None


def test_what_does_not_fit_is_left_out_and_named(quadratic: None, monkeypatch: pytest.MonkeyPatch):
    def peak(call: Fake) -> int:
        if call.length > 100:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return 100

    monkeypatch.setattr(timing, "peak_bytes", peak)
    found = bench.cost_curves(TINY, lengths=[16, 128, 256], kinds=["full"])
    assert [entry["for_want_of"] for entry in found["left_out"]] == ["memory", "memory"]
    assert len(found["rows"]) == 1


def test_peak_bytes_are_those_of_the_tensors_that_live_at_once():
    def call() -> None:
        one = torch.zeros(1000)
        two = torch.zeros(2000)  # 12,000 bytes
        del one
        three = torch.zeros(500)  # 10,000 bytes
        assert len(two) + len(three) == 2500

    assert timing.peak_bytes(call) == pytest.approx(12_000, abs=256)


@pytest.mark.parametrize("wiring", [Decoder, Encoder, EncoderDecoder])
def test_rows_of_real_models(wiring: type, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(timing, "LEAST", 0.0)
    found = bench.cost_curves(TINY, wiring, lengths=[5, 11], widths=[24, 48], kinds=KINDS)
    assert {(row["axis"], row["kind"], row["length"], row["width"]) for row in found["rows"]} == {
        *(("length", kind, length, 24) for kind in KINDS for length in (5, 11)),
        *(("width", kind, 5, width) for kind in KINDS for width in (24, 48)),
    }
    for row in found["rows"]:
        low, high = row["spread"]
        assert 0 < low <= row["seconds"] <= high and row["bytes"] > 0
        assert row["tokens_per_second"] == pytest.approx(row["length"] / row["seconds"])
    name = {Decoder: "decoder", Encoder: "encoder", EncoderDecoder: "encoder-decoder"}[wiring]
    assert found["rows"][1]["flops"] == forward_flops(TINY, 1, 11, wiring=name)
    assert found["rows"][-1]["kind"] == "gru" and found["rows"][-1]["flops"] is None


def test_a_wider_model_has_heads_of_the_same_width():
    wide = bench.widened(TINY, 40)
    assert (wide.n_heads, wide.kv_heads, wide.head_width, wide.hidden) == (10, 5, 4, 80)
    with pytest.raises(InputError, match="42 is not a multiple of 8"):
        bench.widened(TINY, 42)


def test_an_unknown_kind_is_named():
    with pytest.raises(InputError, match=r"'recurent' is unknown; the kinds are full, windowed, rnn, lstm, gru"):
        bench.cost_curves(TINY, lengths=[5], kinds=["full", "recurent"])


def test_the_speed_of_a_language_model(lm_run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench, "BATCHES", (1, 3))
    monkeypatch.setattr(timing, "LEAST", 0.0)
    rows = bench.speed(headway.load(lm_run))
    kinds = [(row["kind"], row["batch"], row["length"]) for row in rows]
    assert kinds == [("read", 1, 32), ("read", 3, 32), ("write", 1, 16), ("write", 3, 16)]  # its context is 32
    for row in rows:
        assert row["tokens_per_second"] == pytest.approx(row["batch"] * row["length"] / row["seconds"])
        assert row["bytes"] > 0 and row["spread"][0] <= row["seconds"] <= row["spread"][1]


def test_a_classifier_is_timed_reading_alone(classifier_run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench, "BATCHES", (2,))
    monkeypatch.setattr(timing, "LEAST", 0.0)
    assert {row["kind"] for row in bench.speed(headway.load(classifier_run))} == {"read"}


@pytest.mark.parametrize("slow", [0.05, 0.5, 40.0])
def test_speed_ends_in_its_time_however_slow_the_model_is(slow: float, monkeypatch: pytest.MonkeyPatch):
    """A clock that only calls move: each takes as long as its tokens."""
    now = [0.0]

    def took(model: Any, batch: int, length: int) -> Any:
        def call() -> None:
            now[0] += slow * batch * length / 32

        return call

    monkeypatch.setattr(bench.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(bench, "_reading", took)
    monkeypatch.setattr(timing, "peak_bytes", lambda call, device: call() or 7)
    pipe = SimpleNamespace(
        task="classification", model=Decoder(TransformerConfig(17, d_model=16, n_layers=1, n_heads=2, max_length=512))
    )
    said: list[str] = []
    progress = bench.NoProgress()
    progress.say = said.append  # type: ignore[method-assign]
    rows = bench.speed(pipe, limit=120.0, progress=progress)
    assert rows and now[0] <= 120.0
    assert bool(said) == (len(rows) < 9) and all(1 <= row["repeats"] <= timing.REPEATS for row in rows)
    assert [row["length"] for row in rows] == sorted(row["length"] for row in rows)
