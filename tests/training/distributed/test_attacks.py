"""Attacks on the connection of two workers, by a man in the middle with real sockets."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.support.man_in_the_middle import ATTACKS, ManInTheMiddle
from tests.support.rendezvous import TOKEN, connect
from tests.support.waiting import wait_until
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.peer import HEADER, PeerLost
from ulr.training.distributed.rendezvous import MAX_HANDSHAKES, Listener, _Handshakes, _Rendezvous

pytestmark = pytest.mark.all

TIMEOUT_S = 3.0  # of attacks that end with it
LONG_TIMEOUT_S = 60.0  # of attacks that are noticed at once
LENGTH = 1000
REASONS = {
    "change_byte": "not accepted",
    "change_tag": "not accepted",
    "change_heartbeat": "not accepted",
    "replay": "not accepted",
    "repeat": "not accepted",
    "reorder": "not accepted",
    "truncate": "in the middle of a frame",
    "empty_frame": f"sent 0 bytes when {8 * LENGTH} were expected",
    "short_frame": f"sent {8 * LENGTH - 8} bytes when {8 * LENGTH} were expected",
    "huge_header": f"sent {2**32 - 1} bytes when {8 * LENGTH} were expected",
    "trickle": "silent for 3.02 s, in the middle of a frame",
    "withhold": "silent for 3.02 s",
    "garbage": "sent",
    "reflect": "sent",
}
WAITS_FOR_HEARTBEATS = {"change_heartbeat", "repeat", "reorder"}
WAITS = WAITS_FOR_HEARTBEATS | {"trickle", "withhold"}  # tried on one victim, to save time
CASES = [(name, rank) for name in ATTACKS for rank in range(2) if rank or name not in WAITS]


def sum_until_lost(communicator: Communicator, *, pause: float) -> str:
    """Sum in exchanges until the peer is lost; return the reason. Every sum must be right."""
    with communicator:
        for number in range(1000):
            if pause:
                time.sleep(pause)  # long enough for heartbeats
            try:
                total = communicator.sum(np.full(LENGTH, number, np.int64))
            except PeerLost as lost:
                buffers = [len(peer._buffer) for peer in communicator._peers]
                assert max(buffers) < 100_000
                return str(lost)
            assert (total == 2 * number).all()
    raise AssertionError("the attack had no effect")


@pytest.mark.parametrize(("attack", "victim"), CASES)
def test_the_victim_of_an_attack_loses_its_peer_and_gets_no_wrong_value(attack, victim):
    listeners = [Listener("127.0.0.1") for _ in range(2)]
    addresses = [listener.address for listener in listeners]
    toward = "initiator" if victim == 1 else "responder"
    timeout = TIMEOUT_S if attack in WAITS else LONG_TIMEOUT_S
    pause = TIMEOUT_S / 3 if attack in WAITS_FOR_HEARTBEATS else 0.0

    def run(rank: int) -> str:
        known = [proxy.address, addresses[1]] if rank == 1 else addresses
        communicator = connect(listeners[rank], known, rank, timeout)
        return sum_until_lost(communicator, pause=pause if rank != victim else 0.0)

    with ManInTheMiddle(addresses[0], attack, toward) as proxy, ThreadPoolExecutor(2) as pool:
        reasons = list(pool.map(run, range(2)))
    assert REASONS[attack] in reasons[victim]


def test_every_attack_has_an_expected_reason():
    assert REASONS.keys() == ATTACKS.keys()


def test_idle_connections_do_not_keep_workers_from_connecting():
    """There are more of them than handshakes are handled at a time."""
    listeners = [Listener("127.0.0.1") for _ in range(2)]
    addresses = [listener.address for listener in listeners]
    idle = [socket.create_connection(addresses[0]) for _ in range(120)]

    def run(rank: int) -> list[bytes]:
        with connect(listeners[rank], addresses, rank) as communicator:
            return list(map(bytes, communicator.allgather(bytes([rank]))))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run, 0)
        idle += [socket.create_connection(addresses[0]) for _ in range(80)]
        assert [f.result() for f in (first, pool.submit(run, 1))] == [[b"\0", b"\1"]] * 2
    for sock in idle:
        sock.close()


@pytest.mark.parametrize("first", [b"", b"ulr"])
def test_a_connection_that_sends_nothing_or_too_little_is_closed(first):
    listener = Listener("127.0.0.1")
    meeting = _Rendezvous(0, 2, b"secret", time.monotonic() + 3600.0)
    listener.serve(meeting.authenticate, meeting.add_verified)
    with socket.create_connection(listener.address) as silent:
        silent.sendall(first)
        silent.settimeout(60.0)
        assert silent.recv(1) == b""  # long before the deadline
    listener.close()


def test_at_most_a_fixed_number_of_handshakes_is_open():
    meeting = _Handshakes()
    pairs = [socket.socketpair() for _ in range(MAX_HANDSHAKES + 1)]
    for here, _ in pairs:
        meeting.add(here)
    assert pairs[0][1].recv(1) == b""  # the oldest was disconnected
    pairs[1][1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pairs[1][1].recv(1)
    for sock in (sock for pair in pairs for sock in pair):
        sock.close()


@pytest.mark.parametrize("content", [os.urandom(4096), HEADER.pack(1, 0, 2**32 - 1)])
def test_bytes_without_a_token_are_rejected_in_the_handshake(content):
    listener = Listener("127.0.0.1")
    closed = []

    def attack() -> None:
        with socket.create_connection(listener.address) as stranger:
            stranger.sendall(content)
            stranger.settimeout(60.0)
            try:
                closed.append(stranger.recv(100))
            except ConnectionResetError:
                closed.append(b"")

    with ThreadPoolExecutor(2) as pool:
        pool.submit(attack)
        with pytest.raises(PeerLost, match="worker 1 did not connect in time"):
            listener.rendezvous([listener.address, ("127.0.0.1", 9)], 0, token=TOKEN, attempt=1,
                                timeout=2.0)  # fmt: skip
        wait_until(lambda: closed)
    assert closed == [b""]
