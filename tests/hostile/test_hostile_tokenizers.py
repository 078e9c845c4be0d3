"""A tokenizer of a few kilobytes that would fill the memory, or never end, is refused when it is loaded."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from spoiled_tokenizers import PATTERNS, SPOILED, charsmap, of_bytes, of_words, replacing, splitting, with_parts
from test_hostile_corpus import BYTES, SECONDS, check, examine

from headway.errors import InputError
from headway.text import KINDS, Tokenizer, train_tokenizer
from headway.text.backend import RustBackend

sys.path.insert(0, str(Path(__file__).parents[1] / "text"))
from tokenizer_families import BUILDERS

LETTERS = "abcdefghijklmnopqrstuvwxyz .,0123456789\nI"


def specification() -> dict:
    """A tokenizer of letters, as its file has it."""
    vocabulary = {letter: number for number, letter in enumerate(LETTERS[:38])}
    parts = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "a"}
    return {"version": "1.0", "added_tokens": [], **parts, "model": model}


def directory(place: Path, spoil) -> Path:
    place.mkdir()
    spec = specification()
    spoil(spec)
    (place / "tokenizer.json").write_text(json.dumps(spec))
    return place


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    root = tmp_path_factory.mktemp("tokenizers")
    places = {name: directory(root / str(number), spoil) for number, (name, (spoil, _)) in enumerate(SPOILED.items())}
    return examine([(name, place, "tokenizer") for name, place in places.items()], root), places


@pytest.mark.parametrize("name", SPOILED)
def test_a_tokenizer_without_bound_is_refused_or_used_elsewhere(name, examined):
    """What is not known by its value is used in another process, whose limits bound it; this one takes little."""
    result, place, said = examined[0][name], examined[1][name], SPOILED[name][1]
    if said is None:
        assert result["deeds"] and set(result["deeds"]) == {"subprocess.Popen"}
        result["deeds"] = []
        if result["raised"] == "nothing":
            assert result["peak"] < BYTES and result["seconds"] < SECONDS and result["waited"] < 10 * SECONDS
            return
    check(result, place, "InputError", said or "use the tokenizer that was published with the model")


def test_what_is_in_use_is_accepted(tmp_path):
    """The rules of T5, XLM-R, ALBERT, Gemma and Llama, with all that each of them does."""
    words = with_parts("pre_tokenizer", {"type": "WhitespaceSplit"}, of_words())
    rules = {"type": "Precompiled", "precompiled_charsmap": charsmap(11)}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    quotes = [replacing("``", '"'), replacing("''", '"')]
    forms = [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]
    unstrip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    cases = [
        [with_parts("normalizer", rules, strip, replacing(" {2,}", "▁", "Regex")), words],
        [with_parts("normalizer", *quotes, *forms, rules, replacing(" {2,}", " ", "Regex")), words],
        [with_parts("normalizer", {"type": "Prepend", "prepend": "▁"}, replacing(" ", "▁"))],
        [with_parts("decoder", replacing("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, unstrip)],
        *([with_parts("pre_tokenizer", splitting(pattern), of_bytes(False))] for pattern in PATTERNS),
    ]
    for number, changes in enumerate(cases):
        place = directory(tmp_path / str(number), lambda spec, changes=changes: [change(spec) for change in changes])
        assert Tokenizer.load(place).encode("abc")


@pytest.mark.parametrize("name", BUILDERS)
def test_real_tokenizers_are_accepted(name, tmp_path):
    """As the families publish them, and as their tokenizer.json where they have one."""
    place = BUILDERS[name](tmp_path / "x")
    tokenizer = Tokenizer.load(place)
    try:
        text = tokenizer.to_json()
    except InputError:
        return
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "tokenizer.json").write_text(text)
    again = Tokenizer.load(tmp_path / "y")
    assert type(again.backend) is RustBackend, "a published tokenizer needs no process of its own"
    assert again.encode("the quick brown fox") == tokenizer.encode("the quick brown fox")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ["decoder", "encoder", "translator"])
def test_tokenizers_trained_here_need_no_process(kind, role, tmp_path):
    train_tokenizer(["the quick brown fox 12"] * 9, kind, 300, role=role).save(tmp_path)
    assert type(Tokenizer.load(tmp_path).backend) is RustBackend


@pytest.mark.parametrize("name", ["bert", "gpt2", "t5", "llama", "marian"])
@pytest.mark.parametrize("letter", ["a", " ", "\u0301", "ﷺ", "😀", "\n"])
def test_memory_is_linear_in_the_text(name, letter, tmp_path):
    """A text without an end of a word costs what its length says, in memory and in time."""
    script = (
        "import sys, time, resource; from headway.text import Tokenizer; k = Tokenizer.load(sys.argv[1]); "
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
        "k.decode(k.encode(sys.argv[2] * 100_000)); "
        "print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before), time.process_time())"
    )
    place = BUILDERS[name](tmp_path / "x")
    command = [sys.executable, "-c", script, str(place), letter]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    peak, seconds = map(float, done.stdout.split())
    assert peak < 6000 * 100_000 and seconds < 60, (peak, seconds)
