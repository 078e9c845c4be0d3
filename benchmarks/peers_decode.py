"""Greedy decoding by Headway and its peers: each function gives the ways to set one engine up.

An engine gets prompts of equal length, as ids, and returns the new ids of each.  No end of text stops it.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from inference_models import for_ctranslate2, gguf_file

import headway
from headway.generation.sampling import Sampling
from headway.runtime.batcher import Batcher

Ids = list[list[int]]
Ways = dict[str, Callable[[], Callable[[Ids], Ids]]]


def load_headway(directory: Path, precision: str, device: str = "cpu") -> Any:
    """The pipeline in a precision."""
    return headway.load(directory, device=device, precision=precision)


def of_headway(directory: Path, precision: str, tokens: int, device: str = "cpu") -> Ways:
    """Headway as it comes."""

    def make() -> Callable[[Ids], Ids]:
        pipe = load_headway(directory, precision, device)

        def write(prompts: Ids) -> Ids:
            found: Ids = [[] for _ in prompts]
            for step in pipe.runtime.write(prompts, Sampling(temperature=0.0), max_tokens=tokens):
                for row, token in step.items():
                    found[row].append(token)
            return found

        return write

    return {"as it comes": make}


def of_headway_joining(directory: Path, precision: str, tokens: int, device: str = "cpu") -> Ways:
    """Headway, of whose prompts one more begins at every step of the others."""

    def make() -> Callable[[Ids], Ids]:
        batcher = Batcher(load_headway(directory, precision, device).model)  # one for all texts, as in a server

        def write(prompts: Ids) -> Ids:
            waiting, found = list(prompts), {}
            while waiting or batcher.busy:
                if waiting:
                    request = batcher.submit(waiting.pop(0), Sampling(temperature=0.0), max_tokens=tokens)
                    found[request] = []
                for request, token in batcher.step():
                    if token is not None:
                        found[request].append(token)
            return list(found.values())

        return write

    return {"one more at every step": make}


def of_transformers(directory: Path, precision: str, tokens: int, compiled: bool, device: str = "cpu") -> Ways:
    """``generate`` with a growing cache, with a static one, and, if asked for, compiled with the static one.

    On a GPU transformers compiles by itself with the static cache.
    """

    def make(cache: str | None, compile_it: bool = False) -> Callable[[Ids], Ids]:
        model = transformers.GPT2LMHeadModel.from_pretrained(directory, dtype=getattr(torch, precision)).eval()
        model.to(device)
        model.generation_config = transformers.GenerationConfig(
            max_new_tokens=tokens, do_sample=False, pad_token_id=0, cache_implementation=cache
        )
        if compile_it:
            model.generation_config.compile_config = transformers.CompileConfig(mode="default", fullgraph=False)
            model.generation_config.compile_config._compile_all_devices = True

        def write(prompts: Ids) -> Ids:
            ids = torch.tensor(prompts, device=device)
            with torch.inference_mode():
                found = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids))
            return found[:, ids.shape[1] :].tolist()

        return write

    ways: Ways = {"growing cache": lambda: make(None), "static cache": lambda: make("static")}
    return {**ways, "static cache, compiled": lambda: make("static", True)} if compiled else ways


def of_ctranslate2(directory: Path, folder: Path, precision: str, tokens: int, threads: int, rows: int) -> Ways:
    """All threads on one batch, or, of several prompts, a part on each thread; float32 also with Intel's MKL.

    CTranslate2 chooses oneDNN by itself on processors that are not Intel's, and MKL if CT2_USE_MKL=1 says so, for the
    whole process.
    """

    def make(workers: int) -> Callable[[], Callable[[Ids], Ids]]:
        return partial(ctranslate2_writer, directory, folder, precision, tokens, threads, workers)

    ways: Ways = {f"{workers} at a time": make(workers) for workers in sorted({1, min(rows, threads)})}
    if precision != "float32":
        return ways
    return ways | {f"{name}, MKL": partial(_with_mkl, way) for name, way in ways.items()}


def ctranslate2_writer(
    directory: Path, folder: Path, precision: str, tokens: int, threads: int, workers: int
) -> Callable[[Ids], Ids]:
    """A generator of CTranslate2 that computes ``workers`` batches at a time."""
    import ctranslate2

    place, each = for_ctranslate2(directory, folder), threads // workers
    if precision not in ctranslate2.get_supported_compute_types("cpu"):
        raise RuntimeError(f"no {precision} on this processor")
    model = ctranslate2.Generator(str(place), compute_type=precision, inter_threads=workers, intra_threads=each)
    names = transformers.AutoTokenizer.from_pretrained(directory).convert_ids_to_tokens

    def write(prompts: Ids) -> Ids:
        size = 0 if workers == 1 else -(-len(prompts) // workers)
        found = model.generate_batch(
            [names(ids) for ids in prompts], max_batch_size=size, beam_size=1, sampling_topk=1,
            min_length=tokens, max_length=tokens, include_prompt_in_result=False,
        )  # fmt: skip
        return [one.sequences_ids[0] for one in found]

    return write


def _with_mkl(make: Callable[[], Callable[[Ids], Ids]]) -> Callable[[Ids], Ids]:
    """CTranslate2 with Intel's MKL, a choice that it reads once in a process."""
    os.environ["CT2_USE_MKL"] = "1"
    return make()


