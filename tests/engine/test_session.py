"""The Spark session starts without a host name, and keeps its secrets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from ulr.engine.spark.session import is_readable_on_the_network

RENAMED = ["unshare", "--map-root-user", "--uts", "sh", "-c", 'hostname no.such.name && exec "$@"',
           "sh"]  # fmt: skip
START = """
from ulr.config.load import load_settings
from ulr.engine.spark.session import start_session
print(start_session("test", load_settings(None).spark).range(5).count())
"""


@pytest.mark.all
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


SECRET = "0123456789abcdef-in-the-clear"
SECRETS = f"""
import contextlib, os, json
from pathlib import Path
from ulr.config.load import load_settings
from ulr.engine.spark.session import start_session
settings = dict(load_settings(None).spark)
settings |= {{"authenticate": True, "authenticate.secret": {SECRET!r}, "driver.memory": "1g",
             "hadoop.fs.s3a.secret.key": {SECRET!r}, "eventLog.dir": "s3a://k:{SECRET}@bucket"}}
spark = start_session("test", settings)
assert spark.range(2).mapInArrow(lambda batches: batches, "id long").count() == 2
conf = spark.sparkContext.getConf()
assert conf.get("spark.authenticate.secret") == {SECRET!r}
assert spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3a.secret.key") == {SECRET!r}
assert conf.get("spark.driver.memory") == "1g"
sockets = Path(conf.get("spark.python.unix.domain.socket.dir"))
running = map(int, filter(str.isdigit, os.listdir("/proc")))
def session(process):
    try:
        return os.getsid(process)
    except OSError:
        return None
ours = [p for p in running if session(p) == os.getsid(0)]
read = []
for process in ours:
    with contextlib.suppress(OSError):  # it may have ended
        read += [Path(f"/proc/{{process}}/{{n}}").read_text() for n in ("cmdline", "environ")]
java = [text for text in read if "SparkSubmit" in text]
leaks = sum({SECRET!r} in text for text in read)
print(json.dumps([len(ours) >= 3, len(java), "1g" in java[0], oct(sockets.stat().st_mode), leaks]))
"""


@pytest.mark.all
@pytest.mark.spark
def test_secrets_reach_spark_but_no_command_line_or_environment():
    done = subprocess.run(
        [sys.executable, "-"], input=SECRETS, capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [True, 1, True, "0o40700", 0]


def test_messages_are_readable_on_a_cluster_without_encryption():
    assert not is_readable_on_the_network({"spark.master": "local[2]"})
    cluster = {"spark.master": "spark://host:7077", "spark.authenticate": "true"}
    assert is_readable_on_the_network(cluster)
    assert not is_readable_on_the_network(cluster | {"spark.network.crypto.enabled": "true"})
    assert not is_readable_on_the_network(cluster | {"spark.ssl.rpc.enabled": "true"})
