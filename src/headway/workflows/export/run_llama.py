"""Compare a GGUF file with its original through llama.cpp, which runs in a process of its own (``llama_reader``).

Letters: T length, V vocabulary, D width.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headway.generation.sampling import Sampling
from headway.tasks.common.compare_answers import BOUND, NEW, behind, worst
from headway.workflows.export.gguf_model import Architecture
from headway.workflows.export.gguf_tokenizer import TokenizerEntries
from headway.workflows.export.parity import Parity, lines, magnitude, own_texts, room
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


def compare_with_llama(
    subject: Subject,
    file: Path,
    architecture: Architecture,
    entries: TokenizerEntries,
    precision: str,
    notes: tuple[str, ...],
) -> Parity:
    """Ids of the lines that llama.cpp can read (``TokenizerEntries``), and logits with greedy tokens, or vectors."""
    tokenizer: Any = subject.tokenizer
    texts = lines(tokenizer, entries.reads)
    job: dict[str, Any] = {
        "file": str(file),
        "context": min(MOST_CONTEXT, architecture.context(subject.model.config)),
        "threads": torch.get_num_threads(),
        "lines": texts,
    }
    if architecture.causal:
        new = max(1, min(NEW, job["context"] // 2))
        job |= {"prompts": _prompts(subject, job["context"] - new), "new": new}
    else:
        job["texts"] = own_texts(tokenizer, room(subject.model), TEXTS) or ["a"]
    door = f'llama_cpp.Llama("{file.name}"' + (")" if architecture.causal else ", embedding=True)")
    answers, numbers, problem = _run(job)
    if problem is not None:
        return Parity(problem=f"{door} {problem}", reader=LIBRARY, version=version(LIBRARY), door=door)
    bound = None if precision != "float32" else BOUND if architecture.exact else TABLE_BOUND
    compare = _continuations if architecture.causal else _vectors
    found = compare(subject, job, answers, numbers, bound)
    ids = [(tokenizer.encode_batch(texts, special=special), answers[key]) for special, key in SIDES]
    different = [text for ours, theirs in ids for text, a, b in zip(texts, ours, theirs, strict=True) if a != b]
    problems = [found.problem] if found.problem else []
    if different:
        problems.append(f"llama.cpp gives different ids for {different[0][:60]!r}, one of {len(set(different))} lines")
    return replace(
        found,
        tokens_equal=not different,
        problem="; ".join(problems) or None,
        reader=LIBRARY,
        version=version(LIBRARY),
        door=door,
        notes=notes,
    )


def _run(job: dict[str, Any]) -> tuple[dict[str, Any], np.ndarray, str | None]:
    """(answers, numbers, None) of the reader, or the problem that it ended with."""
    with tempfile.TemporaryDirectory(prefix="headway-llama-") as name:
        paths = [Path(name) / file for file in ("job.json", "answers.json", "numbers.npy")]
        paths[0].write_text(json.dumps(job), encoding="utf-8")
        command = [sys.executable, "-P", str(READER), *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", errors="replace")
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            return {}, np.zeros(0), f"cannot use it: {said[-1] if said else f'it ended with {done.returncode}'}"
        return json.loads(paths[1].read_text(encoding="utf-8")), np.load(paths[2]), None


def _prompts(subject: Subject, most: int) -> list[list[int]]:
    """Texts of the tokenizer's own tokens as ids, and random ids: from 1 to ``most``."""
    tokenizer: Any = subject.tokenizer
    most = max(1, min(room(subject.model), most))
    found = [tokenizer.encode(text) for text in own_texts(tokenizer, most, PROMPTS // 2)]
    draw = random.Random(0)
    rows = subject.model.config.vocab_size
    while len(found) < PROMPTS:
        found.append([draw.randrange(rows) for _ in range(draw.randint(1, most))])
    return found


@torch.no_grad()
def _continuations(
    subject: Subject, job: dict[str, Any], answers: dict[str, Any], numbers: np.ndarray, bound: float | None
) -> Parity:
    """The logits after each prompt, and every token that llama.cpp writes greedily after it."""
    difference, lag, equal, seconds, size = 0.0, 0.0, 0, 0.0, 1.0
    for prompt, written, logits in zip(job["prompts"], answers["written"], torch.from_numpy(numbers), strict=True):
        seconds += _seconds(subject, prompt, len(written))
        ours = subject.model(torch.tensor([prompt + written[:-1]]))[0, len(prompt) - 1 :]  # (T, V)
        size = max(size, magnitude(ours))
        difference = worst(difference, ours[0] - logits)
        lag = worst(lag, behind(ours, torch.tensor(written)))
        equal += int((ours.argmax(dim=-1) == torch.tensor(written)).sum())
    bound = None if bound is None else bound * size
    problems = []
    if bound is not None and not difference <= bound:
        problems.append(f"the logits differ by {difference:.3g}, more than {bound:g}")
    if bound is not None and not lag <= bound:
        problems.append(f"llama.cpp continues a text with other tokens, apart by {lag:.3g}, more than {bound:g}")
    return Parity(
        difference,
        over=f"the logits after {len(job['prompts'])} prompts",
        bound=bound,
        agreement=(equal, job["new"] * len(job["prompts"])),
        texts=len(job["prompts"]),
        problem="; ".join(problems) or None,
        seconds=(seconds, answers["seconds"]),
    )


def _seconds(subject: Subject, prompt: list[int], new: int) -> float:
    """How long the new tokens after a prompt take here."""
    pipe: Any = subject.pipe
    start = time.monotonic()
    list(pipe.runtime.write([prompt], Sampling(temperature=0), max_tokens=new))
    return time.monotonic() - start


def _vectors(
    subject: Subject, job: dict[str, Any], answers: dict[str, Any], numbers: np.ndarray, bound: float | None
) -> Parity:
    """The vectors of texts, at length 1: float32 (N, D)."""
    pipe: Any = subject.pipe
    start = time.monotonic()
    ours = np.stack([pipe(text) for text in job["texts"]])
    seconds = time.monotonic() - start
    ours /= np.linalg.norm(ours, axis=1, keepdims=True)
    difference = worst(0.0, torch.from_numpy(ours - numbers))
    problem = None
    if bound is not None and not difference <= bound:
        problem = f"the vectors differ by {difference:.3g}, more than {bound:g}"
    return Parity(
        difference,
        over=f"the vectors of {len(job['texts'])} texts",
        bound=bound,
        texts=len(job["texts"]),
        problem=problem,
        seconds=(seconds, answers["seconds"]),
    )
