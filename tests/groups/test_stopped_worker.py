"""A stopped Python worker ends a stage in bounded time, and the stage can run again."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.logs import broken_log, build, write_parquet
from tests.support.python_workers import has_ended, kill_all, stop_workers
from tests.support.table_hashes import table_hashes
from tests.support.waiting import LIMIT_S, wait_until
from ulr.engine.spark.versions import SPARK_FAILED
from ulr.engine.spark.watchdog import WORKER_TIMEOUT

TIMEOUT_S = 6


def build_and_stop(spark_engine, root: Path, log: Path, stopped: list[int]) -> Future:
    """Run the stage until its Python workers could be stopped while a task was running."""
    with ThreadPoolExecutor(1) as pool:
        for _ in range(30):
            running = pool.submit(build, spark_engine, root, log, force=True)
            while not running.done() and not stopped:
                stopped += stop_workers(spark_engine.session)
            wait_until(running.done, "the stage did not end", limit_s=LIMIT_S / 2)
            if running.exception() is not None:
                return running
            stopped.clear()  # the last task had ended already
    raise AssertionError("no task could be stopped")


@pytest.mark.all
@pytest.mark.kill
def test_stopped_workers_end_the_stage_and_it_can_be_repeated(spark_engine, tmp_path):
    log = write_parquet(tmp_path / "log", broken_log(150_000, seed=4)[0], files=6)
    build(spark_engine, tmp_path / "undisturbed", log)
    before, stopped = spark_engine.session.conf.get(WORKER_TIMEOUT), []
    spark_engine.session.conf.set(WORKER_TIMEOUT, TIMEOUT_S)
    try:
        failed = build_and_stop(spark_engine, tmp_path / "disturbed", log, stopped)
        assert isinstance(failed.exception(), SPARK_FAILED)
        assert stopped
        for pid in stopped:
            wait_until(lambda pid=pid: has_ended(pid))
        build(spark_engine, tmp_path / "disturbed", log, force=True)
    finally:
        kill_all(stopped)
        spark_engine.session.conf.set(WORKER_TIMEOUT, before)
    hashes = [table_hashes(tmp_path / name) for name in ("undisturbed", "disturbed")]
    assert hashes[0] == hashes[1]
