"""How fast trained models answer on the processor: Headway beside five other engines, on the same weights, in one run.

    python benchmarks/inference.py decode join classify embed --models FOLDER [--data ../shared/data] [--rounds 5]

"decode": GPT-2 with 124 M drawn weights continues prompts greedily, one and eight at a time.  "join": sixteen prompts,
which in Headway begin one after the other (continuous batching) or all at once, in the others all at once.  "classify":
all-MiniLM-L6-v2 with a drawn head labels tweets, in batches and one by one, tokenization included.  "embed": the same
encoder's vectors.  The engines answer in turn, all of them in every round; each is first tried in the ways that its
documentation advises, and measured in the fastest.  The models are made in FOLDER once.  An engine that is not
installed (`pip install -e '.[peers]'`), or that fails, is named with its reason, and the others go on.
"""

import argparse
import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import peers_decode
import peers_texts
import torch
import transformers
from engines import Engines, libraries, processor
from inference_models import classifier, gpt2, minilm
from machine import RESULTS, facts, write

PRECISIONS = ("float32", "bfloat16", "int8")
KINDS = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int8": "Q8_0", "int4": "Q4_0"}
"""What llama.cpp calls them."""


def decode(given: argparse.Namespace, threads: int) -> dict[str, Any]:
    """New tokens a second, one prompt and eight at a time, reading the prompts included."""
    folder, tokens = given.models, given.tokens
    directory, random = gpt2(folder), np.random.default_rng(1)
    prompts = random.integers(0, 50256, (8, given.prompt)).tolist()
    logits = peers_decode.first_logits(directory, folder, prompts, threads)
    mine = logits["headway float32"]
    differences = {name: float(np.abs(values - mine).max()) for name, values in logits.items()}
    found: dict[str, Any] = {"first_logits_differ_by": differences}
    for rows in (1, 8):
        print(f"decode, {rows} at a time", flush=True)
        engines = Engines(prompts[:rows], prompts[:rows], tuple(given.only))
        for name in (*PRECISIONS, "int4"):
            engines.add(f"headway {name}", peers_decode.of_headway(directory, name, tokens))
        for name in PRECISIONS[:2]:
            ways = peers_decode.of_transformers(directory, name, tokens, given.compile)
            engines.add(f"transformers {name}", ways)
        for name in PRECISIONS:
            ways = peers_decode.of_ctranslate2(directory, folder, name, tokens, threads, rows)
            engines.add(f"ctranslate2 {name}", ways)
        for name, kind in KINDS.items():
            engines.add(f"llama.cpp {name}", peers_decode.of_llama(directory, folder, kind, tokens, threads, rows))
        equal = {
            name: _same(answer, engines.answers.get("headway float32")) for name, answer in engines.answers.items()
        }
        found[f"tokens_per_second_{rows}"] = engines.measure(given.rounds, rows * tokens)
        found[f"others_{rows}"] = {"share_of_headway_float32s_tokens": equal, **_set_up(engines)}
        _show(found[f"tokens_per_second_{rows}"], equal)
    return {"prompt_tokens": given.prompt, "new_tokens": tokens, **found}


def join(given: argparse.Namespace, threads: int) -> dict[str, Any]:
    """New tokens a second of sixteen prompts, reading the prompts included."""
    rows, directory, random = 16, gpt2(given.models), np.random.default_rng(2)
    prompts = random.integers(0, 50256, (rows, given.prompt)).tolist()
    engines = Engines(prompts, prompts, tuple(given.only))
    for name in PRECISIONS:
        engines.add(f"headway {name}, joining", peers_decode.of_headway_joining(directory, name, given.tokens))
        engines.add(f"headway {name}, together", peers_decode.of_headway(directory, name, given.tokens))
    for name in PRECISIONS[:2]:
        ways = peers_decode.of_transformers(directory, name, given.tokens, given.compile)
        engines.add(f"transformers {name}", ways)
    for name in PRECISIONS:
        ways = peers_decode.of_ctranslate2(directory, given.models, name, given.tokens, threads, rows)
        engines.add(f"ctranslate2 {name}", ways)
    reference = engines.answers.get("headway float32, together")
    equal = {name: _same(answer, reference) for name, answer in engines.answers.items()}
    speeds = engines.measure(given.rounds, rows * given.tokens)
    _show(speeds, equal)
    others = {"share_of_headway_float32s_tokens": equal, **_set_up(engines)}
    return {"prompts": rows, "new_tokens": given.tokens, "tokens_per_second": speeds, "others": others}


