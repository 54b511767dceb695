"""Estimate the relevance of all documents of a window and write it to a file."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from ulr.engine.tasks import partitions_for
from ulr.groups.window import groups_files
from ulr.judgment.counts import Curves, join_curves
from ulr.judgment.csv_text import Layout
from ulr.judgment.judge import TAIL, JudgePlan
from ulr.judgment.prior import PRIOR_DOCUMENTS, Prior, PriorKind, fit_prior
from ulr.judgment.tasks import documents_of, lines_of, sample_documents
from ulr.propensity.tasks import count_exposures
from ulr.warehouse.storage import write_chunks
from ulr.warehouse.tables import Warehouse


@dataclass(frozen=True)
class JudgmentsOutcome:
    """What was written. supported: documents whose interval is at most half that of the prior."""

    prior: Prior
    documents: int
    supported: int

    def to_json(self) -> dict[str, Any]:
        lower, upper = self.prior.interval(TAIL)
        prior = {
            "mean": self.prior.mean, "lower": lower, "upper": upper,
            "strength": self.prior.strength, "slope": self.prior.slope, "one": self.prior.one,
        }  # fmt: skip
        fraction = self.supported / self.documents if self.documents else 0.0
        return {"documents": self.documents, "supported": fraction, "prior": prior}


def write_judgments(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    target: str,
    *,
    curves: Curves,
    layout: Callable[[Prior], Layout],
    min_impressions: int = 1,
    prior_kind: PriorKind = "position",
) -> JudgmentsOutcome:
    """Write the judgments of a window's documents to a path or URL.

    Documents that were shown only below the deepest position with a propensity get none.
    """
    files = groups_files(warehouse, dates)
    sizes = [file.size for file in warehouse.storage.stat(files)]
    shown = count_exposures(
        start_spark(), warehouse.storage.url, [(0, path) for path in files],
        max_position=curves.depth,
    )  # fmt: skip
    documents = documents_of(shown).persist(StorageLevel.DISK_ONLY)
    try:
        sample = join_curves(sample_documents(documents, PRIOR_DOCUMENTS), curves)
        prior = fit_prior(sample.shown, prior_kind)
        lines = lines_of(
            documents, JudgePlan(curves, prior, min_impressions), layout(prior),
            partitions_for(sum(sizes)),
        )  # fmt: skip
        counts: Counter[str] = Counter()
        write_chunks(target, _text(lines, layout(prior), counts))
    finally:
        documents.unpersist()
    return JudgmentsOutcome(prior, counts["documents"], counts["supported"])


def _text(lines: DataFrame, layout: Layout, counts: Counter[str]) -> Iterator[bytes]:
    """Yield the file; the driver holds one partition at a time."""
    yield layout.header
    for row in lines.toLocalIterator():
        counts.update(documents=row.documents, supported=row.supported)
        yield bytes(row.text)
