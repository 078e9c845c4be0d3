"""What follows an encoder that CTranslate2 runs: ``head.json`` says how, and ``head.npz`` has a classifier's matrices.

    vectors -> pooled -> [length 1] -> [dense, activation] -> [out] -> a vector, or a logit for each label

``apply_head`` computes it with numpy alone.  Letters: T length, D width, C classes.
"""

from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from headway.hub.kept_entries import kept
from headway.io.atomic_write import write_json, write_whole
from headway.io.strict_json import read_object
from headway.models.heads import Gives, PoolingHead
from headway.models.transformer import Encoder
from headway.workflows.export.target import Subject

ACTIVATIONS: dict[str, Any] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}
"""The activations of the classifiers of BERT, RoBERTa and DistilBERT."""
DESCRIPTION, MATRICES = "head.json", "head.npz"


def head_problem(head: Any) -> str | None:
    """Why a head cannot be written so; None if it can."""
    if head is None or head.gives is not Gives.ROW:
        return None
    if not isinstance(head.norm, nn.Identity) or (head.dense is not None and head.activation not in ACTIVATIONS):
        return "its classifier has a norm or an activation that head.json does not describe"
    return None


def write_head(subject: Subject, directory: Path) -> None:
    """Write the files of an encoder's head; nothing for another model."""
    if not isinstance(subject.model, Encoder):
        return
    head: Any = subject.model.head if subject.model.head is not None else PoolingHead()
    described = {"pooling": head.pooling, "normalise": head.normalise}
    if head.gives is Gives.ROW:
        described |= {"activation": head.activation, "labels": list(getattr(subject.pipe, "labels", []))}
        if (problem := kept(subject.model, "problem_type")) is not None:
            described["problem_type"] = problem
        arrays: dict[str, Any] = {name: weight.detach().float().numpy() for name, weight in head.named_parameters()}

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.savez(file, **arrays)

        write_whole(directory / MATRICES, write)
    write_json(directory / DESCRIPTION, described)


def apply_head(vectors: np.ndarray, directory: Path) -> np.ndarray:
    """The vectors of the tokens of one text, (T, D) -> its vector (D,), or its logits (C,)."""
    described = read_object(directory / DESCRIPTION)
    x = {"mean": vectors.mean(axis=0), "first": vectors[0], "last": vectors[-1]}[described["pooling"]]
    if described["normalise"]:
        x = x / np.linalg.norm(x)
    if "labels" not in described:
        return x
    with np.load(directory / MATRICES) as matrices:
        if "dense.weight" in matrices:
            x = ACTIVATIONS[described["activation"]](matrices["dense.weight"] @ x + matrices.get("dense.bias", 0.0))
        return matrices["out.weight"] @ x + matrices.get("out.bias", 0.0)
