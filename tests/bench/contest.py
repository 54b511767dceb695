"""Run the contestants of `tests.bench.letor` on several worlds and seeds, and print the results.

Significance is by a one-sided paired t-test per world and peer, with Holm's correction over all.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student

from tests.bench.letor import LABELS, WorldOptions, make_world, run_contestant

Cell = tuple[str, str]  # corpus, world
MIN_GAP = 0.05


class _Job(NamedTuple):
    cell: Cell
    options: WorldOptions
    seed: int
    contestants: tuple[str, ...]
    trees: int


def _run(job: _Job) -> dict:
    world = make_world(job.options, job.seed)
    results = {}
    for name in job.contestants:
        start = time.perf_counter()
        result = run_contestant(world, name, trees=job.trees, threads=1)
        results[name] = asdict(result) | {"seconds": time.perf_counter() - start}
    return {"cell": job.cell, "seed": job.seed, "results": results}


def run_contest(
    worlds: Mapping[Cell, WorldOptions],
    contestants: Sequence[str],
    *,
    seeds: int,
    trees: int,
    processes: int,
    save: Path | None = None,
) -> list[dict]:
    """Return one record per world and seed, each with the results of all contestants."""
    jobs = [
        _Job(cell, options, seed, tuple(contestants), trees)
        for seed in range(1, seeds + 1)
        for cell, options in worlds.items()
    ]
    records = []
    with ProcessPoolExecutor(processes) as pool:
        for record in pool.map(_run, jobs):
            records.append(record)
            print(f"{len(records)} of {len(jobs)} worlds", file=sys.stderr)
            if save is not None:
                save.write_text(json.dumps(records))
    return records


def differences(records: Sequence[dict], subject: str, peer: str, cell: Cell) -> np.ndarray:
    """Return NDCG@10 of the subject minus that of a peer, one per seed."""
    own = [r["results"] for r in records if tuple(r["cell"]) == cell]
    return np.array([r[subject]["ndcg"][1] - r[peer]["ndcg"][1] for r in own])


def p_below(gaps: np.ndarray) -> float:
    """Return the p-value of a paired t-test against a mean of 0 or more."""
    error = gaps.std(ddof=1) / np.sqrt(gaps.size)
    return float(student.cdf(gaps.mean() / error, gaps.size - 1)) if error > 0 else 1.0


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return Holm's adjusted p-values."""
    p = np.array(p_values)
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(p[order] * (p.size - np.arange(p.size)))
    result = np.empty(p.size)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def print_contest(records: Sequence[dict], subject: str, peers: Sequence[str]) -> None:
    """Print NDCG@10 and trees by world, then the differences from the subject."""
    cells = list(dict.fromkeys(tuple(r["cell"]) for r in records))
    names = list(records[0]["results"])
    _print_quality(records, cells, names)
    table = Table(title=f"NDCG@10 of {subject} minus a peer: mean ± standard error over seeds")
    for column in ("world", *peers):
        table.add_column(column, justify="left" if column == "world" else "right")
    gaps = {(c, p): differences(records, subject, p, c) for c in cells for p in peers}
    for cell in cells:
        shown = [f"{_mean(gaps[cell, p])}" for p in peers]
        table.add_row(", ".join(cell), *shown)
    means = [np.mean([gaps[c, p].mean() for c in cells]) for p in peers]
    table.add_row("mean of the worlds", *(f"{m:+.4f}" for m in means))
    console = Console(width=180)
    console.print(table)
    adjusted = holm([p_below(g) for g in gaps.values()])
    lost = [f"{', '.join(c)} against {p}" for (c, p), q in zip(gaps, adjusted, strict=True)
            if q < 0.05]  # fmt: skip
    console.print(f"significantly below a peer (Holm, {len(gaps)} tests): {lost or 'none'}")


def _print_quality(records: Sequence[dict], cells: list[Cell], names: list[str]) -> None:
    table = Table(title="NDCG@10 (median number of trees)")
    for column in ("world", *names):
        table.add_column(column, justify="left" if column == "world" else "right")
    for cell in cells:
        own = [r["results"] for r in records if tuple(r["cell"]) == cell]
        shown = []
        for name in names:
            value = np.mean([r[name]["ndcg"][1] for r in own])
            trees = np.median([r[name]["trees"] for r in own])
            shown.append(f"{value:.4f} ({trees:.0f}){_gap(own, name)}")
        table.add_row(", ".join(cell), *shown)
    Console(width=220).print(table)


def _gap(own: list[dict], name: str) -> str:
    """Return the fraction of the gap from naive to labels, if there is such a gap."""
    if "naive" not in own[0] or LABELS not in own[0]:
        return ""
    low, value, high = (np.mean([r[n]["ndcg"][1] for r in own]) for n in ("naive", name, LABELS))
    return f" {(value - low) / (high - low):.0%}" if high - low >= MIN_GAP else ""


def _mean(gaps: np.ndarray) -> str:
    error = gaps.std(ddof=1) / np.sqrt(gaps.size) if gaps.size > 1 else float("nan")
    return f"{gaps.mean():+.4f} ± {error:.4f}"
