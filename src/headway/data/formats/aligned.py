"""Parallel files: line 7 of one is a text, line 7 of the other its translation."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headway.data.open.files import Tally, fingerprint_of, kind, lines
from headway.data.records.rows import held
from headway.data.records.table import Table
from headway.errors import InputError
from headway.hub.download import dataset_id

SOURCE, TARGET = "source", "target"
"""The columns of the table that two such files make."""
CODES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en"
    " eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv"
    " ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne"
    " ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st"
    " su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
LANGUAGES = frozenset(CODES.split())
"""ISO 639-1."""
NAMES = (
    "afrikaans albanian amharic arabic armenian azerbaijani basque belarusian bengali bosnian breton bulgarian burmese"
    " catalan chinese croatian czech danish dutch english esperanto estonian finnish french galician georgian german"
    " greek guarani gujarati haitian hausa hebrew hindi hungarian icelandic igbo indonesian irish italian japanese"
    " javanese kannada kazakh khmer kinyarwanda korean kurdish kyrgyz lao latin latvian lithuanian luxembourgish"
    " macedonian malagasy malay malayalam maltese maori marathi mongolian nepali norwegian occitan odia oromo pashto"
    " persian polish portuguese punjabi quechua romanian russian samoan sanskrit serbian shona sindhi sinhala slovak"
    " slovenian somali spanish sundanese swahili swedish tagalog tajik tamil tatar telugu thai tibetan tigrinya turkish"
    " turkmen ukrainian urdu uyghur uzbek vietnamese welsh wolof xhosa yiddish yoruba zulu"
)
LANGUAGE_NAMES = frozenset(NAMES.split())
"""In English."""
WRITTEN = (
    "arab armn beng cyrl deva ethi geor grek gujr guru hang hans hant hebr jpan khmr knda kore laoo latn mlym mymr olck"
    " orya sinh taml telu tfng thai tibt"
)
SCRIPTS = frozenset(WRITTEN.split())
"""Of ISO 15924, as they follow languages: eng_Latn."""
TARGET_OF = {
    **{"src": ("tgt", "trg"), "source": ("target",), "input": ("output",), "text": ("summary",)},
    **{"question": ("answer",), "prompt": ("completion", "response")},
}
"""What is called like a source, and what the target of each is called."""


def sides_of(paths: Sequence[str | Path]) -> tuple[str, str] | None:
    """What two inputs are called as the sides of one text: "en" and "de" of train.en, train.de, or of en.txt, de.txt.

    Their names differ in one part, between dots or also between underscores, and these parts are two sides; None where
    that is not so.
    """
    if not are_files_of_lines(paths):
        return None
    names = [Path(path).name.lower().removesuffix(".gz") for path in paths]
    for border in (r"[.]", r"[._]"):
        parts = [re.split(border, name) for name in names]
        apart = [pair for pair in zip(*parts, strict=False) if pair[0] != pair[1]]
        if len(parts[0]) == len(parts[1]) and len(apart) == 1 and are_sides(*apart[0]):
            return apart[0]
    return None


def are_files_of_lines(paths: Sequence[str | Path]) -> bool:
    """Whether these are two files of running text, whatever their names."""
    texts = [path for path in paths if kind(Path(path)) == "text" and not Path(path).is_dir()]
    return len(paths) == len(texts) == 2 and not any(map(dataset_id, texts))


def are_sides(one: str, other: str) -> bool:
    """Whether two names in lower case are those of two sides: languages, or a source and its target, in any order."""
    return (is_language(one) and is_language(other)) or is_target_of(one, other) or is_target_of(other, one)


def is_target_of(target: str, source: str) -> bool:
    """Whether one name is what the target of a source of the other name is called."""
    return target in TARGET_OF.get(source, ())


def is_language(name: str) -> bool:
    """Whether a name in lower case is a language's: english, en, de-at, zh_hans; three letters only as in eng_latn."""
    if name in LANGUAGE_NAMES:
        return True
    language, *more = re.split("[-_]", name)
    scripts = [part for part in more if part in SCRIPTS]
    regions = [part for part in more if re.fullmatch("[a-z]{2}|[0-9]{3}", part)]
    known = language in LANGUAGES or (bool(scripts) and re.fullmatch("[a-z]{3}", language) is not None)
    return known and len(scripts) <= 1 and len(regions) <= 1 and len(scripts) + len(regions) == len(more)


def share_a_name(paths: Sequence[str | Path]) -> bool:
    """Whether two files are called alike but for what follows the last dot: train.eng and train.quy."""
    (first, ending), (second, other) = (Path(path).name.removesuffix(".gz").rpartition(".")[::2] for path in paths)
    return first == second != "" and ending != other


def count_lines(path: str | Path, encoding: str | None = None) -> int:
    """How many lines a file has, those without a line feed at the end of the file counted too."""
    return sum(1 for _ in lines(Path(path), encoding, Tally()))


def read_aligned(first: str | Path, second: str | Path, *, encoding: str | None = None, otherwise: str = "") -> Table:
    """The lines of two files, side by side: a table with the columns "source" and "target".

    Raises InputError when the files have different numbers of lines, with the place where they seem to part, and with
    ``otherwise``: what to do if they were not meant so.
    """
    paths = Path(first), Path(second)
    if paths[0].resolve() == paths[1].resolve():
        raise InputError(f"{first}: is given for both sides; name one file for each.")
    tallies = Tally(), Tally()
    sides = [[*lines(path, encoding, tally)] for path, tally in zip(paths, tallies, strict=True)]
    counts = [len(side) for side in sides]
    if counts[0] != counts[1]:
        parting = first_unpaired(*([*map(len, side)] for side in sides))
        raise InputError(
            f"{paths[0]} has {counts[0]:,} lines, {paths[1]} has {counts[1]:,}; their lines must correspond"
            f"{otherwise}. Judging by line lengths, they diverge near line {parting:,}."
        )
    for path, side in zip(paths, sides, strict=True):
        if nul := next((number for number, line in enumerate(side, start=1) if "\0" in line), None):
            raise InputError(f"{path}, line {nul}: a NUL byte; expected text. Remove it and run again.")
    if not counts[0]:
        raise InputError(f"{paths[0]}: there are no lines in this file.")
    columns, numbers = dict(zip((SOURCE, TARGET), sides, strict=True)), range(1, counts[0] + 1)
    fingerprint = fingerprint_of([tally.digest for tally in tallies])
    return Table((paths[0],), list(columns), held(columns, numbers), numbers, fingerprint, paired=paths[1])


def first_unpaired(first: Sequence[int], second: Sequence[int]) -> int:
    """The number of the line from which the longer side seems to be ahead, from the lengths of all lines.

    Up to there the lengths of paired lines go together, from there those of lines that are as far apart as the numbers
    of lines are.
    """
    if len(first) > len(second):
        first, second = second, first
    ahead = len(second) - len(first)
    a, b = (np.log1p(np.asarray(side, dtype=float)) for side in (first, second))
    usual = b.mean() - a.mean() if len(first) else 0.0
    paired = np.abs(b[: len(a)] - a - usual)
    moved = np.abs(b[ahead:] - a - usual)
    costs = np.concatenate([[0.0], np.cumsum(paired)]) + moved.sum() - np.concatenate([[0.0], np.cumsum(moved)])
    return int(costs.argmin()) + 1
