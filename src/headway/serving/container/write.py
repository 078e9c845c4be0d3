"""Write the directory from which an image is built: Dockerfiles, the versions of packages, wheels and models."""

import json
import platform
import re
import shutil
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any

from headway import __version__
from headway.errors import InputError
from headway.formats.exports import checked_export, choose, engine_device
from headway.formats.registry import SPECS, TORCH
from headway.hub.adapters.locate import locate_model
from headway.hub.fingerprint import RECORD
from headway.io.atomic_write import put_in_place, staged_directory, why_not
from headway.io.regular_file import inside, open_regular
from headway.io.strict_json import read_object
from headway.serving.container.wheel import write_wheel
from headway.tasks import registry
from headway.training.store.contents import ADAPTED, LOG
from headway.training.store.facts import ENDINGS, PART, read_facts
from headway.workflows.load import load

CONSTRAINTS, WHEELS, MODELS = "constraints.txt", "wheels", "models"
"""What lies next to the Dockerfile."""
USER = 10001
"""The user of the container, as a number, by which Kubernetes sees that it is not root."""
STOP_SECONDS = 40
"""Answers may take 30 s to finish after SIGTERM, and what is left is told so for 3 s more."""
IGNORE = f"# Only these are sent to the builder.\n*\n!{CONSTRAINTS}\n!{WHEELS}\n!{MODELS}\n"


CPU = """\
ARG PYTHON={python}
FROM python:${{PYTHON}}-slim

# For x86-64, the usual index has PyTorch with the libraries of CUDA, some gigabytes, which a CPU does not need. The
# installation page of PyTorch names an index of builds for CPUs: docker build --build-arg TORCH_INDEX=ADDRESS ...
ARG TORCH_INDEX=
"""
CUDA = """\
ARG CUDA=12.8.1
FROM nvidia/cuda:${{CUDA}}-base-ubuntu24.04

# The base says that the container uses a GPU; the libraries of CUDA come with PyTorch, for which the host's driver must
# be new enough. Python is Ubuntu's 3.12.
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends python3 python3-venv \\
    && rm -rf /var/lib/apt/lists/* \\
    && python3 -m venv /venv
ENV PATH=/venv/bin:$PATH

# An index of PyTorch's builds for another version of CUDA, where the usual one does not suit the driver.
ARG TORCH_INDEX=
"""
TRIED = """\
# Written by Headway {version}: headway serve RUN... --dockerfile DIR
#
#     docker build{file} -t headway-serve .
#     docker run --rm --init{gpus} --stop-timeout {stop} -p 127.0.0.1:{port}:{port} -e HEADWAY_API_KEY headway-serve
#
# The server listens on every address of the container, so it does not start without a key: set HEADWAY_API_KEY to at
# least 8 characters when you start the container. No key is in the image. Options after the image's name are added to
# those of `headway serve` below. On SIGTERM (docker stop) the server finishes its answers, for up to 30 s; docker kills
# after 10 s unless --stop-timeout says otherwise.
#
# Tried, when this file was written: the copied models were loaded from {models}/.
# Tried, by Headway's tests: pip installs the wheel; ENTRYPOINT and the health check run outside a container, on copied
# models, with a key, without one, and until SIGTERM.
# Tried by hand: the steps of the file for CPUs, one after another in a root directory of their own on Debian with
# Python 3.11, and ENTRYPOINT there as that user, as the first process of its PID namespace.
# Not tried: NO IMAGE HAS BEEN BUILT, since no Docker daemon was at hand. So the base image, .dockerignore and the
# options of docker are used as their documentation says, and no more is known about them{untried}.
"""
REST = """
COPY {constraints} /install/{constraints}
RUN pip install --no-cache-dir --constraint /install/{constraints} ${{TORCH_INDEX:+--index-url "$TORCH_INDEX"}} torch
COPY {wheels} /install/{wheels}
RUN pip install --no-cache-dir --constraint /install/{constraints} {packages}

RUN useradd --uid {user} --create-home headway
COPY {models} /{models}
USER {user}
WORKDIR /home/headway

EXPOSE {port}
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s --retries=3 CMD {health}
ENTRYPOINT {entry}
"""
HEALTH = (
    "import http.client; asked = http.client.HTTPConnection('127.0.0.1', {port}, timeout=4); "
    "asked.request('GET', '/health'); raise SystemExit(asked.getresponse().status != 200)"
)
"""It asks the port itself: urllib would ask a proxy where the environment names one."""


