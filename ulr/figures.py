"""Figures for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ulr.propensity.report import SegmentResult


def curve_figure(
    results: Sequence[SegmentResult],
    path: str,
    *,
    truth: Mapping[str | None, np.ndarray] | None = None,
) -> None:
    """theta by position with its 95% band, one colour a segment; the truth as crosses."""
    import matplotlib  # noqa: PLC0415 (slow to import, and only figures need it)

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    truth = truth or {}
    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=150)
    for number, result in enumerate(results):
        curve = result.curve
        position = np.arange(1, curve.positions + 1)
        low, high = curve.interval()
        name = "all traffic" if result.segment is None else result.segment
        colour = f"C{number}"
        axes.fill_between(position, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(position, curve.theta, color=colour, marker="o", markersize=3, label=name)
        if result.segment in truth:
            known = truth[result.segment][: curve.positions]
            where = position[: known.size]
            axes.plot(where, known, "x", color=colour, label=f"{name}, truth")
    axes.set(xlabel="position", ylabel="theta, relative to position 1", yscale="log")
    axes.set_title(f"Examination by {results[0].curve.estimator}, 95% intervals")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def published_figure(rows: Sequence[Mapping[str, Any]], path: str) -> None:
    """The same of rows of the propensities table; what was refused leaves a gap."""
    import matplotlib  # noqa: PLC0415 (slow to import, and only figures need it)

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=150)
    for number, segment in enumerate(dict.fromkeys(row["segment"] for row in rows)):
        own = [row for row in rows if row["segment"] == segment]
        position = [row["position"] for row in own]
        theta, low, high = (
            np.array([row[name] for row in own], float) for name in ("theta", "lower", "upper")
        )
        colour = f"C{number}"
        axes.fill_between(position, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(position, theta, color=colour, marker="o", label=segment or "all traffic")
    axes.set(xlabel="position", ylabel="theta, relative to position 1", yscale="log")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.savefig(path)
    pyplot.close(figure)


def read_truth(path: str) -> dict[str | None, np.ndarray]:
    """The simulator's theta per segment, relative to position 1."""
    found: dict[str | None, dict[int, float]] = {}
    for row in pq.read_table(path).to_pylist():
        if row["k"] == row["l"]:
            found.setdefault(row["segment"], {})[row["k"]] = row["psi"]
    curves = {s: np.array([c[k] for k in sorted(c)]) for s, c in found.items()}
    return {segment: theta / theta[0] for segment, theta in curves.items()}
