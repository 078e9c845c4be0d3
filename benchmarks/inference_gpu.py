"""How fast trained models answer on a GPU: Headway beside transformers and sentence-transformers, on the same weights.

    python benchmarks/inference_gpu.py decode join classify embed train --models FOLDER [--data ../shared/data]

"decode": GPT-2 with 124 M drawn weights continues 1, 8 and 64 prompts greedily.  "join": sixteen prompts, which in
Headway begin one after the other.  "classify" and "embed": all-MiniLM-L6-v2 reads tweets, tokenization included.
"train": a training step of GPT-2 with 124 M.  The engines answer in turn; each is first tried in the ways that its
documentation advises (transformers with a growing cache and with a static one, which it compiles; batches of 32 and
256), and measured in the fastest.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peers_decode
import peers_texts
import torch
import transformers
from engines import Engines, libraries
from inference import tweets
from inference_models import classifier, gpt2, minilm
from machine import RESULTS, facts, interleaved, spread, write
from training_step import gpt2_config, of_headway, of_torch

from headway.data.batches.batching import Batch, TargetKind
from headway.models.initialise import initialise
from headway.models.transformer import Decoder
from headway.tasks.losses import LanguageModeling

CUDA = "cuda"
ROWS, LENGTH, VOCAB = 16, 1024, 50_304
"""Of a training step."""


def decode(given: argparse.Namespace) -> dict[str, Any]:
    """New tokens a second, reading the prompts included."""
    directory, random, tokens = gpt2(given.models), np.random.default_rng(1), given.tokens
    prompts = random.integers(0, 50256, (64, given.prompt)).tolist()
    found: dict[str, Any] = {"prompt_tokens": given.prompt, "new_tokens": tokens, **first_logits(directory, prompts)}
    for rows in (1, 8, 64):
        engines = Engines(prompts[:rows], prompts[:rows], apart=False)
        for name in ("float32", "bfloat16", "float16"):
            engines.add(f"headway {name}", peers_decode.of_headway(directory, name, tokens, CUDA))
        for name in ("float32", "bfloat16"):
            ways = peers_decode.of_transformers(directory, name, tokens, False, CUDA)
            if name == "float32" and not given.compile:
                ways.pop("static cache")
            engines.add(f"transformers {name}", ways)
        found[f"tokens_per_second_{rows}"] = measured(engines, given.rounds, rows * tokens)
        reference = np.array(engines.answers["headway float32"])
        found[f"others_{rows}"] = {
            "share_of_headway_float32s_tokens": {
                name: float(np.mean(np.array(answer) == reference)) for name, answer in engines.answers.items()
            },
            "settings": engines.settings,
            "missing": engines.missing,
        }
    return found


def first_logits(directory: Path, prompts: list[list[int]]) -> dict[str, Any]:
    """How far float32 logits on the GPU are from the processor's, and from transformers' on the GPU."""
    ids = torch.tensor(prompts[:8])
    answers = []
    for device in ("cpu", CUDA):
        pipe = peers_decode.load_headway(directory, "float32", device)
        with torch.no_grad():
            answers.append(pipe.model(ids.to(device)).cpu())
    model = transformers.GPT2LMHeadModel.from_pretrained(directory).eval().to(CUDA)
    with torch.no_grad():
        theirs = model(ids.to(CUDA)).logits.cpu()
    here, there = answers
    return {
        "float32_logits_differ_by": {
            "from the processor's": float((there - here).abs().max()),
            "from transformers'": float((there - theirs).abs().max()),
            "largest": float(here.abs().max()),
        }
    }


def join(given: argparse.Namespace) -> dict[str, Any]:
    """New tokens a second of sixteen prompts, reading the prompts included."""
    directory, random, rows = gpt2(given.models), np.random.default_rng(2), 16
    prompts = random.integers(0, 50256, (rows, given.prompt)).tolist()
    engines = Engines(prompts, prompts, apart=False)
    for name in ("float32", "bfloat16"):
        engines.add(f"headway {name}, joining", peers_decode.of_headway_joining(directory, name, given.tokens, CUDA))
        engines.add(f"headway {name}, together", peers_decode.of_headway(directory, name, given.tokens, CUDA))
    ways = peers_decode.of_transformers(directory, "bfloat16", given.tokens, False, CUDA)
    engines.add("transformers bfloat16", ways)
    speeds = measured(engines, given.rounds, rows * given.tokens)
    return {"tokens_per_second": speeds, "settings": engines.settings, "missing": engines.missing}


def classify(given: argparse.Namespace) -> dict[str, Any]:
    """Texts labelled a second."""
    return texts(given, classifier(given.models, given.minilm), True)


def embed(given: argparse.Namespace) -> dict[str, Any]:
    """Vectors a second."""
    return texts(given, given.minilm or minilm(), False)


def texts(given: argparse.Namespace, directory: Path, classes: bool) -> dict[str, Any]:
    """A list of all tweets, and 150 of them one by one."""
    found: dict[str, Any] = {}
    peer = "transformers" if classes else "sentence-transformers"
    for size, chosen in ((32, tweets(given.data)), (1, tweets(given.data)[:150])):
        engines = Engines(chosen, chosen, apart=False)
        for name in ("float32", "bfloat16", "float16"):
            engines.add(f"headway {name}", peers_texts.of_headway(directory, name, classes, size, CUDA))
        for name in ("float32", "float16") if classes else ("float32",):
            ways: dict[str, Any] = {}
            for many in (32, 256) if size > 1 else (1,):
                if classes:
                    of = peers_texts.of_transformers(directory, name, many, CUDA)
                else:
                    of = peers_texts.of_sentence_transformers(directory, many, CUDA)
                ways |= {f"{way}, batches of {many}": make for way, make in of.items()}
            engines.add(f"{peer} {name}", ways)
        found[f"texts_per_second_{size}"] = measured(engines, given.rounds, len(chosen))
        right = engines.answers[f"{peer} float32"]
        agreed = {
            name: float(np.mean(answer.argmax(1) == right.argmax(1)) if classes else (answer * right).sum(1).min())
            for name, answer in engines.answers.items()
        }
        found[f"others_{size}"] = {
            "share_of_labels" if classes else "least_cosine": agreed,
            **{"texts": len(chosen), "settings": engines.settings, "missing": engines.missing},
        }
    return found


def train(given: argparse.Namespace) -> dict[str, Any]:
    """Tokens a second of a training step in bfloat16, and the share of 989 TFLOP/s that 6 parameters tokens are."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(VOCAB, (ROWS, LENGTH + 1), generator=generator)
    batch = Batch({"ids": ids[:, :-1].contiguous()}, None, ids[:, 1:].contiguous(), TargetKind.TOKEN).to(CUDA)
    ours = initialise(Decoder(gpt2_config(VOCAB, 768, 12, 12, LENGTH)), 0).to(CUDA)
    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=VOCAB, n_positions=LENGTH, **none))
    theirs.to(CUDA)
    count = sum(p.numel() for p in ours.parameters())
    ways: dict[str, Callable[[], None]] = {
        "headway": of_headway(ours, LanguageModeling(), batch, "bfloat16"),
        "transformers": of_torch(theirs, lambda: theirs(batch.ids, labels=batch.ids).loss, "bfloat16", CUDA),
    }
    if given.compile:
        whole = torch.compile(theirs)
        ways["transformers, compiled"] = of_torch(
            theirs, lambda: whole(batch.ids, labels=batch.ids).loss, "bfloat16", CUDA
        )
    tokens = ROWS * LENGTH
    speeds = {}
    for name, times in interleaved(ways, 4 * given.rounds).items():
        speeds[name] = spread([tokens / seconds for seconds in times])
        print(f"train, {name}: {speeds[name]['median']:.0f} tokens/s", flush=True)
    return {"rows": ROWS, "length": LENGTH, "parameters": count, "tokens_per_second": speeds}


