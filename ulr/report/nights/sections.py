"""The sections of the page over all nights."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from math import fsum
from typing import Any

from ulr.report import metrics
from ulr.report.blocks import Cell, Figure, Link, Table
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.facts import Missing
from ulr.report.format import Number, count, duration, fixed, interval, known, percent
from ulr.report.nights.rows import (
    CHAMPION,
    POSITIONS,
    PRODUCTION,
    Ends,
    History,
    NightRow,
)

DOTS = 60  # nights; the lines of more have no dots
ROWS = 90  # nights, the newest ones, in the tables of theta and of seconds
KINDS = ("strong", "segment-1", "segment-2", "segment-3", "segment-4", "segment-5")
STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")  # the usual order
FAILURES = 20  # nights, the newest ones, whose message is shown
LISTED = "The values are in the table of all nights."
_NONE: Ends = [None, None, None]


def champion(history: History) -> dict[str, Any]:
    """Return the champion's metric after each night, with the promotions."""
    nights, metric = history.nights, history.metric
    values = [night.values.get(CHAMPION, _NONE) for night in nights]
    if not any(known(value[0]) for value in values):
        raise Missing("No night has measured a champion yet.")
    name, x = metrics.metric_name(metric), _days(nights)
    promoted = [value[0] if night.promoted else None
                for night, value in zip(nights, values, strict=True)]  # fmt: skip
    stayed = [None if night.promoted else value[0]
              for night, value in zip(nights, values, strict=True)]  # fmt: skip
    production = [night.values.get(PRODUCTION, _NONE)[0] for night in nights]
    lines = [
        Line("production", x, production, "plain", marks=_marks(nights)),
        Line("champion", x, [v[0] for v in values], marks="", band=[(v[1], v[2]) for v in values]),
        Line("", x, promoted, marks="points"),
    ]
    if len(nights) <= DOTS:
        lines.append(Line("", x, stayed, marks="rings"))
    bottom = min(v for v in [*production, *(end for value in values for end in value)] if known(v))
    failed = [bottom if night.failed else None for night in nights]
    lines.append(Line("", x, failed, marks="crosses"))
    marks = ["Dots: the night's model was promoted"]
    marks += ["rings: the champion was kept"] if len(nights) <= DOTS else []
    marks += ["crosses at the bottom: the night failed"] if any(map(known, failed)) else []
    caption = (
        f"{name} of the champion after each night, with its 95% interval, and of the production "
        f"ranking, on the held-out queries of that night. {'; '.join(marks)}. {LISTED}"
    )
    return {
        "metric": name,
        "better": metrics.better(metric),
        "figure": _figure(f"{name} of the champion by night", lines, name, caption),
        "changed": _changed_between(nights),
    }


def theta(history: History) -> dict[str, Any]:
    """Return theta over time at some positions."""
    nights = history.nights
    positions = [k for k in POSITIONS if any(str(k) in night.theta for night in nights)]
    if not positions:
        raise Missing("No night has estimated theta yet.")
    values = {k: [night.theta.get(str(k), _NONE) for night in nights] for k in positions}
    lines = [
        Line(f"position {k}", _days(nights), [v[0] for v in own], kind, marks=_marks(nights),
             band=[(v[1], v[2]) for v in own])
        for kind, (k, own) in zip(KINDS, values.items(), strict=False)
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [night.date, *(fixed(night.theta.get(str(k), _NONE)[0]) for k in positions)]
        for night in nights[: -ROWS - 1 : -1]
    ]
    headings = [f"position {k}" for k in positions]
    caption = ("theta of all traffic relative to position 1, with 95% intervals (log scale). The "
               "windows of neighbouring nights overlap, so their errors are alike. The page of a "
               "night has the intervals as numbers.")  # fmt: skip
    table = Table(_newest("theta by night", nights), ["night", *headings], rows)
    return {"figure": _figure("theta by position and night", lines, "theta (log scale)", caption,
                              log=True, table=table)}  # fmt: skip


def data(history: History) -> dict[str, Any]:
    """Return pages and the quarantined fraction over time."""
    nights = history.nights
    if all(night.pages is None for night in nights):
        raise Missing("No night has read its log yet.")
    x = _days(nights)
    pages = Line("", x, [night.pages for night in nights], marks=_marks(nights))
    bad = [_scaled(night.quarantine_fraction, 100) for night in nights]
    rejected = Line("", x, bad, marks=_marks(nights))
    return {
        "pages": _figure("Pages by night", [pages], "pages of the date",
                         f"Valid pages of the night's own date. {LISTED}", from_zero=True),
        "quarantine": _figure("Quarantined rows by night", [rejected], "% of the rows",
                              "Rows that violate the contract, in percent of the rows that were "
                              f"read. {LISTED}", from_zero=True),
    }  # fmt: skip


