"""A small simulated log in a warehouse of its own."""

from __future__ import annotations

from ulr.cli.main import main


def simulate_log(root):
    """Write the log and its groups under `root`; return the command-line flags that name them."""
    changes = {
        "warehouse.path": f"{root}/warehouse", "simulate.path": f"{root}/log",
        "simulate.queries": 80, "simulate.pages_per_day": 3000, "simulate.days": 1,
        "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 6,
        "simulate.zipf": 0.2, "log.path": f"{root}/log/log",
        "features.path": f"{root}/log/features", "groups.partitions": 2, "pairs.partitions": 2,
        "pairs.propensities": f"{root}/log/truth/examination.parquet", "train.num_iterations": 10,
        "lightgbm.min_sum_hessian_in_leaf": 0.1, "lightgbm.learning_rate": 0.2,
        "lightgbm.num_leaves": 4, "lightgbm.num_threads": 1, "compare.methods": "[joint]",
    }  # fmt: skip
    flags = [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]
    assert main(["simulate", *flags]) == 0
    assert main(["groups", "--date", "2026-01-01", *flags]) == 0
    return flags
