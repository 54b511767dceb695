from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from tests.support.rendezvous import OnProcesses, on_threads
from tests.support.waiting import LIMIT_S
from ulr.errors import UserError
from ulr.training.distributed import peer
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.peer import PeerLost
from ulr.training.distributed.rendezvous import Listener


def has_ipv6() -> bool:
    try:
        Listener("::1").close()
    except UserError:
        return False
    return True


WITH_IPV6 = pytest.mark.skipif(not has_ipv6(), reason="no IPv6 on this machine")
HOSTS = ["127.0.0.1", "localhost", pytest.param("::1", marks=WITH_IPV6)]


@pytest.mark.parametrize("host", HOSTS)
def test_allgather_returns_the_contents_of_all_ranks_in_rank_order(host):
    contents = on_threads(3, lambda c: c.allgather(f"w{c.rank}".encode()), host)
    assert contents == [[b"w0", b"w1", b"w2"]] * 3


def test_a_single_rank_needs_no_connection():
    total = on_threads(1, lambda communicator: communicator.sum(np.array([1.5, 2.0])))[0]
    assert total.tolist() == [1.5, 2.0]


def test_sums_are_taken_in_rank_order_on_every_rank():
    parts = [np.array([1e16, 1.0]), np.array([1.0, 2.0]), np.array([-1e16, 3.0])]
    sums = on_threads(3, lambda communicator: communicator.sum(parts[communicator.rank]))
    expected = (parts[0] + parts[1]) + parts[2]
    for total in sums:
        assert total.tobytes() == expected.tobytes()


def test_large_messages_in_both_directions_do_not_block_each_other():
    size = 20_000_000
    sizes = on_threads(2, lambda c: [len(b) for b in c.allgather(bytes([c.rank]) * size)])
    assert sizes == [[size, size]] * 2


def test_many_messages_some_of_them_empty_keep_their_order():
    def work(communicator: Communicator) -> bool:
        rank = communicator.rank
        return all(
            communicator.allgather(
                b"x" * (n % 5) * (rank + 1), [n % 5 * (r + 1) for r in range(2)]
            )[1 - rank]
            == b"x" * (n % 5) * (2 - rank)
            for n in range(500)
        )

    assert on_threads(2, work) == [True, True]


def test_messages_of_unknown_length_are_exchanged_up_to_a_limit():
    def work(communicator: Communicator) -> list[bytes]:
        return communicator.allgather_messages(b"m" * (3 * communicator.rank), 3)

    assert on_threads(2, work) == [[b"", b"mmm"]] * 2
    with pytest.raises(PeerLost, match="worker 2 announced a message of 6 bytes, more than 3"):
        on_threads(3, work)


@pytest.mark.all
def test_a_peer_that_only_sends_heartbeats_is_given_up(monkeypatch):
    monkeypatch.setattr(peer, "TIMEOUTS_PER_EXCHANGE", 2)
    finished = threading.Event()

    def work(communicator: Communicator) -> str:
        if communicator.rank == 1:
            finished.wait(LIMIT_S)
            return ""
        with pytest.raises(PeerLost) as lost:
            communicator.allgather(b"x")
        finished.set()
        return str(lost.value)

    reasons = on_threads(2, work, timeout=2.0)
    assert reasons[0] == "worker 1 sends heartbeats, but did not finish an exchange in time"


@pytest.mark.all
def test_heartbeats_keep_a_worker_that_computes_for_longer_than_the_timeout():
    timeout = 4.0

    def work(communicator: Communicator) -> list[bytes]:
        if communicator.rank == 1:
            time.sleep(1.5 * timeout)
        return communicator.allgather(b"here")

    assert on_threads(2, work, timeout=timeout) == [[b"here", b"here"]] * 2


def test_peers_receive_the_reason_why_a_worker_stopped():
    def work(communicator: Communicator) -> str:
        if communicator.rank == 1:
            communicator.close("ValueError: no such column")
            return ""
        with pytest.raises(PeerLost) as lost:
            communicator.allgather(b"x")
        return str(lost.value)

    reasons = on_threads(3, work)
    assert any("worker 1 stopped: ValueError: no such column" in reason for reason in reasons)


def test_leaving_a_block_by_an_exception_sends_it_to_the_peers():
    def work(communicator: Communicator) -> str:
        if communicator.rank == 1:
            with pytest.raises(ZeroDivisionError), communicator:
                raise ZeroDivisionError("for a test")
            return ""
        with pytest.raises(PeerLost) as lost:
            communicator.allgather(b"x")
        return str(lost.value)

    assert on_threads(2, work)[0] == "worker 1 stopped: ZeroDivisionError: for a test"


def _gather_for_ever(communicator: Communicator) -> None:
    while True:
        communicator.allgather(b"tick")
        time.sleep(0.01)


def _losses(number: signal.Signals, timeout: float) -> list[str]:
    """Send a signal to one of three processes; return the errors of the two others."""
    workers = OnProcesses(3, _gather_for_ever, timeout=timeout)
    try:
        os.kill(workers.processes[1].pid, number)
        results = [workers.result() for _ in range(2)]
    finally:
        workers.kill()
    assert {name for _, name, _ in results} == {"PeerLost"}
    return [message for _, _, message in results]


@pytest.mark.kill
def test_a_killed_process_is_lost_without_waiting_for_the_timeout():
    assert not any("silent" in message for message in _losses(signal.SIGKILL, timeout=300.0))


@pytest.mark.all
@pytest.mark.kill
def test_a_stopped_process_is_lost_after_the_timeout():
    assert any("worker 1 has been silent for 8 s" in m for m in _losses(signal.SIGSTOP, 8.0))
