"""Run the papers' experiments, print the tables, and write pages and figures."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from tests.bench.papers import hu, kurennoy, oosterhuis, prs
from tests.bench.papers.page import Paper, Table, index
from tests.bench.papers.worlds import Scale

PAPERS: dict[str, Callable[[Scale, int], Paper]] = {
    "kurennoy": kurennoy.run,
    "prs": prs.run,
    "hu": hu.run,
    "oosterhuis": oosterhuis.run,
}
SMALL, FULL = Scale(1500, 100, 3), Scale(6000, 300, 5)


def main() -> None:
    args = _arguments()
    scale = FULL if args.full else SMALL
    scale = Scale(
        args.queries or scale.queries, args.trees or scale.trees, args.seeds or scale.seeds,
        tuple(args.letor),
    )  # fmt: skip
    folder = Path(args.out or ("data/papers" if args.letor else "docs/papers"))
    folder.mkdir(parents=True, exist_ok=True)
    papers = []
    for name in args.only:
        start = time.perf_counter()
        paper = PAPERS[name](scale, args.processes)
        paper.write(folder)
        _print(paper)
        print(f"{paper.title}: {time.perf_counter() - start:.0f} s")
        papers.append(paper)
    if len(papers) == len(PAPERS):
        (folder / "README.md").write_text(index(papers, _run_text(scale)), encoding="utf-8")
    print(f"pages and figures -> {folder}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.papers", description=__doc__)
    parser.add_argument("--full", action="store_true", help="6,000 queries, 300 trees, 5 seeds")
    parser.add_argument("--letor", nargs="*", default=[], metavar="FILE",
                        help="LETOR / SVMLight files (Yahoo, MSLR, Istella) instead of the "
                        "built-in corpus")  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=list(PAPERS), default=list(PAPERS))
    parser.add_argument("--queries", type=int, help="training queries of the built-in corpus")
    parser.add_argument("--trees", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", help="folder; default docs/papers, with --letor data/papers")
    return parser.parse_args()


def _run_text(scale: Scale) -> str:
    data = "the built-in corpus (30 documents and 25 features a query)"
    if scale.letor:
        data = "the files " + ", ".join(Path(file).name for file in scale.letor)
    queries = "" if scale.letor else f"{scale.queries:,} training queries, "
    return f"This run: {data}, {queries}{scale.trees} trees, {scale.seeds} seeds."


def _print(paper: Paper) -> None:
    console = Console(width=150)
    for part in paper.parts:
        if isinstance(part, Table):
            table = RichTable(title=part.title)
            for column in part.columns:
                table.add_column(column)
            for row in part.rows:
                table.add_row(*row)
            console.print(table)
    for claim in paper.claims:
        console.print(f"{claim.verdict}: {claim.text} ({claim.ours.text})", markup=False)


if __name__ == "__main__":
    main()
