"""Tables and figures of the page, as data for the macros in templates/macros.html."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol
from urllib.parse import quote

from markupsafe import Markup

from ulr.report.charts.svg import WIDTHS
from ulr.report.format import Number

SHORT_TEXT = 24  # characters; shorter text stays on one line
LONG_CODE = 40  # characters; longer code gets a wide column


class Code(str):
    """Text in a fixed-width font; it may wrap after a dot or a slash."""

    __slots__ = ()

    @property
    def pieces(self) -> list[str]:
        """The text, split where it may wrap."""
        return re.split(r"(?<=[./])(?=[^./])", self)


class Link(str):
    """The name of a run, as a link to its page, which is in the same folder."""

    __slots__ = ()

    @property
    def href(self) -> str:
        """The address of the page."""
        return f"{quote(self)}.html"


Cell = str | Code | Link | Number | None


@dataclass(frozen=True)
class Table:
    """A table that scrolls within its box and sorts by a click on a heading."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    @cached_property
    def numeric(self) -> list[bool]:
        """Whether a column has numbers, which are aligned at the right."""
        return [any(isinstance(row[n], Number) for row in self.rows)
                for n in range(len(self.headings))]  # fmt: skip

    def css_class(self, cell: Cell, column: int) -> str:
        """Return the class of a cell: n (numeric), short, long or none."""
        if self.numeric[column]:
            return "n"
        if isinstance(cell, Code):
            return "long" if len(cell) > LONG_CODE else ""
        return "short" if len(cell or "") <= SHORT_TEXT else "long"


class Chart(Protocol):
    """A chart that can be drawn at any width."""

    def draw(self, width: int) -> Markup:
        """Return the chart as SVG."""


@dataclass(frozen=True)
class Figure:
    """A chart, its caption, and the table of its values; None: another table has them."""

    chart: Chart
    caption: str
    table: Table | None = None

    @property
    def drawings(self) -> list[Markup]:
        """The chart for a wide and for a narrow screen."""
        return [self.chart.draw(width) for width in WIDTHS]
