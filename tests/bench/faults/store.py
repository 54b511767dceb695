"""Delays, races and lost answers between writers, readers and an object store.

The store is an S3 server on the loopback interface, behind a proxy that holds or loses requests.
Writers that race or are killed are processes of their own.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from moto.server import ThreadedMotoServer

from tests.bench.faults.campaign import (
    Fault,
    Kind,
    Result,
    crashed,
    lost,
    nothing,
    seeded,
    survived,
)
from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until
from ulr.warehouse import tables
from ulr.warehouse.tables import Warehouse

_LIMIT_S = 120.0
_RETRIES = 20  # a client that gives up may send its request again; these are held too
_TEMPORARY = 1  # exit code of a failure that may pass if tried again
_ANSWERS = [
    (action, path, method)
    for path, method in (("manifest.json", "PUT"), ("part-00000.parquet", "PUT"), (".lock", "PUT"),
                         ("manifest.json", "GET"))
    for action in ("lose answer", "cut answer", "lose request", "unavailable")
]  # fmt: skip


def faults(prepared: None, seed: int, quick: bool) -> list[Fault]:
    """Return late manifests, readers between publications, races, and lost answers."""
    times = 1 if quick else 6
    cases: list[tuple[str, Callable[..., Result]]] = [
        *((f"late-manifest-{n}", _late_manifest) for n in range(times)),
        *((f"late-manifest-of-killed-{n}", _late_manifest_of_killed) for n in range(times)),
        *((f"long-reader-{n}", _long_reader) for n in range(times)),
        *((f"manifest-replaced-while-read-{n}", _replaced_while_read) for n in range(times)),
        *((f"race-{n}", _race) for n in range(times)),
        *((f"race-without-lock-{n}", _race_without_lock) for n in range(times)),
    ]
    if not quick:
        cases += [
            (
                f"{action} {path} {method}".replace(" ", "-"),
                partial(_answer, action=action, path=path, method=method),
            )
            for action, path, method in _ANSWERS
        ]
        cases += [(f"outage-{n}", _outage) for n in range(3)]
    return [
        Fault("store", name, partial(run, seed=seed, name=name), _LIMIT_S) for name, run in cases
    ]


@dataclass(frozen=True)
class Store:
    """A warehouse on the server, and the same through the proxy."""

    url: str
    proxy: FaultProxy
    url_of_proxy: str

    def publish(self, number: int) -> None:
        """Publish a version without the proxy."""
        publish(self.url, number)

    def read(self) -> int:
        """Return the number of the published version."""
        return _number(Warehouse(self.url).read("scores"))

    def expire_lock(self) -> None:
        """Let the lock expire, as if its owner had been paused for longer than it lasts."""
        expired = {"token": "expired", "until": 0}
        Warehouse(self.url).storage.write_json(expired, "scores", ".lock")


@contextlib.contextmanager
def running_store() -> Iterator[Store]:
    """Run a server and a proxy; version 0 of the table is published."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    server = "{}:{}".format(*moto.get_host_and_port())
    with FaultProxy(f"http://{server}") as proxy:
        store = Store(_url(server), proxy, _url(proxy.url.removeprefix("http://")))
        store.publish(0)
        yield store
    moto.stop()


def _url(server: str) -> str:
    options = {"endpoint_override": server, "scheme": "http", "region": "us-east-1",
               "allow_bucket_creation": "true"}  # fmt: skip
    return "s3://user:password@bucket/tables?" + "&".join(f"{k}={v}" for k, v in options.items())


def publish(url: str, number: int) -> None:
    """Publish version `number`; its manifest has a length of its own."""
    with Warehouse(url).writing("scores", "", f"v{number}", inputs="x" * 97 * number) as writing:
        writing.write_table(_table(number))
        writing.publish({"rows": number})


def _table(number: int) -> pa.Table:
    return pa.table({"version": pa.array([number] * (10 + number), pa.int64())})


def _number(table: pa.Table) -> int:
    number = table["version"][0].as_py()
    assert table.equals(_table(number)), "a table of two versions"
    return int(number)


