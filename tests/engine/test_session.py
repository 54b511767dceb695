"""The Spark session starts on a machine whose name does not resolve."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

RENAMED = ["unshare", "--map-root-user", "--uts", "sh", "-c", 'hostname no.such.name && exec "$@"',
           "sh"]  # fmt: skip
START = """
from ulr.config.load import load_settings
from ulr.engine.session import start_session
print(start_session("test", load_settings(None).spark).range(5).count())
"""


@pytest.mark.spark
@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*RENAMED, "true"], check=False).returncode != 0,
    reason="renaming the machine needs namespaces",
)
def test_spark_starts_on_a_machine_whose_name_does_not_resolve():
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
    done = subprocess.run(
        [*RENAMED, sys.executable, "-c", START], env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["5"], done.stderr[-2000:]
