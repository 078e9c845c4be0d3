"""``model.gguf`` of ``headway export --to gguf`` in llama.cpp, on the CPU.

Decoders continue texts: llama.cpp reads the tokens and keeps the keys and values, and Headway's own loop samples.

Letters: B rows, T tokens, V vocabulary.
"""

import logging
import weakref
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.errors import InputError
from headway.generation.decode import Steps
from headway.runtime.engine import Engine, Inputs, Writing, unpadded, write_by

FILE = "model.gguf"
BATCH = 512
"""Tokens that are read by one call."""
ROOM = 256
"""A context is made for a multiple of so many tokens."""
KEPT = 4
"""Contexts that are kept for later texts."""


class LlamaEngine(Engine):
    """A decoder in llama.cpp, which has no search."""

    def __init__(self, precision: str, file: Path, model: Any):
        import llama_cpp

        super().__init__("llama.cpp", precision, model)
        logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)  # it logs warnings as errors
        self.library: Any = llama_cpp
        self._free: dict[tuple[int, int], list[Any]] = {}  # contexts by rows and tokens
        settings = llama_cpp.llama_model_default_params()
        settings.n_gpu_layers = 0
        self.opened = llama_cpp.llama_model_load_from_file(str(file).encode(), settings)
        if not self.opened:
            raise InputError(f"{file}: llama.cpp {llama_cpp.__version__} cannot load it.")
        weakref.finalize(self, _release, llama_cpp, self.opened, self._free)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.opened))

    def outputs(self, inputs: Inputs) -> dict[str, Tensor]:
        """The logits of every token, each row by itself; 0 where there is padding."""

        def logits() -> Iterator[Tensor]:
            for row in inputs.rows:
                state = LlamaState(self, len(row))  # in whose memory the numbers are
                yield torch.from_numpy(state.read([row], every=True))

        return {self.result: inputs.at_tokens(logits(), self.vocabulary)}

    def write(self, prompts: Sequence[Sequence[int]], how: Writing) -> Steps:
        """New tokens by row."""
        longest = max((len(prompt) for prompt in prompts), default=0) + how.max_tokens
        most = min(longest, how.context, self.model.config.max_length)
        return write_by(partial(LlamaState, self, most), prompts, how)

    def borrow(self, rows: int, tokens: int) -> Any:
        """A context with nothing in it, for so many rows of so many tokens each."""
        free = self._free.get((rows, tokens))
        if free:
            context = free.pop()
            self.library.llama_memory_clear(self.library.llama_get_memory(context), True)
            return context
        settings = self.library.llama_context_default_params()
        settings.n_ctx, settings.n_seq_max, settings.n_batch = rows * tokens, rows, BATCH
        settings.n_ubatch = BATCH
        settings.n_threads = settings.n_threads_batch = torch.get_num_threads()
        if self.precision == "float32":  # below it, what is usual in llama.cpp: flash attention on a cache in float16
            settings.type_k = settings.type_v = self.library.GGML_TYPE_F32
            settings.flash_attn_type = self.library.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context = self.library.llama_init_from_model(self.opened, settings)
        if not context:
            raise MemoryError(f"llama.cpp cannot make a context of {rows} x {tokens} tokens")
        return context

    def give_back(self, rows: int, tokens: int, context: Any) -> None:
        """Keep a context for later, or free it where enough are kept."""
        if sum(map(len, self._free.values())) < KEPT:
            self._free.setdefault((rows, tokens), []).append(context)
        else:
            self.library.llama_free(context)


def _release(library: Any, model: Any, free: dict[tuple[int, int], list[Any]]) -> None:
    for context in (one for contexts in free.values() for one in contexts):
        library.llama_free(context)
    free.clear()
    library.llama_model_free(model)


class LlamaState:
    """What llama.cpp has read of some texts: a context of its own, in which each text is a sequence of ``tokens``."""

    def __init__(self, engine: LlamaEngine, tokens: int):
        self._engine, self._tokens = engine, -(-tokens // ROOM) * ROOM
        self._context: Any = None
        self._size = 0
        self._sequences: list[int] = []  # of each row
        self._lengths: list[int] = []  # by sequence

    def __del__(self) -> None:
        if self._context is not None:
            self._engine.give_back(self._size, self._tokens, self._context)

    def following(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """More tokens of each row (B, T) -> the logits of what follows, (B, V)."""
        return torch.from_numpy(self.read(unpadded(ids, mask)))

    def reorder(self, rows: Tensor) -> None:
        """Keep the given rows, (B',) int64, in that order; none may be repeated."""
        kept = [self._sequences[row] for row in rows.tolist()]
        memory = self._engine.library.llama_get_memory(self._context)
        for sequence in set(self._sequences) - set(kept):
            self._engine.library.llama_memory_seq_rm(memory, sequence, -1, -1)
        self._sequences = kept

    def read(self, rows: Sequence[Sequence[int]], *, every: bool = False) -> np.ndarray:
        """Read the next tokens of each row -> the logits after them, (B, V), which the next call may overwrite.

        With ``every``, those after each token, row by row.
        """
        if self._context is None:
            self._size = len(rows)
            self._context = self._engine.borrow(self._size, self._tokens)
            self._sequences, self._lengths = list(range(len(rows))), [0] * len(rows)
        tokens: list[tuple[int, int, int, bool]] = []  # token, position, sequence, whether its logits are wanted
        for sequence, new in zip(self._sequences, rows, strict=True):
            start, last = self._lengths[sequence], len(new) - 1
            tokens += [(token, start + at, sequence, every or at == last) for at, token in enumerate(new)]
            self._lengths[sequence] += len(new)
        if len(tokens) <= BATCH:
            return self._decode(tokens)
        parts = [self._decode(tokens[at : at + BATCH]).copy() for at in range(0, len(tokens), BATCH)]
        return np.concatenate(parts)

    def _decode(self, tokens: Sequence[tuple[int, int, int, bool]]) -> np.ndarray:
        """Read some tokens -> the logits that are wanted, in llama.cpp's memory: until the next call."""
        library = self._engine.library
        batch = library.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for at, (token, position, sequence, wanted) in enumerate(tokens):
                batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, position, 1
                batch.seq_id[at][0], batch.logits[at] = sequence, wanted
            if (status := library.llama_decode(self._context, batch)) != 0:
                raise RuntimeError(f"llama.cpp ends with {status} after {len(tokens)} tokens")
        finally:
            library.llama_batch_free(batch)
        count, width = sum(wanted for *_, wanted in tokens), self._engine.vocabulary
        if count == 0:
            return np.empty((0, width), np.float32)
        return np.ctypeslib.as_array(library.llama_get_logits(self._context), (count, width))


def open_engine(name: str, directory: Path, model: Any, precision: str) -> LlamaEngine:
    """The engine of an export of a decoder.  Raises InputError for a file that llama.cpp cannot load."""
    return LlamaEngine(precision, directory / FILE, model)
