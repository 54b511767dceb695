"""Clicks and impressions of documents by position, as arrays: the data of regression-EM.

Tasks import this module, so it imports neither LightGBM nor SciPy: both take long to import.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Exposures:
    """One entry per (document, position); the first four arrays have one length.

    document     int64, from 0
    position     int64, from 0
    clicks       float64
    impressions  float64
    block        int64 per document, the block of its query in a jackknife
    features     documents x features, or None
    ignored_documents, ignored_impressions  of documents without features, which have no entry
    """

    document: np.ndarray
    position: np.ndarray
    clicks: np.ndarray
    impressions: np.ndarray
    block: np.ndarray
    features: np.ndarray | None = None
    ignored_documents: int = 0
    ignored_impressions: float = 0.0

    @property
    def documents(self) -> int:
        """Number of documents, including those without an entry."""
        return self.block.size

    def select(self, keep: np.ndarray) -> Exposures:
        """Return the entries where `keep` (bool per entry) holds; documents keep their numbers."""
        names = ("document", "position", "clicks", "impressions")
        return replace(self, **{name: getattr(self, name)[keep] for name in names})
