"""Weights are read as they were written, from one file, from shards and from pickles; each name one tensor."""

import json
import struct
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from headway.errors import InputError
from headway.hub.safe import pickle_import
from headway.hub.safe.weights import open_file, open_weights

TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


def tensors():
    """One of every type, and of every rank up to 8, empty ones too."""
    draw = torch.Generator().manual_seed(3)
    found = {f"of.{str(kind).split('.')[1]}": (torch.randn(3, 5, generator=draw) * 3).to(kind) for kind in TYPES}
    found |= {f"rank.{rank}": torch.randn([2] * rank, generator=draw) for rank in range(9)}
    return found | {"none": torch.zeros(0, 7), "none.either": torch.zeros(7, 0, 3, dtype=torch.int8)}


def check_equal(weights, wanted):
    """Names, shapes, types and numbers are those that are wanted."""
    assert set(weights) == set(wanted) and len(weights) == len(wanted)
    for name, tensor in wanted.items():
        assert weights.shape(name) == tuple(tensor.shape)
        found = weights[name]
        assert found.dtype == tensor.dtype and torch.equal(found, tensor)


def stored(directory, allow_pickle=False, **weights):
    """The weights of a file with these."""
    save_file(weights, directory / "model.safetensors")
    return open_weights(directory, allow_pickle=allow_pickle)


def sharded(directory, parts, name="model-{}.safetensors", index="model.safetensors.index.json", save=save_file):
    weight_map = {}
    for number, part in enumerate(parts):
        save(part, directory / name.format(number))
        weight_map |= dict.fromkeys(part, name.format(number))
    (directory / index).write_text(json.dumps({"weight_map": weight_map}))


