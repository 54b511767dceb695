"""The Spark session of the tests, the markers that follow from it, and the order of the tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.support.cluster import JAVA_OPTIONS
from ulr.config.load import load_settings
from ulr.engine.session import start_session

# No deadline, because a first call may compile a kernel. CI runs the same examples every time.
settings.register_profile("ulr", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ulr")

SESSION = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}


@pytest.fixture(scope="session")
def spark():
    changes = [f"{key}={value}" for key, value in SESSION.items()]
    session = start_session("tests", load_settings(None, changes).spark)
    yield session
    session.stop()


def pytest_collection_modifyitems(items):
    """Mark the tests that use the session, and move the slowest files to the front.

    With two processes the last file decides how long one of them waits for the other, so the
    last files should be short: those without Spark.
    """
    slow = {"cluster": 0, "spark": 1}
    rank = {}
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        ranks = [slow[mark.name] for mark in item.iter_markers() if mark.name in slow]
        rank[item.path] = min([rank.get(item.path, 2), *ranks])
    items.sort(key=lambda item: rank[item.path])
