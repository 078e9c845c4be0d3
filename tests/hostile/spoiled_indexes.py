"""Directories of shards whose index leads astray: (how to spoil a valid one, what the message says)."""

import contextlib
import json
import os

from seeds import INDEX, shard, write_index

FIRST, SECOND = "model-1-of-2.safetensors", "model-2-of-2.safetensors"


def named(name):
    """The first shard is said to be called otherwise; where that can be, the file is really there."""

    def spoil(directory):
        weight_map = shard(directory)
        with contextlib.suppress(OSError, ValueError):  # some names no file can have
            (directory / name).write_bytes((directory / FIRST).read_bytes())
        write_index(directory, {key: name if value == FIRST else value for key, value in weight_map.items()})

    return spoil


def mapped(change):
    """The weight map changed: ``change`` takes it and changes it in place, or gives another."""

    def spoil(directory):
        weight_map = shard(directory)
        write_index(directory, change(weight_map) or weight_map)

    return spoil


def text(content):
    """Another text in place of the index."""

    def spoil(directory):
        shard(directory)
        (directory / INDEX).write_text(content)

    return spoil


def files(change):
    """The files changed after the index was written."""

    def spoil(directory):
        shard(directory)
        change(directory)

    return spoil


def linked_out(directory):
    """The first shard is a link to itself outside the directory."""
    target = directory.parent / f"{directory.name}.{FIRST}"
    (directory / FIRST).rename(target)
    (directory / FIRST).symlink_to(target)


def absolute(directory):
    """The whole path of a shard that is there."""
    weight_map = shard(directory)
    write_index(directory, {key: str(directory / value) for key, value in weight_map.items()})


def same_file_twice(directory):
    """One file under two names, each for half of the tensors."""
    (directory / SECOND).unlink()
    os.link(directory / FIRST, directory / SECOND)


def key_twice(directory):
    """A tensor in two shards, which JSON can say in one object."""
    weight_map = shard(directory)
    name = next(iter(weight_map))
    inner = json.dumps(weight_map)[:-1] + f', "{name}": "{SECOND}"}}'
    (directory / INDEX).write_text(f'{{"weight_map": {inner}}}')


def grown(directory):
    """A shard that holds the tensors of the other too."""
    shard(directory)
    (directory / SECOND).write_bytes((directory / FIRST).read_bytes())


def piped(directory):
    """A shard that is a pipe."""
    (directory / FIRST).unlink()
    os.mkfifo(directory / FIRST)


BARE = "expected the bare name of a .safetensors file"
SPOILED = {
    "a shard above": (named(f"../{FIRST}"), BARE),
    "a shard far above": (named("../" * 20 + "etc/x.safetensors"), BARE),
    "a shard below": (named("a/b.safetensors"), BARE),
    "a shard from here": (named(f"./{FIRST}"), BARE),
    "a shard by its whole path": (absolute, BARE),
    "a shard behind backslashes": (named("..\\x.safetensors"), BARE),
    "a shard on a drive": (named("C:x.safetensors"), BARE),
    "a shard from the root of a drive": (named("C:\\x.safetensors"), BARE),
    "a shard on another machine": (named("\\\\server\\share\\x.safetensors"), BARE),
    "a shard on another machine, by slashes": (named("//server/share/x.safetensors"), BARE),
    "a stream of a shard": (named("x.safetensors:y.safetensors"), BARE),
    "a device's name": (named("CON.safetensors"), BARE),
    "a shard in the hidden": (named(".x.safetensors"), BARE),
    "a shard with a line in its name": (named("a\n.safetensors"), BARE),
    "a shard with a zero in its name": (named("a\0.safetensors"), BARE),
    "a shard of the net": (named("https://a.b/x.safetensors"), BARE),
    "a long name": (named("a" * 5000 + ".safetensors"), BARE),
    "a shard without a name": (named(""), BARE),
    "the index itself": (named(INDEX), BARE),
    "a pickle among shards": (named("pytorch_model.bin"), BARE),
    "the folder": (named("."), BARE),
    "a number for a shard": (mapped(lambda found: found.update({next(iter(found)): 3})), BARE),
    "null for a shard": (mapped(lambda found: found.update({next(iter(found)): None})), BARE),
    "a map inside the map": (mapped(lambda found: found.update({next(iter(found)): dict(found)})), BARE),
    "a list of shards": (mapped(lambda found: found.update({next(iter(found)): [FIRST, SECOND]})), BARE),
    "two spellings": (mapped(lambda found: found.update({next(iter(found)): FIRST.replace("m", "M")})), ""),
    "a tensor in the wrong shard": (mapped(lambda found: found.update({next(iter(found)): SECOND})), "does not fit"),
    "a tensor left out": (mapped(lambda found: found.pop(next(iter(found))) and None), "which the index lacks"),
    "a tensor that is nowhere": (mapped(lambda found: found.update(extra=FIRST)), f"{FIRST} lacks extra"),
    "a name that climbs": (mapped(lambda found: found.update({"../x": FIRST})), "named '../x'"),
    "300 shards": (mapped(lambda found: {f"t{i}": f"m{i}.safetensors" for i in range(300)}), "at most 200"),
    "100 001 tensors": (mapped(lambda found: {f"t{i}": FIRST for i in range(100_001)}), "at most 100000"),
    "an empty map": (mapped(lambda found: found.clear()), "weight_map"),
    "a list for a map": (mapped(lambda found: [FIRST]), "weight_map: found ["),
    "no map": (text("{}"), "weight_map: found None"),
    "a list": (text("[]"), "expected an object"),
    "no JSON": (text("{"), "not JSON"),
    "100 000 levels": (text("[" * 100_000), "at most 64"),
    "LFS pointer": (text("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"),
    "key twice": (key_twice, "twice"),
    "same file twice": (files(same_file_twice), "does not fit"),
    "a shard with the other's tensors": (grown, "does not fit"),
    "a shard that is a link outside": (files(linked_out), "found a link to"),
    "a shard that is missing": (files(lambda d: (d / SECOND).unlink()), "no such file"),
    "a shard that is a pipe": (files(piped), "not a regular file"),
    "a shard that is cut": (files(lambda d: (d / SECOND).write_bytes((d / SECOND).read_bytes()[:-1])), "cut short"),
    "a shard that is empty": (files(lambda d: (d / SECOND).write_bytes(b"")), "empty file"),
    "an index that is a pipe": (files(lambda d: ((d / INDEX).unlink(), os.mkfifo(d / INDEX))), "not a regular file"),
    "an index that is a link outside": (
        files(lambda d: ((d / INDEX).rename(d.with_suffix(".index")), (d / INDEX).symlink_to(d.with_suffix(".index")))),
        "found a link to",
    ),
    "an index that is empty": (text(""), "not JSON"),
    "shards without an index": (files(lambda d: (d / INDEX).unlink()), "no such file"),
}  # fmt: skip
