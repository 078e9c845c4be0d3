"""The text of the Dockerfile, for CPUs and for GPUs, and of its .dockerignore."""

import json
import platform
from collections.abc import Sequence

from headway import __version__

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
