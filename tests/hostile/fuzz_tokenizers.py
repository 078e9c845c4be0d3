"""Damage the files of tokenizers at random, load them and use them: fuzz_tokenizers.py [SECONDS] [SEED].

Every directory must load and turn texts into ids and back, or be refused in one line, within SECONDS of the processor's
time, WAITED seconds and BYTES of memory.  Where only entries of its configuration were changed, its ids must be those
of ``AutoTokenizer``.  What goes wrong is printed with the seed of its case; ``fuzz_tokenizers.py 0 SEED`` repeats that
case alone.  Exit status 1 when there was any.
"""

import json
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fuzz import drive, some_bytes, some_values
from fuzz_runs import attempt
from spoiled_tokenizers import PATTERNS, SPOILED

sys.path.append(str(Path(__file__).parents[1] / "text"))
from tokenizer_families import BUILDERS

from headway.errors import InputError
from headway.text import Tokenizer

WAITED = 30.0
SPECIAL = "<s> [CLS] </s> [MASK] <|endoftext|> <extra_id_0>"
TEXTS = [
    *("", " ", "The quick brown Fox's jumps, isn't it? 12:30", "naïve CAFÉ İstanbul 日本語 ｶﾞ ﬁ é e\u0301 ﷺ"),
    *(SPECIAL, "a" * 3000, " " * 500 + "x", "aab" * 800 + "!", "1" * 900),
]
ENTRIES: dict[str, list[Any]] = {
    **{name: [True, False] for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars")},
    **{name: [True, False] for name in ("add_prefix_space", "add_bos_token", "add_eos_token", "legacy")},
    "model_max_length": [8, 10**30],
    "unk_token": ["[UNK]", "<unk>"],
    "cls_token": ["[CLS]", "[SEP]"],
    "additional_special_tokens": [["<extra>"]],
    "tokenizer_class": ["BertTokenizer", "GPT2Tokenizer", "PreTrainedTokenizerFast", "LlamaTokenizer"],
}
"""Entries of tokenizer_config.json with values that mean something."""
BARE = ("bert", "gpt2", "roberta", "llama", "t5")
"""Families whose published directories are a tokenizer.json."""


def spoiled(place: Path, choose: random.Random) -> str:
    """Spoil one file of a directory; what was done, "an entry" where it is one that means something."""
    files = sorted(path for path in place.iterdir() if path.stat().st_size)
    file, config = choose.choice(files), place / "tokenizer_config.json"
    what = choose.choice(("bytes", "value", "value", "value", "part", "entry", "entry"))
    if what == "entry":
        name = choose.choice(list(ENTRIES))
        entries = json.loads(config.read_text()) if config.exists() else {}
        config.write_text(json.dumps({**entries, name: choose.choice(ENTRIES[name])}))
        return f"an entry: {name}"
    if what == "part" and (place / "tokenizer.json").exists():
        file, name = place / "tokenizer.json", choose.choice(list(SPOILED))
        spec = json.loads(file.read_text())
        if isinstance(spec, dict) and "model" in spec and not isinstance(spec["model"].get("vocab"), list):
            SPOILED[name][0](spec)
            file.write_text(json.dumps(spec))
            return f"a part: {name}"
    if what == "value" and file.suffix == ".json":
        found = some_values(json.loads(file.read_text()), choose)
        if choose.random() < 0.2:
            found = _with_pattern(found, choose.choice([*PATTERNS, "(a|aa)+$", "(?=a)*", "[", "(?R)", "a{0,99999}"]))
        file.write_text(json.dumps(found))
        return f"{file.name}: a value"
    file.write_bytes(some_bytes(file.read_bytes(), choose))
    return f"{file.name}: bytes"


def _with_pattern(found: Any, pattern: str) -> Any:
    """The same with another regular expression where there is one."""
    if isinstance(found, dict):
        return {key: pattern if key == "Regex" else _with_pattern(value, pattern) for key, value in found.items()}
    return [_with_pattern(value, pattern) for value in found] if isinstance(found, list) else found


def use(place: Path, compare: bool) -> None:
    """Load and use, print what happened, and what should not have."""
    try:
        tokenizer = Tokenizer.load(place)
        ids = [tokenizer.encode(text, special=True) for text in TEXTS]
        tokenizer.encode_batch(TEXTS)
        for text in ids:
            tokenizer.decode(text)
    except InputError as error:
        unclear = "\n" in str(error) or not str(error).startswith(str(place))
        print(f"unclear: {error}" if unclear else "refused")
        return
    print((compare and _otherwise(place, ids)) or "loaded")


def _otherwise(place: Path, ids: list[list[int]]) -> str | None:
    """How the ids of another program differ, where it loads the directory."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    with warnings.catch_warnings(action="ignore"):
        try:
            theirs = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True)
        except Exception:
            return None
        for text, found in zip(TEXTS, ids, strict=True):
            if text == SPECIAL:  # which is text to us, and not to it
                continue
            expected = theirs(text, verbose=False)["input_ids"]
            if expected != found:
                return f"otherwise: {text[:50]!r}: {found[:12]} and {expected[:12]} in transformers"
    return None


class Families:
    """A directory of each family, and its tokenizer.json alone."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.places = [build(folder / "families" / name) for name, build in BUILDERS.items()]
        for name in BARE:
            place = folder / "families" / f"{name}-json"
            shutil.copytree(folder / "families" / name, place)
            made = Tokenizer.load(place)
            for file in place.iterdir():
                if not file.name.endswith("config.json"):
                    file.unlink()
            (place / "tokenizer.json").write_text(made.to_json())
            self.places.append(place)

    def case(self, number: int) -> tuple[str, str | None]:
        """(what happened, what should not have): its number decides everything."""
        choose = random.Random(number)
        place = self.folder / f"case-{number}"
        original = choose.choice(self.places)
        shutil.copytree(original, place)
        done = []
        for _ in range(choose.choice((1, 1, 1, 2))):
            try:
                done.append(spoiled(place, choose))
            except (ValueError, IndexError, TypeError, RecursionError, KeyError, AttributeError):  # spoiled before
                continue
        compare = bool(done) and all(one.startswith("an entry") for one in done)
        run: Callable[[], None] = partial(use, place, compare)
        status, out, err = attempt(run, self.folder, WAITED)
        shutil.rmtree(place)
        what = out.strip().splitlines()[-1] if out.strip() else "ended"
        if status == 0 and what in ("loaded", "refused") and "Traceback" not in err:
            return what, None
        return what.split(":")[0], f"case {number}: {original.name}: {'; '.join(done)}: {status}: {what} {err[-2000:]}"


def main(seconds: float = 3600.0, first: int | None = None) -> int:
    """Fuzz for that long."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import transformers  # noqa: F401 - once, before a child needs it

    with tempfile.TemporaryDirectory() as folder:
        return drive(Families(Path(folder)).case, seconds, first)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
