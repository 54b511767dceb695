import threading
import time

import pytest

from ulr.engine.concurrency import run_concurrently


def never():
    raise AssertionError


def test_results_come_in_order_and_no_more_run_at_once_than_allowed():
    running, most, lock = [], [], threading.Lock()

    def job(number):
        with lock:
            running.append(number)
            most.append(len(running))
        time.sleep(0.02)
        with lock:
            running.remove(number)
        return number

    jobs = [lambda n=n: job(n) for n in range(7)]
    assert run_concurrently(jobs, 3, never) == list(range(7))
    assert max(most) == 3
    assert run_concurrently(jobs, 1, never) == list(range(7))


def test_one_that_fails_does_not_stop_the_others():
    done = []
    jobs = [lambda: 1 / 0, lambda: done.append(1), lambda: done.append(2)]
    with pytest.raises(ZeroDivisionError):
        run_concurrently(jobs, 2, never)
    assert sorted(done) == [1, 2]


def test_an_interruption_cancels_what_runs_and_starts_nothing_more(monkeypatch):
    stop, begun = threading.Event(), []
    from ulr.engine import concurrency as at_once

    def job():
        begun.append(1)
        stop.wait(30)

    real, calls = at_once.wait, []

    def wait(futures, timeout=None):
        calls.append(timeout)
        if len(calls) == 1:
            while len(begun) < 2:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return real(futures, 0.05)

    monkeypatch.setattr(at_once, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        run_concurrently([job] * 5, 2, stop.set)
    assert len(begun) == 2
