"""Synthetic pairs of texts: tasks small enough to watch an encoder-decoder learn them."""

import datetime
import random
from collections.abc import Callable

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2049, 12, 31)
FORMS = ("{day} {month} {year}", "{month} {day}, {year}", "{weekday}, {day} {month} {year}", "{day}.{number}.{year}")
MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def copies(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Words of 4 to 12 letters, and the same again."""
    return [(word, word) for word in _words(count, seed)]


def reversals(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Words of 4 to 12 letters, and the same reversed."""
    return [(word, word[::-1]) for word in _words(count, seed)]


def dates(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Days as people write them ("3 March 1987", "March 3, 1987", "3.3.1987"), and as ISO 8601 does ("1987-03-03")."""
    choose = random.Random(seed)
    found = []
    for _ in range(count):
        day = FIRST + datetime.timedelta(days=choose.randrange((LAST - FIRST).days + 1))
        month = MONTHS[day.month - 1]
        written = choose.choice(FORMS).format(
            day=day.day,
            month=choose.choice([month, month[:3]]),
            number=day.month,
            year=day.year,
            weekday=WEEKDAYS[day.weekday()],
        )
        found.append((written, day.isoformat()))
    return found


TOYS: dict[str, Callable[[int, int], list[tuple[str, str]]]] = {"copy": copies, "reverse": reversals, "dates": dates}
"""By name."""


def _words(count: int, seed: int) -> list[str]:
    choose = random.Random(seed)
    return ["".join(choose.choices(LETTERS, k=choose.randint(4, 12))) for _ in range(count)]