def of_llama(directory: Path, folder: Path, kind: str, tokens: int, threads: int, rows: int) -> Ways:
    """llama.cpp by its C interface, all prompts as sequences of one batch.

    One prompt with and without flash attention; several with a cache for each of them, or one that they share.
    """
    choices = {"flash attention": (True, False), "no flash attention": (False, False)}
    if rows > 1:
        choices = {"a cache each": (True, False), "a shared cache": (True, True)}
    return {
        name: lambda chosen=chosen: Llama(gguf_file(directory, folder, kind), tokens, threads, *chosen)
        for name, chosen in choices.items()
    }


class Llama:
    """A model and a context of llama.cpp; greedy."""

    def __init__(self, file: Path, tokens: int, threads: int, flash: bool, shared: bool = False):
        import llama_cpp

        self.lib, self.file, self.tokens, self.threads = llama_cpp, file, tokens, threads
        self.flash, self.shared = flash, shared
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(quiet, None)
        self._quiet = quiet  # llama.cpp keeps its address
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(str(file).encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {file.name}")
        self.width = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.context: Any = None
        self.room = (0, 0)

    def __call__(self, prompts: Ids) -> Ids:
        """The new ids of each prompt."""
        rows, length = len(prompts), len(prompts[0])
        if self.room != (rows, length):
            self._open(rows, length)
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        logits = self._read(
            [(row, at, ids[at], at == length - 1) for row, ids in enumerate(prompts) for at in range(length)]
        )
        chosen = [logits.argmax(axis=1).tolist()]
        for at in range(length, length + self.tokens - 1):
            logits = self._read([(row, at, token, True) for row, token in enumerate(chosen[-1])])
            chosen.append(logits.argmax(axis=1).tolist())
        return [list(row) for row in zip(*chosen, strict=True)]

    def _open(self, rows: int, length: int) -> None:
        params = self.lib.llama_context_default_params()
        params.n_ctx, params.n_seq_max = rows * (-(-(length + self.tokens) // 256) * 256), rows
        params.n_batch = params.n_ubatch = max(512, rows * length)
        params.n_threads = params.n_threads_batch = self.threads
        if hasattr(params, "flash_attn_type"):
            params.flash_attn_type = int(self.flash)
        else:
            params.flash_attn = self.flash
        if hasattr(params, "kv_unified"):
            params.kv_unified = self.shared
        if self.context:
            self.lib.llama_free(self.context)
        self.context = self.lib.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp makes no context")
        self.batch, self.room = self.lib.llama_batch_init(rows * length, 0, 1), (rows, length)

    def _read(self, tokens: list[tuple[int, int, int, bool]]) -> np.ndarray:
        """Read (row, position, token, whether its logits are wanted); the logits that are wanted, in order."""
        batch = self.batch
        batch.n_tokens = len(tokens)
        for i, (row, at, token, wanted) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, at, wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, row
        if self.lib.llama_decode(self.context, batch):
            raise RuntimeError("llama.cpp does not decode this batch")
        count = sum(wanted for *_, wanted in tokens)
        return np.ctypeslib.as_array(self.lib.llama_get_logits(self.context), (count, self.width))


def first_logits(directory: Path, folder: Path, prompts: Ids, threads: int) -> dict[str, np.ndarray]:
    """What float32 engines think of the first new token of the first prompt, where they say so: (V,) each."""
    found, ids = {}, torch.tensor(prompts[:1])
    pipe = load_headway(directory, "float32")
    with torch.no_grad():
        found["headway float32"] = pipe.model.next_logits(ids, None, pipe.model.new_state())[0].numpy()
        found["transformers float32"] = (
            transformers.GPT2LMHeadModel.from_pretrained(directory).eval()(ids).logits[0, -1].numpy()
        )
    for name, given in {"ctranslate2 float32": _ctranslate2_logits, "llama.cpp float32": _llama_logits}.items():
        try:
            found[name] = given(directory, folder, prompts[:1], threads)
        except Exception as error:  # a missing engine is reported where it is set up
            print(f"{name}: no logits, {error}", flush=True)
    return found


def _ctranslate2_logits(directory: Path, folder: Path, prompts: Ids, threads: int) -> np.ndarray:
    import ctranslate2

    model = ctranslate2.Generator(str(for_ctranslate2(directory, folder)), compute_type="float32")
    return np.array(model.forward_batch(prompts).to_device(ctranslate2.Device.cpu))[0, -1]


def _llama_logits(directory: Path, folder: Path, prompts: Ids, threads: int) -> np.ndarray:
    model = Llama(gguf_file(directory, folder, "F32"), 1, threads, False)
    model(prompts)
    return np.ctypeslib.as_array(model.lib.llama_get_logits(model.context), (1, model.width))[0].copy()
