"""Jobs that run concurrently: order, limit, failures, interrupts."""

import threading
import time

import pytest

from ulr.engine import concurrency
from ulr.engine.concurrency import run_concurrently


def never():
    raise AssertionError


def test_results_come_in_order_and_the_limit_is_reached_and_kept():
    running, most, lock = [], [], threading.Lock()
    three = threading.Barrier(3, timeout=60)  # passes only if three jobs run at a time

    def job(number):
        with lock:
            running.append(number)
            most.append(len(running))
        three.wait()
        with lock:
            running.remove(number)
        return number

    assert run_concurrently([lambda n=n: job(n) for n in range(6)], 3, never) == list(range(6))
    assert max(most) == 3


def test_with_a_limit_of_one_jobs_run_one_after_the_other():
    threads = run_concurrently([threading.get_ident] * 3, 1, never)
    assert threads == [threading.get_ident()] * 3


def test_a_failing_job_does_not_stop_the_others():
    done = []
    jobs = [lambda: 1 / 0, lambda: done.append(1), lambda: done.append(2)]
    with pytest.raises(ZeroDivisionError):
        run_concurrently(jobs, 2, never)
    assert sorted(done) == [1, 2]


def test_an_interrupt_cancels_running_jobs_and_starts_no_others(monkeypatch):
    stop, begun, waits = threading.Event(), [], []
    real = concurrency.wait

    def job():
        begun.append(1)
        stop.wait(60)

    def wait(futures, timeout=None):
        waits.append(timeout)
        if len(waits) == 1:
            while len(begun) < 2:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return real(futures, 0.05)

    monkeypatch.setattr(concurrency, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        run_concurrently([job] * 5, 2, stop.set)
    assert len(begun) == 2