def time(history: History) -> dict[str, Any]:
    """Return the duration of the stages over time."""
    nights = history.nights
    ran = {stage for night in nights for stage in night.seconds}
    stages = [stage for stage in STAGES if stage in ran] + sorted(ran - set(STAGES))
    if not stages:
        raise Missing("No stage has run yet.")
    x = _days(nights)
    kinds = dict(zip(stages, (*KINDS[1:], *["plain"] * len(stages)), strict=False))
    whole = [None if night.failed else _total(night) for night in nights]
    lines = [Line("night", x, whole, marks=_marks(nights))]
    lines += [Line(stage, x, [night.seconds.get(stage) for night in nights], kind,
                   marks=_marks(nights)) for stage, kind in kinds.items()]  # fmt: skip
    rows: list[list[Cell]] = [
        [night.date, _seconds(_total(night)),
         *(_seconds(night.seconds.get(stage)) for stage in stages)]
        for night in nights[:-ROWS - 1:-1]
    ]  # fmt: skip
    caption = (
        "Seconds of the whole night, unless it failed, and of its stages, in its last run. A stage "
        "whose inputs are unchanged is skipped, so a repeated night is short."
    )
    table = Table(_newest("Seconds by night", nights), ["night", "all", *stages], rows)
    return {"figure": _figure("Seconds by night and stage", lines, "seconds", caption,
                              from_zero=True, table=table)}  # fmt: skip


def table(history: History) -> dict[str, Any]:
    """Return a row per night, the newest first, failures, and pages of re-runs and comparisons."""
    nights = history.nights[::-1]
    metric = metrics.metric_name(history.metric)
    headings = ["night", "outcome", "champion", metric or "metric", "95% interval", "production",
                "pages", "bad rows", "time"]  # fmt: skip
    failed = [night for night in nights if night.failed]
    return {
        "table": Table("All nights", headings, [_row(history, night) for night in nights]),
        "failed": failed[:FAILURES],
        "more_failed": len(failed) - FAILURES,
        "others": [Link(name) for name in history.others],
        "metric": metric,
    }


def _row(history: History, night: NightRow) -> list[Cell]:
    value = night.values.get(CHAMPION, _NONE)
    return [
        Link(night.date) if night.date in history.pages else night.date,
        _outcome(night),
        count(night.champion), fixed(value[0]),
        interval(value[1], value[2]) if known(value[0]) else None,
        fixed(night.values.get(PRODUCTION, _NONE)[0]), count(night.pages),
        percent(night.quarantine_fraction, 2), _seconds(_total(night)),
    ]  # fmt: skip


def _outcome(night: NightRow) -> str:
    if night.failed:
        return f"✕ {night.outcome}"
    if night.promoted:
        return "promoted"
    return "kept" if night.champion is not None else "not promoted"


def _changed_between(nights: Sequence[NightRow]) -> list[str]:
    """Return the nights that found another champion than the night before them left."""
    changed, champion = [], None
    for night in nights:
        if night.champion is None:
            continue
        # A repeated night finds its own model as champion.
        if champion is not None and night.before != champion and night.outcome != CHAMPION:
            changed.append(f"version {night.before} before the night of {night.date}")
        champion = night.champion
    return changed[::-1]


def _figure(
    title: str, lines: Sequence[Line], y_name: str, caption: str, *, log: bool = False,
    from_zero: bool = False, table: Table | None = None,
) -> Figure:  # fmt: skip
    chart = LinesChart(title, lines, "night", y_name, log=log, dates=True, height=260,
                       from_zero=from_zero)  # fmt: skip
    return Figure(chart, caption, table)


def _newest(title: str, nights: Sequence[NightRow]) -> str:
    return title if len(nights) <= ROWS else f"{title}, the newest {ROWS} of {len(nights)}"


def _days(nights: Sequence[NightRow]) -> list[int]:
    return [dt.date.fromisoformat(night.date).toordinal() for night in nights]


def _marks(nights: Sequence[NightRow]) -> str:
    return "dots" if len(nights) <= DOTS else ""


def _total(night: NightRow) -> float | None:
    # Exact, because the order of the stages is lost in the file of rows.
    return round(fsum(night.seconds.values()), 3) if night.seconds else None


def _seconds(value: float | None) -> Number | None:
    return duration(value) if known(value) else None


def _scaled(value: float | None, factor: float) -> float | None:
    return value * factor if known(value) else None
