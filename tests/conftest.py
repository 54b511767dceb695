"""One Spark session for all tests that ask for it."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from ulr.config.load import load_settings
from ulr.engine.session import start_session

# A first call may compile a kernel; a build server should see the same examples every time.
settings.register_profile("ulr", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("ulr")


@pytest.fixture(scope="session")
def spark():
    changes = ["spark.master=local[2]", "spark.sql.shuffle.partitions=2", "spark.driver.memory=2g"]
    session = start_session("tests", load_settings(None, changes).spark)
    yield session
    session.stop()


def pytest_collection_modifyitems(items):
    """Whatever uses the session needs Spark: the marker follows from the fixture."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
