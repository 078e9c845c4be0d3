"""What a run did, as a page: ``write_report``."""

from headway.reports.report import write_report

__all__ = ["write_report"]
