"""What happens past the trained length: one small decoder with each of the six ways to tell positions.

python benchmarks/length.py TEXT --steps 500

Every model has the same size, data, order of the data, steps and seeds; it is trained on windows of T tokens and
measured on the last 10 % of the text, in windows of T, 2 T and 4 T.  "all" is the loss of every token.  "same" is that
of the last T of every 4 T tokens: the same tokens, read with none, T or 3 T tokens before their window of T.  Learned
positions are refused past T, and noted so.
Writes benchmarks/results/length.json and docs/pictures/length.svg.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from machine import PICTURES, RESULTS, facts, spread, write

from headway.data.batches.batch_source import Position, Windows
from headway.data.records.corpus import text_boundary
from headway.models.config import Positions, TransformerConfig
from headway.models.initialise import initialise
from headway.models.transformer import Decoder
from headway.text.train import train_tokenizer
from headway.training.loop.schedule import factor
from headway.training.optimizers import optimizers, set_rate

LONGER = (1, 2, 4)
"""Lengths measured, in lengths trained for."""


def trained(config: TransformerConfig, train: np.ndarray, steps: int, batch: int, rate: float, seed: int) -> Decoder:
    """A decoder after so many AdamW steps, with warm-up and cosine decay.

    Token vectors start with entries of size 1, which is the size of sinusoids.
    """
    torch.manual_seed(seed)
    model = Decoder(config)
    initialise(model, seed)
    with torch.no_grad():
        tokens = model.stack.embedding.tokens.weight
        tokens.div_(tokens.std())
    windows, position = Windows(train, config.max_length, seed), Position()
    chosen = optimizers(model, "adamw", rate, 0.1)
    for step in range(steps):
        set_rate(chosen, factor((step + 1) / steps, "cosine", 0.05))
        rows, position = windows.take(position, batch)
        ids = torch.from_numpy(rows)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in chosen:
            optimizer.step()
            optimizer.zero_grad()
    return model.eval()


@torch.no_grad()
def losses(model: Decoder, rows: torch.Tensor, length: int, trained_length: int) -> dict[str, float] | None:
    """Nats per token of text rows (N, 4 T + 1) cut into windows of ``length``; None when the model refuses that length.

    "all" is over every token; "same" over the last T tokens of each row, which are the same tokens at every length.
    """
    n, longest = rows.shape[0], rows.shape[1] - 1
    inputs, targets = (part.reshape(n, longest // length, length) for part in (rows[:, :-1], rows[:, 1:]))
    found = []
    try:
        for ids, wanted in zip(inputs.split(8), targets.split(8), strict=True):
            logits = model(ids.flatten(0, 1))  # (8 windows, length, V)
            loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="none")
            found.append(loss.view(len(ids), longest))
    except ValueError:
        return None
    each = torch.cat(found)  # (N, 4 T)
    return {"all": each.mean().item(), "same": each[:, -trained_length:].mean().item()}


def measure(text: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """One row for each way and each length: losses over the seeds, or that it was refused."""
    tokenizer = train_tokenizer([text], "char", role="decoder")
    tokens = np.array(tokenizer.encode(text))
    boundary = text_boundary(len(tokens))
    train, held_out = tokens[:boundary], tokens[boundary:]
    longest = given.length * LONGER[-1]
    count = min(given.windows, (len(held_out) - 1) // longest)
    pieces = torch.from_numpy(np.stack([held_out[i * longest : (i + 1) * longest + 1] for i in range(count)]))
    rows: dict[tuple[str, int], list[dict[str, float] | None]] = {}
    for seed in range(given.seeds):
        for kind in Positions.KINDS:
            config = TransformerConfig(
                tokenizer.vocab_size,
                d_model=given.width,
                n_layers=given.layers,
                n_heads=max(1, given.width // 32),
                max_length=given.length,
                positions=kind,
                tied=False,
            )
            model = trained(config, train, given.steps, given.batch, given.rate, seed)
            for times in LONGER:
                found = losses(model, pieces, given.length * times, given.length)
                rows.setdefault((kind, times), []).append(found)
            print(f"seed {seed}, {kind}: {rows[kind, 1][-1]}", flush=True)
    return [_row(kind, times, times * given.length, found) for (kind, times), found in rows.items()]


def _row(kind: str, times: int, length: int, found: list[dict[str, float] | None]) -> dict[str, Any]:
    row: dict[str, Any] = {"positions": kind, "times": times, "length": length}
    if any(one is None for one in found):
        return {**row, "refused": True}
    return {**row, "refused": False, **{what: spread([one[what] for one in found if one]) for what in ("all", "same")}}


def draw(result: dict[str, Any], path: Path) -> None:
    """The loss of the same tokens against the length, a line for each way, from the least to the greatest seed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = dict(
        zip(Positions.KINDS, ("#0072B2", "#6b6b6b", "#E69F00", "#009E73", "#D55E00", "#CC79A7"), strict=True)
    )
    marks = dict(zip(Positions.KINDS, "osD^vP", strict=True))
    with plt.rc_context(
        {"svg.hashsalt": "headway", "svg.fonttype": "none", "figure.facecolor": "white", "font.size": 9}
    ):
        figure, axis = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
        for kind in Positions.KINDS:
            series = [row for row in result["rows"] if row["positions"] == kind and not row["refused"]]
            x, middle = [row["length"] for row in series], [row["same"]["median"] for row in series]
            label = kind + (" (refused past T)" if len(series) < len(LONGER) else "")
            axis.plot(x, middle, marker=marks[kind], ms=5, color=colours[kind], label=label)
            low, high = [row["same"]["min"] for row in series], [row["same"]["max"] for row in series]
            axis.fill_between(x, low, high, color=colours[kind], alpha=0.15)
        trained_length = result["settings"]["length"]
        sizes = [trained_length * times for times in LONGER]
        axis.set_xscale("log", base=2)
        axis.set_xticks(sizes, [f"{size}\n{times} T" for size, times in zip(sizes, LONGER, strict=True)])
        axis.set(xlabel="length measured (tokens)", ylabel="loss of the same tokens (nats)")
        axis.set_title(f"trained on T = {trained_length} tokens", fontsize=10)
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8, frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
        plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", type=Path, help="a text file")
    options = {"steps": 500, "seeds": 3, "length": 128, "width": 128, "layers": 4, "batch": 16, "windows": 100}
    for name, default in options.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"({default})")
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate (0.002)")
    parser.add_argument("--threads", type=int, default=1, help="processor threads (1)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for length.json")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder for length.svg")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = measure(given.text.read_text(encoding="utf-8"), given)
    settings = {name: getattr(given, name) for name in (*options, "rate", "threads")}
    result = {**facts(), "text": given.text.name, "settings": settings, "unit": "nats per token", "rows": rows}
    print(write("length", result, given.results))
    draw(result, given.pictures / "length.svg")
    for row in rows:
        values = "refused" if row["refused"] else f"{row['same']['median']:.3f}"
        print(f"{row['positions']:>10} at {row['length']:>4} tokens: {values}")


if __name__ == "__main__":
    main()
