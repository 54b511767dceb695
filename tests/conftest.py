"""The engines of the tests, the markers that follow from them, and the order of the tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.support.cluster import JAVA_OPTIONS
from ulr.cli.main import PRELOAD
from ulr.config.load import load_settings
from ulr.engine.local.engine import LocalEngine
from ulr.engine.local.server import start_server

# No deadline, because a first call may compile a kernel. CI runs the same examples every time.
settings.register_profile("ulr", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ulr")

SESSION = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.ulr.workerTimeout": 30,  # tests stop workers and wait for their end
}
# They wait for timeouts, or start servers and browsers.
SLOW_WITHOUT_SPARK = ("tests/training/distributed", "tests/registry", "tests/report/test_browser")


@pytest.fixture(scope="session")
def engine():
    """The engine of most tests: small work runs in this process."""
    start_server(PRELOAD)
    local = LocalEngine(processes=2)
    yield local
    local.close()


@pytest.fixture(scope="session")
def pool(engine):
    """An engine that runs everything in worker processes."""
    local = LocalEngine(processes=2, small_bytes=-1)
    yield local
    local.close()


@pytest.fixture(scope="session")
def spark():
    from ulr.engine.spark.session import start_session

    changes = [f"{key}={value}" for key, value in SESSION.items()]
    session = start_session("tests", load_settings(None, changes).spark)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_engine(spark):
    """An engine on Spark that runs everything in tasks."""
    from ulr.engine.spark.engine import SparkEngine

    return SparkEngine(session=spark, small_bytes=-1)


def pytest_collection_modifyitems(items):
    """Mark the tests that use the session, and move the slowest files to the front.

    Files are distributed to several processes. If the last file is slow, the other processes
    are idle meanwhile.
    """
    rank = {}
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        rank[item.path] = min(rank.get(item.path, 3), _rank(item))
    items.sort(key=lambda item: rank[item.path])


def _rank(item):
    if item.get_closest_marker("cluster"):
        return 0
    if item.get_closest_marker("spark"):
        return 1
    return 2 if any(name in item.nodeid for name in SLOW_WITHOUT_SPARK) else 3
