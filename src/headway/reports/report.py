"""``report.html``: one page about one run, readable offline, on a phone and on paper."""

from pathlib import Path

from headway.io.atomic_write import write_whole
from headway.reports import sections
from headway.reports.learning import learning
from headway.reports.record import Record, read_record
from headway.reports.style import page as framed
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
    parts = (
        *(sections.head, sections.key_figures, learning, sections.against_baselines, sections.classes),
        *(sections.telling, sections.samples, sections.decisions, sections.data, sections.model, sections.disk),
        *(sections.machine, sections.command),
    )
    body = "\n".join(html for part in parts if (html := part(record)))
    return framed(escape(sections.title(record), 200), body, "headway.json and log.jsonl")
