"""Numbers as people write them: what a cell means depends on its column, and what could mean two things is refused."""

import numpy as np
import pytest

from headway.data.open.columns import NUMBER
from headway.data.records.numbers import Unclear, Written, numbers


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
        (["$45,000", "$120,500"], ".", [45000, 120500]),
        (["(12.50)", "($1,200.00)", "7.5"], ".", [-12.5, -1200, 7.5]),
        (["$-5.00", "-$5", "5.00-", "–5", "12.-", "12.--"], ".", [-5, -5, -5, -5, 12, 12]),
        (["12,-", "3,50"], ",", [12, 3.5]),
        (["€ 1.234", "7 €"], ",", [1234, 7]),
        (["0,125", "1,250"], ",", [0.125, 1.25]),
        (["1 234", "1'234'567.5"], ".", [1234, 1234567.5]),
        (["45%", "3%"], ".", [45, 3]),
        (["1.250", "2.100"], ".", [1.25, 2.1]),
        (["1.250", "950", "0.5"], ".", [1.25, 950, 0.5]),
        (["−4", "+4"], ".", [-4, 4]),
    ],
)
def test_a_column_shows_how_its_numbers_are_written(cells: list[str], mark: str, values: list[float]):
    assert Written.of(cells).decimal == mark
    assert numbers(cells, mark).tolist() == values


def test_what_is_no_number_is_none():
    cells = [
        "",
        "abc",
        "inf",
        "-inf",
        "nan",
        "--3",
        "1.2.3",
        "1,23,4",
        "$5€",
        "12 or 13",
        "1e999",
        "(3)",
        "(5.0",
        "-5-",
        "10-20",
    ]
    assert np.isnan(numbers(cells)).all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["1,234", "5"], "1,234 could be 1234 or 1.234"),
        (["1.250", "950"], "1.250 could be 1250 or 1.250 as a decimal"),
        (["1,5", "2.5"], "decimals are written in two ways"),
        (["1.234,5", "1,234.5"], "decimals are written in two ways"),
        (["5 €", "$3"], "in € and in \\$"),
        (["$4.565", "$3.899"], "4.565 could be \\$4565 or \\$4.565 as a decimal"),
        (["1,259 €", "1,309 €"], "1,259 € could be 1259 € or 1.259 € as a decimal"),
        (["50.0%", "0.25"], "50.0% is in % and 0.25 is not"),
    ],
)
def test_what_could_mean_two_things_is_refused(cells: list[str], said: str):
    with pytest.raises(Unclear, match=said):
        Written.of(cells)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1\u00a0299,00 €", "7,50 €"], [1299, 7.5]),
        (["1\u202f299,00", "0,5"], [1299, 0.5]),
        (["USD 62.47", "USD 1,299.00"], [62.47, 1299]),
        (["₹6247", "₹12"], [6247, 12]),
        (["1’299.50 CHF", "−5 CHF"], [1299.5, -5]),
    ],
)
def test_blanks_and_currencies_of_many_places_are_read(cells: list[str], values: list[float]):
    assert all(map(NUMBER.fullmatch, cells))
    assert numbers(cells, Written.of(cells).decimal).tolist() == values


def test_what_a_file_does_not_show_is_as_in_that_of_the_run():
    german = Written.of(["1.234,50 €", "7 €"])
    assert german == Written(",", "€")
    assert Written.of(["1.234", "950"], german).decimal == ","
    assert Written.of(["62.47", "189.271"], german).decimal == "."
    with pytest.raises(Unclear, match="\\$5 is not in €, as the numbers of the model are"):
        Written.of(["$5"], german)
    assert Written.of(["$4.565", "$3.899"], Written(".", "$")).decimal == "."
    for cells, known, said in (
        (["50%"], Written(), "50% is in %, and the numbers of the model are not"),
        (["0.5"], Written(".", "%"), "0.5 is not in %, as the numbers of the model are"),
    ):
        with pytest.raises(Unclear, match=said):
            Written.of(cells, known)


def test_points_in_every_cell_are_decimals_and_said_to_be():
    assert Written.of(["1.093", "2.412"]).doubt == "1.093 is read with decimals; write 1093 if it means thousands"
    assert not Written.of(["1.093", "0.5"]).doubt
    with pytest.raises(Unclear, match=r"1\.250 could be a text with thousands; make all cells numbers"):
        Written.of(["1.250", "900.5"], mixed=True)
