from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from ulr.training.distributed.handshake import (
    HandshakeFailed,
    accept,
    initiate,
    respond,
    secret_for,
)

SECRET = secret_for("token", 1)


def shake_hands(secret: bytes, **claims: int) -> tuple[object, object]:
    """Run rank 1 against rank 0 of 2; return what each side got, result or error."""
    deadline = time.monotonic() + 60.0
    claims = {"rank": 1, "to": 0, "size": 2} | claims

    def initiator(sock: socket.socket) -> object:
        with sock:
            try:
                return initiate(sock, secret, **claims, deadline=deadline)
            except (HandshakeFailed, OSError) as error:
                return error

    def responder(sock: socket.socket) -> object:
        with sock:
            try:
                result = respond(sock, SECRET, rank=0, size=2, deadline=deadline)
                accept(sock, deadline)
            except (HandshakeFailed, OSError) as error:
                return error
            return result

    first, second = socket.socketpair()
    with ThreadPoolExecutor(2) as pool:
        sides = [pool.submit(initiator, first), pool.submit(responder, second)]
        return sides[0].result(), sides[1].result()


def test_two_workers_with_the_same_secret_accept_each_other():
    initiator, (rank, responder) = shake_hands(SECRET)
    assert rank == 1
    assert (initiator.send, initiator.receive) == (responder.receive, responder.send)
    assert initiator.send != initiator.receive


def test_every_connection_has_its_own_keys():
    keys = [key for _ in range(2) for key in shake_hands(SECRET)[0]]
    assert len(set(keys)) == 4
    assert {len(key) for key in keys} == {32}


@pytest.mark.parametrize("secret", [secret_for("token", 2), secret_for("another", 1)])
def test_a_wrong_secret_is_rejected_by_both_sides(secret):
    initiator, responder = shake_hands(secret)
    assert "wrong token, or a worker of another attempt" in str(initiator)
    assert "disconnected during the handshake" in str(responder)


@pytest.mark.parametrize("claims", [{"rank": 0}, {"rank": 2}, {"to": 1}, {"size": 3}])
def test_a_rank_that_cannot_be_is_rejected(claims):
    _, responder = shake_hands(SECRET, **claims)
    assert "unexpected first message" in str(responder)


def test_the_deadline_ends_a_handshake():
    first, second = socket.socketpair()
    with first, second, pytest.raises(HandshakeFailed, match="timed out"):
        respond(second, SECRET, rank=0, size=2, deadline=time.monotonic() - 1.0)


def test_an_initiator_that_sends_nothing_is_not_waited_for_until_the_deadline():
    first, second = socket.socketpair()
    with first, second, pytest.raises((HandshakeFailed, TimeoutError), match="timed out"):
        respond(second, SECRET, rank=0, size=2, deadline=time.monotonic() + 3600.0)