def _late_manifest(folder: Path, *, seed: int, name: str) -> Result:
    """A manifest is held on its way; others are published; then it arrives."""
    newer = seeded(seed, "store", name).randrange(1, 4)
    with running_store() as store:
        store.proxy.add("hold request", "manifest.json", method="PUT", times=_RETRIES)
        late = _Attempt(partial(publish, store.url_of_proxy, 9))
        wait_until(lambda: store.proxy.seen("manifest.json", "hold request"), limit_s=60)
        store.expire_lock()
        for number in range(1, newer + 1):
            store.publish(number)
        store.proxy.release()
        error = late.error()
        return _expect(store, {newer}, f"{newer} newer versions; the late writer: {error}")


def _late_manifest_of_killed(folder: Path, *, seed: int, name: str) -> Result:
    """As before, and the writer is killed while its request is on its way."""
    newer = seeded(seed, "store", name).randrange(1, 4)
    writer = _Writer()  # forked before the server starts its threads
    with running_store() as store:
        store.proxy.add("hold request", "manifest.json", method="PUT", times=_RETRIES)
        writer.call(publish, store.url_of_proxy, 9)
        wait_until(lambda: store.proxy.seen("manifest.json", "hold request"), limit_s=60)
        writer.kill()
        store.expire_lock()
        for number in range(1, newer + 1):
            store.publish(number)
        store.proxy.release()
        time.sleep(1.0)  # the proxy does not report when the server has answered
        return _expect(store, {newer}, f"{newer} newer versions")


def _long_reader(folder: Path, *, seed: int, name: str) -> Result:
    """A reader that holds a list of files reads them after further publications."""
    newer = seeded(seed, "store", name).randrange(2, 5)
    with running_store() as store:
        reader = Warehouse(store.url)
        files = reader.files("scores")
        for number in range(1, newer + 1):
            store.publish(number)
        try:
            content = [pq.read_table(file, filesystem=reader.storage.fs) for file in files]
        except OSError as error:
            return lost(f"{newer} publications later: {str(error)[:150]}")
        if _number(pa.concat_tables(content)) != 0:
            return lost("another version than the list of files names")
        return _expect(store, {newer}, f"{newer} publications while it read")


def _replaced_while_read(folder: Path, *, seed: int, name: str) -> Result:
    """The manifest is replaced by a longer or shorter one between two requests of a reader."""
    rng = seeded(seed, "store", name)
    before, after = rng.sample(range(1, 9), 2)
    with running_store() as store:
        store.publish(before)
        store.proxy.add("hold request", "scores/manifest.json", method="GET", times=_RETRIES)
        values: list[int] = []
        reader = _Attempt(
            lambda: values.append(_number(Warehouse(store.url_of_proxy).read("scores")))
        )
        wait_until(lambda: store.proxy.seen("manifest.json", "hold request"), limit_s=60)
        store.publish(after)
        store.proxy.release()
        if error := reader.error():
            return lost(f"version {before} replaced by {after}: the reader got {error}")
        if values[0] not in {before, after}:
            return lost(f"the reader got version {values[0]} of {before} and {after}")
        return _expect(store, {after}, f"the reader got {values[0]} of {before} and {after}")


def _race(folder: Path, *, seed: int, name: str) -> Result:
    """Some processes publish at once; the table is that of one that reported success."""
    count = seeded(seed, "store", name).randrange(2, 5)
    writers = [_Writer() for _ in range(count)]
    with running_store() as store:
        for number, writer in enumerate(writers, start=1):
            writer.call(publish, store.url, number)
        errors = [writer.result() for writer in writers]
        winners = {number for number, error in enumerate(errors, start=1) if not error}
        if not winners:
            return lost(f"none of {count} writers published: {errors}")
        return _expect(store, winners, f"{len(winners)} of {count} published")


