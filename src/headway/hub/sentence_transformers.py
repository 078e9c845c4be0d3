"""The modules after the Transformer in a directory of sentence-transformers: pooling, normalisation, a dense layer.

``modules.json`` lists the modules; each but the first and the normalisation has a folder of its own.  Here they form
the encoder's head:

    Transformer, Pooling                        PoolingHead(normalise=False)
    Transformer, Pooling, Normalize             PoolingHead
    Transformer, Pooling, Dense[, Normalize]    PoolingHead with a dense layer
    Transformer, Pooling, Normalize, Dense      ClassificationHead(dense=False, normalise=True)
    Transformer, Pooling, Dense                 ClassificationHead(dense=False) where config.json names the classes

A classifier's dense layer has no activation and one output for each label of ``id2label`` in ``config.json``; in
sentence-transformers such a directory returns the logits as if they were a vector.  Names, shapes and paths are checked
before use: a path must be the bare name of a folder inside the directory.
"""

import copy
import re
from pathlib import Path
from typing import Any

from torch import nn

from headway.errors import InputError, shown
from headway.hub.families.entries import Json
from headway.hub.kept_entries import keep, kept
from headway.hub.safe.weights import FILE, open_file, save_weights
from headway.io.atomic_write import write_json
from headway.io.regular_file import inside
from headway.io.strict_json import read_list, read_object
from headway.models.heads import ClassificationHead, Gives, Pooling, PoolingHead, gives
from headway.models.transformer import Embeddings, Encoder
from headway.nn.linear import Linear

MODULES, SENTENCE, PROMPTS = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
CHAINS = (
    ["Pooling"],
    ["Pooling", "Normalize"],
    ["Pooling", "Dense"],
    ["Pooling", "Dense", "Normalize"],
    ["Pooling", "Normalize", "Dense"],
)
"""The supported sequences of modules after the Transformer."""
FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
POOLING: dict[str, Pooling] = {"mean": "mean", "cls": "first", "lasttoken": "last"}
MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_lasttoken": "lasttoken"}
"""Older files have a flag for each way of pooling, newer ones a name."""
ACTIVATIONS = {"Identity": None, "Tanh": "tanh"}
VECTOR = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
WIDEST = 2**20


def add_modules(model: nn.Module, directory: Path, theirs: Json) -> None:
    """Give a loaded encoder the head that ``modules.json`` describes; without such a file nothing changes.

    ``theirs`` is ``config.json``.  The maximum text length in tokens is kept with the model.  Raises InputError naming
    the file if it is damaged, leaves the directory, or is not supported.
    """
    if not (directory / MODULES).exists():
        return
    steps = _read_modules(directory)
    if not isinstance(model, Encoder):
        raise InputError(
            f"{directory / MODULES}: found a {type(model).__name__}, expected an encoder before the pooling"
        )
    settings = _read_sentence(directory)
    names, folders = [name for name, _ in steps], dict(steps)
    pooling = _read_pooling(directory, folders["Pooling"], model.config.d_model)
    normalising = f"{folders.get('Normalize')}/config.json"
    if "Normalize" in folders and (directory / normalising).exists():
        path = inside(directory, normalising)
        _check_names(read_object(path), path)
    dense, activation = None, None
    if "Dense" in folders:
        dense, activation = _read_dense(directory, folders["Dense"], model.config.d_model)
    labels = theirs.get("id2label")
    classes = dense is not None and isinstance(labels, dict) and len(labels) == dense.out_features
    if names == ["Pooling", "Normalize", "Dense"] or (names == ["Pooling", "Dense"] and classes and activation is None):
        if dense is None or activation is not None or dense.out_features < 2:
            raise InputError(
                f"{directory / MODULES}: found a Dense module after Normalize, expected a classifier: "
                "two outputs or more and the activation Identity"
            )
        bias, normalise = dense.bias is not None, "Normalize" in folders
        shape: dict[str, Any] = {"pooling": pooling, "dense": False, "out_bias": bias, "normalise": normalise}
        model.head = ClassificationHead(model.config, dense.out_features, **shape)
        model.head.out = dense
    else:
        model.head = PoolingHead(pooling, "Normalize" in folders, dense=dense, activation=activation)
    keep(model, SENTENCE, **settings)


