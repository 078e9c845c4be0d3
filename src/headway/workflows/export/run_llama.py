"""Compare a GGUF file with its original through llama.cpp, which runs in a process of its own (``llama_reader``).

Letters: N texts, T length, V vocabulary, D width.
"""

import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.generation.sampling import Sampling
from headway.tasks.checks import BOUND, NEW
from headway.workflows.export.gguf_model import Architecture
from headway.workflows.export.gguf_tokenizer import TokenizerEntries
from headway.workflows.export.parity import Parity, different_text, lines, own_texts, prompts, room
from headway.workflows.export.tally import HERE, Tally, timed
from headway.workflows.export.target import Subject

LIBRARY = "llama-cpp-python"
READER = Path(__file__).with_name("llama_reader.py")
PROMPTS, TEXTS = 16, 32
"""How many prompts are continued, and of how many texts vectors are made."""
SIDES = ((False, "ids"), (True, "special_ids"))
"""Whether special tokens are put around the lines, and the key of the ids in the reader's answers."""
MOST_CONTEXT = 512
"""Tokens."""
TABLE_BOUND = 2e-2
"""The largest difference where llama.cpp looks GELU up in a table of float16, which is less exact than the rest."""


def why_not_run() -> str | None:
    """Why llama.cpp cannot be run here, and what to do; None where llama-cpp-python can be imported.

    It is imported in a process of its own: a library that was compiled for another processor ends the process it is in.
    """
    if find_spec("llama_cpp") is None:
        return (
            "to compare its answers too, pip install 'headway[llama]' (it is compiled, which takes minutes) and run "
            "this command again"
        )
    tried = subprocess.run(
        [sys.executable, "-P", "-c", "import llama_cpp"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    if tried.returncode == 0:
        return None
    return (
        f"{LIBRARY} is installed, but cannot be imported ({_last_line(tried)}); to compare its answers too, "
        f"pip install --force-reinstall {LIBRARY} and run this command again"
    )


def compare_with_llama(
    subject: Subject,
    file: Path,
    architecture: Architecture,
    entries: TokenizerEntries,
    precision: str,
    notes: tuple[str, ...],
) -> Parity:
    """Ids of the lines that llama.cpp can read (``TokenizerEntries``), and logits with greedy tokens, or vectors."""
    tokenizer = subject.tokenizer
    texts = lines(tokenizer, entries.reads)
    job: dict[str, Any] = {
        "file": str(file),
        "context": min(MOST_CONTEXT, architecture.context(subject.model.config)),
        "threads": torch.get_num_threads(),
        "lines": texts,
    }
    if architecture.causal:
        new = max(1, min(NEW, job["context"] // 2))
        longest = max(1, min(room(subject.model), job["context"] - new))
        job |= {"prompts": prompts(tokenizer, subject.model.config.vocab_size, longest, PROMPTS), "new": new}
    else:
        job["texts"] = own_texts(tokenizer, room(subject.model), TEXTS) or ["a"]
    door = f'llama_cpp.Llama("{file.name}"' + (")" if architecture.causal else ", embedding=True)")
    answers, numbers, problem = _run(job)
    if problem is not None:
        return Parity(problem=f"{door} {problem}", reader=LIBRARY, version=version(LIBRARY), door=door)
    bound = None if precision != "float32" else BOUND if architecture.exact else TABLE_BOUND
    compare = _continuations if architecture.causal else _vectors
    found = compare(subject, job, answers, numbers, bound)
    line = different_text(
        texts, [(tokenizer.encode_batch(texts, special=special), answers[key]) for special, key in SIDES]
    )
    problems = [found.problem] if found.problem else []
    problems += [] if line is None else [f"llama.cpp gives different ids for {line[:60]!r}"]
    return replace(
        found,
        tokens_equal=line is None,
        problem="; ".join(problems) or None,
        reader=LIBRARY,
        version=version(LIBRARY),
        door=door,
        notes=notes,
    )


def _run(job: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray, str | None]:
    """(answers, numbers, None) of the reader, or the problem that it ended with."""
    with tempfile.TemporaryDirectory(dir=Path(job["file"]).parent) as name:
        paths = [Path(name) / file for file in ("job.json", "answers.json", "numbers.npy")]
        paths[0].write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-P", str(READER), *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
        if done.returncode:
            return {}, np.zeros(0), f"cannot use it: {_last_line(done)}"
        return json.loads(paths[1].read_text(encoding="utf-8")), np.load(paths[2]), None


def _last_line(done: "subprocess.CompletedProcess[str]") -> str:
    """What a process said last before it ended with an error."""
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return said[-1] if said else f"it ended with {done.returncode}"


@torch.no_grad()
def _continuations(
    subject: Subject, job: dict[str, Any], answers: dict[str, Any], numbers: np.ndarray, bound: float | None
) -> Parity:
    """The logits after each prompt, and every token that llama.cpp writes greedily after it."""
    tally = Tally(seconds=[0.0, answers["seconds"]])
    for prompt, written, there in zip(job["prompts"], answers["written"], torch.from_numpy(numbers), strict=True):
        with timed(tally.seconds, HERE):
            list(subject.pipe.runtime.write([prompt], Sampling(temperature=0), max_tokens=len(written)))
        logits = subject.model(torch.tensor([prompt + written[:-1]]))[0, len(prompt) - 1 :]  # (T, V)
        tally.compare(logits[0], there)
        tally.choose(logits, torch.tensor(written))
    over = f"the logits after {len(job['prompts'])} prompts"
    apart = "llama.cpp continues a text with other tokens, apart"
    return tally.parity(bound, len(job["prompts"]), over, "the logits differ", apart)


def _vectors(
    subject: Subject, job: dict[str, Any], answers: dict[str, Any], numbers: np.ndarray, bound: float | None
) -> Parity:
    """The vectors of texts, at length 1: float32 (N, D)."""
    tally = Tally(seconds=[0.0, answers["seconds"]])
    with timed(tally.seconds, HERE):
        ours = np.stack([subject.pipe(text) for text in job["texts"]])
    ours /= np.linalg.norm(ours, axis=1, keepdims=True)
    tally.compare(torch.from_numpy(ours), torch.from_numpy(numbers))
    return tally.parity(bound, len(job["texts"]), f"the vectors of {len(job['texts'])} texts", "the vectors differ")
