from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ulr.kernels.jit import PACKAGE

pytestmark = pytest.mark.all

ROOT = Path(__file__).parents[2]
MODULES = ("hashing", "lambdas", "linear", "listwise", "losses", "merge", "order", "pair_runs",
           "pair_weights", "patterns", "ranking_metrics", "relevance", "relevance_posteriors",
           "swap_tally", "trust_moments", "within_rankings")  # fmt: skip


@pytest.mark.spark
def test_a_warm_up_stores_the_kernels_of_all_stages(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "ulr.cli", "warm-up", "--json", "--set", "spark.master=local[1]"],
        cwd=ROOT, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}, stdout=subprocess.PIPE,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
    result = json.loads(done.stdout)
    folders = Path(result["folder"]), Path(PACKAGE)  # the second serves what was stored before
    assert tmp_path in folders[0].parents
    stored = {path.name.split(".")[0] for folder in folders for path in folder.glob("*.nbc")}
    assert stored >= set(MODULES)