def without_modules(model: nn.Module) -> tuple[nn.Module, nn.Module | None]:
    """(an encoder without its head, the head) if the head is one of those above; otherwise (the model, None).

    The weights are shared, not copied.  Raises ValueError for a head that the layout cannot express.
    """
    if not isinstance(model, Encoder) or gives(model) not in (Gives.VECTOR, Gives.ROW):
        return model, None
    head: Any = model.head
    of_texts = isinstance(model.stack.embedding, Embeddings)  # an image classifier has no dense layer either
    if gives(model) is Gives.ROW and not (head.normalise or (head.dense is None and of_texts)):
        return model, None
    _chain(head)
    bare = copy.copy(model)
    bare.__dict__["_modules"] = {**model._modules, "head": None}
    return bare, head


def write_modules(directory: Path, model: nn.Module, head: nn.Module | None) -> None:
    """Write ``modules.json`` and the folders that it names, for a model already saved; without a head, remove it.

    ``model`` and ``head`` are the results of ``without_modules``.
    """
    if head is None:
        (directory / MODULES).unlink(missing_ok=True)
        return
    names, dense, activation = _chain(head)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, name in enumerate(names, start=1):
        path = f"{number}_{name}"
        kind = f"sentence_transformers.models.{name}"
        modules.append({"idx": number, "name": str(number), "path": path, "type": kind})
        if name == "Normalize":
            continue
        (directory / path).mkdir(exist_ok=True)
        if name == "Pooling":
            entries = _pooling_entries(head.pooling, model.config.d_model)  # type: ignore[union-attr, arg-type]
        else:
            entries = _dense_entries(dense, activation)
            weights = {f"linear.{name}": p.detach().float().contiguous() for name, p in dense.named_parameters()}
            save_weights(directory / path / FILE, weights)
        write_json(directory / path / "config.json", entries)
    write_json(directory / SENTENCE, {"max_seq_length": sequence_length(model), "do_lower_case": False})
    write_json(directory / MODULES, modules)


def sequence_length(model: nn.Module) -> int:
    """The maximum text length in tokens: ``sentence_bert_config.json``'s, limited by the model's positions."""
    length = kept(model, "max_seq_length", SENTENCE)
    longest: int = model.config.max_length  # type: ignore[union-attr, assignment]
    return longest if length is None else min(length, longest)


def limit_sequences(model: nn.Module, length: int) -> None:
    """Let the files of a model say that it reads at most so many tokens of a text, whatever its positions allow."""
    keep(model, SENTENCE, max_seq_length=length)


def _chain(head: Any) -> tuple[list[str], Any, str | None]:
    """The modules of a head, its dense layer and the activation after it."""
    normalise = ["Normalize"] if head.normalise else []
    if head.gives is Gives.ROW:
        if head.dense is not None or not isinstance(head.norm, nn.Identity):
            raise ValueError("a classifier on normalised vectors has no dense layer and no norm of its own")
        return ["Pooling", *normalise, "Dense"], head.out, None
    if head.activation not in ACTIVATIONS.values():
        raise ValueError(f"activation {head.activation!r} after the pooling is not one of {', '.join(ACTIVATIONS)}")
    return ["Pooling", *([] if head.dense is None else ["Dense"]), *normalise], head.dense, head.activation


