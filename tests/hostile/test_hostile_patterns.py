"""Tokenizers of strangers run in a process of their own, with limits; a file of any form is answered."""

import copy
import json
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tokenizers
from spoiled_tokenizers import PATTERNS, of_bytes, replacing, sequence, splitting
from test_hostile_tokenizers import LETTERS, directory

from headway.errors import InputError
from headway.text import Tokenizer, encode_chat, with_chat
from headway.text.backend import IsolatedBackend, RustBackend
from headway.text.safe.tokenizer_files import PUBLISHED

sys.path += [str(Path(__file__).parents[1] / name) for name in ("text", "parity")]
import foreign_models
from tokenizer_families import BUILDERS, draw_lines

SLOW = r"the [a-z ]*[a-z ]*[a-z ]*\d"
"""Paths of the fourth power of a text's length, but only after a word that no trial writes."""
TEXT = "the " + "a b " * 3000


def changed(family: str, place: Path, **parts: object) -> Path:
    """The tokenizer of a family as its tokenizer.json, with other parts."""
    source = Tokenizer.load(BUILDERS[family](place / "family"))
    folder = place / "changed"
    source.save(folder)
    spec = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps({**spec, **parts}))
    return folder


def parts_of(pattern: str) -> dict:
    return {"pre_tokenizer": sequence("pre_tokenizer", [splitting(pattern), of_bytes(False)])}


@pytest.mark.parametrize(
    "parts",
    [
        parts_of(SLOW),
        {"normalizer": replacing(SLOW, "x", "Regex")},
        {"decoder": sequence("decoder", [of_bytes(False), replacing(SLOW, "x", "Regex")])},
    ],
    ids=["pre_tokenizer", "normalizer", "decoder"],
)
def test_a_pattern_that_never_ends_is_a_message(parts: dict, tmp_path: Path):
    folder = changed("gpt2", tmp_path, **parts)
    tokenizer = Tokenizer.load(folder)
    began = time.monotonic()
    with pytest.raises(InputError, match=r"tokenizer takes more than .* seconds, .*published with the model") as caught:
        tokenizer.decode(tokenizer.encode(TEXT))
    assert str(folder / "tokenizer.json") in str(caught.value) and time.monotonic() - began < 12
    assert tokenizer.decode(tokenizer.encode("a b")) == "a b"


def test_the_command_says_so(in_process, tmp_path: Path):
    base = foreign_models.make("gpt2", tmp_path / "base", steps=0)
    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained(base).save_pretrained(base)
    spec = json.loads((base / "tokenizer.json").read_text())
    (base / "tokenizer.json").write_text(json.dumps({**spec, **parts_of(SLOW)}))
    config = json.loads((base / "tokenizer_config.json").read_text())
    (base / "tokenizer_config.json").write_text(json.dumps({**config, "tokenizer_class": "PreTrainedTokenizerFast"}))
    began = time.monotonic()
    status, _, err = in_process("generate", base, TEXT, "--max-tokens", 1)
    assert status == 2 and "takes more than" in err and "Traceback" not in err and time.monotonic() - began < 30, err


