"""What an estimator reads, and whether it has what it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.experiments.buckets import is_shuffle, parse_bucket
from ulr.features.source import FeatureSource
from ulr.propensity.choice import AUTO
from ulr.propensity.estimators import NEED_SWAPS, USE_SHUFFLES, theta_of_json
from ulr.warehouse.storage import Storage

# Raises UserError if the features cannot be read.
OpenFeatures: TypeAlias = Callable[[], FeatureSource]


def check_buckets(swaps: pa.Table, positions: int, estimator: str) -> None:
    """Raise UserError if the estimator needs buckets, and none of them lies within positions."""
    names = pc.unique(swaps["bucket"]).drop_null().to_pylist()
    shuffles = [name for name in names if is_shuffle(name)]
    if estimator == "shuffle" and not shuffles:
        raise UserError(
            "propensities.estimator=shuffle needs pages in the bucket shuffle, and these groups "
            "have none; use combined with swap buckets, or all_pairs (natural rank changes)"
        )
    usable = any(
        estimator in USE_SHUFFLES
        if is_shuffle(name)
        else parse_bucket(name).last_position <= positions
        for name in names
    )
    if estimator in NEED_SWAPS and not usable:
        raise UserError(
            f"propensities.estimator={estimator} needs swap buckets, and these groups have none; "
            "use all_pairs (natural rank changes) or regression_em, or run an experiment "
            "(`ulr plan-swaps`)"
        )


def files_read(settings: Propensities, features: OpenFeatures | None) -> dict[str, Any]:
    """Return what the estimator reads besides groups, for the fingerprint."""
    if settings.estimator == "given" and settings.given.file:
        return {"given": given_theta(settings)}
    if features is None or settings.estimator not in ("regression_em", AUTO):
        return {}
    try:
        return {"features": features().identity}
    except UserError:
        if settings.estimator == AUTO:  # they are needed only if clicks do not identify theta
            return {}
        raise


def given_theta(settings: Propensities) -> list[float]:
    file = settings.given.file
    if not file:
        return settings.given.theta
    folder, _, name = file.rpartition("/")
    content = Storage(folder or ".").read_json(name)
    if content is None:
        raise UserError(f"propensities.given.file: {file} does not exist")
    return theta_of_json(content, file)


def segment_names(rows: pa.Table, settings: Propensities) -> list[str]:
    """Return the segments that get a separate curve, sorted."""
    if not settings.segments or settings.estimator in ("given", "regression_em"):
        return []
    return sorted(pc.unique(rows["segment"]).drop_null().to_pylist())
