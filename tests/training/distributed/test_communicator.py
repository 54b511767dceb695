from __future__ import annotations

import os
import signal
import socket
import threading
import time

import numpy as np
import pytest

from tests.support.rendezvous import OnProcesses, meet, on_threads
from ulr.errors import UserError
from ulr.training.distributed.communicator import Communicator, PeerLost
from ulr.training.distributed.rendezvous import Listener, _Rendezvous


def ipv6() -> bool:
    try:
        Listener("::1").close()
    except UserError:
        return False
    return True


WITH_IPV6 = pytest.mark.skipif(not ipv6(), reason="no IPv6 here")
HOSTS = ["127.0.0.1", "localhost", pytest.param("::1", marks=WITH_IPV6)]


@pytest.mark.parametrize("host", HOSTS)
def test_every_worker_gets_everybodys_bytes_in_order_of_rank(host):
    words = on_threads(3, lambda mesh: mesh.allgather(f"w{mesh.rank}".encode()), host)
    assert words == [[b"w0", b"w1", b"w2"]] * 3


def test_one_worker_alone_needs_no_connection():
    total = on_threads(1, lambda mesh: mesh.sum(np.array([1.5, 2.0])))[0]
    assert total.tolist() == [1.5, 2.0]


def test_sums_are_taken_in_order_of_rank_on_every_worker():
    parts = [np.array([1e16, 1.0]), np.array([1.0, 2.0]), np.array([-1e16, 3.0])]
    sums = on_threads(3, lambda mesh: mesh.sum(parts[mesh.rank]))
    expected = (parts[0] + parts[1]) + parts[2]
    for total in sums:
        assert total.tobytes() == expected.tobytes()


def test_large_messages_in_both_directions_do_not_block_each_other():
    size = 20_000_000
    sizes = on_threads(2, lambda m: [len(b) for b in m.allgather(bytes([m.rank]) * size)])
    assert sizes == [[size, size]] * 2


def test_empty_and_many_messages_keep_their_order():
    def work(mesh: Communicator) -> bool:
        return all(
            mesh.allgather(b"x" * (n % 5) * (mesh.rank + 1))[1 - mesh.rank]
            == b"x" * (n % 5) * (2 - mesh.rank)
            for n in range(500)
        )

    assert on_threads(2, work) == [True, True]


def test_a_worker_that_computes_for_longer_than_the_timeout_is_not_lost():
    def work(mesh: Communicator) -> list[bytes]:
        if mesh.rank == 1:
            time.sleep(2.5)
        return mesh.allgather(b"here")

    assert on_threads(2, work, timeout=1.0) == [[b"here", b"here"]] * 2


def test_the_others_learn_why_a_worker_stopped():
    def work(mesh: Communicator) -> str:
        if mesh.rank == 1:
            mesh.close("ValueError: no such column")
            return ""
        with pytest.raises(PeerLost) as lost:
            mesh.allgather(b"x")
        return str(lost.value)

    told = on_threads(3, work)
    assert any("worker 1 stopped: ValueError: no such column" in text for text in told)


def test_strangers_are_refused_and_the_mesh_comes_up_all_the_same():
    doors = [Listener("127.0.0.1") for _ in range(2)]
    addresses = [d.address for d in doors]
    silent = socket.create_connection(addresses[0])  # never says a word
    rude = socket.create_connection(addresses[0])
    rude.sendall(os.urandom(4096))
    polite = socket.create_connection(addresses[0])
    polite.sendall(b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n")
    out: dict[int, list[bytes]] = {}

    def one(rank: int) -> None:
        mesh = meet(doors[rank], addresses, rank)
        out[rank] = mesh.allgather(bytes([rank]))
        mesh.close()

    threads = [threading.Thread(target=one, args=(r,)) for r in (0, 1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert out == {0: [b"\0", b"\1"], 1: [b"\0", b"\1"]}
    for sock in (silent, rude, polite):
        sock.close()


@pytest.mark.parametrize("difference", [{"token": "another"}, {"attempt": 2}])
def test_a_worker_with_another_token_or_attempt_does_not_get_in(difference):
    doors = [Listener("127.0.0.1") for _ in range(2)]
    addresses = [d.address for d in doors]
    right = {"token": "a token", "attempt": 1, "timeout": 1.5}
    lost: list[str] = []

    def one(rank: int, **options) -> None:
        try:
            doors[rank].meet(addresses, rank, **options)
        except PeerLost as why:
            lost.append(str(why))

    wrong = threading.Thread(target=one, args=(1,), kwargs=right | difference)
    wrong.start()
    one(0, **right)
    wrong.join()
    assert any("worker 1 did not come in time" in text for text in lost)
    assert any("wrong token, or a worker of another attempt" in text for text in lost)


def test_a_second_call_that_breaks_off_leaves_the_caller_missing():
    """Else the mesh would come up with the closed socket of the first call."""
    party = _Rendezvous(0, 3, b"secret", time.monotonic() + 0.5)
    pairs = [socket.socketpair() for _ in range(3)]
    party.peers[1] = pairs[0][0]
    pairs[1][0].close()  # worker 1 calls again, and is gone before it is let in
    party.arrived.put((1, pairs[1][0]))
    party.arrived.put((2, pairs[2][0]))
    with pytest.raises(PeerLost, match="worker 1 did not come in time"):
        party.wait_for_callers()
    assert party.peers[1] is None
    for sock in (s for pair in pairs for s in pair):
        sock.close()


def test_a_worker_that_comes_late_is_waited_for_and_one_that_never_comes_is_named():
    doors = [Listener("127.0.0.1") for _ in range(3)]
    addresses = [d.address for d in doors]
    came: list[str] = []

    def late() -> None:
        with pytest.raises(PeerLost) as lost:
            meet(doors[1], addresses, 1, 3.0)
        came.append(str(lost.value))

    threading.Timer(0.7, late).start()
    with pytest.raises(PeerLost, match="worker 2 did not come in time"):
        meet(doors[0], addresses, 0, 2.0)
    time.sleep(2.5)
    assert came == ["worker 2 did not come in time"]  # it had reached worker 0
    doors[2].close()


def test_a_port_that_is_taken_is_one_clear_error():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"127.0.0.1 port {port}.*free port"):
            Listener("127.0.0.1", port)


def _gather_for_ever(mesh: Communicator) -> None:
    while True:
        mesh.allgather(b"tick")
        time.sleep(0.01)


@pytest.mark.parametrize(("how", "within"), [(signal.SIGKILL, 3.0), (signal.SIGSTOP, 8.0)])
def test_a_killed_or_stopped_process_is_noticed_within_the_timeout(how, within):
    party = OnProcesses(3, _gather_for_ever, timeout=4.0)
    try:
        time.sleep(0.5)
        start = time.monotonic()
        os.kill(party.processes[1].pid, how)
        names = {party.result()[1] for _ in range(2)}
        assert names == {"PeerLost"}
        assert time.monotonic() - start < within
    finally:
        party.stop()
