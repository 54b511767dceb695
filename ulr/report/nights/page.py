"""The page over all nights."""

from __future__ import annotations

from ulr.report.nights import sections, summary
from ulr.report.nights.rows import History
from ulr.report.page import Section, document
from ulr.version import __version__

_SECTIONS = [
    Section("nights_champion", "Champion", sections.champion),
    Section("nights_theta", "Examination by position", sections.theta),
    Section("nights_data", "Pages and quarantine", sections.data),
    Section("nights_time", "Duration", sections.time),
    Section("nights_table", "All nights", sections.table),
]


def nights_page(history: History) -> str:
    """Return the whole document."""
    first, last = history.nights[0].date, history.nights[-1].date
    return document(
        history,
        _SECTIONS,
        title="Nights",
        dates=first if first == last else f"{first} to {last}",
        heading=summary.heading(history),
        summary=Section("nights_summary", "", summary.context),
        version=__version__,
        command="ulr report",
    )
