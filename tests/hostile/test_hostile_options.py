"""Senseless values of every option of every verb: one message, exit status 2, at once, and nothing is made."""

from pathlib import Path

import click
import pytest

import headway
from headway.cli.common import NAMES_OF_FILES
from headway.cli.main import VERBS
from headway.cli.main import headway as group

WHOLE = ["-1", "1000000000000", "9" * 31, "-" + "9" * 31, "1.5", "nan", "x"]
REAL = ["-1", "1e12", "1e300", "1e400", "-1e300", "nan", "inf", "-inf", "9" * 400, "x"]
TIMES = ["0", "-1", "0s", "1e30", "9" * 31, "99999999999h", "nan", "inf", "5x", ""]
MEANS_SOMETHING = {
    ("seed", "1000000000000"),
    ("split-seed", "1000000000000"),
    ("length-penalty", "-1"),
    ("top-k", "-1"),
    ("match-parameters", "1000000000000"),
}
"""Large or negative, and all right."""
FOR_OTHERS = {
    **dict.fromkeys(("freeze", "lora", "layer-decay", "extend-vocab"), "from"),
    **dict.fromkeys(("gpus", "gpu-share", "gpu-memory", "gpu-flops", "gpu-link", "parameters", "tokens"), "plan"),
}
"""Options that are read with another."""
ALSO = {
    "generate": {"repetition-penalty": ["1e-300", "0"], "temperature": ["1e-300", "5e-324"], "top-k": ["-2"]},
}
TEXTS = ["K", "-5G", "1e40", "nan", "inf", "", "9" * 400]
"""What is no quantity."""


def numbers_of(verb: str) -> dict[str, list[str]]:
    """The options of a verb that take a number, each with values that mean nothing."""
    found = {}
    for option in group.get_command(click.Context(group), verb).params:
        if not isinstance(option, click.Option):
            continue
        name = option.opts[0].removeprefix("--")
        if isinstance(option.type, click.types.IntParamType | click.IntRange):
            found[name] = [value for value in WHOLE if (name, value) not in MEANS_SOMETHING]
        elif isinstance(option.type, click.types.FloatParamType | click.FloatRange):
            found[name] = [value for value in REAL if (name, value) not in MEANS_SOMETHING]
        elif name in ("time", "save-every", "more-time"):
            found[name] = TIMES
        elif name in ("parameters", "tokens", "gpu-memory", "gpu-flops", "gpu-link"):
            found[name] = TEXTS
    return {name: values + ALSO.get(verb, {}).get(name, []) for name, values in found.items()}