def _read_modules(directory: Path) -> list[tuple[str, str]]:
    """The modules after the Transformer: (kind, folder) in order."""
    path = inside(directory, MODULES)
    listed = read_list(path, advice="expected a list of modules")
    if not listed:
        raise InputError(f"{path}: found an empty list, expected a list of modules")
    steps = []
    for number, entry in enumerate(listed):
        if not isinstance(entry, dict) or set(entry) - {"idx", "name", "path", "type", "kwargs"} or entry.get("kwargs"):
            raise InputError(f"{path}: module {number}: found {shown(entry)}, expected idx, name, path and type")
        kind, folder = _kind(entry.get("type"), number, path), entry.get("path")
        if entry.get("idx") != number:
            raise InputError(f"{path}: module {number}: idx: found {shown(entry.get('idx'))}, expected {number}")
        if not isinstance(folder, str) or not (FOLDER.fullmatch(folder) if number else folder == ""):
            expected = "the name of a folder in it" if number else 'expected "": the model in the directory itself'
            raise InputError(f"{path}: module {number}: path: found {shown(folder)}, {expected}")
        if number:
            inside(directory, folder)
        steps.append((kind, folder))
    names = [kind for kind, _ in steps]
    if names[0] != "Transformer" or names[1:] not in CHAINS:
        chains = "; ".join(", ".join(["Transformer", *chain]) for chain in CHAINS)
        raise InputError(f"{path}: found the modules {', '.join(names)}, expected one of: {chains}")
    if len({folder for _, folder in steps}) < len(steps):
        raise InputError(f"{path}: path: found one folder twice, expected one for each module")
    return steps[1:]


def _kind(name: Any, number: int, path: Path) -> str:
    """The last word of a module's type, if it is a supported type of sentence-transformers."""
    kind = name.rpartition(".")[2] if isinstance(name, str) and name.startswith("sentence_transformers.") else ""
    if kind not in ("Transformer", "Pooling", "Normalize", "Dense"):
        raise InputError(
            f"{path}: module {number}: type: found {shown(name)}, expected Transformer, Pooling, Normalize or Dense "
            "of sentence_transformers; code in a directory is not run"
        )
    return kind


def _read_sentence(directory: Path) -> Json:
    """``max_seq_length``, None if not given; settings that would change a text before it is encoded are refused."""
    settings = read_object(inside(directory, SENTENCE)) if (directory / SENTENCE).exists() else {}
    length = settings.get("max_seq_length")
    where = directory / SENTENCE
    if length is not None and (type(length) is not int or length < 3):
        raise InputError(f"{where}: max_seq_length: found {shown(length)}, expected a number of tokens, 3 or more")
    if settings.get("do_lower_case"):
        raise InputError(
            f"{where}: do_lower_case: found true, expected false: lowercasing belongs in the tokenizer's files"
        )
    if (directory / PROMPTS).exists():
        prompts = read_object(inside(directory, PROMPTS))
        if (name := prompts.get("default_prompt_name")) is not None:
            known = prompts.get("prompts")
            text = known.get(name) if isinstance(known, dict) and isinstance(name, str) else None
            raise InputError(
                f"{directory / PROMPTS}: default_prompt_name: found {shown(name)}, expected null: sentence-transformers"
                f" puts {shown(text) if text else 'that prompt'} before every text. Set it to null (of a model of the "
                "hub, in a copy of its directory), and write the prompt before your texts."
            )
    return {"max_seq_length": length}


def _read_pooling(directory: Path, folder: str, width: int) -> Pooling:
    path = inside(directory, f"{folder}/config.json")
    entries = read_object(path, advice="expected how token vectors are pooled")
    sizes = {key: entries.pop(key) for key in ("word_embedding_dimension", "embedding_dimension") if key in entries}
    for key, size in sizes.items():
        if size != width:
            raise InputError(f"{path}: {key}: found {shown(size)}, expected {width}, the width of the model")
    if entries.pop("include_prompt", True) is not True:
        raise InputError(f"{path}: include_prompt: found false, expected true: pooling here includes every token")
    switches = {key: entries.pop(key) for key in list(entries) if key.startswith("pooling_mode_")}
    modes = entries.pop("pooling_mode", None)
    if entries:
        raise InputError(f"{path}: found the unknown key {shown(next(iter(entries)))}, expected how to pool")
    if modes is None:
        modes = [MODES.get(key, key) for key, on in switches.items() if on is True] or ["mean"]
    elif isinstance(modes, str):
        modes = [modes]
    if not isinstance(modes, list) or len(modes) != 1 or not isinstance(modes[0], str) or modes[0] not in POOLING:
        raise InputError(f"{path}: pooling: found {shown(modes)}, expected one of {', '.join(POOLING)}")
    return POOLING[modes[0]]


