"""Model directories damaged at random load or are refused; ``make fuzz`` goes on for longer."""

import time

import fuzz


def test_random_damage_is_refused(tmp_path):
    until = time.monotonic() + 15
    counts, wrong = fuzz.run(0, lambda done: done < 1500 and time.monotonic() < until, tmp_path)
    assert not wrong, "\n".join(wrong[:5])
    assert counts["refused"] > 100 and counts["loaded"] > 10
