"""``report.html``: one page about one run, readable offline, on a phone and on paper."""

from pathlib import Path

from headway.io.atomic_write import write_whole
from headway.reports import sections
from headway.reports.learning import learning
from headway.reports.record import Record, read_record
from headway.reports.style import CSS, POLICY
from headway.reports.wording import escape


def write_report(run: Path) -> Path:
    """Write ``report.html`` into ``run`` from its ``headway.json`` and ``log.jsonl``, and return its path.

    Facts that the run has not recorded (yet) are left out.  The page needs no other file and no network.
    Raises InputError if ``run`` holds neither file, or if ``headway.json`` is not a JSON object.
    """
    text = page(read_record(run))
    path = run / "report.html"
    write_whole(path, lambda new: new.write_text(text, encoding="utf-8"))
    return path


def page(record: Record) -> str:
    body = "\n".join(
        part
        for part in (
            sections.head(record),
            sections.key_figures(record),
            learning(record),
            sections.against_baselines(record),
            sections.classes(record),
            sections.telling(record),
            sections.samples(record),
            sections.decisions(record),
            sections.data(record),
            sections.model(record),
            sections.disk(record),
            sections.machine(record),
            sections.command(record),
        )
        if part
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'{POLICY}\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(sections.title(record), 200)}</title>\n<style>{CSS}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n<footer>Made by Headway from headway.json and log.jsonl in this directory.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )
