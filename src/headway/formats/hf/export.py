"""A Hugging Face directory, compared with the model by opening it as users of ``transformers`` do.

That is ``pipeline(TASK, DIR)`` if ``transformers`` has a pipeline for the task; otherwise ``SentenceTransformer(DIR)``
for embeddings of texts; otherwise the class of ``transformers`` that loads the model.

Letters: B batch, T length, S source length, D width, V vocabulary, C classes.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from logging import CRITICAL
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway import __version__
from headway.errors import InputError
from headway.formats.hf.loaders import ExternalLoader, Original, class_loader, class_of
from headway.formats.parity import (
    BOUND,
    LONGEST,
    Parity,
    compare_ids,
    exceeding,
    lines,
    own_texts,
    room,
    units_of,
    worst,
)
from headway.formats.registry import FORMATS
from headway.formats.subject import Subject
from headway.hub.directory import batch_settings, padding_entry, read_json, save_model
from headway.hub.download import EXTRA, ID, hub_library, is_hub_id, one_line
from headway.hub.fingerprint import RECORD
from headway.hub.preprocessor import FILE as PREPROCESSOR
from headway.hub.sentence_transformers import without_modules
from headway.io.atomic_write import write_json
from headway.io.strict_json import read_object
from headway.models.heads import Gives, gives
from headway.models.transformer import EncoderDecoder
from headway.text.tokenizer import Tokenizer

INPUTS, BATCH = 32, 8
"""Number of random inputs, and batch size."""


def problem(subject: Subject) -> str | None:
    """Why no family of ``transformers`` expresses the model."""
    return subject.no_family


def write(subject: Subject, directory: Path, precision: str) -> None:
    """The model, its tokenizer or image preprocessor; checkpoints, log and report are not copied.

    Of several label columns each has a folder.
    """
    for folder, part in subject.parts.items():
        try:
            save_model(part.model, directory / folder, **padding_entry(part.model, part.tokenizer))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{subject.directory}: cannot be written for transformers: {error}") from None
        write_processor(part, directory / folder)


def write_processor(subject: Subject, directory: Path, max_length: int | None = None) -> None:
    """The files of the tokenizer, which say how many tokens the model reads, or of the image preprocessor."""
    if subject.tokenizer is not None:
        length = max_length or getattr(subject.pipe, "max_length", None)
        subject.tokenizer.save(directory, max_length=length, **batch_settings(subject.model))
    if (subject.directory / PREPROCESSOR).is_file():
        write_json(directory / PREPROCESSOR, read_object(subject.directory / PREPROCESSOR))


def label_names(pipe: Any) -> dict[str, Any]:
    """``id2label`` and ``label2id`` of a classifier's pipeline, as ``transformers`` names them; empty for another."""
    if not (labels := getattr(pipe, "labels", None)):
        return {}
    named = {str(number): label for number, label in enumerate(labels)}
    return {"id2label": named, "label2id": {label: number for number, label in enumerate(labels)}}


def compare(subject: Subject, directory: Path, precision: str) -> Parity:
    """Open a directory as users of ``transformers`` do, and compare it with the model that was saved there.

    It compares the logits for 32 random inputs, the ids of 1,000 lines if there is a tokenizer, and the answers to some
    texts if there is a pipeline.  Nothing is downloaded.  If ``transformers`` is missing or too old for the family,
    ``checked`` is false.
    """
    with offline() as transformers:
        if transformers is None:
            return Parity(problem="transformers is not installed")
        try:
            parts = subject.parts.items()
            return _together({folder: _compare(transformers, part, directory / folder) for folder, part in parts})
        except ImportError as error:  # loading may need more than transformers itself
            needs = (error.name or "transformers").partition(".")[0].replace("_", "-")
            return Parity(problem=f"it cannot be opened here: {one_line(error)}", needs=needs)


def _together(columns: Mapping[str, Parity]) -> Parity:
    """The result for all folders of an export: the largest difference, and every problem."""
    first, *others = columns.values()
    if not others:
        return first
    differences = [one.max_difference for one in columns.values() if one.max_difference is not None]
    problems = [f"{name}: {one.problem}" for name, one in columns.items() if one.problem]
    return replace(
        first,
        max_difference=max(differences, key=lambda value: (value != value, value), default=None),
        over=f"{first.over} of each of {len(columns)} columns",
        tokens_equal=None if first.tokens_equal is None else all(one.tokens_equal for one in columns.values()),
        problem="; ".join(problems) or None,
        notes=(*first.notes, f"a model for each column, in the folders {', '.join(columns)}"),
    )