def dockerfile(installed: Sequence[str], served: Sequence[str], port: int, *, cuda: bool = False) -> str:
    """The text of the file, for a CPU or, with ``cuda``, for a GPU.

    ``installed`` are the words of ``pip install`` for what serves the models, ``served`` the arguments and options of
    ``headway serve``.
    """
    begin = TRIED.format(
        version=__version__,
        file=" -f Dockerfile.cuda" if cuda else "",
        gpus=" --gpus all" if cuda else "",
        stop=STOP_SECONDS,
        port=port,
        models=MODELS,
        untried=".\n# Of this file for GPUs, no step has been tried until COPY, and nothing on a GPU" if cuda else "",
    )
    rest = REST.format(
        constraints=CONSTRAINTS,
        wheels=WHEELS,
        models=MODELS,
        packages=" ".join(installed),
        user=USER,
        port=port,
        health=_words("python", "-c", HEALTH.format(port=port)),
        entry=_words("headway", "serve", *served),
    )
    python = ".".join(platform.python_version_tuple()[:2])
    return begin + (CUDA if cuda else CPU).format(python=python) + rest


def _words(*words: str) -> str:
    """A command that Docker starts as it is, without a shell, so that it is the process that gets SIGTERM."""
    return json.dumps(list[str](words))


PIECE = 1 << 20
"""Bytes that are copied at once."""
PINNED = "# The versions with which the models were served where this was written.\n"
COMPILED_ENGINE = "llama.cpp"
"""Its package is compiled when it is installed, by programs that a slim image does not have."""


def copy_model(directory: Path, to: Path, exports: Collection[Path] = ()) -> int:
    """Copy a model, with these of its exports, and return the bytes that were copied.

    Everybody may read the copies: the user of a container is another one.  Raises InputError for a file that leads out
    of the directory or is no regular one, and OSError.
    """
    return sum(_copy(inside(directory, name), to / name) for name in _names(directory, exports))


def _names(directory: Path, exports: Collection[Path]) -> Iterator[str]:
    yield from (name for name in _in(directory) if name.endswith(ENDINGS) or name == LOG)
    for folder in sorted(directory.iterdir()):
        if folder.is_dir() and _is_needed(folder, bool(exports)):
            yield from (f"{folder.name}/{name}" for name in _in(folder) if name.endswith(ENDINGS))
    for export in exports:
        files = read_object(export / RECORD).get("files")
        if not isinstance(files, dict):
            raise InputError(f"{export / RECORD}: is damaged.")
        yield from (f"{export.relative_to(directory).as_posix()}/{name}" for name in (*files, RECORD))


def _is_needed(folder: Path, exported: bool) -> bool:
    """Whether a folder is a module of a sentence encoder, or a model such as a member of an ensemble.

    The model of ``--adapt`` answers nothing, but an export is known by the fingerprint of all models in the run.
    """
    if PART.fullmatch(folder.name):
        return True
    return (folder / "config.json").is_file() and (exported or folder.name != ADAPTED)


def _in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))


def _copy(source: Path, to: Path) -> int:
    for folder in reversed([one for one in to.parents if not one.exists()]):
        folder.mkdir()
        folder.chmod(0o755)
    with open_regular(source) as file, to.open("wb") as copy:
        shutil.copyfileobj(file, copy, PIECE)
    to.chmod(0o644)
    return to.stat().st_size


@dataclass(frozen=True)
class Model:
    """A model that the image serves."""

    name: str
    run: str
    """as the user named it"""
    folder: str
    """in ``models/``"""

    @property
    def argument(self) -> str:
        """The argument RUN of ``headway serve`` in the image; its folder's name is not named again."""
        place = f"/{MODELS}/{self.folder}"
        return place if self.name == self.folder else f"{self.name}={place}"


def write_container(
    named: Sequence[tuple[str, str]],
    out: str | Path,
    *,
    device: str = "auto",
    precision: str | None = None,
    engine_of: Mapping[str, str] | None = None,
    port: int = 8000,
    options: Sequence[str] = (),
) -> int:
    """Write what builds an image that serves models, (name, run) each, and return the bytes of the models.

    The directory is complete or not there.  Headway is copied as it is installed here: an index may hold another
    version, or another package of that name, and a checkout may have changes that no version names.
    ``options`` are those of ``headway serve`` in the image, as words, with ``device``, ``precision`` and the engines
    among them, by which the models are loaded here too; a model that ``engine_of`` does not name is answered by torch.
    Raises InputError as ``workflows.load.load`` does, for an ``out`` that holds anything, and for a model that a
    container cannot serve.
    """
    place = Path(out)
    check_empty(place)
    engine_of = engine_of or {}
    if COMPILED_ENGINE in engine_of.values():
        raise InputError(f"--engine {COMPILED_ENGINE}: it must be compiled, which the image cannot; name another.")
    if device == "mps":
        raise InputError(f"--device {device}: a container has no GPU of an Apple computer; leave it out.")
    how = {"device": device, "precision": precision}
    models = _with_folders([(name or Path(run).resolve().name, run) for name, run in named])
    try:
        with staged_directory(place.absolute()) as staged:
            used = [_add(one, staged, {**how, "engine": engine_of.get(one.name, TORCH)}) for one in models]
            tasks, engines = {task for task, _ in used}, {name for _, names in used for name in names}
            installed = _add_packages(staged, tasks, engines)
            served = [*(model.argument for model in models), "--host=0.0.0.0", f"--port={port}", *options]
            for name, cuda in (("Dockerfile", False), ("Dockerfile.cuda", True)):
                (staged / name).write_text(dockerfile(installed, served, port, cuda=cuda), encoding="utf-8")
            (staged / ".dockerignore").write_text(IGNORE, encoding="utf-8")
            total = sum(path.stat().st_size for path in (staged / MODELS).rglob("*") if path.is_file())
            put_in_place(staged, place.absolute())
    except OSError as error:
        raise InputError(f"{place}: cannot be written {why_not(place, error)}; name another directory.") from None
    return total


