"""Why a table of pairs is empty, as one line."""

from __future__ import annotations

from collections.abc import Mapping

from ulr.pairs.config import PairConfig
from ulr.pairs.weights import LABELS


def empty_reason(counts: Mapping[str, int], config: PairConfig, features: str) -> str:
    """Return why no query has a pair, and what to do. features: URL of the features."""
    sessions, documents = counts.get("sessions", 0), counts.get("documents", 0)
    without = counts.get("documents_without_features", 0)
    if not sessions:
        cause = "no query of the window is in the training split; give more dates"
    elif config.needs_theta and config.depth < 2:
        cause = (
            "theta is known for position 1 only, and a pair needs two positions; see the notes of "
            "`ulr propensities`, or set propensities.estimator=auto"
        )
    elif counts.get("groups_without_pairs", 0) == counts.get("groups", 0):
        cause = (
            "no document has a golden label above that of another in its ranking"
            if config.method == LABELS
            else f"none of the {sessions:,} sessions has a click that compares two documents"
        )
    elif without:
        cause = (
            f"{without:,} of {documents:,} shown documents have no features in {features}; its "
            "query_id and doc_id must be those of the log (features.path)"
        )
    else:
        cause = "all weights are 0"
    return f"no pairs for {config.method}: {cause}"
