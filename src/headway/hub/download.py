"""Models and datasets of the Hugging Face hub, fetched only when you give their id.

    found = locate("runs/reviews")              # an existing path is a path
    found = locate("org/name@v1.0")             # anything else of this form is a hub id
    found.path, found.id, found.revision        # where it is now; the id and the commit, for the record

Only the files of a model are fetched: configuration, safetensors, tokenizer.  Code is not, and pickles only on request.
Of datasets, and of their splits:

    owner/name                  the split "train" of the main branch
    owner/name:test             another split, or a part of one: owner/name:train[:1%]
    owner/name@v1.0:test        of a branch, a tag or a commit

An existing path is a path, and so is anything that ends like a file name (org/name.csv).  The hub's library and
``datasets`` use their usual cache and environment variables (``HF_HOME``, ``HF_ENDPOINT``, ``HF_TOKEN``,
``HF_HUB_OFFLINE``); no telemetry is sent, and no login is needed.
"""

import contextlib
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from headway import __version__
from headway.errors import InputError, shown
from headway.io.strict_json import read_object

ID = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95})(?:@(?P<revision>[A-Za-z0-9_][\w./-]*))?",
    re.ASCII,
)
"""org/name, or org/name@revision; a revision is a branch, a tag or a commit."""

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""The files of a PEFT adapter."""
FILES = (
    *(ADAPTER, "config.json", "generation_config.json", "preprocessor_config.json", "chat_template.jinja", INDEX),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "merges.txt", "vocab.txt", "spiece.model", "tokenizer.model"),
    *("source.spm", "target.spm", "target_vocab.json", "sentencepiece.bpe.model"),
    *("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"),
    *("[0-9]_Pooling/config.json", "[0-9]_Dense/config.json", "[0-9]_Dense/model.safetensors"),
)
"""All files that are fetched in addition to the weights."""
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin")
SHARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.safetensors")
MAIN = "main"
SECONDS = 10
"""Seconds that the hub may take to answer."""
COMMIT = re.compile(r"[0-9a-f]{40}")
SAYS_NOTHING = re.compile(
    r"(model|models|base|best|final|output|out|run|checkpoint)(-?\d+)?|[0-9a-f]{40}", re.IGNORECASE
)
"""Names of directories that many models have."""
EXTRA = "pip install 'headway[hub]'"
TELEMETRY = "HF_HUB_DISABLE_TELEMETRY"
"""The name of an environment variable and of the library's setting."""


@dataclass(frozen=True)
class Download:
    """Where a model is.  ``id`` and ``revision`` (the commit) are None for a local path."""

    path: Path
    id: str | None = None
    revision: str | None = None


def is_hub_id(place: str | Path) -> bool:
    """Whether a string is a hub id: of the form org/name or org/name@revision, and not an existing path.

    If a folder ``org`` exists here, ``org/name`` is treated as a mistyped path, and nothing is fetched; with a revision
    (``org/name@main``) it is an id all the same.  A ``Path`` is always a path.
    """
    if not isinstance(place, str) or (match := ID.fullmatch(place)) is None or _exists(place):
        return False
    if ".." in place or "--" in match["name"] or match["name"].endswith((".git", ".", "-")):
        return False
    return match["revision"] is not None or not _exists(place.partition("/")[0])


def model_name(place: str) -> str:
    """What a model is called in words: its id, or the name of its directory, with its folder's where many have that."""
    if is_hub_id(place):
        return place
    path = Path(place).resolve()
    return f"{path.parent.name}/{path.name}".strip("/") if SAYS_NOTHING.fullmatch(path.name) else path.name


