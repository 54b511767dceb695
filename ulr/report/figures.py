"""Figures for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.errors import UserError

KINDS = (".png", ".svg", ".pdf")


def curve_figure(
    rows: Sequence[Mapping[str, Any]],
    path: str,
    *,
    truth: Mapping[str | None, np.ndarray] | None = None,
) -> None:
    """theta by position with its 95% band, one colour a segment; the truth as crosses.

    rows: of the propensities table. What was refused leaves a gap.
    """
    import matplotlib  # noqa: PLC0415 (slow to import, and only figures need it)

    matplotlib.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    truth = truth or {}
    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=150)
    for number, segment in enumerate(dict.fromkeys(row["segment"] for row in rows)):
        own = [row for row in rows if row["segment"] == segment]
        position = np.array([row["position"] for row in own])
        theta, low, high = (
            np.array([row[name] for row in own], float) for name in ("theta", "lower", "upper")
        )
        name, colour = "all traffic" if segment is None else segment, f"C{number}"
        axes.fill_between(position, low, high, color=colour, alpha=0.25, linewidth=0)
        axes.plot(position, theta, color=colour, marker="o", markersize=3, label=name)
        if segment in truth:
            known = truth[segment][: len(own)]
            where = position[: known.size]
            axes.plot(where, known, "x", color=colour, label=f"{name}, truth")
    axes.set(xlabel="position", ylabel="theta, relative to position 1", yscale="log")
    axes.set_title(f"Examination by {rows[0]['estimator']}, 95% intervals")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def read_truth(path: str) -> dict[str | None, np.ndarray]:
    """The simulator's theta per segment, relative to position 1."""
    found: dict[str | None, dict[int, float]] = {}
    try:
        rows = pq.read_table(path, columns=["segment", "k", "l", "psi"]).to_pylist()
    except (OSError, pa.ArrowInvalid) as why:
        reason = str(why).splitlines()[0]
        raise UserError(
            f"--truth {path}: expected the truth/examination.parquet of a simulation; {reason}"
        ) from None
    for row in rows:
        if row["k"] == row["l"]:
            found.setdefault(row["segment"], {})[row["k"]] = row["psi"]
    curves = {s: np.array([c[k] for k in sorted(c)]) for s, c in found.items()}
    return {segment: theta / theta[0] for segment, theta in curves.items()}
