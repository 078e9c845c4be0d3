"""Numbers as people write them: what a cell means depends on its column, and what could mean two things is refused."""

import numpy as np
import pytest

from headway.data.records.numbers import Unclear, decimal_mark, numbers


@pytest.mark.parametrize(
    ("cells", "mark", "values"),
    [
        (["1.5", "-2", "1e3"], ".", [1.5, -2, 1000]),
        (["1,5", "2,25"], ",", [1.5, 2.25]),
        (["1.234,50", "7"], ",", [1234.5, 7]),
        (["1,234.5", "12,000"], ".", [1234.5, 12000]),
        (["1,234,567", "5"], ".", [1234567, 5]),
        (["1.234.567", "1,5"], ",", [1234567, 1.5]),
        (["$1,234", "$950"], ".", [1234, 950]),
        (["€ 1.234", "7 €"], ",", [1234, 7]),
        (["0,125", "1,250"], ",", [0.125, 1.25]),
        (["1 234", "1'234'567.5"], ".", [1234, 1234567.5]),
        (["45%", "3"], ".", [45, 3]),
        (["1.250", "2.100"], ".", [1.25, 2.1]),
        (["1.250", "950", "0.5"], ".", [1.25, 950, 0.5]),
        (["−4", "+4"], ".", [-4, 4]),
    ],
)
def test_a_column_shows_how_its_numbers_are_written(cells: list[str], mark: str, values: list[float]):
    assert decimal_mark(cells) == mark
    assert numbers(cells, mark).tolist() == values


def test_what_is_no_number_is_none():
    cells = ["", "abc", "inf", "-inf", "nan", "--3", "1.2.3", "1,23,4", "$5€", "12 or 13", "1e999"]
    assert np.isnan(numbers(cells)).all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1,234", "5"], "1,234 could be 1234 or 1.234"),
        (["1.250", "950"], "1.250 could be 1250 or 1.250 as a decimal"),
        (["1,5", "2.5"], "decimals are written in two ways"),
        (["1.234,5", "1,234.5"], "decimals are written in two ways"),
        (["5 €", "$3"], "in € and in \\$"),
    ],
)
def test_what_could_mean_two_things_is_refused(cells: list[str], said: str):
    with pytest.raises(Unclear, match=said):
        decimal_mark(cells)
