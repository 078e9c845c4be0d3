"""Generated pairs are what they are said to be, and the same for one seed."""

import datetime
import re

from headway.data.samples import TOYS, copies, dates, reversals


def test_copies_and_reversals():
    assert all(source == target and 4 <= len(source) <= 12 for source, target in copies(101))
    assert all(source[::-1] == target for source, target in reversals(101))
    assert {len(source) for source, _ in copies(997)} == set(range(4, 13))


def test_every_date_is_the_day_that_it_names():
    found = dates(401)
    for written, iso in found:
        day = datetime.date.fromisoformat(iso)
        numbers = [int(number) for number in re.findall(r"\d+", written)]
        assert day.day in numbers and day.year in numbers
        assert day.strftime("%b") in written or day.month in numbers
        assert "," not in written or written[0].isalpha()
    assert len({len(re.findall(r"\w+", written)) for written, _ in found}) > 1


def test_one_seed_gives_one_set_of_pairs():
    for make in TOYS.values():
        assert make(53, 3) == make(53, 3) != make(53, 4)
