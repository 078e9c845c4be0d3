"""Reports of runs, as pages: ``write_report``."""

from headway.reports.report import write_report

__all__ = ["write_report"]