def _read_dense(directory: Path, folder: str, width: int) -> tuple[Linear, str | None]:
    """A dense layer with its weights, and its activation."""
    path = inside(directory, f"{folder}/config.json")
    entries = read_object(path, advice="expected the sizes of a dense layer")
    rest = _check_names(entries, path)
    kind = str(rest.pop("activation_function", "torch.nn.modules.activation.Tanh"))
    if not re.fullmatch(r"torch\.nn\.(modules\.\w+\.)?(Identity|Tanh)", kind):
        raise InputError(
            f"{path}: activation_function: found {shown(kind)}, expected torch's {' or '.join(ACTIVATIONS)}"
        )
    inputs, outputs, bias = rest.pop("in_features", None), rest.pop("out_features", None), rest.pop("bias", True)
    if rest.pop("use_residual", False) is not False or rest:
        key = next(iter(rest), "use_residual")
        raise InputError(f"{path}: {shown(key)} is not supported, expected sizes, bias and activation of a dense layer")
    if inputs != width:
        raise InputError(f"{path}: in_features: found {shown(inputs)}, expected {width}, the width of the vectors")
    if type(outputs) is not int or not 0 < outputs <= WIDEST:
        raise InputError(f"{path}: out_features: found {shown(outputs)}, expected a number from 1 to {WIDEST}")
    if not isinstance(bias, bool):
        raise InputError(f"{path}: bias: found {shown(bias)}, expected true or false")
    expected = {"linear.weight": (outputs, width), **({"linear.bias": (outputs,)} if bias else {})}
    with open_file(directory, f"{folder}/{FILE}") as stored:
        shapes = {name: stored.shape(name) for name in stored}
        if shapes != expected:
            raise InputError(f"{stored.source}: found {shown(shapes)}, expected {expected}")
        weights = {name.removeprefix("linear."): stored.weight(name) for name in expected}
    dense = Linear(width, outputs, bias=bias, device="meta")
    dense.load_state_dict(weights, assign=True)
    return dense.requires_grad_(), ACTIVATIONS[kind.rpartition(".")[2]]


def _check_names(entries: Json, path: Path) -> Json:
    """The rest of a module's configuration, without the names of its inputs and outputs."""
    for key, wanted in VECTOR.items():
        if entries.get(key, wanted) != wanted:
            raise InputError(f"{path}: {key}: found {shown(entries[key])}, expected {wanted!r}")
    return {key: value for key, value in entries.items() if key not in VECTOR}


def _pooling_entries(pooling: Pooling, width: int) -> Json:
    """The flags that every version reads."""
    ways = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    flags = {f"pooling_mode_{way}": POOLING.get(MODES.get(f"pooling_mode_{way}", "")) == pooling for way in ways}
    return {"word_embedding_dimension": width, **flags, "include_prompt": True}


def _dense_entries(dense: nn.Linear, activation: str | None) -> Json:
    kind = next(name for name, ours in ACTIVATIONS.items() if ours == activation)
    place = "linear" if kind == "Identity" else "activation"
    return {
        "in_features": dense.in_features,
        "out_features": dense.out_features,
        "bias": dense.bias is not None,
        "activation_function": f"torch.nn.modules.{place}.{kind}",
    }
