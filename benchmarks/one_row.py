"""x Wᵀ for one row: how fast the matrix is read by torch's product, by oneDNN's and by torch's embedding bags.

    python benchmarks/one_row.py [ROUNDS]

The matrices are those of GPT-2 with 124 M parameters, each read once in every round; all ways take turns.  "sum"
adds up all numbers of the matrices: about what the memory gives.
"""

import sys
from typing import Any

import torch
import torch.nn.functional as F
from machine import facts, interleaved, spread, write

from headway.nn import low_precision as int8
from headway.nn.kernels.products import as_table, one_row, one_row_of_bytes, onednn_linear

LAYERS = [(2304, 768), (768, 768), (3072, 768), (768, 3072)] * 12
HEAD = [(50257, 768)]


def read(shapes: list[tuple[int, int]], rounds: int) -> dict[str, Any]:
    """Bytes of the matrices a second, by each way."""
    rows = {inputs: torch.randn(1, inputs) for _, inputs in shapes}
    plain = [torch.randn(shape) for shape in shapes]
    columns = [matrix.t().contiguous().t() for matrix in plain]
    numbers = [torch.randint(-127, 128, shape, dtype=torch.int8) for shape in shapes]
    ones = {outputs: (torch.ones(outputs), torch.zeros(outputs, dtype=torch.int32)) for outputs, _ in shapes}
    laid_out, tables = [int8.laid_out(one) for one in numbers], [as_table(one.t()) for one in numbers]

    def by_onednn(packed: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        return int8.int8_product(int8.rounded_rows(rows[shape[1]])[0], packed, *ones[shape[0]])

    ways = {
        "float32 sum": lambda: [matrix.sum() for matrix in plain],
        "float32 torch": lambda: [F.linear(rows[one.shape[1]], one) for one in plain],
        "float32 oneDNN, by rows": lambda: [onednn_linear(rows[one.shape[1]], one) for one in plain],
        "float32 oneDNN, by columns": lambda: [onednn_linear(rows[one.shape[1]], one) for one in columns],
        "float32 embedding bag": lambda: [one_row(rows[one.shape[1]], one) for one in columns],
        "int8 oneDNN": lambda: [by_onednn(*one) for one in zip(laid_out, shapes, strict=True)],
        "int8 embedding bag": lambda: [one_row_of_bytes(rows[len(one)], one) for one in tables],
    }
    total = sum(matrix.numel() for matrix in plain)
    found = {}
    for name, seconds in interleaved(ways, rounds).items():
        size = total * (4 if "float32" in name else 1)
        found[name] = spread([size / one / 1e9 for one in seconds])
        print(f"{name:28} {found[name]['median']:5.1f} GB/s")
    return {"numbers": total, "gigabytes_per_second": found}


def main() -> None:
    """The layers, then the head."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 21
    torch.manual_seed(1)
    with torch.inference_mode():
        found = {"layers": read(LAYERS, rounds), "head": read(HEAD, rounds)}
    write("one-row", {**facts(), "threads": torch.get_num_threads(), **found})


if __name__ == "__main__":
    main()
