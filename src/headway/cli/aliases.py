"""Option names of other tools: accepted where they mean the same, otherwise answered with a hint to ours."""

import itertools
import re
import warnings
from collections.abc import Sequence

import click

from headway.training.option_fields import ALIASES, HINTS, RENAMED, flag

OF_VERBS = {
    "out": "output-dir output out-dir save-dir outdir",
    "to": "output-file output out-file",
    "validation": "validation-file val valid dev eval-file test-file",
    "max-tokens": "max-new-tokens",
    "temperature": "temp",
    "beam": "beams num-beams beam-size",
    "trials": "n-trials num-trials",
}
NAMES = {flag(name): aliases.split() for name, aliases in (*ALIASES.items(), *OF_VERBS.items())}
"""Our option -> its names in other tools."""


def in_our_words(command: click.Command, arguments: Sequence[str]) -> list[str]:
    """The words of a command line, with option names of other tools replaced by ours.

    Raises click.NoSuchOption with a hint for an option without an equivalent here.
    """
    ours = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    found: list[str] = []
    for number, word in enumerate(arguments):
        if word == "--":
            found += arguments[number:]
            break
        name, equals, value = word.partition("=")
        if name.startswith("--") and name not in ours:
            plain = name[2:].replace("_", "-")
            meant = [plain, *(ours for ours, names in NAMES.items() if plain in names)]  # the likeliest first
            spelled = next((f"--{one}" for one in meant if f"--{one}" in ours), None)
            named = re.findall(r"--[a-z-]+", HINTS.get(plain, "")) or ["--steps"]  # else for all commands that train
            if spelled is None and plain in HINTS and ours.intersection(named):
                raise click.UsageError(f"no such option: {name} ({HINTS[plain]}).")
            if plain.replace("-", "_") in RENAMED and spelled is not None:
                warnings.warn(f"{name} is now called {spelled}", stacklevel=2)
            word = f"{spelled}{equals}{value}" if spelled is not None else word
        found.append(word)
    check_once(command, found)
    return found


def check_once(command: click.Command, words: Sequence[str]) -> None:
    """Raise click.UsageError for an option of one value that is given twice: click would take the last in silence."""
    options = {name: param for param in command.params if isinstance(param, click.Option) for name in param.opts}
    values: dict[str, str] = {}
    rest = iter(words)
    for word in itertools.takewhile(lambda word: word != "--", rest):
        name, equals, value = word.partition("=")
        if (option := options.get(name)) is None or option.is_flag:
            continue
        value = value if equals else next(rest, "")
        if name in values and not option.multiple:
            raise click.UsageError(f"{name} is given twice, as {values[name]!r} and {value!r}; it takes one value.")
        values[name] = value
