"""x Wᵀ for few rows: torch's product beside oneDNN's in the same torch, and decoding with each.

    python benchmarks/products.py [ROUNDS]

The matrices are those of GPT-2 with 124 M parameters and of smaller models; as many are read in turn as no cache of the
processor holds.  Decoding is greedy, 32 tokens after 32, with drawn weights.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from machine import facts, interleaved, spread, write

from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.nn.kernels import dispatch
from headway.nn.kernels.dispatch import is_onednn
from headway.nn.kernels.products import has_onednn, onednn_linear
from headway.runtime.runtime import Runtime

SHAPES = ((128, 384), (256, 1024), (384, 1536), (768, 2304), (3072, 768), (768, 50257))
ROWS = (1, 2, 4, 8, 16, 32, 64)
BYTES = 64_000_000
GPT2 = TransformerConfig(
    50257, d_model=768, n_layers=12, n_heads=12, max_length=1024, positions="learned", norm="layernorm",
    norm_parameters="both", activation="gelu_tanh", gated=False, bias=("qkv", "out", "ff"),
)  # fmt: skip


def products(inputs: int, outputs: int, rows: int, rounds: int) -> dict[str, Any]:
    """Microseconds of one product."""
    count = max(1, BYTES // (4 * inputs * outputs))
    matrices, x = [torch.randn(outputs, inputs) for _ in range(count)], torch.randn(rows, inputs)

    def every(product: Callable[..., Any]) -> Callable[[], object]:
        return lambda: [product(x, matrix, None) for matrix in matrices]

    times = interleaved({"torch": every(F.linear), "onednn": every(onednn_linear)}, rounds)
    found = {name: spread([1e6 * value / count for value in values]) for name, values in times.items()}
    shape = {"inputs": inputs, "outputs": outputs, "rows": rows, "chosen": is_onednn(x, matrices[0])}
    return {**shape, **found, "ratio": found["torch"]["median"] / found["onednn"]["median"]}


def decoding(runtime: Runtime, rows: int) -> float:
    """Tokens a second after the first step."""
    steps = runtime.write([list(range(5, 37))] * rows, Sampling(temperature=0.0), max_tokens=33)
    next(steps)
    began = time.perf_counter()
    return sum(map(len, steps)) / (time.perf_counter() - began)


def decoded(rounds: int) -> list[dict[str, Any]]:
    """The speed with few rows by torch's product and as it is chosen, in turn."""
    runtime, found = Runtime(Decoder(GPT2).eval()), []
    for rows in (1, 8):
        speeds: dict[str, list[float]] = {"torch": [], "chosen": []}
        for _ in range(rounds + 1):
            for name in speeds:
                dispatch.is_onednn = is_onednn if name == "chosen" else lambda x, weight: False
                speeds[name].append(decoding(runtime, rows))
        found.append({"rows": rows, **{name: spread(values[1:]) for name, values in speeds.items()}})
        print(found[-1], flush=True)
    return found


def main() -> None:
    """Both, on the threads that torch uses here."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    if not has_onednn():
        raise SystemExit("this torch has no product of oneDNN")
    torch.manual_seed(1)
    results = []
    with torch.no_grad():
        for inputs, outputs in SHAPES:
            for rows in ROWS:
                results.append(products(inputs, outputs, rows, rounds))
                print({**results[-1], "torch": None, "onednn": None}, flush=True)
    capability = {"threads": torch.get_num_threads(), "vectors": torch.backends.cpu.get_cpu_capability()}
    write("products", {**facts(), **capability, "microseconds": results, "tokens_per_second": decoded(rounds)})


if __name__ == "__main__":
    main()