def classify(given: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Texts labelled a second."""
    return _texts(given, threads, classifier(given.models), True)


def embed(given: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Vectors a second."""
    return _texts(given, threads, minilm(), False)


def _texts(given: argparse.Namespace, threads: int, directory: Path, classes: bool) -> dict[str, Any]:
    texts, folder = tweets(given.data)[: given.texts], given.models
    found: dict[str, Any] = {"texts": len(texts)}
    reference = "transformers float32" if classes else "sentence-transformers float32"
    for size, chosen in ((32, texts), (1, texts[:300])):
        print(f"{len(chosen)} texts, {size} at a time", flush=True)
        engines = Engines(chosen, chosen[:: max(1, len(chosen) // 320)], tuple(given.only))
        for name in PRECISIONS:
            engines.add(f"headway {name}", peers_texts.of_headway(directory, name, classes, size))
        if classes:
            for name in PRECISIONS[:2]:
                engines.add(f"transformers {name}", peers_texts.of_transformers(directory, name, size))
        else:
            engines.add(reference, peers_texts.of_sentence_transformers(directory, size))
        for name, kind in {"float32": "fused", "int8": "int8"}.items():
            ways = peers_texts.of_onnxruntime(directory, folder, kind, classes, size, threads)
            engines.add(f"onnxruntime {name}", ways)
        for name, kind in {"float32": "f32", "bfloat16": "bf16"}.items():
            ways = peers_texts.of_openvino(directory, folder, kind, classes, size, threads)
            engines.add(f"openvino {name}", ways)
        for name in ("float32", "bfloat16", "int8"):
            ways = peers_texts.of_ctranslate2(directory, folder, name, classes, size, threads)
            engines.add(f"ctranslate2 {name}", ways)
        agreed = _agreement(engines.answers, reference, classes)
        found[f"texts_per_second_{size}"] = engines.measure(given.rounds, len(chosen))
        measure = "share_of_labels_of" if classes else "least_cosine_with"
        found[f"others_{size}"] = {f"{measure}_{reference}": agreed, "texts": len(chosen), **_set_up(engines)}
        if classes and reference in engines.answers:
            found["labels"] = np.bincount(engines.answers[reference].argmax(1), minlength=3).tolist()
        _show(found[f"texts_per_second_{size}"], agreed)
    return found


def tweets(data: Path) -> list[str]:
    """The texts of the airline customers' test tweets."""
    file = data / "reviews" / "airline-test.csv"
    if not file.exists():
        raise SystemExit(f"{file} is missing; --data FOLDER says where the data sets are")
    with file.open(encoding="utf-8", newline="") as rows:
        return [row["text"] for row in csv.DictReader(rows)]


def _same(answer: Any, reference: Any) -> float | None:
    """The share of tokens that are equal."""
    return None if reference is None else float(np.mean(np.array(answer) == np.array(reference)))


def _agreement(answers: dict[str, Any], reference: str, classes: bool) -> dict[str, float]:
    """The share of equal labels, or the least cosine of two vectors of a text."""
    if reference not in answers:
        return {}
    right = answers[reference]
    if classes:
        return {name: float(np.mean(found.argmax(1) == right.argmax(1))) for name, found in answers.items()}
    return {name: float((found * right).sum(1).min()) for name, found in answers.items()}


def _set_up(engines: Engines) -> dict[str, Any]:
    return {"settings": engines.settings, "missing": engines.missing}


def _show(speeds: dict[str, Any], agreed: dict[str, Any]) -> None:
    for name, found in sorted(speeds.items(), key=lambda pair: -pair[1]["median"]):
        print(f"{name:32} {found['median']:9.1f} ({found['min']:.1f} to {found['max']:.1f})  {agreed.get(name)}")


def main() -> None:
    """Those that are named, each with its result."""
    parts = {"decode": decode, "join": join, "classify": classify, "embed": embed}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=list(parts))
    parser.add_argument("--models", type=Path, required=True, help="a folder for the models, about 3 GB")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=32, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=128, help="new tokens of each prompt")
    parser.add_argument("--texts", type=int, default=None, help="only the first so many tweets")
    parser.add_argument("--only", nargs="*", default=[], help="only engines whose names have one of these words")
    parser.add_argument("--compile", action="store_true", help="try transformers' generate compiled as well (minutes)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of results")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    threads = torch.get_num_threads()
    capability = processor()
    print(capability, flush=True)
    for name in given.names:
        found = {**facts(), "processor": capability, "libraries": libraries(), **parts[name](given, threads)}
        print(write(f"inference-{name}", found, given.out))


if __name__ == "__main__":
    main()