def _compare(transformers: Any, subject: Subject, directory: Path) -> Parity:
    version, model, tokenizer = transformers.__version__, subject.model, subject.tokenizer
    entries = read_json(directory / "config.json")
    if entries.get("model_type") not in transformers.CONFIG_MAPPING:
        return Parity(problem=f"transformers {version} does not know models of type {entries.get('model_type')!r}")
    architecture = entries["architectures"][0]
    loader = loader_of(subject, architecture)
    difference, equal, texts, problems = None, None, list[str](), list[str | None]()
    try:
        answers, theirs = loader.open(transformers, directory, architecture)
        difference = max_difference(without_modules(model)[0], theirs)
        problems += exceeding(difference, BOUND, "the answers differ")
        equal, ids = same_ids_in_transformers(transformers, tokenizer, directory)
        problems += [ids] if ids else []
        if loader.compare is not None and not problems:
            texts = [] if tokenizer is None else own_texts(tokenizer, room(model), loader.texts)
            value, differs = loader.compare(Original(subject.pipe, model, directory, texts), answers)
            difference = worst(difference, value)
            if differs or not value <= BOUND:
                problems.append(f"{loader.words} {differs or f'gives scores that differ by {value:.3g}'}")
    except ImportError:
        raise
    except Exception as error:  # any error means that other programs cannot use the directory
        problems.append(f"{loader.words} with transformers {version} cannot use it: {one_line(error)}")
        problems.append(None if difference is not None else other_reader(model, getattr(subject.pipe, "labels", [])))
    of_texts = f" and the answers to {len(texts)} texts" if texts else ""
    return Parity(
        difference,
        over=f"{INPUTS} random inputs{of_texts}",
        tokens_equal=equal,
        problem="; ".join(filter(None, problems)) or None,
        version=version,
        door=loader.words,
        notes=("no weight is missing or left over",),
    )


def loader_of(subject: Subject, architecture: str) -> ExternalLoader:
    """The call that loads a model, by the architecture that is named in ``config.json``."""
    loader = None if subject.pipe is None else subject.external_loader(subject.pipe, subject.model, architecture)
    return loader or class_loader(class_of(architecture))


