"""Estimate the relevance of all documents of a window and write it to a file."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ulr.engine.interface import Engine, partitions_for
from ulr.groups.window import groups_files
from ulr.judgment.counts import Curves, join_curves
from ulr.judgment.csv_text import Layout
from ulr.judgment.judge import TAIL, JudgePlan
from ulr.judgment.prior import PRIOR_DOCUMENTS, Prior, PriorKind, fit_prior
from ulr.judgment.tasks import write_documents, write_lines
from ulr.propensity.tasks import GroupFiles
from ulr.warehouse.cleanup import remove_unneeded
from ulr.warehouse.storage import Storage, write_chunks
from ulr.warehouse.table_files import TableFiles
from ulr.warehouse.tables import Warehouse

WORK = "judgments"  # folder of the warehouse for documents and lines while they are made
_READ_BYTES = 8 << 20


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
    engine: Engine,
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
    storage, folder = warehouse.storage, uuid.uuid4().hex
    url = storage.child(WORK, folder)
    remove_unneeded(storage, WORK, None, 0.0, locked=False)  # of runs that were killed
    TableFiles(url).mark({})
    try:
        files, prior = write_counts(
            engine, warehouse, dates, url, curves=curves, prior_kind=prior_kind
        )
        plan, own = JudgePlan(curves, prior, min_impressions), layout(prior)
        lines = write_lines(engine, url, files, plan, own)
        header = own.header
        write_chunks(target, _text(url, header, [file for file, *_ in lines]))
    finally:
        storage.delete(WORK, folder)
        if not storage.folders(WORK):
            storage.delete(WORK)
    documents, supported = (sum(counts) for counts in list(zip(*lines, strict=True))[1:])
    return JudgmentsOutcome(prior, documents, supported)


def write_counts(
    engine: Engine,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    url: str,
    *,
    curves: Curves,
    prior_kind: PriorKind,
) -> tuple[list[str], Prior]:
    """Write the counts of all documents of a window under `url`; return their files and prior."""
    paths = [(0, path) for path in groups_files(warehouse, dates)]
    groups = GroupFiles(warehouse.storage.url, paths)
    files, sample = write_documents(
        engine,
        groups,
        url,
        max_position=curves.depth,
        parts=partitions_for(sum(groups.sizes)),
        sample=PRIOR_DOCUMENTS,
    )
    return files, fit_prior(join_curves(sample, curves).shown, prior_kind)


def _text(url: str, header: bytes, files: Sequence[str]) -> Iterator[bytes]:
    """Yield the file, a block at a time."""
    yield header
    folder = Storage(url)
    for file in files:
        with folder.fs.open_input_stream(folder.path(file)) as stream:
            while block := stream.read(_READ_BYTES):
                yield block
