"""The soak test in its short form: ``make soak`` runs the long one."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent / "benchmarks"))


def test_load_leaving_clients_unicode_and_sigterm():
    import soak

    words = ["--seconds", "3", "--prompts", "40", "--leave", "200", "--running", "4", "--queue", "8"]
    found = soak.soak(soak.options([*words, "--width", "64", "--layers", "2"]))
    soak.HEALTH_SECONDS = 1.0  # a machine of tests is shared
    soak.check(found, 0.05)