def _race_without_lock(folder: Path, *, seed: int, name: str) -> Result:
    """As before, with locks that exclude no other writer: exactly one may report success."""
    count = seeded(seed, "store", name).randrange(2, 5)
    writers = [_Writer() for _ in range(count)]
    with running_store() as store:
        for number, writer in enumerate(writers, start=1):
            writer.call(_open_without_lock, store.url, number)
        for writer in writers:
            if error := writer.result():
                return crashed(f"a writer could not begin: {error}")
        for writer in writers:
            writer.call(_publish_opened)
        errors = [writer.result() for writer in writers]
        winners = {number for number, error in enumerate(errors, start=1) if not error}
        if len(winners) != 1:
            return lost(f"{len(winners)} of {count} writers of one version reported success")
        return _expect(store, winners, f"1 of {count} published")


_opened: list[Any] = []


def _open_without_lock(url: str, number: int) -> None:
    tables.hold = lambda *_: contextlib.nullcontext(lambda: None)
    writing = Warehouse(url).writing("scores", "", f"v{number}")
    transaction = writing.__enter__()
    transaction.write_table(_table(number))
    _opened.extend([writing, transaction])


def _publish_opened() -> None:
    writing, transaction = _opened
    with contextlib.ExitStack() as stack:
        stack.push(writing.__exit__)
        transaction.publish({})


def _answer(folder: Path, *, action: str, path: str, method: str, seed: int, name: str) -> Result:
    """Lose requests or answers of one kind while a version is published."""
    times = seeded(seed, "store", name).randrange(1, 4)
    with running_store() as store:
        store.proxy.add(action, path, method=method, times=times)
        attempt = _Attempt(partial(publish, store.url_of_proxy, 1))
        error = attempt.error()
        if attempt.exit_code not in {0, _TEMPORARY}:
            return crashed(f"exit code {attempt.exit_code} instead of 1: {error}")
        hits = store.proxy.seen(path, action)
        result = _expect(store, {0, 1} if error else {1}, f"{hits} requests; the writer: {error}")
        store.proxy.clear()
        store.expire_lock()
        publish(store.url_of_proxy, 2)
        return result if store.read() == 2 else lost(f"version 2 is not there; {result.detail}")


def _outage(folder: Path, *, seed: int, name: str) -> Result:
    """The store stops answering at a random request of a publication."""
    nth = seeded(seed, "store", name).randrange(1, 12)
    with running_store() as store:
        store.proxy.add("lose request", "/", nth=nth, times=100_000)
        attempt = _Attempt(partial(publish, store.url_of_proxy, 1))
        error = attempt.error()
        if attempt.exit_code not in {0, _TEMPORARY}:
            return crashed(f"exit code {attempt.exit_code} instead of 1: {error}")
        return _expect(store, {0, 1} if error else {1}, f"from request {nth} on: {error}")


def _expect(store: Store, allowed: set[int], detail: str) -> Result:
    """Read the table without the proxy; it must be one of some versions, and be replaceable."""
    try:
        number = store.read()
        if number not in allowed:
            return lost(f"version {number} instead of {sorted(allowed)}; {detail}")
        store.expire_lock()
        store.publish(20)
        number = store.read()
    except Exception as error:
        return lost(f"{type(error).__name__}: {str(error)[:120]}; {detail}")
    return survived(detail) if number == 20 else lost(f"the next version is {number}; {detail}")


class _Attempt:
    """A call on a thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._error = call, ""
        self.exit_code = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:
            self._error = _text(error)
            self.exit_code = getattr(error, "exit_code", _TEMPORARY)

    def error(self) -> str:
        """Wait for the end; return the error, or ""."""
        self._thread.join()
        return self._error


class _Writer:
    """A process that calls functions."""

    def __init__(self) -> None:
        context = get_context("fork")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()

    def call(self, function: Callable[..., None], *arguments: Any) -> None:
        """Start a call."""
        self._pipe.send((function, arguments))

    def result(self) -> str:
        """Wait for the end of the call; return its error, or ""."""
        error: str = self._pipe.recv()
        return error

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()


def _serve(pipe: Any) -> None:
    while True:
        function, arguments = pipe.recv()
        try:
            function(*arguments)
            pipe.send("")
        except Exception as error:
            pipe.send(_text(error))


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:150]}"


KIND = Kind("store", nothing, faults)
