"""llama.cpp in a process of its own.

An error in llama.cpp ends the process that it is in.  That process is this file, run as a script: it is told what to
open and asked for a method of ``_Reader`` with its arguments, a line of JSON each, and answers with one.  Numbers
follow the line that has their "shape", as float32.

Letters: B rows, T length, D width.
"""

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from headway.formats.gguf.engine import LlamaEngine
from headway.generation.decode import Steps
from headway.generation.sampling import Sampling
from headway.models.config import TransformerConfig
from headway.models.heads import Gives
from headway.runtime.engine import LOGITS, OF_TEXT, Engine, Inputs, Lacks, Writing

LIBRARY = "llama-cpp-python"


def why_not_run() -> str | None:
    """Why llama.cpp cannot be run here, and what to do; None where llama-cpp-python can be imported.

    It is imported in a process of its own: a library that was compiled for another processor ends the process it is in.
    """
    if find_spec("llama_cpp") is None:
        return (
            "to compare its answers too, pip install 'headway[llama]' (it is compiled, which takes minutes) and run "
            "this command again"
        )
    words = [sys.executable, "-P", "-c", "import llama_cpp"]
    tried = subprocess.run(words, capture_output=True, text=True, encoding="utf-8", errors="replace")
    if tried.returncode == 0:
        return None
    why = _last_line(tried.stderr, tried.returncode)
    return (
        f"{LIBRARY} is installed, but cannot be imported ({why}); to compare its answers too, "
        f"pip install --force-reinstall {LIBRARY} and run this command again"
    )


class Ended(Exception):
    """llama.cpp has ended its process; the message is what it said last."""


@contextmanager
def llama_process(*settings: Any) -> Iterator[Callable[..., Any]]:
    """Asks a ``_Reader`` with these settings, in a process that ends with the context.  Raises Ended."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command, pipe = [sys.executable, "-P", __file__], subprocess.PIPE
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment) as process,
    ):
        assert process.stdin is not None and process.stdout is not None
        requests, answers = process.stdin, process.stdout

        def ask(method: str, *arguments: Any) -> Any:
            try:
                requests.write(json.dumps([settings, method, arguments]).encode() + b"\n")
                requests.flush()
                answer = json.loads(answers.readline() or b"null")
                if isinstance(answer, dict):
                    numbers = answers.read(4 * math.prod(answer["shape"]))
                    return torch.frombuffer(bytearray(numbers), dtype=torch.float32).reshape(answer["shape"])
                if answer is not None:
                    return answer
                raise EOFError
            except (EOFError, OSError):
                with suppress(OSError):
                    requests.close()
                code = process.wait()
                errors.seek(0)
                raise Ended(_last_line(errors.read().decode("utf-8", "replace"), code)) from None

        try:
            yield ask
        finally:
            process.kill()


class LlamaProcess(Engine):
    """The engine of a decoder in another process; of an encoder, what makes vectors of texts, found by their ids."""

    def __init__(self, model: Any, precision: str, ask: Callable[..., Any], texts: dict[tuple[int, ...], str]):
        super().__init__("llama.cpp", precision, model)
        self.result = OF_TEXT if texts else LOGITS
        self._ask, self._texts = ask, texts

    def outputs(self, inputs: Inputs) -> dict[str, Tensor]:
        """The logits of a decoder, or the vectors of texts: (B, D)."""
        if not self._texts:
            mask = None if inputs.mask is None else inputs.mask.tolist()
            return {self.result: self._ask("logits", inputs.ids.tolist(), mask)}
        texts = [self._texts.get(tuple(row)) for row in inputs.rows]
        if None in texts:
            raise Lacks("make vectors of ids")
        return {self.result: self._ask("vectors", texts, getattr(self.model.head, "normalise", True))}

    def write(self, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
        """New tokens by row."""
        plain = {**asdict(how), "end": list(how.end), "forbidden": list(how.forbidden)}
        yield from map(dict, self._ask("written", list(map(list, prompts)), plain))


class _Reader:
    """What answers in the other process."""

    def __init__(self, file: str, precision: str, context: int, threads: int, config: dict[str, Any], causal: bool):
        import llama_cpp

        torch.set_num_threads(threads)
        self._library: Any = llama_cpp
        self._opened: Any
        if causal:
            known = TransformerConfig.from_dict(config)
            model = SimpleNamespace(config=known, head=SimpleNamespace(gives=Gives.VOCABULARY))
            self._opened = LlamaEngine(precision, Path(file), model)
            opened = self._opened.opened
        else:
            self._opened = llama_cpp.Llama(
                file, n_ctx=context, n_threads=threads, n_threads_batch=threads, embedding=True,
                type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, verbose=False,
            )  # fmt: skip
            opened = self._opened.model
        self._vocabulary = llama_cpp.llama_model_get_vocab(opened)

    def logits(self, ids: list[list[int]], mask: list[list[bool]] | None) -> Tensor:
        return self._opened.outputs(Inputs(torch.tensor(ids), None if mask is None else torch.tensor(mask)))[LOGITS]

    def written(self, prompts: list[list[int]], how: dict[str, Any]) -> list[list[tuple[int, int]]]:
        writing = Writing(**{**how, "sampling": Sampling(**how["sampling"])})
        return [list(step.items()) for step in self._opened.write(prompts, writing)]

    def vectors(self, texts: list[str], normalise: bool) -> Tensor:
        return torch.tensor([self._opened.embed(text, normalize=normalise) for text in texts])

    def tokenized(self, texts: list[str], special: bool) -> list[list[int]]:
        """The ids of texts, where ``special`` with what is put around them; a special token in a text is text."""
        found = []
        for line in (text.encode() for text in texts):
            room = 2 * len(line) + 8
            ids = (self._library.llama_token * room)()
            count = self._library.llama_tokenize(self._vocabulary, line, len(line), ids, room, special, False)
            if count < 0:
                raise RuntimeError(f"llama.cpp makes {-count} tokens of {len(line)} bytes")
            found.append(list(ids[:count]))
        return found


def _answer() -> None:
    """Answer what is asked at the standard input, until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what llama.cpp prints is no answer
    reader: _Reader | None = None
    for line in sys.stdin.buffer:
        settings, method, arguments = json.loads(line)
        reader = reader or _Reader(*settings)
        answer: Any = getattr(reader, method)(*arguments)
        numbers = b""
        if isinstance(answer, Tensor):
            numbers = answer.detach().float().contiguous().numpy().tobytes()
            answer = {"shape": list(answer.shape)}
        answers.write(json.dumps(answer).encode() + b"\n" + numbers)
        answers.flush()


def _last_line(said: str, code: int) -> str:
    """What a process said last before it ended with an error."""
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else f"it ended with {code}"


if __name__ == "__main__":
    _answer()
