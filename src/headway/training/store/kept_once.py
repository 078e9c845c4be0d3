"""The weights of a finished run are stored once: a checkpoint omits those that the saved model holds bit for bit.

The manifest of the checkpoint then names them under ELSEWHERE with a SHA-256 of their values, by which they are checked
when they are read from the saved model.  Before such a run is trained on, ``restore_weights`` writes them into the
checkpoint again, since training replaces the saved model.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headway.errors import InputError
from headway.hub.directory import load_model
from headway.hub.safe.weights import FILE
from headway.io.atomic_write import write_json, write_whole
from headway.io.digest import sha256

ELSEWHERE = "in_saved_model"
"""The key of a manifest: kind of weights -> the names of their tensors and the SHA-256 of these."""


def drop_duplicate_weights(checkpoint: Path) -> None:
    """Remove from a checkpoint the weights that the run's saved model holds bit for bit.

    The checkpoint is complete at every moment: its manifest is replaced first, then unlisted files are removed.
    """
    manifest = _manifest(checkpoint)
    kinds = [kind for kind in ("best", "average", "model") if f"{kind}.safetensors" in manifest["files"]]
    saved = (_saved_weights(checkpoint) if kinds else None) or {}
    left, elsewhere = dict(manifest["files"]), dict(manifest.get(ELSEWHERE, {}))
    for kind in kinds:
        tensors = load_file(checkpoint / f"{kind}.safetensors")
        own = {name: saved.get(name.removeprefix(f"{kind}.")) for name in tensors}
        if tensors and all(_same(tensor, own[name]) for name, tensor in tensors.items()):
            elsewhere[kind] = {"names": sorted(tensors), "sha256": _digest(sorted(tensors.items()))}
            del left[f"{kind}.safetensors"]
    if len(left) < len(manifest["files"]):
        write_json(checkpoint / "MANIFEST.json", {**manifest, "files": left, ELSEWHERE: elsewhere})
    for path in checkpoint.glob("*.safetensors"):
        if path.name not in left:
            path.unlink()


def restore_weights(checkpoint: Path) -> None:
    """Write back into a checkpoint what ``drop_duplicate_weights`` removed.  Raises OSError where the disk is full."""
    manifest = _manifest(checkpoint)
    if not (elsewhere := manifest.get(ELSEWHERE)):
        return
    files = dict(manifest["files"])
    for kind in elsewhere:
        tensors = from_saved_model(checkpoint, {kind: elsewhere[kind]})
        place = checkpoint / f"{kind}.safetensors"
        write_whole(place, lambda temporary, tensors=tensors: save_file(tensors, temporary))  # type: ignore[misc]
        files[place.name] = {"bytes": place.stat().st_size, "sha256": sha256(place)}
    whole = {key: value for key, value in manifest.items() if key != ELSEWHERE}
    write_json(checkpoint / "MANIFEST.json", {**whole, "files": files})


def from_saved_model(checkpoint: Path, elsewhere: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors of a checkpoint that the run's saved model holds, by their names in the checkpoint."""
    if not elsewhere:
        return {}
    saved = _saved_weights(checkpoint) or {}
    return {
        name: saved[name.removeprefix(f"{kind}.")].detach().clone()
        for kind, facts in elsewhere.items()
        for name in facts["names"]
    }


def problem_elsewhere(checkpoint: Path, elsewhere: Mapping[str, Any]) -> str | None:
    """What is wrong with the tensors that the saved model should hold, or None."""
    try:
        found = from_saved_model(checkpoint, elsewhere)
    except KeyError:
        found = {}
    for kind, facts in elsewhere.items():
        names = sorted(facts["names"])
        if not set(names) <= set(found) or _digest((name, found[name]) for name in names) != facts["sha256"]:
            return f"its {kind} weights were kept in {_run(checkpoint) / FILE}, which now holds another model"
    return None


def _run(checkpoint: Path) -> Path:
    """The run directory of a checkpoint, RUN/checkpoints/step-N."""
    return checkpoint.parent.parent


def _saved_weights(checkpoint: Path) -> dict[str, Tensor] | None:
    """The parameters of the run's saved model by our names; None where it cannot be read."""
    with contextlib.suppress(InputError, OSError):
        return dict(load_model(_run(checkpoint)).named_parameters())
    return None


def _same(one: Tensor, other: Tensor | None) -> bool:
    """Whether two tensors are the same bit for bit."""
    if other is None or one.shape != other.shape or one.dtype != other.dtype:
        return False
    return bool((_bytes(one) == _bytes(other)).all())


def _digest(tensors: Iterable[tuple[str, Tensor]]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> Any:
    """The bytes of a tensor, as a buffer."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()


def _manifest(checkpoint: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkpoint / "MANIFEST.json").read_text(encoding="utf-8"))
    return found