def locate(place: str | Path, *, allow_pickle: bool = False) -> Download:
    """The location of the model that a path or a hub id names; the model of an id is fetched.

    Anything that is not an id is returned as a path, whether or not it exists.  Raises InputError as ``fetch`` does,
    and for anything that is neither a string nor a path.
    """
    if not isinstance(place, str | os.PathLike):
        raise InputError(f"the place of a model is {shown(place)}; expected a path, or an id of the hub")
    return fetch(str(place), allow_pickle=allow_pickle) if is_hub_id(place) else Download(Path(place))


def fetch(id: str, *, allow_pickle: bool = False) -> Download:
    """Fetch a model's files into the cache of the hub's library; files already there are not fetched again.

    ``id`` is org/name, or org/name@revision: a branch, a tag or a commit (default: the main branch).
    ``allow_pickle`` fetches ``pytorch_model.bin`` where there is no safetensors file; opening it must be allowed too.
    Without a connection, a model fetched before is found in the cache.

    Raises InputError if the library is missing (extra ``hub``), if the hub cannot be reached, if it has no such model
    or revision or the model is private, and if the model lacks required files.
    """
    match = ID.fullmatch(id)
    if match is None:
        raise InputError(f"{id[:200]}: is not the id of a model; expected org/name or org/name@revision")
    name, revision = match["name"], match["revision"]
    with hub_library(id) as library:
        api = library.HfApi(library_name="headway", library_version=__version__)
        try:
            folder = _fetch(api, name, revision or MAIN, allow_pickle)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None
        except Exception as error:  # the types depend on the versions of the library and of its dependencies
            raise InputError(f"{name}: {_reason(error, revision)}") from None
    if not COMMIT.fullmatch(folder.name):
        raise InputError(f"{name}: found {folder.name[:80]!r} as the commit, expected 40 hexadecimal digits")
    return Download(folder, name, folder.name)


def _fetch(api: Any, name: str, revision: str, allow_pickle: bool) -> Path:
    """The folder of a commit in the cache, with all required files.

    The hub is asked once for the list of files; if it does not answer, the folder is the one fetched before, if any.
    """

    def get(patterns: Sequence[str], revision: str, **words: Any) -> Path:
        words = {"allow_patterns": list(patterns), "etag_timeout": SECONDS, **words}
        return Path(api.snapshot_download(name, revision=revision, **words))

    from huggingface_hub import errors

    try:
        listed = api.model_info(name, revision=revision, timeout=SECONDS)
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError):
        raise  # the hub itself answered that there is no such thing for us; other errors may be temporary
    except Exception:
        with contextlib.suppress(Exception):
            folder = get(FILES, revision, local_files_only=True)
            if (folder / "config.json").is_file() or (folder / ADAPTER).is_file():
                return folder
        raise
    files = [entry.rfilename for entry in listed.siblings or ()]
    if ADAPTER in files and FILE not in files and INDEX not in files:
        return get((*FILES, ADAPTER_WEIGHTS), revision)
    if "config.json" not in files:
        raise InputError("has no config.json, so it is not a model in the layout of transformers")
    folder = get(FILES, revision, tqdm_class=_without_bar())  # by revision, so that the cache records its commit
    if folder.name != listed.sha:  # the branch has moved on
        files = [entry.rfilename for entry in api.model_info(name, revision=folder.name, timeout=SECONDS).siblings]
    weights = _shards(folder) if INDEX in files else [file for file in files if file == FILE]
    if not weights:
        weights = [file for file in files if any(fnmatchcase(file, pattern) for pattern in PICKLES)]
        if not allow_pickle:
            pickle = f", only {weights[0]}: a Python pickle, which can run code. If you trust its author, "
            advice = f"`headway export {name} --to hf --allow-pickle --out NEW` converts it"
            raise InputError(f"has no {FILE}{pickle + advice if weights else ''}")
    if not all((folder / file).is_file() for file in weights):
        get(weights, folder.name)
    return folder


def _without_bar() -> type:
    """A hidden progress bar: the files other than the weights are small, and usually cached."""
    from huggingface_hub.utils import tqdm

    class Hidden(tqdm):
        def __init__(self, *args: Any, **words: Any):
            super().__init__(*args, **{**words, "disable": True})

    return Hidden


