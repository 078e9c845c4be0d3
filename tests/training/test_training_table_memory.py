"""Large tables: how much memory the command takes from reading to training, in a process of its own."""

import random
import subprocess
import sys
from pathlib import Path

CHILD = """
import sys
from pathlib import Path
from headway.cli.main import main
try:
    main(sys.argv[1:])
finally:  # not ru_maxrss, which is at least that of the process that started this one
    lines = Path("/proc/self/status").read_text().splitlines()
    print("peak", next(line.split()[1] for line in lines if line.startswith("VmHWM:")), file=sys.stderr)
"""


def trained(table: Path, out: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], float]:
    """The ended command, and the most memory that it held, in megabytes."""
    command = [sys.executable, "-c", CHILD, "train", str(table), "--out", str(out), "--threads", "1", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    peaks = [line.split()[1] for line in ended.stderr.splitlines() if line.startswith("peak ")]
    return ended, int(peaks[0]) * 1024 / 1e6


def test_the_memory_of_a_large_table_is_bounded(tmp_path: Path):
    draw, table, size = random.Random(7), tmp_path / "table.csv", 0
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(30_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    with table.open("w", encoding="utf-8") as file:
        file.write("text,label\n")
        while size < 10_000_000:
            text = " ".join(draw.choices(words, weights, k=300))
            lines = [f"{text[at : at + 110]},class{draw.randrange(5)}\n" for at in range(0, len(text) - 110, 110)]
            file.writelines(lines)
            size += sum(map(len, lines))
    ended, peak = trained(table, tmp_path / "run", "--steps", "2")
    assert ended.returncode == 0, ended.stderr
    assert peak < 1_000 + 25 * 10, "what 20 MB may take is 1,500 MB, and 60 MB 2,500"
    assert "the linear baseline is fitted on" in ended.stderr


def test_twenty_thousand_classes_are_trained_without_a_linear_baseline(tmp_path: Path):
    table = tmp_path / "table.csv"
    rows = (f"words number {i} and {i * 7919 % 60_000},class {i % 20_000}\n" for i in range(60_000))
    table.write_text("text,label\n" + "".join(rows), encoding="utf-8")
    ended, peak = trained(table, tmp_path / "run", "--steps", "2", "--evaluations", "1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("the linear baseline is left out: 20,000 classes in") == 1
    assert max(map(len, ended.stderr.splitlines())) < 10_000, "not every class is named"
    assert peak < 1_500