def test_one_file(tmp_path):
    published = ("transformer.h.0.attn.c_attn.weight", "block.0.layer.0.SelfAttention.q.weight", "cls_token", "0.a-b")
    wanted = {**tensors(), **{name: torch.ones(1) for name in published}}
    save_file(wanted, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with open_weights(tmp_path) as weights:
        check_equal(weights, wanted)
        assert "absent" not in weights
        with pytest.raises(KeyError):
            weights["absent"]


def test_shards(tmp_path):
    names = sorted(tensors())
    sharded(tmp_path, [{name: tensors()[name] for name in names[first::3]} for first in range(3)])
    with open_weights(tmp_path) as weights:
        check_equal(weights, tensors())
        with pytest.raises(InputError, match=rf"model-1\.safetensors: {names[1]}: dtype"):
            weights.check_weight(names[1])


def test_the_single_file_is_preferred_to_an_index_and_to_pickles(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text("not read")
    (tmp_path / "pytorch_model.bin").write_bytes(b"not read")
    for allow_pickle in (False, True):
        with stored(tmp_path, allow_pickle, a=torch.ones(3)) as weights:
            assert set(weights) == {"a"}


def test_tensors_are_not_bound_to_the_file(tmp_path):
    """A file that is replaced, cut or removed while a program runs changes no tensor that was read."""
    with stored(tmp_path, a=torch.full([1013], 3.0), b=torch.ones(1013)) as weights:
        a = weights["a"]
        (tmp_path / "model.safetensors").write_bytes(b"")
        assert torch.equal(a, torch.full([1013], 3.0))
        with pytest.raises(InputError, match=r"model\.safetensors: ends early"):
            weights["b"]
    with stored(tmp_path, a=torch.full([11], 3.0)) as weights:
        save_file({"a": torch.zeros(11)}, tmp_path / "new")
        (tmp_path / "new").replace(tmp_path / "model.safetensors")  # the one that was opened is read
        assert torch.equal(weights["a"], torch.full([11], 3.0))


def test_links_of_the_hub_cache_are_followed(tmp_path):
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "3f"
    for folder in (blobs, snapshot):
        folder.mkdir(parents=True)
    save_file({"a": torch.ones(3)}, blobs / "0123")
    (snapshot / "model.safetensors").symlink_to("../../blobs/0123")
    (tmp_path / "link").symlink_to(snapshot)
    for place in (snapshot, tmp_path / "link"):
        with open_weights(place) as weights:
            assert set(weights) == {"a"}
    (snapshot / "model.safetensors").unlink()
    (blobs / "0123").rename(tmp_path / "0123")
    (snapshot / "model.safetensors").symlink_to("../../../0123")
    with pytest.raises(InputError, match="found a link to"):
        open_weights(snapshot)


def test_ninety_megabytes_are_read_in_half_a_second(tmp_path):
    save_file({f"t.{number}": torch.zeros(1500, 1500) for number in range(10)}, tmp_path / "model.safetensors")
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        with open_weights(tmp_path) as weights:
            assert len([weights[name] for name in weights]) == 10
        seconds.append(time.perf_counter() - started)
    assert min(seconds) < 0.5


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth"])
def test_pickles_need_a_word(name, tmp_path):
    torch.save({"a": torch.ones(3)}, tmp_path / name)
    with pytest.raises(InputError, match=rf"{name} is there: a Python pickle.*--allow-pickle") as said:
        open_weights(tmp_path)
    assert str(said.value).startswith(str(tmp_path / "model.safetensors"))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_pickles_are_converted(zipped, tmp_path):
    """Types, views, parameters and tied tensors come out as they went in; nothing is left behind."""
    wanted = tensors()
    wanted["tied"] = wanted["rank.2"]
    wanted["turned"] = wanted["of.float32"].T
    wanted["part"] = wanted["rank.3"][1:, :, 0]
    wanted["learned"] = torch.nn.Parameter(torch.ones(3))
    torch.save(wanted, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    with open_weights(tmp_path, allow_pickle=True) as weights:
        check_equal(weights, wanted)
        with pytest.raises(InputError, match=r"pytorch_model\.bin: of\.int8: dtype"):
            weights.check_weight("of.int8")
    assert [path.name for path in tmp_path.iterdir()] == ["pytorch_model.bin"]


def test_shards_of_pickles_are_converted(tmp_path):
    parts = [{"a": torch.ones(3), "b": torch.zeros(5)}, {"c": torch.ones(7)}]
    names = {"name": "pytorch_model-{}.bin", "index": "pytorch_model.bin.index.json"}
    sharded(tmp_path, parts, **names, save=torch.save)
    with open_weights(tmp_path, allow_pickle=True) as weights:
        check_equal(weights, parts[0] | parts[1])


@pytest.fixture
def converter(tmp_path, monkeypatch):
    """Another program in place of the one that converts pickles."""
    monkeypatch.setattr(pickle_import.pickle_worker, "__file__", str(tmp_path / "worker.py"))
    (tmp_path / "a.pt").write_bytes(b"PK\x03\x04")
    return (tmp_path / "worker.py").write_text


def test_secrets_stay_out_of_the_process_that_converts(converter, tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "3")
    converter("import json, os\nprint(json.dumps({'error': sorted(os.environ)}))\n")
    with pytest.raises(InputError) as said:
        open_weights(tmp_path, allow_pickle=True)
    assert "PATH" in str(said.value) and "SECRET" not in str(said.value)


@pytest.mark.parametrize("does", ["import os; os.abort()", "print('[]')", "print('text')", "pass", "raise ValueError"])
def test_a_process_that_fails_is_an_input_error(does, converter, tmp_path):
    converter(does)
    with pytest.raises(InputError, match=r"a\.pt: could not be converted"):
        open_weights(tmp_path, allow_pickle=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_finite_in_float32_however_large_their_sum(kind, tmp_path):
    large = torch.full((7, 5), min(torch.finfo(kind).max, torch.finfo(torch.float32).max)).to(kind)
    wrong = torch.ones(7, 5, dtype=kind)
    wrong[3, 4] = torch.nan if kind != torch.float64 else 1e300
    with stored(tmp_path, large=large, wrong=wrong) as weights:
        assert torch.equal(weights.weight("large"), large.float())
        with pytest.raises(InputError, match=r"model\.safetensors: wrong: contains NaN or infinity"):
            weights.weight("wrong")


def test_weights_are_no_whole_numbers(tmp_path):
    with stored(tmp_path, **tensors()) as weights:
        for name in weights:
            if weights[name].is_floating_point():
                assert weights.weight(name).equal(weights[name].float())
            else:
                with pytest.raises(InputError, match=f"{name}: dtype: found .*expected one of F64, F32, F16, BF16"):
                    weights.weight(name)


def test_files_are_closed_when_a_header_is_wrong(tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    with pytest.raises(InputError):
        open_file(tmp_path, "a")
    assert len(list(descriptors.iterdir())) == before


@pytest.mark.parametrize("length", [0x0280, 0x0480, 0x0580])
def test_a_header_whose_length_looks_like_a_pickle(length, tmp_path):
    """A pickle begins with 0x80 and its protocol, 2 to 5; the length of a header may too."""
    header = b'{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
    data = struct.pack("<3f", 2, 3, 5)
    (tmp_path / "model.safetensors").write_bytes(length.to_bytes(8, "little") + header.ljust(length) + data)
    file = open_file(tmp_path, "model.safetensors")
    assert file["w"].tolist() == [2, 3, 5]
    file.close()
