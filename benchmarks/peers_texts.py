"""Classes and vectors of texts by Headway and its peers: each function gives the ways to set one engine up.

An engine gets texts and returns an array with a row for each: probabilities or logits, or vectors of length 1.  All of
them read texts in batches of ``size``, sorted by length; 1 is one text at a time, as they arrive.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from engines import in_threads
from inference_models import CLASSES, for_ctranslate2, onnx_graph
from peers_decode import load_headway
from safetensors.torch import load_file

LONGEST = 256
"""Tokens at which sentence-transformers cuts a text with this model; no tweet is as long."""
Rows = list[list[int]]
Answer = Callable[[list[str]], np.ndarray]
Ways = dict[str, Callable[[], Answer]]


def sorted_batches(read: Callable[[Rows], np.ndarray], directory: Path, size: int, at_a_time: int) -> Answer:
    """Texts to answers by an engine that reads rows of ids: the tokenizer of the directory, and sorted batches."""
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)

    def answer(texts: list[str]) -> np.ndarray:
        if size == 1:
            return np.concatenate([read([tokenizer.encode(text).ids]) for text in texts])
        rows = [one.ids for one in tokenizer.encode_batch_fast(texts)]
        order = sorted(range(len(rows)), key=lambda i: -len(rows[i]))
        parts = [order[at : at + size] for at in range(0, len(order), size)]
        found = in_threads(lambda part: read([rows[i] for i in part]), parts, at_a_time)
        answers = np.empty((len(rows), found[0].shape[1]), dtype=np.float32)
        answers[order] = np.concatenate(found)
        return answers

    return answer


def padded(rows: Rows) -> dict[str, np.ndarray]:
    """Rows of ids as BERT's three inputs, each (B, T) int64."""
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def of_headway(directory: Path, precision: str, classes: bool, size: int, device: str = "cpu") -> Ways:
    """Headway as it comes: it makes its own batches of a list."""

    def make() -> Answer:
        pipe: Any = load_headway(directory, precision, device)
        if not classes:
            return pipe if size > 1 else lambda texts: np.stack([pipe(text) for text in texts])

        def scores(found: list[dict[str, Any]]) -> np.ndarray:
            return np.array([[one["scores"][name] for name in CLASSES] for one in found], dtype=np.float32)

        return lambda texts: scores(pipe(texts) if size > 1 else [pipe(text) for text in texts])

    return {"as it comes": make}


def of_transformers(directory: Path, precision: str, size: int, device: str = "cpu") -> Ways:
    """transformers' pipeline on texts sorted by length, as its batches need, and its model without the pipeline."""

    def load() -> Any:
        kind = transformers.BertForSequenceClassification
        return kind.from_pretrained(directory, dtype=getattr(torch, precision)).eval().to(device)

    def pipeline() -> Answer:
        words = transformers.AutoTokenizer.from_pretrained(directory)
        pipe = transformers.pipeline("text-classification", model=load(), tokenizer=words, device=device)

        def answer(texts: list[str]) -> np.ndarray:
            order = range(len(texts)) if size == 1 else sorted(range(len(texts)), key=lambda i: -len(texts[i]))
            with torch.inference_mode():
                if size == 1:
                    found = [pipe(text, top_k=None) for text in texts]
                else:
                    found = pipe([texts[i] for i in order], top_k=None, batch_size=size)
            answers = np.empty((len(texts), len(CLASSES)), dtype=np.float32)
            for i, each in zip(order, found, strict=True):
                for one in each:
                    answers[i, CLASSES.index(one["label"])] = one["score"]
            return answers

        return answer

    def alone() -> Answer:
        model = load()

        def read(rows: Rows) -> np.ndarray:
            with torch.inference_mode():
                given = {name: torch.from_numpy(values).to(device) for name, values in padded(rows).items()}
                return model(**given).logits.float().cpu().numpy()

        return sorted_batches(read, directory, size, 1)

    return {"pipeline": pipeline, "model and tokenizer": alone}


