"""Leases: one owner at a time, renewed while it lives, taken over when they expire."""

import pytest

from ulr.errors import LockTaken, UserError
from ulr.warehouse import lock
from ulr.warehouse.storage import Storage

OTHER = {"token": "other", "pid": 7, "host": "h", "since": "now"}


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that a test advances; sleeping does nothing."""

    class Clock:
        now = 1000.0

        def time(self):
            return self.now

        def sleep(self, seconds):
            pass

        def strftime(self, form):
            return form

    clock = Clock()
    monkeypatch.setattr(lock, "time", clock)
    return clock


@pytest.fixture
def storage(tmp_path):
    return Storage(str(tmp_path))


def test_a_lease_excludes_others_until_it_is_released(storage, clock):
    with (
        lock.lease(storage, "t", "t"),
        pytest.raises(UserError, match="being written"),
        lock.lease(storage, "t", "t"),
    ):
        pass
    with lock.lease(storage, "t", "t"):
        pass


def test_a_renewed_lease_lasts_longer_and_an_expired_one_can_be_taken(storage, clock):
    with lock.lease(storage, "t", "t") as renew:
        clock.now += 0.9 * lock.LEASE_S
        renew()
        clock.now += 0.9 * lock.LEASE_S
        with pytest.raises(UserError, match="being written"), lock.lease(storage, "t", "t"):
            pass
        clock.now += 0.2 * lock.LEASE_S
        with lock.lease(storage, "t", "t"):
            pass


class Ticks:
    """An event that is set after `count` waits."""

    def __init__(self, count):
        self.left = count

    def wait(self, _):
        self.left -= 1
        return self.left < 0


def test_a_failed_renewal_is_retried_until_the_lock_is_lost():
    results = [None, OSError("busy"), ValueError("half a file"), None, LockTaken("lost"), None]
    calls = []

    def renew():
        result = results[len(calls)]
        calls.append(result)
        if result is not None:
            raise result

    lock._renew_regularly(renew, Ticks(4))
    assert len(calls) == 4
    lock._renew_regularly(renew, Ticks(9))
    assert len(calls) == 5


def test_the_lock_of_a_new_owner_is_neither_overwritten_nor_removed(storage, clock):
    with lock.lease(storage, "t", "t") as check_owner:
        check_owner()
        storage.write_json(OTHER | {"until": clock.now + 9}, "t", ".lock")
        with pytest.raises(UserError, match="another has begun to write"):
            check_owner()
    assert storage.read_json("t", ".lock")["token"] == "other"


def test_the_later_of_two_simultaneous_claims_wins(storage, clock, monkeypatch):
    other = OTHER | {"until": clock.now + 9}
    monkeypatch.setattr(clock, "sleep", lambda _: storage.write_json(other, "t", ".lock"))
    with pytest.raises(UserError, match="process 7 on h"), lock.lease(storage, "t", "t"):
        pass
