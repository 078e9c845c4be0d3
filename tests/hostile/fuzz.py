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


def case(number: int, originals: list[Path], directory: Path) -> None:
    """Make the directory of one case; its number decides everything."""
    choose = random.Random(number)
    seeds.copy(choose.choice(originals), directory)
    for _ in range(choose.choice((1, 1, 1, 2))):
        files = sorted(path for path in directory.iterdir() if path.stat().st_size)
        try:
            damage(choose.choice(files), choose)
        except (ValueError, IndexError, TypeError, RecursionError):  # a file that was spoiled before
            continue


def run(first: int, go_on: Callable[[int], bool], root: Path) -> tuple[Counter, list[str]]:
    """Cases from number ``first`` while ``go_on(how many were done)``: what happened how often, and what should not."""
    originals = make_seeds(root)
    counts: Counter = Counter()
    wrong: list[str] = []
    done = 0
    while go_on(done):
        directory = root / f"case-{first + done}"
        case(first + done, originals, directory)
        started = time.process_time()
        try:
            load_model(directory)
            counts["loaded"] += 1
        except InputError as error:
            counts["refused"] += 1
            if "\n" in str(error) or not str(error).startswith(str(directory)):
                wrong.append(f"case {first + done}: the message is {error}")
        except BaseException:
            counts["crashed"] += 1
            wrong.append(f"case {first + done}: {traceback.format_exc()}")
        if (seconds := time.process_time() - started) > SECONDS:
            wrong.append(f"case {first + done}: took {seconds:.1f} s")
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
        done += 1
    return counts, wrong


def main(seconds: float = 3600.0, first: int | None = None) -> int:
    """Fuzz for that long."""
    first = random.SystemRandom().randrange(10**9) if first is None else first
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        counts, wrong = run(first, lambda done: done == 0 or time.monotonic() < until, Path(folder))
    print(f"cases {first} to {first + sum(counts.values()) - 1}: {dict(counts)}, {len(wrong)} wrong")
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:])))
