"""Directories of models that are changed, and refused in one line that names the file."""

import json

import pytest
from safetensors.torch import load_file, save_file

from headway.errors import InputError
from headway.hub.directory import load_model


def read_json(path):
    return json.loads(path.read_text())


def edit(path, **entries):
    """Other entries of a file; what is ... is left out."""
    path.write_text(json.dumps({key: v for key, v in {**read_json(path), **entries}.items() if v is not ...}))


def edited(name, **entries):
    return lambda directory: edit(directory / name, **entries)


def reweighed(change, name="model.safetensors"):
    """The weights of a file as ``change`` makes them of a dict, in place."""

    def spoil(directory):
        weights = load_file(directory / name)
        change(weights)
        save_file(weights, directory / name)

    return spoil


def check_refused(directory, file, said):
    with pytest.raises(InputError) as caught:
        load_model(directory)
    message = str(caught.value)
    assert message.startswith(f"{directory / file}: ") and said in message and "\n" not in message