@pytest.fixture(scope="module")
def tagger_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagger")
    file = folder / "names.conll"
    file.write_text("".join(f"Anna B-PER\nlives O\nin O\nVienna{i} B-LOC\n\n" for i in range(20)))
    headway.train(file, steps=2, preset="tiny", out=folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def arguments(lm_run, classifier_run, masked_run, translator_run, tagger_run, corpus, rows, tmp_path_factory):
    """The words of a command that works, for each verb."""
    folder = tmp_path_factory.mktemp("made")
    pairs = folder / "pairs.csv"
    pairs.write_text("source,target\n" + "the cat,le chat\n" * 9)
    return {
        "train": [corpus, "--out", folder / "out"],
        "tune": [rows, "--out", folder / "out"],
        "evaluate": [lm_run],
        "generate": [lm_run, "the cat"],
        "classify": [classifier_run, "the cat"],
        "translate": [translator_run, "the cat"],
        "predict": [classifier_run, "the cat"],
        "tag": [tagger_run, "the cat"],
        "fill": [masked_run, "the [MASK]"],
        "embed": [masked_run, rows, "--nearest", "cat"],
        "explain": [lm_run],
        "attention": [lm_run, "the cat", "--out", folder / "page.html"],
        "verify": [lm_run],
        "clean": [lm_run],
        "scale": [corpus, "--out", folder / "out"],
        "export": [lm_run, "--out", folder / "out"],
        "compare": [rows, "--models", "bow", "--out", folder / "out"],
        "bench": [lm_run],
        "serve": [lm_run],
        "demo": ["--out", folder / "out"],
    }, folder


@pytest.fixture(scope="module")
def masked_run(corpus, tmp_path_factory):
    import headway

    out = tmp_path_factory.mktemp("runs") / "masked"
    headway.train(
        corpus, task="masked_lm", d_model=16, layers=1, heads=2, length=32, steps=2, threads=1, out=out, quiet=True
    )
    return out


@pytest.fixture(scope="module")
def translator_run(tmp_path_factory):
    import headway

    folder = tmp_path_factory.mktemp("runs")
    (folder / "pairs.csv").write_text("source,target\n" + "".join(f"the cat {n},le chat {n}\n" for n in range(99)))
    small = {"d_model": 16, "layers": 1, "heads": 2, "length": 16, "steps": 2, "threads": 1}
    headway.train(folder / "pairs.csv", task="translation", out=folder / "run", quiet=True, **small)
    return folder / "run"


def wrong(in_process, words, folder, before):
    """What is wrong with how a command was refused; nothing, where it was one message and nothing was made."""
    try:
        status, out, err = in_process(*words)
    except Exception as error:
        return [(words[-4:], repr(error)[-600:])]
    said = [line for line in err.splitlines() if line.startswith(("headway: ", "Error: "))]
    if status != 2 or len(said) != 1 or len(said[0]) > 6000 or out:
        return [(words[-4:], status, err[-600:], out[-100:])]
    return [(words[-4:], "something was made")] if sorted(folder.rglob("*")) != before else []


@pytest.mark.parametrize("verb", [verb for verb in VERBS if numbers_of(verb)])
def test_numbers_that_mean_nothing(verb, arguments, in_process):
    base, folder = arguments[0][verb], arguments[1]
    before, problems = sorted(folder.rglob("*")), []
    for name, values in numbers_of(verb).items():
        for value in values:
            words = [verb, *base, f"--{name}={value}"]
            if FOR_OTHERS.get(name) == "from":
                words += ["--from", str(arguments[0]["classify"][0])]
            elif FOR_OTHERS.get(name) == "plan":
                words += ["--plan"]
            problems += wrong(in_process, words, folder, before)
    assert not problems, "\n".join(f"{str(one)[-700:]}" for one in problems)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "name", ["", " ", "\0", "bad\udcff", "x" * 5000], ids=["empty", "blank", "nul", "bytes", "long"]
)
def test_names_that_are_none(verb, name, arguments, in_process, tmp_path):
    """As an input, as RUN, as --out, as --to and so on."""
    base, folder = arguments[0][verb], arguments[1]
    before, problems = sorted(folder.rglob("*")), []
    command = group.get_command(click.Context(group), verb)
    for option in command.params:
        if option.name not in NAMES_OF_FILES:
            continue
        given = [str(word) for word in base]
        if isinstance(option, click.Option):
            if option.opts[0] == "--to" and verb == "export":
                continue  # a choice
            words = [verb, *given, option.opts[0], name]
        else:
            words = [verb, name, *given[1:]]
        problems += wrong(in_process, words, folder, before)
    assert not problems, "\n".join(f"{str(one)[-700:]}" for one in problems)


def test_nothing_is_read_for_an_empty_name(tmp_path, monkeypatch):
    """From Python as from the command line: ``train("")`` is not the working directory."""
    import headway
    from headway.errors import InputError

    (tmp_path / "secret.txt").write_text("the cat sat on a mat\n" * 99)
    monkeypatch.chdir(tmp_path)
    for work in (
        lambda: headway.train("", steps=1),
        lambda: headway.train("secret.txt", out="", steps=1),
        lambda: headway.train("secret.txt", validation="", steps=1),
        lambda: headway.train("secret.txt", from_model="", steps=1),
        lambda: headway.load(""),
    ):
        with pytest.raises(InputError, match="is empty"):
            work()
    assert [path.name for path in Path().iterdir()] == ["secret.txt"]


@pytest.mark.parametrize(
    "words",
    [
        ["--d-model", "1000000000"],
        ["--d-model", "131072", "--layers", "4096"],
        ["--layers", "4096", "--d-model", "4096"],
        ["--batch-tokens", "1000000000000"],
        ["--batch-tokens", "2000000000"],
        ["--batch-tokens", "2000000000", "--length", "16000000"],
        ["--length", "1000000000"],
    ],
    ids=" ".join,
)
def test_a_model_or_a_batch_that_no_memory_holds(words, arguments, in_process):
    base, folder = arguments[0]["train"], arguments[1]
    before = sorted(folder.rglob("*"))
    assert not wrong(in_process, ["train", *base, "--steps", "3", *words], folder, before)