def _shards(folder: Path) -> list[str]:
    """The files that an index of weights names; the index is checked when they are opened."""
    shards = read_object(folder / INDEX).get("weight_map")
    names = set(shards.values()) if isinstance(shards, dict) else set()
    return sorted(name for name in names if isinstance(name, str) and SHARD.fullmatch(name)) or [FILE]


@contextlib.contextmanager
def hub_library(id: str, what: str = "model") -> Iterator[Any]:
    """The hub's library without telemetry, with its output suppressed except progress bars on a terminal."""
    with contextlib.ExitStack() as undo:
        before = os.environ.get(TELEMETRY)
        undo.callback(lambda: os.environ.pop(TELEMETRY) if before is None else os.environ.update({TELEMETRY: before}))
        os.environ[TELEMETRY] = "1"
        try:
            import huggingface_hub
            from huggingface_hub import constants
            from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars
        except ImportError:
            raise missing_extra(id, what) from None
        undo.callback(setattr, constants, TELEMETRY, constants.HF_HUB_DISABLE_TELEMETRY)
        constants.HF_HUB_DISABLE_TELEMETRY = True
        silence("huggingface_hub", undo)
        hide = not sys.stderr.isatty() and constants.HF_HUB_DISABLE_PROGRESS_BARS is None
        if hide and not are_progress_bars_disabled():
            undo.callback(enable_progress_bars)
            disable_progress_bars()
        yield huggingface_hub


def silence(name: str, undo: contextlib.ExitStack) -> None:
    """Let a logger say nothing until ``undo`` is closed."""
    log = logging.getLogger(name)
    undo.callback(log.setLevel, log.level)
    log.setLevel(logging.CRITICAL)


def missing_extra(id: str, what: str) -> InputError:
    """The error for an id whose libraries are not installed."""
    return InputError(f"{id}: no such path.  To fetch the {what} of this name from the hub: {EXTRA}")


def _reason(error: Exception, revision: str | None) -> str:
    """What went wrong and what to do, in one line."""
    from huggingface_hub import constants, errors

    hub = constants.ENDPOINT
    if isinstance(error, errors.GatedRepoError):
        return f"its authors ask you to accept their terms first: do so on its page, then set HF_TOKEN ({hub})"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"no such path here, and no such model on {hub}, or a private one; check the name, or set HF_TOKEN"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"has no revision {revision!r} on {hub}; expected a branch, a tag or a commit"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "no such path, and it was not fetched before; HF_HUB_OFFLINE is set, so it is not fetched now"
    if isinstance(error, errors.HfHubHTTPError):
        return f"cannot be fetched from {hub} ({one_line(error)})"
    why = one_line(error.__cause__ or error)
    return f"no such path, and {hub} cannot be reached ({why}); connect, or give the path of a directory"