def measured(engines: Engines, rounds: int, amount: float) -> dict[str, Any]:
    """``Engines.measure``, shown."""
    speeds = engines.measure(rounds, amount)
    for name, found in sorted(speeds.items(), key=lambda pair: -pair[1]["median"]):
        print(f"  {name:32} {found['median']:9.1f} ({found['min']:.1f} to {found['max']:.1f})", flush=True)
    return speeds


def main() -> None:
    """Those that are named, all in one result."""
    parts = {"decode": decode, "join": join, "classify": classify, "embed": embed, "train": train}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=list(parts))
    parser.add_argument("--models", type=Path, required=True, help="a folder for the models, about 1 GB")
    parser.add_argument("--minilm", type=Path, help="all-MiniLM-L6-v2, if it is not installed as a package")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens of each prompt")
    parser.add_argument("--compile", action="store_true", help="let transformers compile more (minutes)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU here")
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    found: dict[str, Any] = {**facts(), "gpu": torch.cuda.get_device_name(), "libraries": libraries()}
    for name in given.names:
        print(name, flush=True)
        began = time.perf_counter()
        found[name] = {**parts[name](given), "seconds": time.perf_counter() - began}
        print(write("inference-gpu", found, given.out), flush=True)


if __name__ == "__main__":
    main()