def test_an_interruption_stops_it(tmp_path: Path):
    folder = changed("gpt2", tmp_path, **parts_of(SLOW))
    script = (
        "import sys; from headway.text import Tokenizer; k = Tokenizer.load(sys.argv[1]); "
        "print('ready', flush=True); k.encode(sys.argv[2] * 200)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder), TEXT[:1000]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = children.read_text().split() if children.exists() else []
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait(10) != 0 and time.monotonic() - began < 5
    time.sleep(0.2)
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_a_pattern_that_is_not_known_changes_nothing(family: str, tmp_path: Path):
    """The ids of the library; also pickled, saved, with more tokens and without what is put around a text."""
    steps = {"pre_tokenizer": sequence("pre_tokenizer", [splitting("[0-9]|[^0-9]+"), of_bytes(False)])}
    folder = changed(family, tmp_path, **(steps if family == "gpt2" else {"normalizer": replacing("q+", "z", "Regex")}))
    tokenizer, lines = Tokenizer.load(folder), draw_lines(101)
    assert isinstance(tokenizer.backend, IsolatedBackend)
    plain = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    plain.encode_special_tokens = True
    tokenizer.save(tmp_path / "again")
    for one in (tokenizer, pickle.loads(pickle.dumps(tokenizer)), Tokenizer.load(tmp_path / "again")):
        assert one.encode_batch(lines, special=True) == [plain.encode(line).ids for line in lines]
        assert one.fingerprint == tokenizer.fingerprint
    for line in lines[:20]:
        ids = tokenizer.encode(line)
        assert tokenizer.decode(ids) == plain.decode(ids)
        stream = tokenizer.stream()
        assert "".join([*map(stream.push, ids), stream.finish()]).strip() == plain.decode(ids).strip()
    found = plain.encode(lines[50], add_special_tokens=False)
    assert list(tokenizer.encode_places([lines[50]])) == [(found.ids, found.offsets)]
    assert tokenizer.encode_pair("a", "b")[0] == plain.encode("a", "b").ids
    talk = with_chat(tokenizer)
    assert isinstance(talk.backend, IsolatedBackend) and talk.to_json() != tokenizer.to_json()
    ids, replies = encode_chat(talk, [{"role": "user", "content": "q1"}, {"role": "assistant", "content": "qq 22"}])
    assert talk.special_ids & set(ids) and any(replies)
    assert tokenizer.without_frame().encode("a q 12", special=True) == tokenizer.encode("a q 12")


def test_published_patterns_are_used_here_and_are_linear(tmp_path: Path):
    """Each reads a long text of any one letter in a time linear in its length."""
    for number, pattern in enumerate([*sorted(PUBLISHED), *PATTERNS]):
        folder = directory(tmp_path / str(number), lambda spec, p=pattern: spec.update(pre_tokenizer=splitting(p)))
        text = (folder / "tokenizer.json").read_text()
        backend = tokenizers.Tokenizer.from_str(text)
        assert (type(Tokenizer.load(folder).backend) is RustBackend) == (pattern in PUBLISHED)
        for letter in "a A0\n\r!'é中sS":
            seconds = []
            for length in (20_000, 80_000):
                taken = []
                for _ in range(2):  # in one of the two, Python may search all of its objects for garbage
                    began = time.process_time()
                    backend.pre_tokenizer.pre_tokenize_str(letter * length + "~")
                    taken.append(time.process_time() - began)
                seconds.append(min(taken))
            assert seconds[1] < max(0.8, 12 * seconds[0]), (pattern, letter, seconds)


def test_long_words_of_wordpiece_end(tmp_path: Path):
    folder = changed("bert", tmp_path)
    spec = json.loads((folder / "tokenizer.json").read_text())
    spec["model"]["max_input_chars_per_word"] = 10_000
    (folder / "tokenizer.json").write_text(json.dumps(spec))
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.encode("the fox") and isinstance(tokenizer.backend, IsolatedBackend)
    letters = [token[2] for token in tokenizer.tokens if len(token) == 3 and token[:2] == "##" and token[2] in LETTERS]
    word = "".join(random.Random(1).choices(letters, k=9_999))
    began = time.monotonic()
    with pytest.raises(InputError, match="takes more than"):
        tokenizer.encode(word)
    assert time.monotonic() - began < 12


FORMS = [True, 7, -1, 1.5, "x", [], ["Sequence"], [True], {}, {"type": ["x"]}, None]


def places(value: object, at: tuple = ()) -> list[tuple]:
    """Where the values of a specification are, but not each token."""
    if not isinstance(value, dict | list) or len(at) > 5:
        return [at]
    items = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [at, *(place for key, one in (items if len(items) < 20 else items[:2]) for place in places(one, (*at, key)))]


def refused_or_used(folder: Path) -> bool:
    """Whether the folder's tokenizer gives ids of its own, or is refused by one line that names the folder."""
    try:
        tokenizer = Tokenizer.load(folder)
        return all(0 <= number < tokenizer.vocab_size for number in tokenizer.encode("the quick fox 12"))
    except InputError as error:
        return str(folder) in str(error) and "\n" not in str(error)


def not_answered(folder: Path, cases: list[tuple[tuple, object]]) -> list[tuple[tuple, object]]:
    """The cases in which the tokenizer of a folder, with that value replaced, is neither refused nor used."""
    wrong = []
    path = folder / "tokenizer.json"
    spec = json.loads(path.read_text())
    for at, form in cases:
        other = copy.deepcopy(spec)
        inner = other
        for key in at[:-1]:
            inner = inner[key]
        inner[at[-1]] = form
        path.write_text(json.dumps(other))
        if not refused_or_used(folder):
            wrong.append((at, form))
    return wrong


def cases_of(folder: Path) -> list[tuple[tuple, object]]:
    spec = json.loads((folder / "tokenizer.json").read_text())
    return [(at, form) for at in places(spec)[1:] for form in FORMS]


@pytest.mark.parametrize(
    ("family", "at", "form"),
    [
        ("bert", ("post_processor", "single"), True),
        ("bert", ("post_processor", "special_tokens"), [["[CLS]"]]),
        ("bert", ("normalizer", "type"), ["BertNormalizer"]),
        ("t5", ("pre_tokenizer", "pretokenizers"), True),
        ("t5", ("normalizer",), [{"type": "NFC"}]),
        ("llama", ("decoder", "decoders"), 7),
        ("gpt2", ("post_processor",), {"type": "Sequence", "processors": True}),
        ("gpt2", ("model", "max_input_chars_per_word"), [1]),
    ],
)
def test_a_value_of_another_form_is_answered(family: str, at: tuple, form: object, tmp_path: Path):
    assert not not_answered(changed(family, tmp_path), [(at, form)])


@pytest.mark.parametrize("family", ["gpt2", "bert", "t5", "llama"])
def test_some_forms_of_a_specification_are_answered(family: str, tmp_path: Path):
    folder = changed(family, tmp_path)
    assert not not_answered(folder, random.Random(3).sample(cases_of(folder), 30))


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["gpt2", "bert", "t5", "llama"])
def test_any_form_of_a_specification_is_answered(family: str, tmp_path: Path):
    folder = changed(family, tmp_path)
    assert not not_answered(folder, cases_of(folder))


ENTRIES = (
    *("additional_special_tokens", "extra_special_tokens", "added_tokens_decoder", "tokenizer_class", "chat_template"),
    *("unk_token", "cls_token", "do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space"),
    *("legacy", "model_max_length", "model_input_names", "padding_side", "image_token"),
)


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_any_form_of_an_entry_is_answered(family: str, tmp_path: Path):
    folder = changed(family, tmp_path)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    for kind in (None, "BertTokenizer", "GPT2Tokenizer", "LlamaTokenizer"):
        for entry in ENTRIES:
            for form in [True, 7, "x", ["x"], {}, [{"name": ["x"], "template": "x"}], {"7": {"content": ["x"]}}, None]:
                path.write_text(json.dumps({**config, **({"tokenizer_class": kind} if kind else {}), entry: form}))
                assert refused_or_used(folder), (kind, entry, form)