def one_line(error: BaseException) -> str:
    """The first line of an error's message."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _exists(path: str | Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


SPLIT = re.compile(r"[A-Za-z_][\w.\-\[\]:%+]*", re.ASCII)
TRAIN = "train"
ENDING = re.compile(r"\.[A-Za-z]+$")
"""The ending of a name that must be meant as a path; with a revision it is an id all the same."""
WHAT = "dataset"


@dataclass(frozen=True)
class DatasetId:
    """A dataset on the hub, and one of its splits."""

    name: str
    """owner/name"""
    revision: str | None = None
    split: str = TRAIN

    def __str__(self) -> str:
        revision = "" if self.revision is None else f"@{self.revision}"
        return f"{self.name}{revision}:{self.split}"


def dataset_id(place: str | Path) -> DatasetId | None:
    """The dataset that an input names, or None for a path."""
    if not isinstance(place, str):
        return None
    whole, colon, split = place.partition(":")
    if not is_hub_id(whole) or ENDING.search(whole) or (colon and not SPLIT.fullmatch(split)):
        return None
    name, _, revision = whole.partition("@")
    return DatasetId(name, revision or None, split or TRAIN)


@contextlib.contextmanager
def loaded(wanted: DatasetId) -> Iterator[Any]:
    """The rows, as ``datasets.Dataset``, fetched if they are not in the cache; the library's output is suppressed.

    Raises InputError if the library is missing (extra ``hub``), if the hub cannot be reached or has no such dataset,
    revision or split, and for errors in the code that uses the rows.
    """
    with _library(wanted) as datasets:
        yield datasets.load_dataset(wanted.name, split=wanted.split, revision=wanted.revision)


def parquet_files(wanted: DatasetId) -> list[str]:
    """The locations of the Parquet files of a split, for ``fsspec`` to open; none of them is fetched.

    Raises InputError as ``loaded`` does, and if the split is stored in another format.
    """
    with _library(wanted) as datasets:
        data_files = datasets.load_dataset_builder(wanted.name, revision=wanted.revision).config.data_files or {}
        splits = {str(split): list(files) for split, files in data_files.items()}
    if wanted.split not in splits:
        raise InputError(f"{wanted}: has no split {wanted.split!r}, but {', '.join(splits) or 'none'}")
    files = [str(file) for file in splits[wanted.split]]
    if others := [file for file in files if not file.lower().endswith(".parquet")]:
        raise InputError(
            f"{wanted}: is stored as {others[0].rpartition('/')[2]}, but --stream reads Parquet; leave out --stream, "
            f"or try the hub's own copy, {wanted.name}@refs/convert/parquet"
        )
    return files


@contextlib.contextmanager
def _library(wanted: DatasetId) -> Iterator[Any]:
    """The library, with its output suppressed except progress bars on a terminal; its errors become InputError."""
    with hub_library(str(wanted), WHAT), contextlib.ExitStack() as undo:
        try:
            import datasets
        except ImportError:
            raise missing_extra(str(wanted), WHAT) from None
        for name in ("datasets", "huggingface_hub"):  # configured on import
            silence(name, undo)
        counts = "HF_UPDATE_DOWNLOAD_COUNTS"
        undo.callback(setattr, datasets.config, counts, datasets.config.HF_UPDATE_DOWNLOAD_COUNTS)
        datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False
        if not sys.stderr.isatty() and not datasets.are_progress_bars_disabled():
            undo.callback(datasets.enable_progress_bars)
            datasets.disable_progress_bars()
        try:
            yield datasets
        except (InputError, MemoryError):
            raise
        except Exception as error:  # the types depend on the versions of the library and of its dependencies
            raise InputError(f"{wanted}: {_dataset_reason(error)}") from None


def _dataset_reason(error: Exception) -> str:
    """What went wrong and what to do, in one line."""
    from datasets import config, exceptions
    from huggingface_hub import constants

    text, hub = one_line(error), constants.ENDPOINT
    if isinstance(error, exceptions.DatasetNotFoundError) and "gated" in text:
        return f"its authors ask you to accept their terms first: do so on its page, then set HF_TOKEN ({hub})"
    if isinstance(error, exceptions.DatasetNotFoundError) and text.startswith("Revision"):
        return f"has no such revision on {hub}; expected a branch, a tag or a commit"
    if isinstance(error, exceptions.DatasetNotFoundError):
        return f"no such path here, and no such {WHAT} on {hub}, or a private one; check the name, or set HF_TOKEN"
    if isinstance(error, ConnectionError) and config.HF_HUB_OFFLINE:
        return "no such path, and it was not fetched before; HF_HUB_OFFLINE is set, so it is not fetched now"
    if isinstance(error, ConnectionError):
        return f"no such path, and {hub} cannot be reached ({text}); connect, or give the path of a file"
    return f"cannot be fetched ({text})"
