"""`ulr.judgments`: the relevance of shown documents from their clicks, without Spark."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa

from ulr.config.load import default_settings
from ulr.engine.columns import hashes
from ulr.errors import UserError
from ulr.judgment.counts import by_document, join_curves, make_curves
from ulr.judgment.judge import JudgePlan, judge
from ulr.judgment.prior import PRIOR_DOCUMENTS, PriorKind, fit_prior
from ulr.ml.frames import like
from ulr.ml.given import as_examination
from ulr.ml.pages import groups_by_date
from ulr.propensity.in_memory import MemoryCounts


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
    counts = MemoryCounts(groups_by_date(pages, default_settings()))
    documents = by_document(counts.documents(curves.depth))
    sample = join_curves(_sample(documents, PRIOR_DOCUMENTS), curves)
    plan = JudgePlan(curves, fit_prior(sample.shown, prior), min_impressions)
    table = judge(documents, plan)
    order = [("query_id", "ascending"), ("rating", "descending"), ("doc_id", "ascending")]
    return like(pages, table.sort_by(order))


def _sample(documents: pa.Table, size: int) -> pa.Table:
    """Return the documents with the lowest hashes, in their order: those that Spark takes."""
    keys = hashes(documents["doc_id"], hashes(documents["query_id"])).view(np.int64)
    return documents.take(pa.array(np.argsort(keys, kind="stable")[:size]))