@torch.no_grad()
def max_difference(ours: nn.Module, theirs: Any) -> float:
    """The largest difference between the answers of a model and its copy in ``transformers``, over 32 random inputs.

    Of numbers with a unit it is relative to the largest one.  Inputs have from 1 to 48 tokens, and come in padded
    batches of 8.  Raises RuntimeError for answers of other shapes.
    """
    draw = torch.Generator().manual_seed(0)
    largest = 0.0
    for _ in range(INPUTS // BATCH):
        here, there = _answers(ours, theirs, draw)
        if here.shape != there.shape:
            raise RuntimeError(f"the answers have shape {list(there.shape)}, expected {list(here.shape)}")
        largest = worst(largest, (here - there) / units_of(ours, here))
    return largest


def same_ids_in_transformers(
    transformers: Any, tokenizer: Tokenizer | None, directory: Path
) -> tuple[bool | None, str | None]:
    """(Whether ``AutoTokenizer`` gives the same ids for 1,000 lines, as source and as target, the problem if not)."""
    if tokenizer is None:
        return None, None
    theirs = transformers.AutoTokenizer.from_pretrained(directory, local_files_only=True)
    texts = lines(tokenizer)
    pairs = [
        (tokenizer.encode_batch(texts, special=True), theirs(texts)["input_ids"]),
        (tokenizer.encode_batch(texts), theirs(texts, add_special_tokens=False)["input_ids"]),
    ]
    if tokenizer.target is not tokenizer:
        pairs.append((tokenizer.target.encode_batch(texts, special=True), theirs(text_target=texts)["input_ids"]))
    return compare_ids("the tokenizers give", texts, pairs)


def _answers(ours: Any, theirs: Any, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """The outputs of both for one batch, at the positions that hold tokens."""
    if (patches := getattr(ours, "patches", None)) is not None:
        images = torch.randn(BATCH, patches.channels, *patches.image_size, generator=draw)
        return ours(images), _output(theirs(pixel_values=images))
    pad = theirs.config.pad_token_id
    lengths = [LONGEST, *torch.randint(1, LONGEST + 1, (BATCH - 1,), generator=draw).tolist()]
    if isinstance(ours, EncoderDecoder):
        source, mask = _batch(ours.encoder_config, lengths, pad, draw)
        target, _ = _batch(ours.config, [max(lengths[1:])] * BATCH, pad, draw)
        answer = theirs(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target)
        return ours(source, target, mask), _output(answer)
    if pad is None and hasattr(theirs, "score"):
        lengths = lengths[:1]  # a decoder's classifier finds the last token by the padding: without, one at a time
    ids, mask = _batch(ours.config, lengths, pad, draw)
    here, there = ours(ids, mask), _output(theirs(input_ids=ids, attention_mask=mask.long()))
    return (here[mask], there[mask]) if here.dim() == 3 and here.shape == there.shape else (here, there)


def _batch(config: Any, lengths: Sequence[int], pad: int | None, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random ids (B, T); padding exactly where ``mask`` (B, T) is false."""
    lengths = [min(length, config.max_length) for length in lengths]
    ids = torch.randint(0, config.vocab_size, (len(lengths), max(lengths)), generator=draw)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    if pad is not None:
        ids = ids.where(ids != pad, (pad + 1) % config.vocab_size).masked_fill(~mask, pad)
    return ids, mask


def _output(answer: Any) -> Tensor:
    return (answer.logits if "logits" in answer else answer.last_hidden_state).float()


@contextlib.contextmanager
def offline() -> Iterator[Any]:
    """``transformers``, silenced and offline inside the context; None if it is missing."""
    with contextlib.ExitStack() as afterwards:
        try:
            from huggingface_hub import constants

            afterwards.callback(setattr, constants, "HF_HUB_OFFLINE", constants.HF_HUB_OFFLINE)
            constants.HF_HUB_OFFLINE = True
            import transformers
            from transformers.utils import logging
        except ImportError:
            yield None
            return
        afterwards.callback(logging.set_verbosity, logging.get_verbosity())
        if logging.is_progress_bar_enabled():
            afterwards.callback(logging.enable_progress_bar)
        logging.set_verbosity(CRITICAL)
        logging.disable_progress_bar()
        afterwards.enter_context(warnings.catch_warnings(action="ignore"))
        yield transformers


def other_reader(model: nn.Module, labels: list[str]) -> str | None:
    """One line of code that reads a classifier whose layout ``transformers`` lacks; None for other models."""
    if gives(model) in (Gives.HIDDEN, Gives.VECTOR) or without_modules(model)[0] is model:
        return None
    names = ", ".join(labels[:5]) + (", ..." if len(labels) > 5 else "")
    return (
        "its classifier is in the layout of sentence-transformers; this line reads it, and gives a logit for each of "
        f"{names}: SentenceTransformer(RUN).encode(TEXTS)"
    )


def check_push(repository: str, format: str) -> None:
    """Raise InputError, before anything is exported, for a name that is none, a missing library and a missing token."""
    if not FORMATS[format].card:
        pushed = " and ".join(name for name, spec in FORMATS.items() if spec.card)
        raise InputError(f"--push: an export for {format} is not pushed, only those of --to {pushed}.")
    name = ID.fullmatch(repository)
    if name is None or name["revision"] or "--" in repository or ".." in repository:
        raise InputError(f"--push {repository[:200]}: is not the name of a repository; expected OWNER/NAME.")
    try:
        with hub_library(repository) as library:
            token = library.get_token()
    except InputError:
        raise InputError(f"--push {repository}: needs huggingface_hub: {EXTRA}, then run this command again.") from None
    if not token:
        raise InputError(
            f"--push {repository}: there is no token of the hub here; run `hf auth login`, or set HF_TOKEN to one that "
            "may write."
        )


def check_base(repository: str, base: str) -> None:
    """Raise InputError for an adapter of a base that only this machine has."""
    if not is_hub_id(base):
        raise InputError(
            f"--push {repository}: the adapter's base, {base}, is a directory of this machine, which nobody else has; "
            "train it --from an id of the hub, or push the whole model by --to hf."
        )


def push(directory: Path, repository: str, *, public: bool) -> str:
    """Upload a directory; returns the address.  A new repository is private unless ``public``.

    Raises InputError if the hub refuses the name or the token, if an existing repository is public and ``public`` is
    not given, and where the upload is interrupted.  The record of the export, which names paths of this machine, stays
    here.
    """
    with hub_library(repository) as library, warnings.catch_warnings(action="ignore"):  # of what it uploads with
        api = library.HfApi(library_name="headway", library_version=__version__)
        try:
            try:
                private = api.model_info(repository).private
            except library.errors.RepositoryNotFoundError:
                api.create_repo(repository, private=not public, exist_ok=True)
                private = not public
            if not private and not public:
                raise InputError(
                    f"--push {repository}: this repository is public; add --public to push there, or name another."
                )
            message = f"Export of Headway {__version__}"
            api.upload_folder(
                repo_id=repository, folder_path=directory, commit_message=message, ignore_patterns=[RECORD]
            )
        except InputError:
            raise
        except Exception as error:  # the types depend on the versions of the library and of its dependencies
            raise InputError(
                f"--push {repository}: {_reason(error)}; the export is in {directory}, and the repository is as it was."
            ) from None
        return f"{api.endpoint}/{repository}"


def _reason(error: Exception) -> str:
    """What went wrong, in one line."""
    from huggingface_hub import constants, errors

    hub = constants.ENDPOINT
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so nothing is pushed"
    if status == 401:
        return f"{hub} does not accept the token; run `hf auth login`, or set HF_TOKEN to one that may write"
    if status == 403:
        return f"{hub} refuses it ({one_line(error)}); the token may not write there"
    if isinstance(error, errors.HfHubHTTPError | errors.HFValidationError):
        return f"{hub} refuses it ({one_line(error)})"
    return f"the upload to {hub} was interrupted ({one_line(error.__cause__ or error)}); run this command again"
