from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.rendezvous import TOKEN, connect
from ulr.errors import UserError
from ulr.training.distributed.peer import Connection, PeerLost
from ulr.training.distributed.rendezvous import Listener, _Rendezvous


def listeners(size: int) -> tuple[list[Listener], list[tuple[str, int]]]:
    made = [Listener("127.0.0.1") for _ in range(size)]
    return made, [listener.address for listener in made]


def test_strangers_are_rejected_and_the_workers_connect_all_the_same():
    made, addresses = listeners(2)
    silent = socket.create_connection(addresses[0])
    random = socket.create_connection(addresses[0])
    random.sendall(os.urandom(4096))
    http = socket.create_connection(addresses[0])
    http.sendall(b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n")

    def run(rank: int) -> list[bytes]:
        with connect(made[rank], addresses, rank) as communicator:
            return communicator.allgather(bytes([rank]))

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [[b"\0", b"\1"]] * 2
    for sock in (silent, random, http):
        sock.close()


@pytest.mark.parametrize("difference", [{"token": "another"}, {"attempt": 2}])
def test_a_worker_with_another_token_or_attempt_is_rejected(difference):
    made, addresses = listeners(2)
    options = {"token": TOKEN, "attempt": 1, "timeout": 1.0}

    def run(rank: int, options: dict) -> str:
        with pytest.raises(PeerLost) as lost:
            made[rank].rendezvous(addresses, rank, **options)
        return str(lost.value)

    with ThreadPoolExecutor(2) as pool:
        reasons = list(pool.map(run, range(2), [options, options | difference]))
    assert reasons[0] == "worker 1 did not connect in time"
    assert "worker 0 at 127.0.0.1" in reasons[1]


def test_a_second_connection_that_fails_leaves_the_peer_missing():
    """Otherwise the communicator would get the closed socket of the first connection."""
    meeting = _Rendezvous(0, 3, b"secret", time.monotonic() + 0.5)
    pairs = [socket.socketpair() for _ in range(3)]
    meeting.connections[1] = Connection(pairs[0][0], None)
    pairs[1][0].close()  # worker 1 retries, and disconnects before it is accepted
    meeting.verified.put((1, Connection(pairs[1][0], None)))
    meeting.verified.put((2, Connection(pairs[2][0], None)))
    with pytest.raises(PeerLost, match="worker 1 did not connect in time"):
        meeting.wait_for_higher_ranks()
    assert meeting.connections[1] is None
    for sock in (s for pair in pairs for s in pair):
        sock.close()


def test_a_late_worker_is_waited_for_and_a_missing_one_is_named():
    made, addresses = listeners(3)

    def run(rank: int) -> str:
        time.sleep(0.3 * rank)
        with pytest.raises(PeerLost) as lost:
            connect(made[rank], addresses, rank, timeout=1.5)
        return str(lost.value)

    with ThreadPoolExecutor(2) as pool:  # worker 1 comes late, worker 2 never
        assert list(pool.map(run, range(2))) == ["worker 2 did not connect in time"] * 2
    made[2].close()


def test_a_port_in_use_is_reported_with_its_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1 port {port}.*free port"):
            Listener("127.0.0.1", port)
