"""Quantities as people read and write them."""

import math

import pytest

from headway.errors import InputError
from headway.io.quantities import (
    count,
    counted,
    duration,
    figure,
    metric,
    parse_seconds,
    plural,
    short_count,
    short_duration,
    size,
    size_unit,
    time_text,
)


def test_measured_numbers():
    numbers = (0.3, 12.3456, 123_456, 12_345_678, 9.8764e13, 1.23456e-5, 3e20, math.nan, -math.inf)
    assert [figure(value) for value in numbers] == [
        "0.3", "12.35", "123,500", "12.35 M", "98.76 T", "1.235e-05", "3e+20", "not a number", "-infinite",
    ]  # fmt: skip
    assert [metric(value) for value in (0.80649, 1.5, 12.34567, 45_678.9)] == ["0.8065", "1.5000", "12.346", "45,679"]


def test_counts():
    values = (0, 878, 40_960, 999_499, 999_500, 1_790_003, 999_999_999, 3.2e9, 1.5e13)
    assert [count(value) for value in values] == [
        "0", "878", "40,960", "999,499", "1 M", "1.79 M", "1 B", "3.2 B", "15 T",
    ]  # fmt: skip
    assert [short_count(value) for value in (0.5, 878, 40_960, 999_999, 1.2e6)] == [
        "0.5",
        "878",
        "41 k",
        "1 M",
        "1.2 M",
    ]
    assert [counted(n, "row") for n in (0, 1, 2003)] == ["0 rows", "1 row", "2,003 rows"]
    assert [plural(n, "pair") for n in (None, 1, 1.0, 1.5)] == ["pairs", "pair", "pair", "pairs"]


def test_sizes():
    values = (0, 1, 878, 999.7, 12_300, 7_160_012, 999_999_999, 8e10, 1e15, 1.5e19)
    assert [size(value) for value in values] == [
        "0 bytes", "1 byte", "878 bytes", "1 kB", "12.3 kB", "7.16 MB", "1 GB", "80 GB", "1 PB", "15,000 PB",
    ]  # fmt: skip
    assert [size_unit(value) for value in (7, 3e6, 5e9)] == [(1e3, "kB"), (1e6, "MB"), (1e9, "GB")]


def test_durations():
    values = (-1, 0, 1.94, 9.94, 9.97, 22.1, 59.6, 109.2, 3599.7, 7503)
    assert [duration(value) for value in values] == [
        "0.0 s", "0.0 s", "1.9 s", "9.9 s", "10 s", "22 s", "1 min 0 s", "1 min 49 s", "1 h 0 min", "2 h 5 min",
    ]  # fmt: skip
    assert [short_duration(value) for value in (3.0, 22.1, 109.2, 300, 7503, 330_480, 1_252_800)] == [
        "3 s", "22 s", "1.8 min", "5 min", "2.1 h", "91.8 h", "14.5 days",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (" 2m30 ", 150),
        ("15", 15),
        ("1h2m3s", 3723),
        ("0.5m", 30),
        (" 7s ", 7),
        (15, 15),
        (0.25, 0.25),
    ],
)
def test_times_as_they_are_given(written, expected):
    assert parse_seconds(written) == expected


def test_numbers_of_seconds_become_words():
    assert [time_text(value) for value in ("5m", "15", 15, 90.25, 1_000_000, 1e-5)] == [
        "5m", "15", "15s", "90.25s", "1000000s", "0.00001s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        " ",
        "soon",
        "5 m",
        "5x",
        "m",
        "5m1h",
        "1:30",
        "-3s",
        "0",
        "0s",
        "1e3",
        "nan",
        "inf",
        0,
        -3,
        math.nan,
        math.inf,
        1e30,
        True,
        None,
        [5],
    ],
)
def test_what_is_no_time_is_named_with_its_option(wrong):
    with pytest.raises(InputError, match=r"^--save-every is .*; it must be more than 0, written as 90s, 5m or 1h\.$"):
        parse_seconds(wrong, "--save-every")
