"""Draw the pictures of the docs from the code they show: one function for each picture, one SVG file for each function.

python docs/pictures/make.py            all of them
python docs/pictures/make.py masks      one

``house.py`` beside this file draws the layers; ``cost.py`` and ``length.py`` in benchmarks draw what they measure.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from sklearn.datasets import load_digits

from headway.data.images.batch_source import Augmentation
from headway.models.analysis.logits import gradient_times_input, logit_lens
from headway.models.analysis.maps import attention_maps
from headway.models.config import TransformerConfig
from headway.models.heads import TokenHead
from headway.models.size import cache_bytes, forward_flops
from headway.models.transformer import Decoder, Encoder
from headway.nn.kernels.attention import attend_oracle
from headway.nn.masks import attention_mask, source_mask
from headway.nn.positions import RelativeBias, alibi_slopes, apply_rope, rope_angles, sinusoids
from headway.text.train import train_tokenizer
from headway.training.loop.schedule import SCHEDULES, factor

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
GREY, PALE = "#6b6b6b", "#f2f2f2"
LOOK = {
    "svg.hashsalt": "headway",
    "svg.fonttype": "none",
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
}


def masks() -> Figure:
    """Who may attend to whom: the four masks, from headway.nn.masks."""
    at = torch.arange(8)[None]
    words = torch.arange(8)[None] < 5
    shown = {
        "full (encoder)": attention_mask(at, at, causal=False),
        "causal (decoder)": attention_mask(at, at, causal=True),
        "causal, window 3": attention_mask(at, at, causal=True, window=3),
        "source of 5 tokens\nand 3 of padding (cross)": source_mask(words).expand(1, 1, 6, 8),
    }
    figure, axes = plt.subplots(1, 4, figsize=(8.6, 2.6))
    for axis, (name, mask) in zip(axes, shown.items(), strict=True):
        _matrix(axis, mask[0, 0].float().numpy(), name, top=1.6)
    axes[0].set_ylabel("query position")
    return figure


def attention() -> Figure:
    """What an encoder of one layer attends to, after it has learned to turn a row of letters round."""
    torch.manual_seed(0)
    config = TransformerConfig(16, d_model=32, n_layers=1, n_heads=2, max_length=8, positions="learned", tied=False)
    model = Encoder(config)
    model.head = TokenHead(config, model.stack.embedding.tokens)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(300):
        ids = torch.randint(16, (64, 8))
        loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    word = "notebook"
    letters = sorted(set(word))
    maps = attention_maps(model, torch.tensor([[letters.index(c) for c in word]]))["self"][0][0]
    figure, axes = plt.subplots(1, 2, figsize=(6.4, 3.1))
    for head, axis in enumerate(axes):
        image = _matrix(axis, maps[head].numpy(), f"head {head + 1}", top=1.0)
        axis.set_xticks(range(8), list(word))
        axis.set_yticks(range(8), list(word[::-1]))
        axis.set_xlabel("letter attended to")
    axes[0].set_ylabel("letter to be written")
    figure.colorbar(image, ax=axes, label="weight", shrink=0.8)
    return figure


def inside() -> Figure:
    """Inside a decoder that has learned to go on with what it has read before (examples/induction_heads.py)."""
    torch.manual_seed(0)
    config = TransformerConfig(32, d_model=64, n_layers=2, n_heads=2, max_length=48, positions="rotary", tied=False)
    model = Decoder(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(400):
        length = int(torch.randint(8, 25, ()))
        once = torch.stack([torch.randperm(32)[:length] for _ in range(32)])
        ids = torch.cat([once, once], dim=1)
        loss = F.cross_entropy(model(ids)[:, length:-1].flatten(0, 1), ids[:, length + 1 :].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    letters = "abcdefghijklmnopqrstuvwxyz012345"
    ids = torch.tensor([[letters.index(c) for c in "quartzquart"]])
    names = [letters[i] for i in ids[0].tolist()]
    maps = attention_maps(model, ids)["self"]
    panels = [["1.1", "1.2", "2.1", "2.2"], ["lens", "lens", "parts", "parts"]]
    figure, axes = plt.subplot_mosaic(panels, figsize=(8.6, 4.9), height_ratios=(1.25, 1))
    for name in panels[0]:
        layer, head = (int(part) - 1 for part in name.split("."))
        axes[name].imshow(maps[layer][0, head], cmap="Blues", vmin=0, vmax=1)
        axes[name].set_title(f"layer {layer + 1}, head {head + 1}")
        axes[name].set_xticks(range(len(names)), names, fontsize=7)
        axes[name].set_yticks([])
        axes[name].set_xlabel("token attended to")
    axes["1.1"].set_yticks(range(len(names)), names, fontsize=7)
    axes["1.1"].set_ylabel("token that attends")
    sure, best = logit_lens(model, ids)[:, 0].softmax(-1).max(-1)  # (L + 1, T)
    axes["lens"].imshow(sure, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
    for layer, row in enumerate(best.tolist()):
        for at, token in enumerate(row):
            colour = "white" if sure[layer, at] > 0.55 else "black"
            axes["lens"].text(at, layer, letters[token], ha="center", va="center", fontsize=8, color=colour)
    axes["lens"].set_xticks(range(len(names)), names)
    axes["lens"].set_yticks(range(3), ["embedding", "layer 1", "layer 2"])
    axes["lens"].set(title="logit lens: likeliest next token", xlabel="token read")
    wanted = (-1, letters.index("z"))
    parts = gradient_times_input(model.eval(), ids, logit=wanted)["self"][0]
    axes["parts"].bar(range(len(names)), parts, color=[BLUE if part > 0 else RED for part in parts.tolist()])
    axes["parts"].set_xticks(range(len(names)), names)
    axes["parts"].axhline(0, color=GREY, lw=0.8)
    axes["parts"].set(title="what speaks for 'z' as the next token", xlabel="token read", ylabel="gradient × input")
    for axis in axes.values():
        for image in axis.images:
            image.set_interpolation("none")  # the weights themselves are in the file, not a picture of them
    for text in figure.findobj(plt.Text):
        text.set_family("DejaVu Sans")  # one name in place of the whole list of fonts, for each of many letters
    return figure


def positions() -> Figure:
    """Four of the six ways to tell positions, as the model sees them."""
    figure, axes = plt.subplots(2, 2, figsize=(8, 5.2))
    at = torch.arange(64)
    table = sinusoids(at, 32)
    for place, colour in ((0, BLUE), (1, SKY), (8, ORANGE), (16, RED)):
        axes[0, 0].plot(at, table[:, place], color=colour, label=f"entry {place}")
    axes[0, 0].set(title="sinusoidal: added to the embedding", xlabel="position (tokens)", ylabel="value")
    axes[0, 0].legend(ncols=2, fontsize=8, loc="upper right")
    axes[0, 0].set_ylim(-1.1, 2.0)
    x = torch.ones(1, 1, 1, 32) / 32**0.5
    turned = apply_rope(x.expand(1, 1, 160, 32), *rope_angles(torch.arange(160)[None], 32, 10000.0))[0, 0]
    axes[0, 1].plot(range(160), turned @ turned[0], color=BLUE)
    axes[0, 1].set(title="rotary: q · k of two equal vectors", xlabel="distance (tokens)", ylabel="product")
    for head, slope in enumerate(alibi_slopes(4).tolist()):
        colour = (BLUE, ORANGE, GREEN, RED)[head]
        axes[1, 0].plot([0, 64], [0, -64 * slope], color=colour, label=f"head {head + 1}, slope 1/{round(1 / slope)}")
    axes[1, 0].legend(fontsize=8, loc="lower left")
    axes[1, 0].set(title="ALiBi: added to the scores", xlabel="distance (tokens)", ylabel="bias", ylim=(-16, 1))
    ahead = torch.arange(-160, 161)
    for causal, colour in ((True, BLUE), (False, ORANGE)):
        buckets = RelativeBias(1, 32, 128, causal=causal).bucket(ahead)
        axes[1, 1].step(ahead, buckets, color=colour, label="decoder" if causal else "encoder")
    axes[1, 1].set(title="relative (T5): a learned bias per bucket", xlabel="key minus query (tokens)", ylabel="bucket")
    axes[1, 1].legend(fontsize=8)
    return figure


def block() -> Figure:
    """The one block, with its norms before the layers and after them."""
    figure, axes = plt.subplots(1, 2, figsize=(7.4, 4.9))
    for axis, order in zip(axes, ("pre", "post"), strict=True):
        _canvas(axis, 10, 13.4)
        axis.set_title("pre-norm (GPT-2, Llama)" if order == "pre" else "post-norm (Vaswani 2017, BERT)")
        _arrow(axis, (5, 0.1), (5, 13.2))
        layers = (("attention", BLUE), ("cross-attention", ORANGE), ("feed-forward", GREEN))
        for i, (name, colour) in enumerate(layers):
            low = 0.7 + 4.1 * i
            norm, layer, meet = (low + 0.7, low + 1.75, 2.6) if order == "pre" else (low + 2.75, low + 0.8, 1.85)
            axis.plot([5, 8.9, 8.9], [low, low, low + meet], color=GREY, lw=1.2)
            _arrow(axis, (8.9, low + meet), (5.3, low + meet))
            _box(axis, 5, layer, 5.2, 0.8, name, colour)
            _box(axis, 5, norm, 5.2, 0.8, "norm", PURPLE)
            axis.add_patch(plt.Circle((5, low + meet), 0.28, facecolor="white", edgecolor=GREY, zorder=4))
            axis.text(5, low + meet - 0.02, "+", ha="center", va="center", zorder=5)
        axis.text(1.9, 6.4, "only where\nthere is a\nsource", ha="right", va="center", fontsize=8, color=GREY)
        axis.text(5.3, 0.1, "x (B, T, D)", fontsize=8, va="bottom")
    return figure


def wirings() -> Figure:
    """Encoder, decoder and encoder-decoder from the same block."""
    figure, axes = plt.subplots(1, 3, figsize=(8.8, 3.9), width_ratios=(1, 1, 1.9))
    for axis, name in zip(axes, ("Encoder", "Decoder", "EncoderDecoder"), strict=True):
        _canvas(axis, 20 if name == "EncoderDecoder" else 10, 12)
        axis.set_title(name)
    _tower(
        axes[0],
        5,
        "ids (B, T)",
        "block × N\nevery token\nsees all",
        "head (optional)",
        "(B, T, D), (B, T, V)\nor (B, C)",
        BLUE,
    )
    _tower(axes[1], 5, "ids (B, T)", "block × N\na token sees\nthose before", "token head", "logits (B, T, V)", ORANGE)
    _tower(axes[2], 5, "source ids (B, S)", "block × N\nevery token\nsees all", None, "", BLUE)
    _tower(
        axes[2], 15, "target ids (B, T)", "block × N\nwith cross-\nattention", "token head", "logits (B, T, V)", ORANGE
    )
    axes[2].plot([5, 5, 10], [7.0, 8.3, 8.3], color=GREY, lw=1.4)
    axes[2].plot([10, 10], [8.3, 5.2], color=GREY, lw=1.4)
    _arrow(axes[2], (10, 5.2), (11.9, 5.2))
    axes[2].text(5.2, 8.7, "vectors (B, S, D)", fontsize=8, va="bottom")
    return figure


def links() -> Figure:
    """Attention whose scores depend on the distance alone, beside the attention of a content-based layer."""
    torch.manual_seed(1)
    n = 14
    ahead = torch.arange(n)[None] - torch.arange(n)[:, None]
    scores = torch.tensor([0.5, -1.0, 2.0, 0.0, 1.0])
    bias = torch.where(ahead.abs() <= 2, scores[(ahead + 2).clamp(0, 4)], float("-inf"))[None, None]
    nothing, q, k = torch.zeros(1, 1, n, 4), *torch.randn(2, 1, 1, n, 4).mul(1.5)
    _, by_distance = attend_oracle(nothing, nothing, nothing, bias)
    _, by_content = attend_oracle(q, k, nothing, causal=True)
    figure, axes = plt.subplots(1, 3, figsize=(8.6, 3.0))
    _matrix(axes[0], by_distance[0, 0].numpy(), "scores by distance alone:\na convolution (equal diagonals)")
    _matrix(axes[1], by_content[0, 0].numpy(), "scores by content, causal:\nevery key is kept")
    kernel = scores.softmax(0)
    axes[2].bar(range(-2, 3), kernel, color=BLUE)
    axes[2].set(
        title="the convolution's kernel:\nsoftmax of the five scores",
        xlabel="key minus query (tokens)",
        ylabel="weight",
    )
    axes[0].set_ylabel("query position")
    return figure


def flops() -> Figure:
    """FLOPs as counted by headway.models.size: what grows with T and what with D."""
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 3.1))
    lengths, widths = [64 * 2**i for i in range(9)], [64 * 2**i for i in range(6)]
    base = TransformerConfig(256, d_model=256, n_layers=4, n_heads=4)
    for window, colour, name in ((None, BLUE, "every key"), (128, ORANGE, "window 128")):
        axes[0].loglog(
            lengths,
            [forward_flops(base.but(window=window), 1, n) for n in lengths],
            "o-",
            ms=3,
            color=colour,
            label=name,
        )
    axes[0].set(title="D = 256, 4 layers", xlabel="length T (tokens)", ylabel="forward pass (FLOPs)")
    for length, colour in ((256, BLUE), (4096, ORANGE)):
        counts = [forward_flops(base.but(d_model=d), 1, length) for d in widths]
        axes[1].loglog(widths, counts, "o-", ms=3, color=colour, label=f"T = {length:,}")
    axes[1].set(title="4 layers", xlabel="width D", ylabel="forward pass (FLOPs)")
    for axis in axes:
        axis.legend(fontsize=8)
        axis.grid(alpha=0.25)
    axes[0].set_xticks([64, 256, 1024, 4096, 16384], ["64", "256", "1k", "4k", "16k"])
    axes[1].set_xticks([64, 128, 256, 512, 1024, 2048], ["64", "128", "256", "512", "1k", "2k"])
    for axis in axes:
        axis.xaxis.minorticks_off()
    return figure


def memory() -> Figure:
    """What generation remembers: a key-value cache that grows, a recurrent state that does not."""
    config = TransformerConfig(256, d_model=256, n_layers=4, n_heads=8)
    lengths = np.arange(0, 4097, 64)
    figure, axis = plt.subplots(figsize=(5.6, 3.1))
    for heads, colour, name in (
        (8, BLUE, "cache, 8 key-value heads"),
        (2, ORANGE, "cache, 2 (grouped)"),
        (1, GREEN, "cache, 1 (multi-query)"),
    ):
        sizes = [cache_bytes(config.but(n_kv_heads=heads), 1, int(n)) / 2**20 for n in lengths]
        axis.plot(lengths, sizes, color=colour, label=name)
    state = 4 * config.n_layers * config.n_heads * config.head_width**2 / 2**20
    axis.plot(lengths, [state] * len(lengths), color=RED, ls="--", label="recurrent state, H × K × K per layer")
    axis.set(xlabel="tokens read", ylabel="memory (MiB, float32)", title="D = 256, 4 layers, 8 heads of 32")
    axis.legend(fontsize=8)
    return figure


def schedules() -> Figure:
    """The learning rate over the run, from headway.training.loop.schedule."""
    shares = np.linspace(0, 1, 401)
    figure, axis = plt.subplots(figsize=(6, 2.9))
    for kind, colour, style in zip(SCHEDULES, (BLUE, ORANGE, GREEN, RED), ("-", "--", ":", "-."), strict=True):
        axis.plot(shares * 100, [factor(s, kind, 0.02) for s in shares], color=colour, ls=style, label=kind)
    axis.set(xlabel="share of the run that is done (%)", ylabel="learning rate / highest", ylim=(0, 1.05))
    axis.legend(fontsize=8)
    return figure


def tokens() -> Figure:
    """One sentence, cut by the four kinds of tokenizer after they were trained on the same small text."""
    text = "the baker bakes bread and the bakers eat the baked bread. the eaters eat what the baker bakes. " * 20
    sentence = "the bakers eat bread."
    figure, axis = plt.subplots(figsize=(8.2, 2.4))
    _canvas(axis, 40, 8.6)
    for row, kind in enumerate(("char", "bpe", "wordpiece", "word")):
        size = {"char": None, "bpe": 272, "wordpiece": 40, "word": None}[kind]
        role = "encoder" if kind == "wordpiece" else "decoder"
        tokenizer = train_tokenizer([text], kind, size, role=role)
        pieces = [tokenizer.tokens[i].replace("Ġ", "␣").replace(" ", "␣") for i in tokenizer.encode(sentence)]
        x, y = 7.0, 7.4 - 2.1 * row
        axis.text(6.4, y, f"{kind}, {len(pieces)} tokens", ha="right", va="center", fontsize=8.5)
        for i, piece in enumerate(pieces):
            width = 0.72 * len(piece) + 0.55
            _box(axis, x + width / 2, y, width - 0.12, 1.25, piece, (BLUE, ORANGE, GREEN)[i % 3], size=8)
            x += width
    return figure


def data() -> Figure:
    """How text is split and cut into windows."""
    figure, axis = plt.subplots(figsize=(8, 2.5))
    _canvas(axis, 40, 8)
    axis.barh(6.3, 34.2, height=1.3, left=1, color=BLUE, alpha=0.25)
    axis.barh(6.3, 3.8, height=1.3, left=35.2, color=ORANGE, alpha=0.5)
    axis.text(18, 6.3, "running text: the first 90 % of the characters train", ha="center", va="center")
    axis.text(37.1, 6.3, "last 10 %", ha="center", va="center")
    for i, name in enumerate(("order 5", "order 2", "order 4", "order 1", "order 3")):
        axis.barh(3.4, 6.0, height=1.2, left=3.2 + 6.2 * i, color=BLUE, alpha=0.45)
        axis.text(6.2 + 6.2 * i, 3.4, f"T + 1 tokens\n{name}", ha="center", va="center", fontsize=8)
    axis.annotate("", (1.0, 2.2), (3.2, 2.2), arrowprops={"arrowstyle": "<->", "color": GREY})
    axis.text(0.9, 1.2, "offset: new every epoch", fontsize=8, va="center")
    axis.text(37.1, 3.4, "in order, each\ntarget once", ha="center", va="center", fontsize=8)
    axis.text(
        18.5, 1.2, "windows in an order that is a function of (seed, epoch)", ha="center", fontsize=8, va="center"
    )
    return figure


def sampling() -> Figure:
    """What each way of choosing leaves of the same eight logits."""
    from headway.generation.sampling import Sampling, allowed

    logits = torch.tensor([[3.0, 2.4, 2.2, 1.0, 0.4, -0.2, -1.0, -2.0]])
    shown = {
        "temperature 1": Sampling(1.0),
        "temperature 0.5": Sampling(0.5),
        "top_k 3": Sampling(1.0, top_k=3),
        "top_p 0.75": Sampling(1.0, top_p=0.75),
        "min_p 0.1": Sampling(1.0, min_p=0.1),
    }
    figure, axes = plt.subplots(1, 5, figsize=(8.6, 2.2), sharey=True)
    for axis, (name, how) in zip(axes, shown.items(), strict=True):
        p = allowed(logits / how.temperature, how).softmax(-1)[0].tolist()
        axis.bar(range(8), p, color=[BLUE if value else PALE for value in p])
        axis.set(title=name, xlabel="token", xticks=range(8), xticklabels=list("abcdefgh"))
    axes[0].set_ylabel("probability")
    return figure


def _matrix(axis, values, title: str, top: float | None = None):
    axis.set_title(title)
    image = axis.imshow(values, cmap="Blues", vmin=0, vmax=top or max(1e-9, values.max()))
    axis.set_xticks(range(0, values.shape[1], 2))
    axis.set_yticks(range(0, values.shape[0], 2))
    axis.set_xlabel("key position")
    for side in axis.spines.values():
        side.set_visible(True)
    axis.set_xticks(np.arange(-0.5, values.shape[1]), minor=True)
    axis.set_yticks(np.arange(-0.5, values.shape[0]), minor=True)
    axis.grid(which="minor", color="white", lw=1)
    axis.tick_params(which="minor", length=0)
    return image


def _canvas(axis, width: float, height: float) -> None:
    axis.set_xlim(0, width)
    axis.set_ylim(0, height)
    axis.axis("off")


def _box(axis, x: float, y: float, width: float, height: float, text: str, colour: str, size: float = 9.5) -> None:
    shape = FancyBboxPatch(
        (x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.12", zorder=3
    )
    shape.set(facecolor="white", edgecolor=colour, linewidth=1.6)
    axis.add_patch(shape)
    axis.text(x, y - 0.02, text, ha="center", va="center", fontsize=size, zorder=4)


def _arrow(axis, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=GREY, lw=1.4, shrinkA=0, shrinkB=0)
    )


def _tower(axis, x: float, ids: str, middle: str, head: str | None, out: str, colour: str) -> None:
    axis.text(x, 0.1, ids, ha="center", va="bottom", fontsize=8.5)
    _arrow(axis, (x, 0.9), (x, 10.4 if head else 7.4))
    _box(axis, x, 2.2, 6.2, 1.1, "embeddings", PURPLE)
    _box(axis, x, 5.2, 6.2, 3.2, middle, colour)
    if head:
        _box(axis, x, 8.9, 6.2, 1.1, head, GREEN)
    axis.text(x, 10.5, out, ha="center", va="bottom", fontsize=8.5)


def patches() -> Figure:
    """A digit cut into patches, and the same digit as training sees it in the first passes (data.augment)."""
    digit = np.repeat(load_digits().images[:1, :, :, None] / 16 * 255, 3, axis=3)
    augmentation = Augmentation("usual", count=1, seed=0)
    seen = {f"pass {epoch + 1}": augmentation(digit, epoch, np.arange(1)) for epoch in range(4)}
    figure, axes = plt.subplots(1, 5, figsize=(8.6, 2.1))
    for axis, (name, shown) in zip(axes, {"16 patches of 2 × 2": digit, **seen}.items(), strict=True):
        axis.imshow(shown[0, :, :, 0], cmap="gray", vmin=0, vmax=255, interpolation="none", extent=(0, 8, 8, 0))
        axis.set(title=name, xticks=(0, 8), yticks=(0, 8), xlabel="pixels")
    for number in range(16):
        row, column = divmod(number, 4)
        axes[0].add_patch(Rectangle((2 * column, 2 * row), 2, 2, fill=False, edgecolor=RED, linewidth=1.2))
        axes[0].text(2 * column + 1, 2 * row + 1, str(number + 1), ha="center", va="center", color=RED, weight="bold")
    return figure


PICTURES = (
    masks,
    attention,
    inside,
    positions,
    block,
    wirings,
    links,
    flops,
    memory,
    schedules,
    tokens,
    data,
    sampling,
    patches,
)


def save(figure: Figure, path: Path) -> None:
    """Write a picture; the same code writes the same bytes."""
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=110)
    plt.close(figure)


def main(names: list[str], folder: Path = HERE, ending: str = ".svg") -> None:
    """Draw the named pictures, or all."""
    with plt.rc_context(LOOK):
        for picture in PICTURES:
            if not names or picture.__name__ in names:
                save(picture(), folder / f"{picture.__name__}{ending}")


if __name__ == "__main__":
    main(sys.argv[1:])
