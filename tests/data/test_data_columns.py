"""What counts about a column, however its values come."""

import pytest

from headway.data.open.columns import Column, Judging


@pytest.mark.parametrize("at_once", [1, 3_000, 30_000])
def test_what_is_mostly_numbers_is_found_however_it_comes(at_once: int):
    def judged(cells: list[str]) -> Column:
        one = Judging("x")
        for start in range(0, len(cells), at_once):
            one.add(cells[start : start + at_once])
        return one.column()

    numbers, words = [str(number) for number in range(24_000)], [f"word {number}" for number in range(6_000)]
    assert judged(numbers).numeric and judged(numbers).mostly_numeric
    few = judged([*words[:600], *numbers])
    assert not few.numeric and few.mostly_numeric
    missing = judged([*["n/a"] * 6_000, *numbers])
    assert not missing.numeric and missing.mostly_numeric
    for cells in ([*words, *numbers], [*numbers, *words], words * 4):
        assert not judged(cells).numeric and not judged(cells).mostly_numeric
