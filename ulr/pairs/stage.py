"""Publish the pairs of a window, built from published groups and features, if they changed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ulr.config.inputs import Features
from ulr.config.settings import Pairs
from ulr.engine.interface import Engine
from ulr.errors import InvalidData
from ulr.features.source import open_features
from ulr.features.stage import WindowInputs, gather_window, repair_window
from ulr.groups.levels import window_levels
from ulr.pairs.config import PairConfig, pair_config_of
from ulr.pairs.empty import empty_reason
from ulr.pairs.gains import NO_FEEDBACK, increments_of, recorded
from ulr.pairs.health import health_table
from ulr.pairs.tasks import estimate_variance, write_pairs
from ulr.pairs.weightings import CLICK_MODEL
from ulr.propensity.examination import BySegment, Examination, load_examination
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse, partition_name
from ulr.warehouse.transaction import WriteTransaction

# This setting is a path; the weights computed from its file are part of the inputs.
_NOT_IN_FINGERPRINT = ("propensities",)


def build_pairs(
    engine: Engine,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    *,
    pairs: Pairs,
    features: Features,
    feedback: Mapping[str, float] = NO_FEEDBACK,
    propensities: tuple[Examination, BySegment] | None = None,
    force: bool = False,
) -> Outcome:
    """Publish `pairs` of one method over a window, and statistics of their weights in `metrics`.

    feedback: gains of events, by name. propensities: of all traffic and of segments; None: those
    that pairs.propensities names.
    """
    increments = increments_of(feedback, window_levels(warehouse, dates))
    source = open_features(engine, warehouse, features, dates)
    window_inputs = WindowInputs(warehouse, dates, source, partitions=pairs.partitions)
    examination = propensities or load_examination(pairs.propensities, warehouse)
    pair_config = replace(pair_config_of(pairs, *examination), increments=increments)
    psi = pair_config.psi
    inputs = window_inputs.fingerprints | {"weights": fingerprint(_weights(pair_config))}
    inputs |= recorded(increments)
    if pair_config.click_model:  # training reads the candidates of `auto` from it
        inputs[CLICK_MODEL] = pair_config.click_model

    def write(table: WriteTransaction, health: WriteTransaction) -> None:
        config, window = pair_config, gather_window(engine, window_inputs, force=force)
        if psi is not None and config.co_click_variance is None:
            estimated = estimate_variance(
                engine, window, psi, config.segments, test_fraction=pairs.test_fraction
            )
            config = replace(config, co_click_variance=estimated)
        report = write_pairs(
            engine, window, config, pairs_url=table.url, test_fraction=pairs.test_fraction
        )
        if not report.counts["pairs"]:
            raise InvalidData(empty_reason(report.counts, config, source.where))
        totals = report.size.metrics() | {"co_click_variance": _prior(config)}
        health.write_table(health_table(config.method, report.health, totals))
        health.publish(report.counts)
        table.publish(report.counts)

    partition = partition_name(pairs.method)
    outcome, _ = publish_if_changed(
        warehouse,
        "pairs",
        partition,
        inputs=inputs,
        settings=pairs.model_dump(),
        not_in_fingerprint=_NOT_IN_FINGERPRINT,
        side_tables=[("metrics", f"stage=pairs-{partition}")],
        write=write,
        force=force,
    )
    if outcome.skipped:
        repair_window(engine, window_inputs)
    return outcome


def _weights(config: PairConfig) -> list[Any]:
    """Return the weights as JSON values, for the fingerprint."""
    psi = None if config.psi is None else config.psi.tolist()
    weights = [config.tables.tolist(), config.precision.tolist(), psi, dict(config.segments)]
    if config.stopping is not None:
        weights += [part.tolist() for part in config.stopping[:2]]
    return weights


def _prior(config: PairConfig) -> float | None:
    """Return the prior variance of co-clicks at the lowest level; None if none was used."""
    variance = config.co_click_variance
    if config.psi is None:
        return None
    return variance[0] if isinstance(variance, tuple) else variance
