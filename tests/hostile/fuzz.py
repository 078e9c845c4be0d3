"""Damage valid model directories at random and load them: fuzz.py [SECONDS] [SEED].

Every directory must load, or raise InputError, within two seconds of the processor's time.  Anything else is printed
with the seed of its case; ``fuzz.py 0 SEED`` repeats that case alone.  Exit status 1 when there was any.
"""

import json
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import seeds

from headway.errors import InputError
from headway.hub.directory import load_model

SECONDS = 2.0
BYTES = [b"\0", b"\xff", b"{", b"}", b"[", b"]", b'"', b",", b":", b"-", b"9", b"e", b"\\u", b"\n", b"\xef\xbb\xbf"]
VALUES = [
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        3,
        2**31,
        2**53,
        2**63,
        10**39,
        0.0,
        0.5,
        -0.5,
        1e308,
        5e-324,
        "",
        "a",
        "../a",
        "\0",
    ),
    *([], {}, [[]], [0], [1, 2], {"a": 1}, {"": None}, ["LlamaForCausalLM"], "😀" * 99, [[[[]]]], list(range(99))),
]


def some_bytes(content: bytes, choose: random.Random) -> bytes:
    """A few bytes changed, added, taken out, repeated, or the end cut off; mostly near the start, where headers are."""
    damaged = bytearray(content)
    for _ in range(choose.choice((1, 1, 1, 2, 5))):
        near = choose.choice((9, 99, 999, len(damaged)))
        place = choose.randrange(max(1, min(near, len(damaged))))
        length = choose.choice((1, 1, 2, 7, 61))
        kind = choose.randrange(6)
        if kind == 0 and damaged:
            damaged[place] = choose.randrange(256)
        elif kind == 1:
            damaged[place:place] = choose.choice(BYTES) * choose.choice((1, 1, 3, 997))
        elif kind == 2:
            del damaged[place : place + length]
        elif kind == 3:
            damaged[place:place] = damaged[place : place + length] * choose.choice((1, 2, 13))
        elif kind == 4:
            damaged[place : place + length] = choose.choice(BYTES)
        else:
            del damaged[place:]
    return bytes(damaged)


def some_values(found: object, choose: random.Random) -> object:
    """One value of a JSON document, anywhere in it, replaced by another; or a key by another."""
    places: list[tuple[dict | list, object]] = []

    def walk(value: object) -> None:
        for key, inside in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(inside, dict | list):
                walk(inside)

    walk(found)
    holder, key = choose.choice(places)
    kind = choose.randrange(4)
    if kind == 0 and isinstance(holder, dict):
        other, taken = choose.choice(places)
        holder[str(taken)] = holder.pop(key)
    elif kind == 1:
        other, taken = choose.choice(places)
        holder[key] = json.loads(json.dumps(other[taken]))
    elif kind == 2 and isinstance(holder, dict):
        del holder[key]
    else:
        holder[key] = choose.choice(VALUES)
    return found


def damage(path: Path, choose: random.Random) -> None:
    """Spoil one file."""
    content = path.read_bytes()
    if choose.random() < 0.5:
        seeds.replace(path, some_bytes(content, choose))
    elif path.suffix == ".json":
        path.write_text(json.dumps(some_values(json.loads(content), choose)))
    else:
        header, data = seeds.split(content)
        seeds.replace(path, seeds.joined(some_values(header, choose), data))


def make_seeds(root: Path) -> list[Path]:
    """A model in one file, and the same in two."""
    one = seeds.make_seed(root / "one")
    two = seeds.copy(one, root / "two")
    seeds.shard(two)
    return [one, two]


def spoil(number: int, originals: list[Path], directory: Path) -> None:
    """Make the directory of one case; its number decides everything."""
    choose = random.Random(number)
    seeds.copy(choose.choice(originals), directory)
    for _ in range(choose.choice((1, 1, 1, 2))):
        files = sorted(path for path in directory.iterdir() if path.stat().st_size)
        try:
            damage(choose.choice(files), choose)
        except (ValueError, IndexError, TypeError, RecursionError):  # a file that was spoiled before
            continue


def case(number: int, originals: list[Path], root: Path) -> tuple[str, str | None]:
    """(what happened, what should not have): its number decides everything."""
    directory, problem = root / f"case-{number}", None
    spoil(number, originals, directory)
    started = time.process_time()
    try:
        load_model(directory)
        what = "loaded"
    except InputError as error:
        what = "refused"
        if "\n" in str(error) or not str(error).startswith(str(directory)):
            problem = f"the message is {error}"
    except BaseException:
        what, problem = "crashed", traceback.format_exc()
    if (seconds := time.process_time() - started) > SECONDS:
        problem = f"took {seconds:.1f} s"
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    return what, None if problem is None else f"case {number}: {problem}"


def drive(case: Callable[[int], tuple[str, str | None]], seconds: float, first: int | None, least: int = 1) -> int:
    """Cases for so long, each a word for what happened and what should not have; returns the exit status."""
    first = random.SystemRandom().randrange(10**9) if first is None else int(first)
    until = time.monotonic() + float(seconds)
    counts: Counter[str] = Counter()
    wrong = 0
    while sum(counts.values()) < least or time.monotonic() < until:
        what, problem = case(first + sum(counts.values()))
        counts[what] += 1
        if problem is not None:
            wrong += 1
            print(problem, flush=True)
    print(f"cases {first} to {first + sum(counts.values()) - 1}: {dict(counts)}, {wrong} wrong")
    return 1 if wrong else 0


def main(seconds: float = 3600.0, first: int | None = None) -> int:
    """Fuzz for that long."""
    with tempfile.TemporaryDirectory() as folder:
        originals = make_seeds(Path(folder))
        return drive(lambda number: case(number, originals, Path(folder)), seconds, first)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
