"""What becomes of the failures of a barrier stage, and where its tasks are."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from ulr.engine.interface import RanksFailed
from ulr.engine.spark import ranks
from ulr.errors import TemporaryFailure, UserError


def gathered(rank):
    texts = rank.gather(f"{rank.number}@{rank.host}")
    return f"{rank.number}/{rank.size}: {texts}".encode()


def test_results_are_in_order_and_every_rank_gathers_the_texts_of_all(spark_engine):
    results = [text.decode() for text in spark_engine.ranks(2, gathered, timeout=60)]
    first, second = results
    texts = first.partition(": ")[2]
    assert (first, second) == (f"0/2: {texts}", f"1/2: {texts}")
    assert texts.startswith("['0@")
    assert "'1@" in texts


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "Traceback:\nulr.errors.UserError: rows differ; make them equal",
            UserError,
            "rows differ",
        ),
        ("[SPARK_JOB_CANCELLED] Job 3 cancelled", TemporaryFailure, "cancelled"),
        (
            "Traceback:\nulr.x.PeerLost: worker 1 is gone\n",
            RanksFailed,
            "PeerLost: worker 1 is gone",
        ),
    ],
)
def test_a_failure_of_spark_is_a_user_error_a_cancelled_job_or_lost_ranks(
    monkeypatch, text, kind, message
):
    def collect():
        raise PySparkException(text)

    job = SimpleNamespace(collect=collect)
    monkeypatch.setattr(ranks, "map_batches", lambda *_, **__: job)
    session = SimpleNamespace(range=lambda *_: None)
    with pytest.raises(kind, match=message) as error:
        ranks.run_ranks(session, 2, lambda rank: b"", 60.0)
    assert type(error.value) is kind


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.1:41234", "10.0.0.1"), ("[::1]:7", "::1"), ("worker-3", "worker-3")],
)
def test_the_host_of_an_address(address, host):
    assert ranks.host_of(address) == host
