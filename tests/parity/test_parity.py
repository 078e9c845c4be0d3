"""Every family: our answers are those of transformers, in both directions, and what is wrong shows."""

import pytest
import torch
from families import FAMILIES, model, rewire
from kit import (
    BOUND,
    check_decode,
    check_mutation,
    check_reads,
    check_targets,
    check_writes,
    difference,
    edit_config,
)

from headway.errors import InputError
from headway.hub.directory import load_model


def table(part: str) -> list:
    """Each family with each name in one of its tables."""
    pairs = [(family, name) for family, about in FAMILIES.items() for name in getattr(about, part)]
    return [pytest.param(*pair, id=f"{pair[0]}, {pair[1]}") for pair in pairs]


@pytest.mark.parametrize(("family", "name"), table("cases"))
def test_their_model_here(family, name, tmp_path):
    check_reads(model(family, name), tmp_path, FAMILIES[family].sides(name))


@pytest.mark.parametrize(("family", "name"), table("written"))
def test_our_model_there(family, name, tmp_path):
    about = FAMILIES[family]
    check_writes(model(family, name), tmp_path, about.sides(name), exact=about.exact)


@pytest.mark.parametrize(("family", "name"), table("causal"))
def test_cached_greedy_ids(family, name, tmp_path):
    check_decode(model(family, name), tmp_path)


@pytest.mark.parametrize("family", [name for name, about in FAMILIES.items() if about.targets])
def test_greedy_targets(family, tmp_path):
    for number, (name, settings) in enumerate(FAMILIES[family].targets):
        check_targets(model(family, name), tmp_path / str(number), **settings)


@pytest.mark.parametrize(("family", "name"), table("wrong"))
def test_a_wrong_number_in_the_configuration_shows(family, name, tmp_path):
    case, wrong = FAMILIES[family].wrong[name]
    check_mutation(model(family, case), tmp_path, **wrong)


@pytest.mark.parametrize(("family", "name"), table("wirings"))
def test_a_wrong_wiring_shows(family, name, tmp_path):
    other = model(family)
    ours = check_reads(other, tmp_path, ("none",))
    with torch.no_grad():
        rewire(ours, FAMILIES[family].wirings[name])
    assert difference(ours, other) > BOUND


@pytest.mark.parametrize(("family", "name"), table("refused"))
def test_what_we_lack_is_refused(family, name, tmp_path):
    case, changes, said = FAMILIES[family].refused[name]
    model(family, case).save_pretrained(tmp_path)
    edit_config(tmp_path, **changes)
    with pytest.raises((InputError, ValueError), match=said):
        load_model(tmp_path)


@pytest.mark.parametrize("family", [name for name, about in FAMILIES.items() if about.causal])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_files_in_half_precision_are_read_as_float32(dtype, family, tmp_path):
    other = model(family, "tokens").to(dtype)
    other.save_pretrained(tmp_path)
    ours = load_model(tmp_path)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    assert difference(ours, type(other).from_pretrained(tmp_path, dtype=torch.float32).eval()) <= BOUND
