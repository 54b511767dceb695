"""`ulr.judgments`: the relevance of shown documents from their clicks."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import pyarrow as pa

from ulr.config.load import default_settings
from ulr.engine.interface import Items
from ulr.errors import UserError
from ulr.judgment.counts import make_curves
from ulr.judgment.judge import JudgePlan, judgments_schema
from ulr.judgment.prior import PriorKind
from ulr.judgment.stage import write_counts
from ulr.judgment.tasks import judge_files
from ulr.ml.frames import like
from ulr.ml.given import as_examination
from ulr.ml.pages import read_pages
from ulr.ml.workspace import workspace


def judgments(
    pages: Any,
    propensities: Any,
    *,
    min_impressions: int = 1,
    correction: Literal["theta", "affine"] = "theta",
    prior: PriorKind = "position",
) -> Any:
    """Return the estimated relevance of every shown document, as a frame of the kind of the pages.

    Columns: query_id, doc_id, rating (the posterior mean), lower, upper (its 95% interval, which
    contains the errors of the propensities if they have any), clicks, impressions, examined (the
    expected number of examined impressions). Rows: by query, the best document first. The rows are
    those of `ulr judgments` (docs/judgments.md).

    pages: as for ulr.propensities. propensities: as for Ranker. min_impressions: of a document that
    gets a row. correction: "affine" corrects clicks for trust bias, if the propensities have alpha
    and beta. prior: "position" lets documents that were shown higher be more relevant before their
    clicks count, as far as the log says so; "log" is one prior for all documents.
    """
    if prior not in ("position", "log"):
        raise UserError(f"prior={prior!r}; give 'position' or 'log'")
    if correction not in ("theta", "affine"):
        raise UserError(f"correction={correction!r}; give 'theta' or 'affine'")
    curves = make_curves(*as_examination(propensities), affine=correction == "affine")
    with workspace() as work:
        dates = read_pages(work, pages, default_settings())
        url = str(work.folder / "judgments")
        files, fitted = write_counts(
            work.engine, work.warehouse, dates, url, curves=curves, prior_kind=prior
        )
        judge = partial(judge_files, url=url, plan=JudgePlan(curves, fitted, min_impressions))
        batches = work.engine.map(Items(files), judge)
    return like(pages, pa.Table.from_batches(batches, judgments_schema))
