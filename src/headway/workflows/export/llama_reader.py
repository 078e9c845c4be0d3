"""Reads a GGUF file with llama-cpp-python, in a process of its own: an error in llama.cpp ends the process it is in.

    python llama_reader.py JOB.json ANSWERS.json NUMBERS.npy

Nothing of headway or torch is imported.  JOB has "file", "context" (tokens), "threads", "lines" (texts to tokenize) and
either "texts" (to make vectors of, length 1) or "prompts" (ids) with "new" (how many tokens to write greedily).
ANSWERS has "ids" and "special_ids" of the lines, "written" (ids) of the prompts, and "seconds"; NUMBERS has the
vectors, or the logits of the token after each prompt.
"""

import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def main(job_file: str, answers_file: str, numbers_file: str) -> None:
    """Read a job, write its answers."""
    import llama_cpp

    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    encoder = "texts" in job
    llama = llama_cpp.Llama(
        job["file"], n_ctx=job["context"], n_threads=job["threads"], n_threads_batch=job["threads"], embedding=encoder,
        type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, verbose=False,
    )  # fmt: skip
    lines = [line.encode() for line in job["lines"]]
    answers: dict[str, Any] = {
        "ids": [_ids(llama, line, special=False) for line in lines],
        "special_ids": [_ids(llama, line, special=True) for line in lines],
    }
    start = time.monotonic()
    if encoder:
        numbers = np.array([llama.embed(text, normalize=True) for text in job["texts"]], dtype=np.float32)
    else:
        found = [_continued(llama_cpp, llama, prompt, job["new"]) for prompt in job["prompts"]]
        numbers = np.stack([logits for logits, _ in found])
        answers["written"] = [written for _, written in found]
    answers["seconds"] = time.monotonic() - start
    np.save(numbers_file, numbers)
    Path(answers_file).write_text(json.dumps(answers), encoding="utf-8")


def _ids(llama: Any, line: bytes, special: bool) -> list[int]:
    """The ids of a text, where ``special`` with what is put before and after it; a special token in it is text."""
    import llama_cpp

    room = 2 * len(line) + 8
    found = (llama_cpp.llama_token * room)()
    vocabulary = llama_cpp.llama_model_get_vocab(llama.model)
    count = llama_cpp.llama_tokenize(vocabulary, line, len(line), found, room, special, False)
    if count < 0:
        raise RuntimeError(f"llama.cpp makes {-count} tokens of {len(line)} bytes")
    return list(found[:count])


def _continued(llama_cpp: Any, llama: Any, prompt: list[int], new: int) -> tuple[np.ndarray, list[int]]:
    """The logits after a prompt, and the tokens that are written greedily."""
    llama.reset()
    first, written, given = None, [], prompt
    for _ in range(new):
        llama.eval(given)
        pointer = llama_cpp.llama_get_logits_ith(llama.ctx, -1)
        logits = np.ctypeslib.as_array(ctypes.cast(pointer, ctypes.POINTER(ctypes.c_float)), (llama.n_vocab(),)).copy()
        first = logits if first is None else first
        given = [int(logits.argmax())]
        written += given
    assert first is not None
    return first, written


if __name__ == "__main__":
    main(*sys.argv[1:])
