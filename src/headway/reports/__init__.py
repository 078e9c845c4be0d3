"""Reports of runs, as pages: ``write_report``."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.reports.report import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> Any:
    """``write_report``, imported when it is first asked for: most commands write no page."""
    if name != "write_report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headway.reports.report import write_report

    return write_report
