"""Compare two rankers in an A/B test: first clicks, clicks, and wins by query, with p-values.

The log's optional column `ranker` names the model that served a page. first_click_at_k is the
fraction of pages whose topmost click is at position k or above, ctr the fraction with a click.
Intervals and p-values treat queries as clusters. A query is a win if, of as many pages of both, a
has more with the event.
"""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table

from ulr.cli.arguments import RANGE, add_date
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line, print_table
from ulr.config.settings import Settings
from ulr.engine.names import nearest
from ulr.errors import UserError
from ulr.evaluation.ab.tasks import compare_rankers, pages_by_ranker, ranker_files
from ulr.evaluation.ab.totals import Comparison, Totals, compare, to_documents
from ulr.groups.window import window_dates
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr ab --date 2026-01-01..2026-01-14 --a new --b old"
_SHOWN = 10  # names of rankers in messages


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, RANGE)
    text = "the ranker with {} pages"
    parser.add_argument("--a", metavar="NAME", help=f"default: {text.format('the second most')}")
    parser.add_argument("--b", metavar="NAME", help=f"baseline; default: {text.format('most')}")
    parser.add_argument("--segment", metavar="NAME", help="pages of this segment only")


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Compare the rankers and print a row per metric."""
    warehouse = open_warehouse(settings.warehouse)
    dates = window_dates(warehouse, args.date, days=1)
    period = f"{dates[0]}" if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    by_date = {date: ranker_files(warehouse, date) for date in dates}
    files = [file for own in by_date.values() for file in own]
    if not files:
        raise UserError(
            f"no page of {period} names its ranker: the log's column `ranker` has the model that "
            "served a page; name it in log.columns.ranker, and run "
            f"`ulr groups --date {args.date} --force`"
        )
    engine = open_engine("ab", settings)
    with TERMINAL.tasks("ab"):
        known = pages_by_ranker(engine, warehouse.storage.url, files, args.segment)
        a, b = chosen_rankers(known, args.a, args.b, args.segment, period)
        totals = compare_rankers(engine, warehouse.storage.url, files, (a, b), args.segment)
    results = compare(totals)
    print_table(result_table(a, b, totals, results, period))
    without = [str(date) for date, own in by_date.items() if not own]
    if without:
        print_line(f"no page names its ranker on {', '.join(without)}")
    others = [name for name in known if name not in (a, b)]
    if others:
        print_line(f"not compared: {_listed(others, known)}")
    counted = [str(date) for date, own in by_date.items() if own]
    document = _document(args, (a, b), known, totals, results)
    return CommandResult(document | {"dates": counted})


def chosen_rankers(
    known: dict[str, int], a: str | None, b: str | None, segment: str | None, period: str
) -> tuple[str, str]:
    """Return the two rankers; by default the second most and the most frequent one."""
    where = period if segment is None else f"{period} in segment {segment}"
    if not known:
        raise UserError(f"--segment {segment}: no page of {period} is in it and names its ranker")
    for flag, name in (("--a", a), ("--b", b)):
        if name is not None and name not in known:
            raise UserError(
                f"{flag} {name}: no page of {where} was served by it{nearest(name, list(known))}; "
                f"there is {_listed(list(known), known)}"
            )
    if a is not None and a == b:
        raise UserError(f"--a and --b are both {a}; compare two rankers")
    b = b or next((name for name in known if name != a), None)
    a = a or next((name for name in known if name != b), None)
    if a is None or b is None:
        only = next(iter(known))
        raise UserError(
            f"all pages of {where} were served by {only} ({known[only]:,} pages); an A/B test "
            "compares two rankers"
        )
    return a, b


def result_table(a: str, b: str, totals: Totals, results: list[Comparison], period: str) -> Table:
    """Return a row per metric: both rates, their difference, and the queries won."""
    pages = dict(zip((a, b), totals.pages, strict=True))
    table = Table(
        title=f"{a} ({pages[a]:,} pages) against {b} ({pages[b]:,} pages), {period}; "
        f"{totals.queries:,} queries, {totals.common:,} of both; 95% intervals, clustered by query"
    )
    for heading in ("", a, b, "difference", "relative", "p", "win", "same", "loss", "sign p"):
        table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
    for r in results:
        relative = "" if r.relative is None else f"{r.relative:+.2%}"
        signs = ["" if v is None else f"{v:,}" for v in (r.win, r.same, r.loss)]
        sign_p = "" if r.sign_p_value is None else f"{r.sign_p_value:.2g}"
        table.add_row(
            r.name, f"{r.a:.4f}", f"{r.b:.4f}",
            f"{r.difference:+.4f} ±{r.upper - r.difference:.4f}", relative, f"{r.p_value:.2g}",
            *signs, sign_p,
        )  # fmt: skip
    return table


def _document(
    args: argparse.Namespace,
    rankers: tuple[str, str],
    known: dict[str, int],
    totals: Totals,
    results: list[Comparison],
) -> dict[str, Any]:
    return {"a": rankers[0], "b": rankers[1], "segment": args.segment, "pages": known,
            "queries": totals.queries, "queries_of_both": totals.common,
            "metrics": to_documents(results)}  # fmt: skip


def _listed(names: list[str], known: dict[str, int]) -> str:
    shown = ", ".join(f"{name} ({known[name]:,} pages)" for name in names[:_SHOWN])
    return shown + (", ..." if len(names) > _SHOWN else "")
