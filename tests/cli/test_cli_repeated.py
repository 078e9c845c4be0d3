"""An option of one value that is given twice is refused on every verb; flags and options of several values are not."""

import click
import pytest

import headway
from headway.cli.common import in_our_words
from headway.cli.main import VERBS
from headway.cli.main import headway as group
from headway.errors import InputError


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_every_verb(verb: str):
    command = group.get_command(click.Context(group), verb)
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        name = option.opts[0]
        if option.is_flag or option.multiple:
            words = [name, name] if option.is_flag else [name, "a", f"{name}=b"]
            assert in_our_words(command, words) == words
            continue
        for words in ([name, "a", name, "b"], [name, "a", "word", f"{name}=b"]):
            with pytest.raises(click.UsageError, match=f"{name} is given twice, as 'a' and 'b'; it takes one value"):
                in_our_words(command, words)


def test_the_command_names_the_option_and_both_values(in_process, rows, classifier_run):
    status, out, err = in_process("train", rows, "--second-column", "Subject", "--second-column=Body", "--plan")
    assert status == 2 and not out and "--second-column is given twice, as 'Subject' and 'Body'" in err
    for verb in ("predict", "classify"):  # the first loads the run to know its options
        status, _, err = in_process(verb, classifier_run, "the cat", "--to", "a.csv", "--to", "b.csv")
        assert status == 2 and "--to is given twice, as 'a.csv' and 'b.csv'" in err
    status, out, _ = in_process("classify", classifier_run, "--quiet", "--quiet", "--json", "--", "--to", "--to")
    assert status == 0 and out.count('"label"') == 2


def test_two_spellings_of_one_keyword(rows):
    for twice in ({"text_column": "text", "text_col": "label"}, {"lr": 0.1, "learning_rate": 0.2}):
        with pytest.raises(InputError, match=r"(text_column|learning_rate) is given twice, as"):
            headway.train(rows, **twice)
    with pytest.raises(InputError, match="from_model is given twice"):
        headway.train(rows, **{"from": "a", "from_model": "b"})
