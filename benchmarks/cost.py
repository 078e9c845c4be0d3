"""How time and memory grow with the length T and the width D: measured, and the exponents fitted.

python benchmarks/cost.py            T to 4,096 and D to 512, about ten minutes on two cores
python benchmarks/cost.py --quick    a few seconds, for a look

Full attention beside windows of 64 and 128 tokens, one sequence at a time, float32.  A training step is forward,
backward and AdamW.  Memory is the peak of what torch allocates during one call, beyond what it held before.
Writes benchmarks/results/cost.json and docs/pictures/cost.svg.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from machine import PICTURES, RESULTS, facts, interleaved, spread, write

from headway.models.config import TransformerConfig
from headway.models.size import forward_flops
from headway.models.transformer import Decoder
from headway.workflows.bench import slope
from headway.workflows.timing import peak_bytes

VOCAB = 256
WIDTH, LAYERS = 128, 2
"""Of the models measured against T."""
LENGTH = 256
"""Of the sequences measured against D."""
QUICK = {"lengths": [64, 128, 256], "widths": [32, 64], "windows": [None, 32], "runs": 2}
WHOLE = {
    "lengths": [64, 128, 256, 512, 1024, 2048, 4096],
    "widths": [64, 96, 128, 192, 256, 384, 512],
    "windows": [None, 64, 128],
    "runs": 7,
}


def measure(lengths: list[int], widths: list[int], windows: list[int | None], runs: int) -> list[dict[str, Any]]:
    """One row for each case: what was measured, and its seconds and bytes, forward and training step."""
    cases = [{"axis": "T", "T": n, "D": WIDTH, "window": window} for n in lengths for window in windows]
    cases += [{"axis": "D", "T": LENGTH, "D": d, "window": None} for d in widths]
    calls = {(i, kind): call for i, case in enumerate(cases) for kind, call in _calls(case).items()}
    times = interleaved(calls, runs, least=0.02)
    for i, case in enumerate(cases):
        config = _config(case)
        case["forward_flops"] = forward_flops(config, 1, case["T"])
        for kind in ("forward", "training_step"):
            case[kind] = {"seconds": spread(times[i, kind]), "bytes": peak_bytes(calls[i, kind])}
    return cases


def _config(case: dict[str, Any]) -> TransformerConfig:
    return TransformerConfig(
        VOCAB, d_model=case["D"], n_layers=LAYERS, n_heads=max(1, case["D"] // 32), window=case["window"]
    )


def _calls(case: dict[str, Any]) -> dict[str, Callable[[], object]]:
    torch.manual_seed(0)
    model = Decoder(_config(case))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    ids = torch.randint(VOCAB, (1, case["T"] + 1))

    def forward() -> None:
        with torch.no_grad():
            model(ids[:, :-1])

    def training_step() -> None:
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return {"forward": forward, "training_step": training_step}


def exponents(rows: list[dict[str, Any]], last: int = 4) -> list[dict[str, Any]]:
    """The slope of log time and of log memory against log T or log D, over the ``last`` sizes of each series."""
    found = []
    for axis, window in dict.fromkeys((row["axis"], row["window"]) for row in rows):
        series = [row for row in rows if (row["axis"], row["window"]) == (axis, window)][-last:]
        for kind in ("forward", "training_step"):
            x = [math.log(row[axis]) for row in series]
            entry = {"axis": axis, "window": window, "kind": kind, "sizes": [row[axis] for row in series]}
            entry["seconds"] = slope(x, [math.log(row[kind]["seconds"]["median"]) for row in series])
            entry["bytes"] = slope(x, [math.log(max(1, row[kind]["bytes"])) for row in series])
            found.append(entry)
    return found


def draw(result: dict[str, Any], path: Path) -> None:
    """Time and memory of a training step against T, and time against D."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = ("#0072B2", "#E69F00", "#009E73")
    rows, fits = result["rows"], result["exponents"]
    with plt.rc_context(
        {"svg.hashsalt": "headway", "svg.fonttype": "none", "figure.facecolor": "white", "font.size": 9}
    ):
        figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.3), layout="constrained")
        for n, window in enumerate(dict.fromkeys(row["window"] for row in rows if row["axis"] == "T")):
            series = [row for row in rows if (row["axis"], row["window"]) == ("T", window)]
            fit = next(f for f in fits if (f["axis"], f["window"], f["kind"]) == ("T", window, "training_step"))
            name = "every key" if window is None else f"window {window}"
            for axis, what in zip(axes[:2], ("seconds", "bytes"), strict=True):
                values = [_value(row, what) for row in series]
                label = f"{name}: T^{fit[what]:.2f}"
                axis.loglog([row["T"] for row in series], values, "o-", ms=3, color=colours[n], label=label)
        series = [row for row in rows if row["axis"] == "D"]
        fit = next(f for f in fits if (f["axis"], f["kind"]) == ("D", "training_step"))
        values = [_value(row, "seconds") for row in series]
        axes[2].loglog(
            [row["D"] for row in series], values, "o-", ms=3, color=colours[0], label=f"D^{fit['seconds']:.2f}"
        )
        axes[0].set(xlabel="length T (tokens)", ylabel="training step (ms)", title=f"time, D = {WIDTH}")
        axes[1].set(xlabel="length T (tokens)", ylabel="peak memory (MiB)", title=f"memory, D = {WIDTH}")
        axes[2].set(xlabel="width D", ylabel="training step (ms)", title=f"time, T = {LENGTH}")
        for axis, kind in zip(axes, ("T", "T", "D"), strict=True):
            sizes = sorted({row[kind] for row in rows if row["axis"] == kind})
            sizes = sizes[:: 2 if len(sizes) > 5 else 1]
            axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
            axis.xaxis.minorticks_off()
            axis.grid(alpha=0.25)
            axis.legend(fontsize=8, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
        plt.close(figure)


def _value(row: dict[str, Any], what: str) -> float:
    """Milliseconds or MiB of a training step."""
    step = row["training_step"]
    return step["seconds"]["median"] * 1000 if what == "seconds" else step["bytes"] / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, two runs")
    parser.add_argument("--threads", type=int, default=1, help="processor threads (1)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for cost.json")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder for cost.svg")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = measure(**(QUICK if given.quick else WHOLE))  # type: ignore[arg-type]
    model = {"wiring": "decoder", "layers": LAYERS, "vocab_size": VOCAB, "batch": 1, "dtype": "float32"}
    result = {**facts(), "model": model, "rows": rows, "exponents": exponents(rows)}
    print(write("cost", result, given.results))
    draw(result, given.pictures / "cost.svg")
    for fit in result["exponents"]:
        reach = "every key" if fit["window"] is None else f"window {fit['window']}"
        print(
            f"{fit['kind']}, {reach}: time {fit['axis']}^{fit['seconds']:.2f}, memory {fit['axis']}^{fit['bytes']:.2f}"
        )


if __name__ == "__main__":
    main()
