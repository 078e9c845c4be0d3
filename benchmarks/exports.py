"""Every family, and every task's own preset, exported to every target and compared: benchmarks/results/exports.json.

    python benchmarks/exports.py ../shared/data       with a language model trained on shakespeare.txt of that folder
    python benchmarks/exports.py                      without

Each is written in float32, where answers must agree within the target's bound, and in int8, where the difference and
the share of equal answers are reported.  A model that a target does not take has its message instead of figures.
Models are tiny and random; those of the tasks are trained here.  The exit status is 1 if a comparison fails, and if
llama-cpp-python is missing, without which llama.cpp cannot be run.
"""

import argparse
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import transformers
from doors import RUNS, trained
from machine import facts, installed, write

import headway
from headway.errors import InputError
from headway.formats.registry import FORMATS
from headway.workflows.export import export

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "doors"))
from doors_kit import MODELS, made

LIBRARIES = ("transformers", "gguf", "llama-cpp-python", "ctranslate2", "onnx", "onnxruntime", "openvino")


def rows_of(name: str, source: Path, folder: Path) -> list[dict[str, Any]]:
    """A row for each target but hf, whose results are in doors.json, and each of the two precisions."""
    rows = []
    for target, spec in FORMATS.items():
        for precision in ("float32", "int8"):
            if target == "hf" or precision not in spec.precisions:
                continue
            row: dict[str, Any] = {"model": name, "target": target, "precision": precision}
            try:
                found = export(source, folder / f"{name}-{target}-{precision}", to=target, precision=precision)
            except InputError as error:
                message = str(error).replace(str(source), "RUN")
                rows.append({**row, "passed": True, "refused": message})
                break
            parity = found.parity
            row |= {
                "passed": found.made and parity.passed,
                "reader": f"{parity.reader} {parity.version}",
                "max_difference": parity.max_difference,
                "over": parity.over,
                "bound": parity.bound,
                "equal_answers": parity.agreement,
                "tokens_equal": parity.tokens_equal,
                "seconds_there": None if parity.seconds is None else parity.seconds[1],
                "seconds_here": None if parity.seconds is None else parity.seconds[0],
            }
            rows.append(row if found.made else {**row, "problem": parity.problem})
    done = ", ".join(f"{row['target']} {'refused' if 'refused' in row else row['max_difference']}" for row in rows)
    print(f"{name}: {done}", file=sys.stderr, flush=True)
    return rows


def shakespeare(data: Path, folder: Path) -> Path:
    """A language model in the default layout with the default tokenizer, trained for a minute or two."""
    headway.train(data / "shakespeare.txt", out=folder / "shakespeare", preset="tiny", steps=400, threads=1, quiet=True)
    return folder / "shakespeare"


def main() -> None:
    """Make, export, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="folder with shakespeare.txt")
    data = parser.parse_args().data
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory(prefix="headway-exports-") as name:
        folder = Path(name)
        for kind, door in MODELS:
            name = f"{kind} with pooling" if door == "SentenceTransformer" else kind
            rows += rows_of(name, made(kind, door, folder / "made" / name), folder / "exports")
        for task in RUNS:
            rows += rows_of(f"a trained run: {task}", trained(task, folder), folder / "exports")
        if data is not None:
            rows += rows_of("shakespeare.txt, by default", shakespeare(data, folder), folder / "exports")
    failed = [row for row in rows if not row["passed"]]
    found = facts()
    found |= {"rows": rows, "passed": len(rows) - len(failed), "failed": len(failed)}
    found["versions"] = {**found["versions"], **installed(LIBRARIES)}
    write("exports", found)
    for row in failed:
        print(row)
    refused = sum("refused" in row for row in rows)
    print(f"{len(rows) - len(failed) - refused} exports agree with their originals, {refused} models are refused")
    if find_spec("llama_cpp") is None:
        print("llama.cpp was not run: pip install 'headway[llama]'")
    sys.exit(bool(failed) or find_spec("llama_cpp") is None)


if __name__ == "__main__":
    main()