def of_sentence_transformers(directory: Path, size: int, device: str = "cpu") -> Ways:
    """``encode``, which sorts by itself."""

    def make() -> Answer:
        from sentence_transformers import SentenceTransformer

        model: Any = SentenceTransformer(str(directory), device=device)
        if size == 1:
            return lambda texts: np.stack([model.encode(text, show_progress_bar=False) for text in texts])
        return lambda texts: model.encode(texts, batch_size=size, show_progress_bar=False)

    return {"encode": make}


def of_onnxruntime(directory: Path, folder: Path, kind: str, classes: bool, size: int, threads: int) -> Ways:
    """A fused graph; all threads on one batch, or a batch on each thread."""

    def make(at_a_time: int) -> Answer:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads // at_a_time, 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        graph = str(onnx_graph(directory, folder, kind, classes))
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        return sorted_batches(lambda rows: session.run(None, padded(rows))[0], directory, size, at_a_time)

    return _at_a_time(make, size, threads)


def of_openvino(directory: Path, folder: Path, precision: str, classes: bool, size: int, threads: int) -> Ways:
    """Compiled for latency (all threads on one batch) or for throughput (as many requests as it advises)."""

    def make(hint: str) -> Answer:
        import openvino

        settings = {
            "PERFORMANCE_HINT": hint,
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": threads,
        }
        graph = str(onnx_graph(directory, folder, "plain", classes))
        model = openvino.Core().compile_model(graph, "CPU", settings)
        if (given := model.get_property("INFERENCE_PRECISION_HINT").to_string()) != precision:
            raise RuntimeError(f"OpenVINO computes in {given} here")
        own = threading.local()

        def read(rows: Rows) -> np.ndarray:
            if not hasattr(own, "request"):
                own.request = model.create_infer_request()
            return np.array(own.request.infer(padded(rows), share_inputs=True)[0])

        at_a_time = 1 if hint == "LATENCY" or size == 1 else model.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        return sorted_batches(read, directory, size, at_a_time)

    return {hint: lambda hint=hint: make(hint) for hint in ("LATENCY", "THROUGHPUT")}


def of_ctranslate2(directory: Path, folder: Path, precision: str, classes: bool, size: int, threads: int) -> Ways:
    """Its encoder; all threads on one batch, or a batch on each thread; float32 also with Intel's MKL."""

    def make(at_a_time: int) -> Answer:
        return ctranslate2_reader(directory, folder, precision, classes, size, threads, at_a_time)

    def make_with_mkl(at_a_time: int) -> Answer:
        os.environ["CT2_USE_MKL"] = "1"
        return make(at_a_time)

    ways = _at_a_time(make, size, threads)
    if precision != "float32":
        return ways
    return ways | {f"{name}, MKL": way for name, way in _at_a_time(make_with_mkl, size, threads).items()}


def ctranslate2_reader(
    directory: Path, folder: Path, precision: str, classes: bool, size: int, threads: int, at_a_time: int
) -> Answer:
    """An encoder of CTranslate2, with the head or the mean in numpy."""
    import ctranslate2

    place, each = str(for_ctranslate2(directory, folder)), threads // at_a_time
    if precision not in ctranslate2.get_supported_compute_types("cpu"):
        raise RuntimeError(f"no {precision} on this processor")
    model = ctranslate2.Encoder(place, compute_type=precision, inter_threads=at_a_time, intra_threads=each)
    weights = load_file(directory / "model.safetensors") if classes else {}
    head = [weights[f"classifier.{name}"].numpy() for name in ("weight", "bias")] if classes else []

    def read(rows: Rows) -> np.ndarray:
        found = model.forward_batch(rows)
        if classes:
            return np.array(found.pooler_output) @ head[0].T + head[1]
        mask = padded(rows)["attention_mask"][:, :, None].astype(np.float32)
        mean = (np.array(found.last_hidden_state) * mask).sum(1) / mask.sum(1)
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    return sorted_batches(read, directory, size, at_a_time)


def _at_a_time(make: Callable[[int], Answer], size: int, threads: int) -> Ways:
    counts = sorted({1, threads}) if size > 1 else [1]
    return {f"{count} at a time": lambda count=count: make(count) for count in counts}
