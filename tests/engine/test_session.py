"""Spark starts where it usually would not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

RENAMED = ["unshare", "--map-root-user", "--uts", "sh", "-c", 'hostname no.such.name && exec "$@"',
           "sh"]  # fmt: skip
START = """
from ulr.config import load_settings
from ulr.session import start_session
print(start_session("test", load_settings(None).spark).range(5).count())
"""


@pytest.mark.spark
@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*RENAMED, "true"], check=False).returncode != 0,
    reason="a machine can be given another name only where namespaces are allowed",
)
def test_a_machine_whose_name_nobody_resolves_starts_spark_all_the_same():
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    done = subprocess.run(
        [*RENAMED, sys.executable, "-c", START], env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["5"], done.stderr[-2000:]
