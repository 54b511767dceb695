"""Sessions of six documents whose first feature is their relevance, as rows for the Estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

NAMES = ["x0", "x1", "x2"]
LIGHTGBM = {"num_leaves": 7, "learning_rate": 0.2, "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 1.0, "num_threads": 1, "seed": 1}  # fmt: skip


def shown_sessions(spark: Any) -> Any:
    """Return a DataFrame with one row per session and document."""
    rng = np.random.default_rng(5)
    rows = []
    for session in range(120):
        x = rng.normal(size=(6, 3))
        examined = rng.random(6) < 1 / np.arange(1, 7)
        clicked = examined & (rng.random(6) < 1 / (1 + np.exp(-2 * x[:, 0])))
        rows += [
            (f"s{session}", k + 1, float(clicked[k]), session % 4 == 0, *map(float, x[k]))
            for k in range(6)
        ]
    schema = "session string, position int, click double, held_out boolean, "
    return spark.createDataFrame(rows, schema + ", ".join(f"{n} double" for n in NAMES))