def check_empty(out: Path) -> None:
    """Raise InputError unless ``out`` is missing or an empty directory."""
    advice = "name a new directory with --dockerfile."
    try:
        if out.is_symlink() or (out.exists() and not out.is_dir()):
            raise InputError(f"{out}: exists and is no directory; {advice}")
        if out.is_dir() and (held := sorted(path.name for path in out.iterdir())):
            raise InputError(f"{out}: is not empty (it holds {held[0]}), and nothing was written; {advice}")
        if out.is_dir() and out.samefile(Path.cwd()):  # which is replaced, and the shell would stay in the old one
            raise InputError(f"{out}: this is the working directory; name a directory in it with --dockerfile.")
    except OSError as error:
        raise InputError(f"{out}: cannot be written {why_not(out, error)}; {advice}") from None


def _with_folders(named: Sequence[tuple[str, str]]) -> list[Model]:
    """The models, each with a folder of its own, also where upper and lower case are the same."""
    taken: set[str] = set()
    found = []
    for name, run in named:
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "model"
        folder, number = plain, 1
        while folder.lower() in taken:
            number += 1
            folder = f"{plain}-{number}"
        taken.add(folder.lower())
        found.append(Model(name, run, folder))
    return found


def _add(model: Model, staged: Path, how: dict[str, Any]) -> tuple[str, set[str]]:
    """Copy a model, and return its task and the engines that it uses.

    The original is loaded first, so that whatever ``headway serve`` would say about it is said; then the copy, which
    has to answer without the rest.
    """
    task = load(model.run, **how).task
    directory = locate_model(model.run).path
    copied = staged / MODELS / model.folder
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they have been shown by now
        device = engine_device(how["engine"], how["device"])
        choice = choose(how["engine"], how["precision"], read_facts(directory), device, directory)
        used, exports = set(), []
        for name in {choice.few, choice.many} - {TORCH}:
            try:
                exports.append(checked_export(directory, SPECS[name], choice.precision))
                used.add(name)
            except InputError:  # of "auto", which leaves out an engine that has gone
                continue
        try:
            copy_model(directory, copied, exports)
            load(copied, **how)
        except InputError as error:
            raise InputError(f"{model.run}: a copy of it cannot be served: {error}") from None
    return task, used


def _add_packages(staged: Path, tasks: set[str], engines: set[str]) -> list[str]:
    """Write the wheels and constraints.txt; returns what pip is told to install."""
    try:
        own = distribution("headway")
    except PackageNotFoundError:
        raise InputError(
            "Headway is not installed here as a package, so it cannot be copied into an image: pip install it, then "
            "run this command again."
        ) from None
    packages = [SPECS[name].package for name in sorted(engines)]
    packages += ["pillow"] if any(registry.spec(task).reads == "picture" for task in tasks) else []
    others = registry.packages(tasks)
    folder = staged / WHEELS
    folder.mkdir()
    wheels = [write_wheel(package, {module}, folder) for package, module in [(own, "headway"), *others]]
    names = [name for package in (own, *(package for package, _ in others)) for name in _required(package)]
    lines = (f"{name}=={version.partition('+')[0]}\n" for name, version in sorted(_installed({*names, *packages})))
    (staged / CONSTRAINTS).write_text(PINNED + "".join(lines), encoding="utf-8")  # +cpu is on no index
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    first, *more = (f"/install/{WHEELS}/{path.name}" for path in wheels)
    return [f"'{first}[serve]'", *more, *packages]


def _required(package: Distribution) -> Iterator[str]:
    """The names of the packages that one needs to serve."""
    for line in package.requires or ():
        requirement, _, marker = line.partition(";")
        name = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement.strip())
        if name is not None and ("extra" not in marker or re.search(r"extra *== *['\"]serve['\"]", marker)):
            yield name[0]


def _installed(names: set[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue
