"""Engines side by side: each set up in several ways, the fastest of which is measured; who cannot run says why.

Each is in a process of its own: in one process the threads of one library were seen to halve the speed of another.
"""

import gc
import importlib
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import torch
from machine import installed, interleaved, spread

FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8")
LIBRARIES = (
    "transformers", "sentence-transformers", "ctranslate2", "onnx", "onnxruntime", "openvino", "gguf",
    "llama-cpp-python",
)  # fmt: skip
Work = list[Any]
Answer = Callable[[Work], Any]
"""Prompts or texts in, what the engine answers out."""


@dataclass
class Engines:
    """Those that can run, at the fastest of their settings, with their answers to all of the work."""

    work: Work
    trial: Work
    only: tuple[str, ...] = ()
    apart: bool = True
    """each in a process of its own"""
    calls: dict[str, Answer] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, ways: dict[str, Callable[[], Answer]]) -> None:
        """Set an engine up in each of the ways, and keep the one that is fastest on a trial."""
        if self.only and not any(word in name for word in self.only):
            return
        tried: dict[str, float | str] = {}
        best: Answer | None = None
        for way, make in ways.items():
            call = None
            try:
                call = Elsewhere(make) if self.apart else make()
                tried[way] = least_seconds(call, self.trial) if len(ways) > 1 else 0.0
            except Exception as error:  # whatever a library raises, the others go on
                tried[way] = f"{type(error).__name__}: {error}".split("\n")[0][:300]
                continue
            if tried[way] == min(seconds for seconds in tried.values() if isinstance(seconds, float)):
                best = call
                self.settings[name] = {"way": way, **({"trial_seconds": tried} if len(ways) > 1 else {})}
            del call
            gc.collect()
        if best is None:
            self.missing[name] = "; ".join(f"{way}: {reason}" for way, reason in tried.items())
            print(f"{name}: missing, {self.missing[name]}", flush=True)
            return
        try:
            self.answers[name] = best(self.work)
        except Exception as error:
            self.missing[name] = f"{type(error).__name__}: {error}".split("\n")[0][:300]
            return
        self.calls[name] = best
        print(f"{name}: {self.settings[name]}", flush=True)

    def measure(self, rounds: int, amount: float) -> dict[str, Any]:
        """``amount`` (of tokens, texts) a second of each engine, all in turn, ``rounds`` times."""
        gc.collect()
        gc.freeze()  # what the libraries have loaded is not searched for garbage again while they are timed
        calls = {name: (lambda call=call: call(self.work)) for name, call in self.calls.items()}
        times = interleaved(calls, rounds)
        return {name: spread([amount / seconds for seconds in found]) for name, found in times.items()}


def least_seconds(call: Answer, work: Work, times: int = 2) -> float:
    """The fewest seconds of some calls, after one that is not counted."""
    call(work)
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call(work)
        found.append(time.perf_counter() - start)
    return min(found)


class Elsewhere:
    """An engine in a process of its own; ``make`` is called there, and may set variables that a library reads once."""

    def __init__(self, make: Callable[[], Answer]):
        context = multiprocessing.get_context("spawn")
        self.end, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, cloudpickle.dumps(make)), daemon=True)
        self.process.start()
        theirs.close()
        self._receive()

    def __call__(self, work: Work) -> Any:
        """The engine's answers."""
        self.end.send(work)
        return self._receive()

    def __del__(self) -> None:
        self.process.kill()

    def _receive(self) -> Any:
        found = self.end.recv()
        if isinstance(found, Exception):
            raise found
        return found


def _serve(end: Any, make: bytes) -> None:
    try:
        call: Answer = cloudpickle.loads(make)()
        end.send(None)
        while True:
            end.send(call(end.recv()))
    except EOFError:
        return
    except Exception as error:
        end.send(RuntimeError(f"{type(error).__name__}: {error}"))


def in_threads(function: Callable[[Any], Any], parts: list[Any], threads: int) -> list[Any]:
    """The results for all parts, in order, ``threads`` of them at a time."""
    if threads == 1 or len(parts) == 1:
        return [function(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, parts))


def processor() -> dict[str, Any]:
    """What the speed of inference depends on: vector instructions, threads, and the bandwidth of memory."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    words = next((line.split(":")[1].split() for line in lines if line.startswith("flags")), [])
    return {
        "flags": {name: name in words for name in FLAGS},
        "threads": torch.get_num_threads(),
        "vectors": torch.backends.cpu.get_cpu_capability(),
        "read_gigabytes_per_second": bandwidth(),
    }


def bandwidth(size: int = 1 << 28, times: int = 7) -> dict[str, Any]:
    """Gigabytes a second at which torch's threads read 1 GiB of float32, adding it up."""
    values = torch.ones(size)
    values.sum()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        values.sum()
        found.append(4 * size / (time.perf_counter() - start) / 1e9)
    return spread(found)


def libraries() -> dict[str, str]:
    """Versions of what is compared, and what llama.cpp was compiled for."""
    found = installed(LIBRARIES)
    try:
        library = importlib.import_module("llama_cpp")
        found["llama.cpp"] = library.llama_print_system_info().decode()
    except (ImportError, OSError, RuntimeError):
        found["llama.cpp"] = "not installed"
    return found
