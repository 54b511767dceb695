"""Pages in Markdown: tables, figures and claims of one paper, and the index of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.papers.claims import Claim
from ulr.report.charts.files import svg_file
from ulr.report.charts.lines import LinesChart

VERDICTS = ("agrees", "differs", "open")
HEIGHT = 320  # of a figure, in pixels
KINDS = ("strong", "segment-1", "segment-2", "segment-3", "segment-4", "segment-5", "faint")


@dataclass(frozen=True)
class Table:
    """Rows of text under a title; the first column is left-aligned."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """Return the table."""
        lines = [f"### {self.title}", ""]
        lines += [_row(self.columns), _row(["---", *["---:"] * (len(self.columns) - 1)])]
        lines += [_row(row) for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else [])])


@dataclass(frozen=True)
class Figure:
    """A chart in a file of its own. note: what the paper's figure shows."""

    file: str
    chart: LinesChart
    note: str = ""

    def markdown(self) -> str:
        """Return the reference to the file."""
        return f"### {self.chart.title}\n\n![{self.chart.title}]({self.file})\n\n{self.note}"


@dataclass(frozen=True)
class Paper:
    """All of one paper. setting: how our run differs from the published experiment."""

    name: str
    title: str
    setting: str
    parts: Sequence[Table | Figure]
    claims: Sequence[Claim] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """Write the page and its figures."""
        for part in self.parts:
            if isinstance(part, Figure):
                content = svg_file(part.chart.title, part.chart, HEIGHT)
                (folder / part.file).write_text(content, encoding="utf-8")
        parts = [f"# {self.title}", self.setting]
        if self.claims:
            parts += ["## What agrees and what does not", self._claims()]
        parts += ["## Tables and figures", *(part.markdown() for part in self.parts)]
        text = "\n\n".join(part.rstrip() for part in parts) + "\n"
        (folder / f"{self.name}.md").write_text(text, encoding="utf-8")

    def _claims(self) -> str:
        columns = ["the paper reports", "our difference", "p", "verdict"]
        lines = []
        for extra in (False, True):
            own = [claim for claim in self.claims if claim.extra == extra]
            if own:
                lines += ["", "In worlds that the paper does not have:", ""] if extra else []
                lines += [_row(columns), _row(["---", "---:", "---:", "---"]), *map(_claim, own)]
                columns = ["the same", *columns[1:]]
        lines += ["", *(f"- {why}" for why in self.reasons())]
        return "\n".join(lines)

    def reasons(self) -> dict[str, list[Claim]]:
        """Return the reasons why results differ, each with its claims."""
        reasons: dict[str, list[Claim]] = {}
        for claim in self.claims:
            if claim.verdict == "differs" and claim.why:
                reasons.setdefault(claim.why, []).append(claim)
        return reasons


def _claim(claim: Claim) -> str:
    return _row([claim.text, claim.ours.text, f"{claim.ours.p_value:.2g}", claim.verdict])


INTRODUCTION = """\
# The papers' tables and figures, repeated

Written by `make papers`. Each page has our numbers beside the published ones, and a list of what
the paper reports with a verdict: `agrees` and `differs` are significant at 5% in a paired t-test
over the test queries of all seeds, `open` is not. Seeds are different corpora and logs.
The reasons given where results differ are our reading; only the numbers are measured.

The published numbers are of Yahoo's set 1, which is licensed and not included. Absolute values
therefore differ; compare the order of methods and the sizes of gaps. With the files,
`make papers PAPERS="--full --letor set1.train.txt set1.test.txt"` runs the same protocol on them
and writes `data/papers`. MSLR, Istella and LETOR files are read in the same way. Three quarters of
the queries are for training, and the production ranker learns from 1% of them.

Not repeated: the neural rankers, Hu's online test, and the datasets beside Yahoo's in the PRS
paper.
"""


def index(papers: Sequence[Paper], run: str) -> str:
    """Return the page that lists the papers and their verdicts."""
    lines = [INTRODUCTION, run, ""]
    lines += [_row(["paper", *VERDICTS]), _row(["---", *["---:"] * len(VERDICTS)])]
    for paper in papers:
        counts = Counter(claim.verdict for claim in paper.claims if not claim.extra)
        numbers = [str(counts[verdict]) for verdict in VERDICTS]
        lines.append(_row([f"[{paper.title}]({paper.name}.md)", *numbers]))
    lines += ["", "## What does not agree, and why"]
    for paper in papers:
        for why, claims in paper.reasons().items():
            lines += ["", f"**{paper.title}.** {why}", ""]
            lines += [f"- {claim.text}: {claim.ours.text}" for claim in claims]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
