"""What ``--engine auto`` gives: beside torch in Headway, and beside the engines' own libraries, in one run.

    python benchmarks/engine_choice.py classify decode --models FOLDER [--data ../shared/data] [--rounds 5]

Everything goes the way that a user takes: ``headway train`` for a few steps (all-MiniLM-L6-v2 on airline customers'
tweets; GPT-2 with 124 M drawn weights on Shakespeare), ``headway export``, ``headway bench RUN --store``, and then the
pipeline with ``engine="auto"``.  The libraries by themselves read the run's export for transformers.
"""

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peers_decode
import peers_texts
import torch
from engines import Engines, libraries, processor
from inference import tweets
from inference_models import gpt2, minilm, once
from machine import RESULTS, facts, headway, write

import headway as library
from headway.generation.sampling import Sampling

AUTO, TORCH = "headway auto", "headway torch"


def run_of(place: Path, train: list[str], exports: list[tuple[str, str]]) -> tuple[Path, dict[str, Any]]:
    """A run with its exports in it, and what ``bench --store`` measured."""

    def make(part: Path) -> None:
        headway("train", *train, "--device", "cpu", "--out", str(part))
        for target, precision in exports:
            command = [sys.executable, "-m", "headway", "export", str(part), "--to", target, "--precision", precision]
            subprocess.run([*command, "--quiet"], check=True)

    run = once(place, make)
    return run, headway("bench", str(run), "--time", "90s", "--store")["engines"]


def plain(run: Path) -> Path:
    """The run's export for transformers, next to it."""

    def make(part: Path) -> None:
        headway("export", str(run), "--to", "hf", "--out", str(part))

    return once(run.with_name(run.name + "-plain"), make)


def classify(given: argparse.Namespace, threads: int) -> dict[str, Any]:
    """Texts labelled a second by the classifier, 32 at a time and one by one, in float32."""
    data = given.data / "reviews" / "airline-train.csv"
    words = [str(data), "--from", str(minilm()), "--steps", "40", "--seeds", "1"]
    run, stored = run_of(given.models / "engines-minilm", words, [("onnx", "float32"), ("ctranslate2", "float32")])
    directory, folder, texts = plain(run), given.models / "engines-minilm-files", tweets(given.data)
    found: dict[str, Any] = {"stored": stored}
    for size, chosen in ((32, texts), (1, texts[:300])):
        engines = Engines(chosen, chosen[:: max(1, len(chosen) // 320)])
        for name, engine in ((TORCH, "torch"), (AUTO, "auto")):
            engines.add(name, {"as it comes": _classifier(run, engine, size)})
        engines.add("onnxruntime", peers_texts.of_onnxruntime(directory, folder, "fused", True, size, threads))
        engines.add("openvino", peers_texts.of_openvino(directory, folder, "f32", True, size, threads))
        engines.add("ctranslate2", peers_texts.of_ctranslate2(directory, folder, "float32", True, size, threads))
        labels = {name: answer.argmax(1) for name, answer in engines.answers.items()}
        equal = {name: float((own == labels[TORCH]).mean()) for name, own in labels.items()}
        speeds = engines.measure(given.rounds, len(chosen))
        found[f"texts_per_second_{size}"] = speeds
        found[f"others_{size}"] = {"share_of_labels_of_torch": equal, **_set_up(engines)}
        _show(f"{size} at a time", speeds, equal)
    return found


def decode(given: argparse.Namespace, threads: int) -> dict[str, Any]:
    """New tokens a second of one prompt, in float32 and int8."""
    text, tokens = given.data / "shakespeare.txt", 128
    words = [str(text), "--from", str(gpt2(given.models)), "--steps", "2", "--batch-tokens", "512"]
    exports = [("ctranslate2", "float32"), ("gguf", "float32"), ("gguf", "int8")]
    run, stored = run_of(given.models / "engines-gpt2", words, exports)
    prompt = np.random.default_rng(1).integers(0, 50256, (1, 32)).tolist()
    found: dict[str, Any] = {"stored": stored, "prompt_tokens": 32, "new_tokens": tokens}
    for precision, kind in (("float32", "F32"), ("int8", "Q8_0")):
        engines = Engines(prompt, prompt)
        for name, engine in ((TORCH, "torch"), (AUTO, "auto")):
            engines.add(name, {"as it comes": _writer(run, engine, precision, tokens)})
        ways = peers_decode.of_llama(plain(run), given.models / "engines-gpt2-files", kind, tokens, threads, 1)
        engines.add("llama.cpp", ways)
        speeds = engines.measure(given.rounds, tokens)
        equal = {name: float(np.mean(np.array(one) == engines.answers[TORCH])) for name, one in engines.answers.items()}
        found[f"tokens_per_second_{precision}"] = speeds
        found[f"others_{precision}"] = {"share_of_tokens_of_torch": equal, **_set_up(engines)}
        _show(precision, speeds, equal)
    return found


def _classifier(run: Path, engine: str, size: int) -> Callable[[], Any]:
    def make() -> Any:
        pipe: Any = library.load(run, device="cpu", precision="float32", engine=engine)

        def scores(texts: list[str]) -> np.ndarray:
            found = pipe(texts) if size > 1 else [pipe(text) for text in texts]
            return np.array([[one["scores"][label] for label in pipe.labels] for one in found], dtype=np.float32)

        return scores

    return make


def _writer(run: Path, engine: str, precision: str, tokens: int) -> Callable[[], Any]:
    def make() -> Any:
        pipe: Any = library.load(run, device="cpu", precision=precision, engine=engine)

        def write_on(prompts: list[list[int]]) -> list[list[int]]:
            found: list[list[int]] = [[] for _ in prompts]
            for step in pipe.runtime.write(prompts, Sampling(temperature=0.0), max_tokens=tokens):
                for row, token in step.items():
                    found[row].append(token)
            return found

        return write_on

    return make


def _set_up(engines: Engines) -> dict[str, Any]:
    return {"settings": engines.settings, "missing": engines.missing}


def _show(title: str, speeds: dict[str, Any], equal: dict[str, float]) -> None:
    print(title)
    fastest = max(one["median"] for name, one in speeds.items() if not name.startswith("headway"))
    for name, one in speeds.items():
        print(
            f"  {name:16} {one['median']:8.1f}  {one['median'] / fastest:.2f} of the fastest  equal {equal[name]:.4f}"
        )


def main() -> None:
    """Those that are named, each with its result."""
    parts = {"classify": classify, "decode": decode}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="+", choices=list(parts))
    parser.add_argument("--models", type=Path, required=True, help="a folder for the models")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    capability, threads = processor(), torch.get_num_threads()
    for name in given.names:
        found = {**facts(), "processor": capability, "libraries": libraries(), **parts[name](given, threads)}
        print(write(f"engine-choice-{name}", found, RESULTS))


if __name__ == "__main__":
    main()
