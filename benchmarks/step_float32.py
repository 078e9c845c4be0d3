"""A training step in float32, in turn with transformers and x-transformers: a language model and a classifier.

    python benchmarks/step_float32.py MODEL DATA [ROUNDS]

"language model": 10.8 M parameters (6 layers, 384 wide, 6 heads, 65 characters), 8 sequences of 256 tokens.
"classifier": all-MiniLM-L6-v2, whose directory MODEL is, with three classes, on 32 customers' reviews of DATA
(reviews/airline-train.csv) in one batch padded to its longest row; x-transformers has drawn weights of the same shape.
All: loss, gradient, clipping and torch's fused AdamW, no dropout, eager, as the documentation of each writes a step.
Ours is the step of `headway train`, with the shares that its rule takes.  Steps are interleaved.
"""

import csv
import sys
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
import x_transformers
from machine import facts, installed, interleaved, spread, write
from training_step import Step, gpt2_config, of_headway, of_torch

import headway
from headway.data.batches.batching import Batch, TargetKind, pad
from headway.io.memory import keep_freed_memory
from headway.models.heads import ClassificationHead
from headway.models.initialise import initialise
from headway.models.transformer import Decoder
from headway.nn.kernels.products import onednn_everywhere
from headway.tasks.losses import Classification, LanguageModeling

ROWS, LENGTH, VOCAB, WIDTH, LAYERS, HEADS = 8, 256, 65, 384, 6, 6
REVIEWS, LABELS = 32, ["negative", "neutral", "positive"]


def language_model() -> dict[str, Step]:
    """Next-token steps on the same drawn ids."""
    ids = torch.randint(VOCAB, (ROWS, LENGTH + 1), generator=torch.Generator().manual_seed(0))
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    batch = Batch({"ids": inputs}, None, targets, TargetKind.TOKEN)
    config = gpt2_config(VOCAB, WIDTH, LAYERS, HEADS, LENGTH)
    none: dict[str, Any] = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    sizes = {"n_positions": LENGTH, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCAB, **sizes, **none))
    layers = x_transformers.Decoder(dim=WIDTH, depth=LAYERS, heads=HEADS, attn_flash=True)
    other = x_transformers.TransformerWrapper(
        num_tokens=VOCAB, max_seq_len=LENGTH, attn_layers=layers, tie_embedding=True
    )
    return {
        "headway": of_headway(initialise(Decoder(config), 0), LanguageModeling(), batch, "float32"),
        "transformers": of_torch(gpt2, lambda: gpt2(inputs, labels=inputs).loss, "float32"),
        "x-transformers": of_torch(
            other, lambda: F.cross_entropy(other(inputs).flatten(0, 1), targets.flatten()), "float32"
        ),
    }


def classifier(directory: Path, data: Path) -> dict[str, Step]:
    """Steps of fine-tuning on the same reviews."""
    words = transformers.AutoTokenizer.from_pretrained(directory)
    with (data / "reviews" / "airline-train.csv").open(encoding="utf-8", newline="") as file:
        lines = [row for row, _ in zip(csv.DictReader(file), range(REVIEWS), strict=False)]
    rows = [words(line["text"], truncation=True, max_length=128)["input_ids"] for line in lines]
    targets = torch.tensor([LABELS.index(line["label"]) for line in lines])
    ids, mask = pad(rows)
    encoder = headway.load(directory, "embedding").model
    model: Any = getattr(encoder, "encoder", encoder)
    model.head = initialise(ClassificationHead(model.config, len(LABELS)), 0)
    bert = transformers.BertForSequenceClassification.from_pretrained(directory, num_labels=len(LABELS))
    config = bert.config
    ones = None if mask is None else mask.long()
    layers = x_transformers.Encoder(
        dim=config.hidden_size,
        depth=config.num_hidden_layers,
        heads=config.num_attention_heads,
        attn_dim_head=config.hidden_size // config.num_attention_heads,
        attn_flash=True,
        pre_norm=False,
    )
    other = x_transformers.TransformerWrapper(
        num_tokens=config.vocab_size, max_seq_len=config.max_position_embeddings, attn_layers=layers,
        use_cls_token=True, num_output_heads=1, logits_dim=len(LABELS),
    )  # fmt: skip
    print(f"{len(rows)} reviews, padded to {ids.shape[1]} tokens", flush=True)
    return {
        "headway": of_headway(
            model, Classification(LABELS), Batch({"ids": ids}, mask, targets, TargetKind.ROW), "float32"
        ),
        "transformers": of_torch(
            bert, lambda: bert(input_ids=ids, attention_mask=ones, labels=targets).loss, "float32"
        ),
        "x-transformers": of_torch(other, lambda: F.cross_entropy(other(ids, mask=mask), targets), "float32"),
    }


def main() -> None:
    """Time all in turn."""
    directory, data = Path(sys.argv[1]), Path(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    keep_freed_memory()
    torch.manual_seed(0)
    found: dict[str, Any] = {}
    for name, make in {"language model": language_model, "classifier": lambda: classifier(directory, data)}.items():
        times = interleaved(make(), rounds)
        least = [min(times["transformers"][i], times["x-transformers"][i]) for i in range(rounds)]
        ratios = spread([other / mine for mine, other in zip(times["headway"], least, strict=True)])
        found[name] = {"seconds": {key: spread(values) for key, values in times.items()}, "times_faster": ratios}
        print(name, {key: round(value["median"], 3) for key, value in found[name]["seconds"].items()}, flush=True)
        print(f"{ratios['median']:.2f} times as fast as the faster of the others in each round", flush=True)
    libraries = installed(("transformers", "x-transformers"))
    products = {"onednn_everywhere": onednn_everywhere(), "threads": torch.get_num_threads()}
    write("step-float32", {**facts(), "libraries": libraries, **products, **found})


if __name__ == "__main__":
    main()
