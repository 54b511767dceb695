"""The local engine: order, exchanges, errors, lost workers, scratch folders, ranks, interrupts."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.support.processes import processes_of, script
from tests.support.waiting import wait_until
from ulr.engine.blocks import bytes_block
from ulr.engine.interface import Exchange, Items, RanksFailed, Rows
from ulr.engine.local.engine import LocalEngine
from ulr.errors import InvalidData, TemporaryFailure, UserError

IN_TASKS = -1  # bytes of work that runs in this process


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    engine = LocalEngine(2, str(tmp_path_factory.mktemp("scratch")), small_bytes=IN_TASKS)
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def wait_briefly_for_other_errors(monkeypatch):
    monkeypatch.setattr("ulr.engine.local.ranks._GRACE_S", 0.3)


def row(**values):
    return pa.RecordBatch.from_pylist([values])


def rows_of(batches):
    return [own for batch in batches for own in batch.to_pylist()]


def squares(items):
    time.sleep(0.02 * (items[0] % 3 == 0))  # some tasks end after later ones
    for number in items:
        yield row(number=number, square=number**2)


def test_results_are_in_the_order_of_the_items(two):
    expected = [{"number": n, "square": n * n} for n in range(30)]
    assert rows_of(two.map(Items(range(30)), squares)) == expected
    assert rows_of(two.map(Items(range(30), [1, 5] * 15), squares)) == expected


def test_no_items_give_no_results(two):
    assert two.map(Items([]), squares) == []
    assert two.map(Exchange([(Items([]), send_words)], 3), collect) == []


WORDS = ["a", "rose", "is", "a", "rose", "is", "a", "rose", "and", "nothing", "else"]


def send_words(items, *, kind="word"):
    for number in items:
        yield bytes_block(len(WORDS[number]), kind, WORDS[number].encode())


def send_numbers(items):
    for number in items:
        yield bytes_block(number % 5, "number", str(number).encode())
        yield bytes_block(number % 5, "empty", b"")


def collect(blocks):
    found = sorted((part, kind, bytes(content).decode()) for part, kind, content in blocks)
    yield row(blocks=str(found), process=os.getpid())


def contents(batches):
    return [own["blocks"] for own in rows_of(batches)]


def test_every_part_gets_its_blocks_of_all_sends_and_empty_parts_do_not_run(two):
    numbers = Items([3, 8, 13])  # all in part 3
    sends = [(Items(range(len(WORDS))), send_words), (numbers, send_numbers)]
    found = contents(two.map(Exchange(sends, 9), collect))
    expected = []
    for part in range(9):
        own = [(part, "word", word) for word in WORDS if len(word) == part]
        if part == 3:
            own += [(3, "number", str(n)) for n in numbers.items] + [(3, "empty", "")] * 3
        if own:
            expected.append(str(sorted(own)))
    assert found == expected
    assert len(found) < 9


def test_parts_share_tasks(two):
    sends = [(Items(range(len(WORDS))), send_words)]
    found = contents(two.map(Exchange(sends, 9, 2), collect))
    by_task = [sorted((len(w), "word", w) for w in WORDS if len(w) % 2 == task) for task in (0, 1)]
    assert found == [str(own) for own in by_task if own]


def count_and_send(blocks):
    words = [bytes(content).decode() for _, _, content in blocks]
    for word in sorted(set(words)):
        yield bytes_block(words.count(word), "count", f"{word} x {words.count(word)}".encode())


def count_words(engine):
    by_length = Exchange([(Items(range(len(WORDS))), send_words)], 9, 3)
    return contents(engine.map(Exchange([(by_length, count_and_send)], 4), collect))


def test_exchanges_nest(two):
    assert count_words(two) == [
        str([(1, "count", f"{word} x 1") for word in ("and", "else", "nothing")]),
        str([(2, "count", "is x 2")]),
        str([(3, "count", f"{word} x 3") for word in ("a", "rose")]),
    ]


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_results_do_not_depend_on_processes(processes, two, tmp_path):
    with contextlib.closing(LocalEngine(processes, str(tmp_path), small_bytes=IN_TASKS)) as engine:
        assert count_words(engine) == count_words(two)
    with contextlib.closing(LocalEngine(processes, str(tmp_path))) as here:
        sized = Items(range(len(WORDS)), [10] * len(WORDS))
        exchange = Exchange([(sized, send_words)], 9, 3)
        found = here.map(exchange, collect)
        assert {own["process"] for own in rows_of(found)} == {os.getpid()}  # it is small
        assert contents(found) == contents(two.map(exchange, collect))


def threads_of(items):
    yield row(arrow=pa.cpu_count(), process=os.getpid())


def test_tasks_run_in_other_processes_with_their_share_of_threads(two):
    rows = rows_of(two.map(Items(range(8)), threads_of))
    assert os.getpid() not in {own["process"] for own in rows}
    assert len({own["process"] for own in rows}) <= 2
    cores = len(os.sched_getaffinity(0))
    assert {own["arrow"] for own in rows} == {max(1, cores // 2)}


def use_shared(items, *, shared):
    yield row(sum=int(shared.value[items].sum()), process=os.getpid())


def test_a_shared_value_is_read_by_every_task(two):
    shared = two.share(np.arange(1000))
    rows = rows_of(two.map(Items(range(1000), [1] * 1000), partial(use_shared, shared=shared)))
    assert sum(own["sum"] for own in rows) == sum(range(1000))
    assert os.path.exists(shared.path)
    shared.close()
    assert not os.path.exists(shared.path)


def test_tables_of_spark_are_refused_in_one_line(two):
    with pytest.raises(UserError, match=r"read by Spark: --set engine=spark") as error:
        two.map(Rows(None), collect)
    assert "\n" not in str(error.value)


def test_data_that_do_not_fit_into_memory_are_refused(tmp_path):
    engine = LocalEngine(2, str(tmp_path), memory_fraction=1e-9)
    engine.admit(1, "the groups")
    with pytest.raises(UserError, match=r"the groups have 5\.0 GB.*local\.memory_fraction"):
        engine.admit(5_000_000_000, "the groups")


def refuse(items, *, log, kind):
    with open(log, "a") as file:
        file.write(f"{items[0]}\n")
    if items[0] == 3:
        raise kind("17 rows of sand")
    time.sleep(0.05)
    yield row(number=items[0])


@pytest.mark.parametrize("kind", [InvalidData, UserError, ZeroDivisionError])
def test_an_error_of_a_task_is_raised_and_later_tasks_do_not_start(two, tmp_path, kind):
    log = tmp_path / "log"
    run = partial(refuse, log=str(log), kind=kind)
    with pytest.raises(kind, match=r"^17 rows of sand$") as error:
        two.map(Items(range(60)), run)
    assert type(error.value) is kind
    started = log.read_text().split()
    assert len(started) < 30
    time.sleep(0.1)
    assert log.read_text().split() == started  # no task runs any more
    assert len(two.map(Items(range(3)), squares)) == 3


def fail_to_send(items):
    raise InvalidData("nothing to send")
    yield


def test_an_error_of_a_send_is_raised_and_its_blocks_are_removed(two):
    with pytest.raises(InvalidData, match="nothing to send"):
        two.map(Exchange([(Items(range(4)), fail_to_send)], 2), collect)
    assert not list(Path(two._scratch.path).glob("*/*.blocks"))


def kill_once(items, *, flag, number):
    if items[0] == 2 and not os.path.exists(flag):
        Path(flag).touch()
        os.kill(os.getpid(), number)
    yield row(number=items[0])


@pytest.mark.kill
@pytest.mark.parametrize(
    ("number", "words"), [(signal.SIGKILL, "signal 9 (SIGKILL)"), (signal.SIGSEGV, "SIGSEGV")]
)
def test_a_killed_worker_is_one_line_and_the_engine_works_again(two, tmp_path, number, words):
    run = partial(kill_once, flag=str(tmp_path / "flag"), number=number)
    with pytest.raises(TemporaryFailure) as error:
        two.map(Items(range(20)), run)
    assert "a worker process of the local engine was ended by" in str(error.value)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert [own["number"] for own in rows_of(two.map(Items(range(20)), run))] == list(range(20))


def end_process(items):
    os._exit(7)
    yield


@pytest.mark.kill
def test_a_worker_that_exits_is_one_line(two):
    with pytest.raises(TemporaryFailure, match="ended with exit code 7"):
        two.map(Items(range(4)), end_process)


def wait_for_file(items, *, folder):
    while not (Path(folder) / str(items[0])).exists():
        time.sleep(0.01)
    yield row(number=items[0])


def test_progress_counts_tasks(two, tmp_path):
    run = partial(wait_for_file, folder=str(tmp_path))
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(two.map, Items(range(3)), run)
        for done in range(3):
            wait_until(lambda done=done: two.progress() == (done, 3))
            (tmp_path / str(done)).touch()
        assert len(running.result(30)) == 3
    assert two.progress() is None


# Scratch folders


def folders(root):
    return sorted(path.name for path in Path(root).glob("run-*"))


def test_the_scratch_folder_is_removed_on_close_and_that_of_a_living_process_stays(tmp_path):
    first, second = (LocalEngine(1, str(tmp_path), small_bytes=IN_TASKS) for _ in range(2))
    assert folders(tmp_path) == []  # made on first use
    first.share(1)
    (own,) = folders(tmp_path)
    second.share(2)
    assert own in folders(tmp_path)
    first.close()
    (other,) = folders(tmp_path)
    assert other != own
    second.close()
    assert folders(tmp_path) == []


SHARE_AND_WAIT = """
import sys, time
from ulr.engine.local.engine import LocalEngine
engine = LocalEngine(1, sys.argv[1])
engine.share(b"x")
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.kill
def test_the_scratch_folder_of_a_killed_process_is_removed_at_the_next_start(tmp_path):
    scratch = tmp_path / "scratch"
    with script(SHARE_AND_WAIT, str(scratch), folder=tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        (theirs,) = folders(scratch)
        with contextlib.closing(LocalEngine(1, str(scratch))) as engine:
            engine.share(1)
            assert theirs in folders(scratch)  # it lives
        process.kill()
        process.wait()
        assert folders(scratch) == [theirs]
        with contextlib.closing(LocalEngine(1, str(scratch))) as engine:
            engine.share(1)
            assert theirs not in folders(scratch)


OWN_TASKS = """
import os, time
from pathlib import Path
from ulr.engine.blocks import bytes_block

def send(items):
    yield bytes_block(0, "much", os.urandom(1 << 20))

def receive(blocks):
    yield from ()

def wait(items, *, started):
    Path(started, str(os.getpid())).touch()
    time.sleep(60)
    yield from ()

def double(items):
    import pyarrow as pa
    yield pa.RecordBatch.from_pydict({"double": [2 * n for n in items]})

def rank_text(rank):
    return str(rank.number).encode()
"""
SMALL_DISK = ["unshare", "--map-root-user", "--mount", "sh", "-c",
              'mount -t tmpfs -o size=2m tmpfs "$1" && shift && exec "$@"', "sh"]  # fmt: skip
FILL = """
import sys
from own_tasks import receive, send
from ulr.engine.failures import explain
from ulr.engine.interface import Exchange, Items
from ulr.engine.local.engine import LocalEngine
engine = LocalEngine(2, sys.argv[1], small_bytes=-1)
try:
    engine.map(Exchange([(Items(range(8)), send)], 1), receive)
except Exception as error:
    known = explain(error)
    print(type(known).__name__, known)
"""


def mounts() -> bool:
    if not shutil.which("unshare"):
        return False
    probe = [*SMALL_DISK, "/mnt", "true"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not mounts(), reason="mounting a small disk needs namespaces")
def test_a_full_scratch_disk_is_one_line_that_names_the_setting(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "own_tasks.py").write_text(OWN_TASKS)
    before = (*SMALL_DISK, str(disk))
    with script(FILL, str(disk), folder=tmp_path, before=before) as process:
        out, err = process.communicate(timeout=60)
    (line,) = out.splitlines()
    assert line.startswith("TemporaryFailure a disk is full (No space left on device"), err
    assert "local.scratch" in line


# Ranks


def gather_twice(rank):
    first = rank.gather(f"{rank.number}@{rank.host}")
    second = rank.gather(f"again {rank.number}")
    return f"{rank.number}/{rank.size}: {first} {second}".encode()


@pytest.mark.parametrize("count", [1, 3])
def test_results_of_ranks_are_in_order_and_each_gathers_the_texts_of_all(two, count):
    results = two.ranks(count, gather_twice, timeout=30)
    first = [f"{n}@127.0.0.1" for n in range(count)]
    second = [f"again {n}" for n in range(count)]
    assert [r.decode() for r in results] == [f"{n}/{count}: {first} {second}" for n in range(count)]


def fail_on_rank_one(rank, *, how):
    if rank.number == 1:
        if isinstance(how, int):
            os.kill(os.getpid(), how)
        else:
            raise how("17 rows of sand")
    rank.gather("the others wait")
    return b""


@pytest.mark.parametrize("kind", [InvalidData, UserError])
def test_a_user_error_of_a_rank_keeps_its_class(two, kind):
    with pytest.raises(kind, match=r"^17 rows of sand$") as error:
        two.ranks(2, partial(fail_on_rank_one, how=kind), timeout=30)
    assert type(error.value) is kind


def test_another_error_of_a_rank_is_named(two):
    with pytest.raises(RanksFailed, match=r"^ZeroDivisionError: 17 rows of sand$"):
        two.ranks(2, partial(fail_on_rank_one, how=ZeroDivisionError), timeout=30)


@pytest.mark.kill
def test_a_killed_rank_is_named_with_its_signal(two):
    begin = time.monotonic()
    with pytest.raises(RanksFailed, match=r"worker 1 was ended by signal 9 \(SIGKILL\)"):
        two.ranks(2, partial(fail_on_rank_one, how=int(signal.SIGKILL)), timeout=30)
    assert time.monotonic() - begin < 15


def stop(rank, *, pids):
    (Path(pids) / str(rank.number)).write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
    return b""


@pytest.mark.kill
def test_a_stopped_rank_is_found_within_the_timeout_and_killed(two, tmp_path):
    with pytest.raises(RanksFailed, match=r"worker 0 showed no sign of life for 1\.5 s"):
        two.ranks(1, partial(stop, pids=str(tmp_path)), timeout=1.5)
    pid = int((tmp_path / "0").read_text())
    wait_until(lambda: not Path(f"/proc/{pid}").exists())


# Interrupts, killed drivers, scripts

MAP = """
import sys
from functools import partial
from own_tasks import wait
from ulr.engine.interface import Items
from ulr.engine.local.engine import LocalEngine
engine = LocalEngine(2, sys.argv[1], small_bytes=-1)
engine.share(1)
engine.map(Items(range(8)), partial(wait, started=sys.argv[2]))
"""


@contextlib.contextmanager
def running_map(tmp_path):
    """Yield a process with two tasks that wait, in a session of its own, and its scratch folder."""
    scratch, started = tmp_path / "scratch", tmp_path / "started"
    started.mkdir()
    (tmp_path / "own_tasks.py").write_text(OWN_TASKS)
    with script(MAP, str(scratch), str(started), folder=tmp_path) as process:
        wait_until(
            lambda: len(list(started.iterdir())) == 2 or process.poll() is not None,
            "no tasks started",
        )
        assert process.poll() is None, process.stderr.read()
        yield process, scratch


@pytest.mark.kill
def test_ctrl_c_ends_a_map_within_two_seconds_and_leaves_no_process(tmp_path):
    with running_map(tmp_path) as (process, scratch):
        begin = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers as well
        process.wait(30)
        assert time.monotonic() - begin < 2
        wait_until(lambda: not processes_of(process.pid), limit_s=3)
        assert folders(scratch) == []
        assert process.stderr.read().count("KeyboardInterrupt") == 1


@pytest.mark.kill
def test_a_killed_driver_leaves_no_workers(tmp_path):
    with running_map(tmp_path) as (process, _):
        process.kill()
        process.wait()
        wait_until(lambda: not processes_of(process.pid), limit_s=3)


WITHOUT_GUARD = """
import sys
from own_tasks import double, rank_text
from ulr.engine.interface import Items
from ulr.engine.local.engine import LocalEngine
print("begin", flush=True)
engine = LocalEngine(2, sys.argv[1], small_bytes=-1)
found = engine.map(Items([1, 2, 3]), double)
print([batch["double"][0].as_py() for batch in found], flush=True)
print(engine.ranks(2, rank_text, timeout=30), flush=True)
"""


def test_a_script_without_a_guard_of_its_main_module_runs_once(tmp_path):
    (tmp_path / "own_tasks.py").write_text(OWN_TASKS)
    with script(WITHOUT_GUARD, str(tmp_path / "scratch"), folder=tmp_path) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines() == ["begin", "[2, 4, 6]", "[b'0', b'1']"]


def _uses_the_pool():
    engine = LocalEngine(processes=2, small_bytes=-1)
    engine.map(Items([1, 2]), numbers_as_batches)


def numbers_as_batches(items):
    yield pa.RecordBatch.from_pydict({"n": items})


def test_a_process_of_multiprocessing_that_used_the_engine_ends():
    process = multiprocessing.get_context("spawn").Process(target=_uses_the_pool)
    process.start()
    process.join(30)
    assert process.exitcode == 0
